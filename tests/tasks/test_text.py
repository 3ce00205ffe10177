import io
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from series_checks import some
from task_checks import check_parts, mirrored

from chronode.tasks import find, imdb, ptb, yelp
from chronode.tasks.text import Numbering, Review, as_symbols, encoded, word_vectors, words_of

TEXT = st.text(st.characters(codec="utf-8"), max_size=60)
WORDS = st.lists(st.sampled_from(["the", "a", "film", "is", "bad", "<unk>", "é"]), min_size=1, max_size=40)


# ---- words ------------------------------------------------------------------------------------------------


@given(TEXT)
def test_no_character_is_lost_between_words(text):
    assert "".join(words_of(text)) == "".join(text.lower().replace("<br />", " ").split())


def test_contractions_are_cut_as_in_glove():
    assert words_of("He can't; we'll DON'T they've I'm") == [
        *("he", "ca", "n't", ";", "we", "'ll", "do", "n't", "they", "'ve", "i", "'m")
    ]
    assert words_of("'tis rock'n'roll-ish, 3.5!") == [
        *("'", "tis", "rock", "'", "n", "'", "roll", "-", "ish", ",", "3", ".", "5", "!")
    ]


@given(WORDS, WORDS, st.integers(1, 8))
def test_vocabulary_is_the_most_frequent_words_of_the_training_part(train, other, most):
    numbering = Numbering()
    codes, later = numbering.encode(train), numbering.encode(other)
    vocabulary = numbering.vocabulary(codes, most)
    counts = Counter(word for word in train if word != "<unk>")
    assert vocabulary[0] == "<unk>"
    assert list(vocabulary[1:]) == sorted(counts, key=lambda word: (-counts[word], word))[:most]
    symbols = numbering.table(vocabulary)[later]
    assert [vocabulary[symbol] for symbol in symbols] == [w if w in vocabulary else "<unk>" for w in other]


def test_reviews_are_clipped_and_told_in_symbols():
    numbering = Numbering()
    told = encoded([Review("p", 1, "A b c d"), Review("q", 0, "e a")], numbering, ["x", "y"], "mood", longest=3)
    s = as_symbols(told, numbering, ("<unk>", "c", "a"))
    assert s.base_values.dtype == np.int32
    assert [series.values[:, 0].tolist() for series in s] == [[2, 0, 1], [0, 2]]
    assert s.batch().x[..., 0].tolist() == [[2, 0, 1], [0, 2, 0]]
    assert s.categories["word"] == ("<unk>", "c", "a")
    assert s.batch().target.tolist() == [1, 0]


# ---- word vectors -----------------------------------------------------------------------------------------


def test_vectors_stand_in_the_rows_of_their_words(tmp_path):
    path = tmp_path / "glove.txt"
    path.write_text("film 1 2 3\nnew york 4 5 6\nunused x y z\nthe -1 0.5 1e-3\n", encoding="utf-8")
    found = word_vectors(path, ("<unk>", "the", "nowhere", "new york"), size=3)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found[[1, 3]], [[-1, 0.5, 1e-3], [4, 5, 6]])
    assert np.isnan(found[[0, 2]]).all()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"the 1 2 3\nfilm 1 2\n", "line 2: a word and 3 numbers"),
        (b"the 1 2 x\n", "line 1: could not convert"),
        (b"film 1 2 3\nthe 1 nan 3\n", "line 2: the vector of 'the' is not finite"),
        (b"film 1 2 3\n\xff 1 2 3\n", "line 2: this is not UTF-8"),
    ],
)
def test_bad_vectors_are_refused_with_the_line(tmp_path, content, told):
    path = tmp_path / "glove.txt"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=told):
        word_vectors(path, ("<unk>", "the"), size=3)


@some
@given(st.binary(max_size=200) | st.lists(TEXT).map(lambda lines: "\n".join(lines).encode()))
def test_any_file_of_vectors_is_read_or_refused_by_name(tmp_path, content):
    path = tmp_path / "glove.txt"
    path.write_bytes(content)
    try:
        assert word_vectors(path, ("<unk>", "the"), size=2).shape == (2, 2)
    except ValueError as error:
        assert str(path) in str(error)


# ---- imdb -------------------------------------------------------------------------------------------------


