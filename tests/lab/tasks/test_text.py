"""Words, word vectors and running text; a file of words is read or refused with its line."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from series_checks import some
from task_checks import check_parts, mirrored

from chronode.lab.tasks import find_task, ptb, yelp
from chronode.lab.tasks._text import Numbering, word_vectors, words_of

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


# ---- word vectors -----------------------------------------------------------------------------------------


def test_vectors_stand_in_the_rows_of_their_words(tmp_path):
    path = tmp_path / "glove.txt"
    path.write_text("film 1 2 3\nnew york 4 5 6\nunused x y z\nthe -1 0.5 1e-3\n", encoding="utf-8")
    found = word_vectors(path, ("<unk>", "the", "nowhere", "new york"), size=3)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found[[1, 3]], [[-1, 0.5, 1e-3], [4, 5, 6]])
    assert np.isnan(found[2]).all()
    assert (found[0] == 0).all()


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
        parts = find_task("ptb").load(length=length)
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
    parts = find_task("ptb").load()
    check_parts(find_task("ptb"), parts)
    assert parts.valid.values[:, 0].tolist() == [3, 0, 1]  # <unk> a <eos> b, ties by the alphabet
    assert parts.valid.groups.tolist() == ["valid"]


@mirrored("ptb")
def test_the_publishers_words():
    parts = find_task("ptb").load()
    check_parts(find_task("ptb"), parts, whole=True)
    assert [int(p.lengths.sum()) + 1 for p in (parts.train, parts.valid, parts.test)] == [929_589, 73_760, 82_430]
    assert len(parts.train.categories["word"]) == 10_000
    words = parts.train.categories["word"]
    assert " ".join(words[s] for s in parts.valid[0].values[:7, 0]) == "consumers may want to move their telephones"


# ---- files that are not what they should be ---------------------------------------------------------------


def vectors(path):
    return word_vectors(path, ("<unk>", "the"), size=3)


def stars(path):
    return yelp.read_reviews(path, Numbering())


@pytest.mark.parametrize(
    ("read", "content", "message"),
    [
        (vectors, b"the 1 2 3\nfilm 1 2\n", "line 2: expected a word and 3 numbers"),
        (vectors, b"the 1 2 x\n", "line 1: could not convert"),
        (vectors, b"film 1 2 3\nthe 1 nan 3\n", "line 2: the vector of 'the' is not finite"),
        (vectors, b"film 1 2 3\n\xff 1 2 3\n", "line 2: this is not UTF-8"),
        (stars, b'"5","a"\n"6","b"\n', "line 2: .*1 to 5 stars"),
        (stars, b'"5","a","b"\n', 'line 1: expected "STARS","TEXT"'),
        (stars, b'"5","a\n"4","b"\n', "line 2: "),
        (stars, b'"5","a"\n"4","\xff"\n', "line 2: this is not UTF-8"),
        (stars, b"", "line 1: the file is empty"),
        (stars, b'"5"," "\n', "train/1: the review has no words"),
    ],
)
def test_bad_lines_are_refused(tmp_path, read, content, message):
    path = tmp_path / "train.txt"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read(path)


@some
@given(st.binary(max_size=200) | st.lists(TEXT).map(lambda lines: "\n".join(lines).encode()))
def test_any_file_of_vectors_is_read_or_refused_by_name(tmp_path, content):
    path = tmp_path / "glove.txt"
    path.write_bytes(content)
    try:
        assert word_vectors(path, ("<unk>", "the"), size=2).shape == (2, 2)
    except ValueError as error:
        assert str(path) in str(error)


@some
@given(st.binary(max_size=60))
def test_any_text_is_read_or_refused_by_name(tmp_path, content):
    path = tmp_path / "ptb.train.txt"
    path.write_bytes(content)
    try:
        assert len(ptb.read_words(path, Numbering())) >= 2
    except ValueError as error:
        assert f"{path}, line" in str(error)


@some
@given(st.binary(max_size=80) | st.lists(TEXT).map(lambda rows: "\n".join(f'"3","{row}"' for row in rows).encode()))
def test_any_file_of_stars_is_read_or_refused(tmp_path, content):
    path = tmp_path / "train.csv"
    path.write_bytes(content)
    try:
        assert len(stars(path)) > 0
    except ValueError as error:
        assert "train" in str(error)
