"""The ozone task, on a small file of the publisher's format and on the real one where it is."""

from datetime import datetime, timedelta

import numpy as np
import pytest
from sensor_checks import check_blocks, mirror, range_starts, rows_of, runs_a_batch, shuffled_starts
from sensor_parts import check_sizes, in_place_of_data, same_parts, survives_damage

from chronode.lab.tasks import ozone
from chronode.training._task import find_task

ROWS = 600


def small_file(rows=ROWS):
    """Days, of which two are missing after the 50th; the first feature holds the number of the row."""
    rng, day, lines = np.random.default_rng(0), datetime(1998, 1, 1), []
    for row in range(rows):
        cells = [f"{x:.2f}" if x < 2 else "?" for x in rng.normal(size=71)]
        lines.append(",".join([f"{day.month}/{day.day}/{day.year}", str(row), *cells, f"{int(row % 9 == 0)}."]))
        day += timedelta(days=3 if row == 50 else 1)
    return "\n".join(lines)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    return in_place_of_data(monkeypatch, ozone, tmp_path, {ozone.FILE: small_file()})


def test_ozone_in_blocks_of_time(folder):
    parts = find_task("ozone").load()
    check_blocks(parts, ROWS, 32)
    series = ozone.read(folder)[0]
    seen = series.values[:450].astype(np.float64)  # 75 % of 600
    assert np.unique(rows_of(parts.train, parts.scaler)).max() <= 449
    used = seen[: np.unique(rows_of(parts.train, parts.scaler)).max() + 1]
    np.testing.assert_allclose(parts.scaler.mean, np.nanmean(used, axis=0), rtol=1e-5)
    np.testing.assert_allclose(parts.scaler.std, np.nanstd(used, axis=0), rtol=1e-5)
    assert parts.train.has_missing and parts.train.clock.unit == "day"
    assert sorted(set(parts.train.dt.tolist())) == [0, 1, 3]
    runs_a_batch(parts)


def test_ozone_scaling_sees_no_later_day(folder):
    before = find_task("ozone").load().scaler
    file = folder / ozone.FILE
    lines = file.read_text().split("\n")
    file.write_text("\n".join([*lines[:450], *(line.replace(",?", ",77") for line in lines[450:])]))
    assert find_task("ozone").load().scaler == before


def test_ozone_of_the_paper(folder):
    lines = [line.split(",") for line in (folder / ozone.FILE).read_text().split("\n")]
    x = np.array([[0 if cell == "?" else float(cell) for cell in line[1:-1]] for line in lines])
    y = np.array([int(float(line[-1])) for line in lines])
    x = (x - x.mean()) / x.std()
    parts = find_task("ozone").load("paper")
    same_parts(parts, x, y, shuffled_starts(range_starts(ROWS, 32, 4), 23489), 32)
    assert find_task("ozone").class_weights == (0.1, 1.6)


def test_a_damaged_file_is_read_or_named(tmp_path):
    survives_damage(small_file(5), tmp_path / ozone.FILE, lambda: ozone.read(tmp_path))


def test_real_ozone():
    days = ozone.read(mirror("ozone"))[0]
    assert days.values.shape == (2534, 72) and np.isnan(days.values).sum() == 14937 and days.target.sum() == 160
    check_sizes("ozone")