@pytest.fixture
def films(tmp_path, monkeypatch):
    """Twenty training and six test reviews laid out as the publisher does, and a few vectors."""
    for part, count in (("train", 10), ("test", 3)):
        for label, rating, word in (("pos", 9, "good"), ("neg", 2, "bad")):
            (tmp_path / "imdb" / "aclImdb" / part / label).mkdir(parents=True)
            for i in range(count):
                file = tmp_path / "imdb" / "aclImdb" / part / label / f"{i}_{rating}.txt"
                file.write_text(f"A {word} film.<br /><br />" + "very " * i + f"{part}only", encoding="utf-8")
    (tmp_path / "glove").mkdir()
    (tmp_path / "glove" / "glove.6B.100d.txt").write_text("good" + " 0.5" * 100 + "\n")
    monkeypatch.setattr(imdb, "folder", lambda name: tmp_path / name)
    return tmp_path / "imdb" / "aclImdb"


def test_reviews_come_from_their_folders(films):
    task = find("imdb")
    parts = task.load()
    check_parts(task, parts)
    assert [len(p) for p in (parts.train, parts.valid, parts.test)] == [14, 6, 6]
    assert np.bincount(parts.valid.target.values).tolist() == [3, 3]
    words = parts.train.categories["word"]
    for part in (parts.train, parts.valid, parts.test):
        for series in part:
            told = [words[symbol] for symbol in series.values[:, 0]]
            assert told[1] == {0: "bad", 1: "good"}[int(series.target)]
            assert f"/{part.classes[int(series.target)]}/" in series.id
    assert "testonly" not in words
    assert [words[symbol] for symbol in parts.test[0].values[:, 0]] == ["a", "bad", "film", ".", "<unk>"]
    assert parts.vectors.shape == (len(words), 100)
    assert (parts.vectors[words.index("good")] == 0.5).all()
    assert np.isnan(parts.vectors[words.index("bad")]).all()


def test_options_clip_the_reviews_and_the_vocabulary(films):
    parts = find("imdb").load("paper", longest=3, words=2, vectors=False)
    assert parts.train.lengths.max() == 3
    assert len(parts.train.categories["word"]) == 3
    assert parts.vectors is None
    with pytest.raises(ValueError, match="longest must be at least 1"):
        find("imdb").load(longest=0)
    with pytest.raises(ValueError, match="words must be at least 1"):
        find("imdb").load(words=0)


def test_another_seed_gives_another_validation_part(films):
    one, same, other = (find("imdb").load(seed=seed, vectors=False).valid.ids.tolist() for seed in (0, 0, 1))
    assert one == same
    assert one != other


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("11_7.txt", b" \n ", "11_7.txt: the review has no word"),
        ("12_7.txt", b"good\nfilm \xe9\n", "12_7.txt, line 2: this is not UTF-8"),
        ("film.txt", b"good", "film.txt: a review's file is named ID_RATING"),
    ],
)
def test_bad_reviews_are_refused_with_their_file(films, name, content, told):
    (films / "train" / "pos" / name).write_bytes(content)
    with pytest.raises(ValueError, match=told):
        find("imdb").load()


def test_a_missing_folder_is_told(films):
    for file in (films / "test" / "neg").iterdir():
        file.unlink()
    with pytest.raises(ValueError, match="neg: there are no reviews"):
        find("imdb").load()


@mirrored("imdb")
@mirrored("glove")
@pytest.mark.slow
def test_the_publishers_reviews():
    parts = find("imdb").load()
    check_parts(find("imdb"), parts, whole=True)
    assert len(parts.train.categories["word"]) == 25_001
    assert np.bincount(parts.test.target.values).tolist() == [12_500, 12_500]
    the = parts.vectors[parts.train.categories["word"].index("the")]
    np.testing.assert_allclose(the[:4], [-0.038194, -0.24487, 0.72812, -0.39961])
    assert np.isnan(parts.vectors[:, 0]).mean() < 0.1


# ---- ptb --------------------------------------------------------------------------------------------------


def write_text(top, train, valid="a\n", test="b\n"):
    (top / "ptb").mkdir(exist_ok=True)
    for name, text in (("train", train), ("valid", valid), ("test", test)):
        (top / "ptb" / f"ptb.{name}.txt").write_text(text, encoding="utf-8")


