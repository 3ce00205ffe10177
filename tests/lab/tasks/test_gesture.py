"""The gesture task, on small files of the publisher's format and on the real ones where they are."""

import numpy as np
import pytest
from sensor_checks import mirror, runs_a_batch, shuffled_starts
from sensor_parts import check_sizes, in_place_of_data, rows_in_parts, same_parts, survives_damage

from chronode.lab.tasks import gesture
from chronode.training._task import find_task

STORIES = {name: (1000 * i, 70 + 15 * i) for i, name in enumerate(gesture.FILES)}  # the first row, how many


def small_file(start, rows):
    """A story; the first feature holds the number of the row."""
    rng = np.random.default_rng(start)
    lines = [",".join([*gesture.FEATURES, "Phase"])]
    for row in range(start, start + rows):
        lines.append(",".join([str(row), *(f"{x:.4f}" for x in rng.normal(size=31)), "DPSHR"[row % 5]]))
    return "\r\n".join(lines) + "\r\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    files = {f"{name}_va3.csv": small_file(*rows) for name, rows in STORIES.items()}
    return in_place_of_data(monkeypatch, gesture, tmp_path, files)


@pytest.mark.parametrize("group", ["file", "user"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_gesture_divides_no_file(folder, group, seed):
    parts = find_task("gesture").load(seed=seed, group=group)
    all_rows = rows_in_parts(parts)
    stories = [{gesture.FILES[row // 1000] for row in rows.ravel().tolist()} for rows in all_rows]
    assert sum(map(len, stories)) == 7 == len(set().union(*stories))
    if group == "file":
        assert sorted(map(len, stories)) == [1, 1, 5]
    else:
        users = [{name[0] for name in names} for names in stories]
        assert sorted(map(len, users)) == [1, 1, 1] and len(set().union(*users)) == 3
    assert parts.scaler.mean[0] == pytest.approx(np.unique(all_rows[0]).mean())
    runs_a_batch(parts)


def test_gesture_of_the_paper(folder):
    x, y, starts, before = [], [], [], 0
    for name in ("a3", "b1", "b3", "c1", "c3", "a2", "a1"):
        lines = (folder / f"{name}_va3.csv").read_text().split()[1:]
        x += [[float(cell) for cell in line.split(",")[:-1]] for line in lines]
        y += [{"D": 0, "P": 1, "S": 2, "H": 3, "R": 4}[line[-1]] for line in lines]
        count = len(lines) // 32
        for s in range(count):
            starts.append(before + 32 * s)
            if s < count - 1:
                starts.append(before + 32 * s + 16)
        before += len(lines)
    x, y = np.array(x), np.array(y)
    flat = np.concatenate([x[start : start + 32] for start in starts])
    x = (x - flat.mean(0)) / flat.std(0)
    parts = find_task("gesture").load("paper")
    same_parts(parts, x, y, shuffled_starts(starts, 23489), 32)


def test_a_damaged_story_is_read_or_named(folder):
    survives_damage(small_file(0, 3), folder / "b1_va3.csv", lambda: gesture.read(folder))


def test_real_gesture():
    stories = gesture.read(mirror("gesture_phase"))
    rows = dict(zip(stories.ids.tolist(), stories.lengths.tolist(), strict=True))
    assert rows == {"a1": 1743, "a2": 1260, "a3": 1830, "b1": 1069, "b3": 1420, "c1": 1107, "c3": 1444}
    assert np.bincount(stories.target.values).tolist() == [2741, 2097, 2950, 998, 1087]
    check_sizes("gesture")
