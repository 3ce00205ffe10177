"""The occupancy task, on small files of the publisher's format and on the real ones where they are."""

from datetime import datetime, timedelta

import numpy as np
import pytest
from sensor_checks import mirror, range_starts, runs_a_batch, same_windows, shuffled_starts
from sensor_parts import check_sizes, in_place_of_data, rows_in_parts, survives_damage

from chronode.lab.tasks import occupancy
from chronode.training._task import find_task

FILES = {"datatraining": (1000, 400), "datatest": (0, 100), "datatest2": (3000, 57)}  # the first row, how many


def small_file(start, rows):
    """Minutes, a second more or less; the first feature holds the number of the row."""
    rng = np.random.default_rng(start)
    lines = ['"date","Temperature","Humidity","Light","CO2","HumidityRatio","Occupancy"']
    for row in range(start, start + rows):
        when = datetime(2015, 2, 2) + timedelta(seconds=60 * row - row % 2)
        lines.append(
            f'"{row}","{when:%Y-%m-%d %H:%M:%S}",{row},{rng.normal()},0,{rng.normal()},0.5,{int(row % 3 == 0)}'
        )
    return "\n".join(lines) + "\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    files = {f"{name}.txt": small_file(*rows) for name, rows in FILES.items()}
    return in_place_of_data(monkeypatch, occupancy, tmp_path, files)


def test_occupancy_keeps_the_publishers_test_files(folder):
    parts = find_task("occupancy").load()
    rows = rows_in_parts(parts)
    assert rows[0][:, 0].tolist() == list(range(1000, 1325)) and rows[1].min() == 1340 and rows[1].max() < 1400
    assert rows[2][:, 0].tolist() == [*range(0, 85, 8), *range(3000, 3042, 8)]
    assert parts.scaler.mean[0] == pytest.approx(np.arange(1000, 1340).mean())
    gaps = parts.train[0].dt
    assert parts.train.clock.unit == "minute" and set(np.round(gaps[1:] * 60).tolist()) == {59, 61}
    for name, count in (("datatest", 11), ("datatest2", 6)):
        assert len(find_task("occupancy").load(test=name).test) == count
    with pytest.raises(ValueError, match="test='datatest3' is not supported"):
        find_task("occupancy").load(test="datatest3")
    runs_a_batch(parts)


def test_occupancy_of_the_paper(folder):
    tables = {}
    for name in FILES:
        cells = [line.split(",") for line in (folder / f"{name}.txt").read_text().splitlines()[1:]]
        tables[name] = np.array([[float(cell) for cell in row[2:]] for row in cells])
    known = tables["datatraining"][:, :5]
    mean, std = known.mean(0), known.std(0)
    std[std == 0] = 1
    parts = find_task("occupancy").load("paper")
    train, valid, _ = shuffled_starts(range_starts(400, 16, 1), 893429, test=0.0)
    same_windows(parts.train, (known - mean) / std, tables["datatraining"][:, 5], train, 16)
    same_windows(parts.valid, (known - mean) / std, tables["datatraining"][:, 5], valid, 16)
    both = np.concatenate([tables["datatest"], tables["datatest2"]])
    starts = [*range_starts(100, 16, 8), *(100 + start for start in range_starts(57, 16, 8))]
    same_windows(parts.test, (both[:, :5] - mean) / std, both[:, 5], starts, 16)


def test_a_damaged_file_is_read_or_named(tmp_path):
    survives_damage(small_file(0, 5), tmp_path / "datatest.txt", lambda: occupancy.read(tmp_path, "datatest"))


def test_real_occupancy():
    folder = mirror("occupancy")
    for name, rows, occupied in (("datatraining", 8143, 1729), ("datatest", 2665, 972), ("datatest2", 9752, 2049)):
        series = occupancy.read(folder, name)[0]
        assert len(series.values) == rows and series.target.sum() == occupied
    check_sizes("occupancy")