@some
@given(lines=st.lists(WORDS, min_size=1, max_size=6), length=st.integers(1, 7))
def test_pieces_are_the_text_in_reading_order(tmp_path, lines, length):
    write_text(tmp_path, "".join(" ".join(line) + " \n" for line in lines))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ptb, "folder", lambda name: tmp_path / name)
        parts = find("ptb").load(length=length)
    words = parts.train.categories["word"]
    text = [word for line in lines for word in (*line, "<eos>")]
    assert [words[symbol] for symbol in parts.train.values[:, 0]] == text[:-1]
    assert [words[symbol] for series in parts.train for symbol in series.target] == text[1:]
    assert (parts.train.lengths[:-1] == length).all()
    assert parts.train.classes == words
    assert set(words) == {"<unk>", *text}


def test_words_outside_the_training_text_are_unknown(tmp_path, monkeypatch):
    write_text(tmp_path, "a b a\n", "b new a\n")
    monkeypatch.setattr(ptb, "folder", lambda name: tmp_path / name)
    parts = find("ptb").load()
    check_parts(find("ptb"), parts)
    assert parts.valid.values[:, 0].tolist() == [3, 0, 1]  # <unk> a <eos> b, ties by the alphabet
    assert parts.valid.groups.tolist() == ["valid"]


@some
@given(st.binary(max_size=60))
def test_any_text_is_read_or_refused_by_name(tmp_path, content):
    path = tmp_path / "ptb.train.txt"
    path.write_bytes(content)
    try:
        assert len(ptb.read_words(path, Numbering())) >= 2
    except ValueError as error:
        assert f"{path}, line" in str(error)


@mirrored("ptb")
def test_the_publishers_words():
    parts = find("ptb").load()
    check_parts(find("ptb"), parts, whole=True)
    assert [int(p.lengths.sum()) + 1 for p in (parts.train, parts.valid, parts.test)] == [929_589, 73_760, 82_430]
    assert len(parts.train.categories["word"]) == 10_000
    words = parts.train.categories["word"]
    assert " ".join(words[s] for s in parts.valid[0].values[:7, 0]) == "consumers may want to move their telephones"


# ---- yelp -------------------------------------------------------------------------------------------------


def test_stars_and_texts_are_read(tmp_path):
    path = tmp_path / "train.csv"
    path.write_text('"5","Say \\""yes\\"", it\'s\\nfine, really"\n"1","Bad, ""bad"" place"\n', encoding="utf-8")
    numbering = Numbering()
    s = yelp.read_reviews(path, numbering, longest=4)
    words = {number: word for word, number in numbering.numbers.items()}
    assert [[words[int(n)] for n in series.values[:, 0]] for series in s] == [
        ["say", '"', "yes", '"'],
        ["bad", ",", '"', "bad"],
    ]
    assert [s.classes[int(series.target)] for series in s] == ["5", "1"]


def test_yelp_is_divided(tmp_path, monkeypatch):
    (tmp_path / "yelp" / "yelp_review_full_csv").mkdir(parents=True)
    for name, count in (("train", 100), ("test", 10)):
        file = io.StringIO()
        for i in range(count):
            file.write(f'"{i % 5 + 1}","Place {i} was fine."\n')
        (tmp_path / "yelp" / "yelp_review_full_csv" / f"{name}.csv").write_text(file.getvalue())
    monkeypatch.setattr(yelp, "folder", lambda name: tmp_path / name)
    parts = find("yelp-5").load(words=3)
    check_parts(find("yelp-5"), parts)
    assert [len(p) for p in (parts.train, parts.valid, parts.test)] == [90, 10, 10]
    assert np.bincount(parts.valid.target.values).tolist() == [2] * 5
    assert len(parts.train.categories["word"]) == 4


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b'"5","a"\n"6","b"\n', "line 2: .*1 to 5 stars"),
        (b'"5","a","b"\n', 'line 1: "STARS","TEXT"'),
        (b'"5","a\n"4","b"\n', "line 2: "),
        (b'"5","a"\n"4","\xff"\n', "line 2: this is not UTF-8"),
        (b"", "line 1: the file is empty"),
        (b'"5"," "\n', "train/1: the review has no word"),
    ],
)
def test_bad_lines_are_refused(tmp_path, content, told):
    path = tmp_path / "train.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=told):
        yelp.read_reviews(path, Numbering())


@some
@given(st.binary(max_size=80) | st.lists(TEXT).map(lambda rows: "\n".join(f'"3","{row}"' for row in rows).encode()))
def test_any_file_of_stars_is_read_or_refused(tmp_path, content):
    path = tmp_path / "train.csv"
    path.write_bytes(content)
    try:
        assert len(yelp.read_reviews(path, Numbering())) > 0
    except ValueError as error:
        assert "train" in str(error)
