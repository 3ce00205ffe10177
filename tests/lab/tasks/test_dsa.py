"""The task of daily and sports activities, on a few small segments and on the publisher's where they are."""

import numpy as np
import pytest
from sensor_checks import mirror, runs_a_batch
from sensor_parts import survives_damage

from chronode.lab.tasks import dsa
from chronode.training._task import find_task


def lines_of(segment):
    return "\n".join(",".join(f"{x:.4f}" for x in row) for row in segment) + "\n"


def write(folder, activities=(1, 2, 19), segments=(1, 4)):
    """A few segments of all eight persons; gives them by name."""
    rng, found = np.random.default_rng(0), {}
    for activity in activities:
        for person in range(1, 9):
            for segment in segments:
                name = f"a{activity:02d}/p{person}/s{segment:02d}"
                found[name] = rng.normal(person, 1, (125, 45)).round(4)
                file = folder / "data" / f"{name}.txt"
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(lines_of(found[name]))
    return found


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.setattr(dsa, "folder", lambda name: {"dsa19": tmp_path}[name])
    return tmp_path, write(tmp_path)


def test_segments_keep_their_place(files):
    folder, found = files
    segments = dsa.read(folder)
    assert segments.ids.tolist() == sorted(found)
    for segment in segments:
        np.testing.assert_allclose(segment.values, found[segment.id], rtol=1e-5, atol=1e-6)
        name = str(segment.id)
        assert segment.group == int(name[5]) and segment.target == int(name[1:3]) - 1
    assert len(dsa.CHANNELS) == 45 and dsa.CHANNELS[9] == "right arm acceleration x"


def test_clean_parts_share_no_person(files):
    _, found = files
    parts = find_task("dsa-19").load()
    groups = [set(part.groups.tolist()) for part in (parts.train, parts.valid, parts.test)]
    assert groups[2] == {5, 6, 7, 8} and groups[0] | groups[1] == {1, 2, 3, 4} and len(groups[1]) == 1
    own = np.concatenate([segment for name, segment in found.items() if int(name[5]) in groups[0]])
    np.testing.assert_allclose(parts.scaler.mean, own.mean(0), rtol=1e-4)
    np.testing.assert_allclose(parts.scaler.std, own.std(0), rtol=1e-4)
    runs_a_batch(parts)


def test_halves_of_the_papers(files):
    parts = find_task("dsa-19").load("paper")
    assert len(parts.train) + len(parts.valid) == len(parts.test) == 24
    assert [set(part.groups.tolist()) for part in (parts.train, parts.test)] == [{1, 2, 3, 4}, {5, 6, 7, 8}]
    assert not set(parts.valid.ids) & set(parts.train.ids)


def test_files_without_a_last_line_end_and_with_empty_lines_are_read(files):
    folder, found = files
    file = folder / "data/a02/p3/s04.txt"
    for text in (lines_of(found["a02/p3/s04"])[:-1], "\n" + lines_of(found["a02/p3/s04"])):
        file.write_text(text)
        segments = dsa.read(folder)
        row = segments.ids.tolist().index("a02/p3/s04")
        np.testing.assert_allclose(segments[row].values, found["a02/p3/s04"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace(",", ",x", 1), r"p3/s04.txt, line 1: 'x.*' is not a valid 'torso acceleration y'"),
        (lambda text: text + text, r"p3/s04.txt has 250 lines instead of 125"),
        (lambda text: text[: len(text) // 2], r"p3/s04.txt"),
        (lambda text: "", r"p3/s04.txt: the file is empty"),
    ],
)
def test_a_wrong_segment_is_named(files, change, message):
    folder, _ = files
    file = folder / "data/a02/p3/s04.txt"
    file.write_text(change(file.read_text()))
    with pytest.raises(ValueError, match=message):
        dsa.read(folder)


def test_what_is_not_a_data_set(tmp_path):
    with pytest.raises(ValueError, match="data not found"):
        dsa.read(tmp_path)
    (tmp_path / "data" / "a20" / "p1").mkdir(parents=True)
    with pytest.raises(ValueError, match="no segments such as"):
        dsa.read(tmp_path)
    (tmp_path / "data/a20/p1/s01.txt").write_text(lines_of(np.zeros((125, 45))))
    with pytest.raises(ValueError, match=r"s01.txt: the activities are a01 to a19"):
        dsa.read(tmp_path)


def test_a_damaged_file_is_read_or_named(tmp_path):
    found = write(tmp_path, activities=(1,), segments=(1,))
    file = tmp_path / "data/a01/p2/s01.txt"
    survives_damage(lines_of(found["a01/p2/s01"]), file, lambda: dsa.read(tmp_path), examples=30)


@pytest.mark.slow
def test_the_real_segments():
    segments = dsa.read(mirror("dsa19"))
    counts = np.bincount(segments.target.values)
    assert len(counts) == 19 and len(set(counts.tolist())) == 1  # as many of each, whole or in part
    assert sorted(set(segments.groups.tolist())) == list(range(1, 9))
    np.testing.assert_allclose(segments[0].values[0, :4], [8.1305, 1.0349, 5.4217, -0.009461], atol=2e-3)
    share = len(segments) / 9120
    parts, sizes = find_task("dsa-19").load(), find_task("dsa-19").sizes
    found = [len(part) / share for part in (parts.train, parts.valid, parts.test)]
    assert found == pytest.approx([sizes.train, sizes.valid, sizes.test])
