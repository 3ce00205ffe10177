"""Reviews of films and of places: read from the publishers' files, divided, encoded as symbols."""

import numpy as np
import pytest
from task_checks import check_parts, mirrored

from chronode.lab.tasks import find_task, imdb, yelp
from chronode.lab.tasks._text import Numbering, Review, as_symbols, encoded


def test_reviews_are_clipped_and_encoded_as_symbols():
    numbering = Numbering()
    found = encoded([Review("p", 1, "A b c d"), Review("q", 0, "e a")], numbering, ["x", "y"], "mood", longest=3)
    s = as_symbols(found, numbering, ("<unk>", "c", "a"))
    assert s.base_values.dtype == np.int32
    assert [series.values[:, 0].tolist() for series in s] == [[2, 0, 1], [0, 2]]
    assert s.batch().x[..., 0].tolist() == [[2, 0, 1], [0, 2, 0]]
    assert s.categories["word"] == ("<unk>", "c", "a")
    assert s.batch().target.tolist() == [1, 0]


# ---- imdb -------------------------------------------------------------------------------------------------


@pytest.fixture
def films(tmp_path, monkeypatch):
    """Twenty training and six test reviews laid out as the publisher does, and a few vectors."""
    for part, count in (("train", 10), ("test", 3)):
        for label, rating, word in (("pos", 9, "good"), ("neg", 2, "bad")):
            (tmp_path / "imdb" / "aclImdb" / part / label).mkdir(parents=True)
            for i in range(count):
                file = tmp_path / "imdb" / "aclImdb" / part / label / f"{i * imdb.NEIGHBORS}_{rating}.txt"
                file.write_text(f"A {word} film.<br /><br />" + "very " * i + f"{part}only", encoding="utf-8")
    (tmp_path / "glove").mkdir()
    (tmp_path / "glove" / "glove.6B.100d.txt").write_text("good" + " 0.5" * 100 + "\n")
    monkeypatch.setattr(imdb, "folder", lambda name: tmp_path / name)
    return tmp_path / "imdb" / "aclImdb"


def test_reviews_come_from_their_folders(films):
    task = find_task("imdb")
    parts = task.load()
    check_parts(task, parts)
    assert [len(p) for p in (parts.train, parts.valid, parts.test)] == [14, 6, 6]
    assert np.bincount(parts.valid.target.values).tolist() == [3, 3]
    words = parts.train.categories["word"]
    for part in (parts.train, parts.valid, parts.test):
        for series in part:
            found = [words[symbol] for symbol in series.values[:, 0]]
            assert found[1] == {0: "bad", 1: "good"}[int(series.target)]
            assert f"/{part.classes[int(series.target)]}/" in series.id
    assert "testonly" not in words
    assert [words[symbol] for symbol in parts.test[0].values[:, 0]] == ["a", "bad", "film", ".", "<unk>"]
    assert parts.vectors.shape == (len(words), 100)
    assert (parts.vectors[words.index("good")] == 0.5).all()
    assert np.isnan(parts.vectors[words.index("bad")]).all()


def test_options_clip_the_reviews_and_the_vocabulary(films):
    parts = find_task("imdb").load("paper", longest=3, words=2, vectors=False)
    assert parts.train.lengths.max() == 3
    assert len(parts.train.categories["word"]) == 3
    assert parts.vectors is None
    with pytest.raises(ValueError, match="longest must be at least 1"):
        find_task("imdb").load(longest=0)
    with pytest.raises(ValueError, match="words must be at least 1"):
        find_task("imdb").load(words=0)


def test_networks_can_run_on_after_a_review(films):
    plain, longer = (find_task("imdb").load(padding=steps).test for steps in (0, 7))
    one, other = plain.batch(), longer.batch()
    assert other.lengths.tolist() == (one.lengths + 7).tolist()
    assert other.x[:, : one.x.shape[1]].equal(one.x)
    assert other.x.shape[1] == one.x.shape[1] + 7
    assert not other.x[:, one.x.shape[1] :].any()
    with pytest.raises(ValueError, match="padding must be at least 0"):
        find_task("imdb").load(padding=-1)


def test_reviews_of_a_film_are_in_one_part(films):
    for file in list((films / "train").glob("*/*.txt")):
        number, _, ending = file.name.partition("_")
        file.with_name(f"{int(number) + 1}_{ending}").write_bytes(file.read_bytes())

    def films_of(part):
        return {name.partition("_")[0][:-1] for name in part.ids}

    clean, paper = (find_task("imdb").load(protocol, vectors=False) for protocol in ("clean", "paper"))
    assert (len(clean.train), len(clean.valid)) == (len(paper.train), len(paper.valid)) == (28, 12)
    assert not films_of(clean.train) & films_of(clean.valid)
    assert films_of(paper.train) & films_of(paper.valid)


def test_another_seed_gives_another_validation_part(films):
    one, same, other = (find_task("imdb").load(seed=seed, vectors=False).valid.ids.tolist() for seed in (0, 0, 1))
    assert one == same
    assert one != other


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("11_7.txt", b" \n ", "11_7.txt: the review has no words"),
        ("12_7.txt", b"good\nfilm \xe9\n", "12_7.txt, line 2: this is not UTF-8"),
        ("film.txt", b"good", "film.txt: expected a file name such as ID_RATING"),
    ],
)
def test_bad_reviews_are_refused_with_their_file(films, name, content, message):
    (films / "train" / "pos" / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        find_task("imdb").load()


def test_a_missing_folder_is_reported(films):
    for file in (films / "test" / "neg").iterdir():
        file.unlink()
    with pytest.raises(ValueError, match="neg: no reviews found"):
        find_task("imdb").load()


@mirrored("imdb")
@mirrored("glove")
@pytest.mark.slow
def test_the_publishers_reviews():
    parts = find_task("imdb").load()
    check_parts(find_task("imdb"), parts, whole=True)
    assert len(parts.train.categories["word"]) == 25_001
    assert np.bincount(parts.test.target.values).tolist() == [12_500, 12_500]
    the = parts.vectors[parts.train.categories["word"].index("the")]
    np.testing.assert_allclose(the[:4], [-0.038194, -0.24487, 0.72812, -0.39961])
    assert np.isnan(parts.vectors[:, 0]).mean() < 0.1


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
        lines = [f'"{i % 5 + 1}","Place {i} was fine."\n' for i in range(count)]
        (tmp_path / "yelp" / "yelp_review_full_csv" / f"{name}.csv").write_text("".join(lines))
    monkeypatch.setattr(yelp, "folder", lambda name: tmp_path / name)
    parts = find_task("yelp-5").load(words=3)
    check_parts(find_task("yelp-5"), parts)
    assert [len(p) for p in (parts.train, parts.valid, parts.test)] == [90, 10, 10]
    assert np.bincount(parts.valid.target.values).tolist() == [2] * 5
    assert len(parts.train.categories["word"]) == 4
