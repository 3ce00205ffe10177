"""The traffic task, on a small file of the publisher's format and on the real one where it is."""

from datetime import datetime, timedelta

import numpy as np
import pytest
from sensor_checks import mirror, range_starts, runs_a_batch, shuffled_starts
from sensor_parts import check_sizes, in_place_of_data, rows_in_parts, same_parts, survives_damage

from chronode.lab.tasks import traffic
from chronode.training._task import find_task

ROWS = 600


def small_file(rows=ROWS):
    """Hours with an hour twice, a long silence, 0 kelvin and a flood; the clouds hold the number of the row."""
    hour, lines = datetime(2012, 10, 2, 9), [",".join(traffic.COLUMNS)]
    for row in range(rows):
        holiday = "Labor Day" if row == 20 else "None"
        temp, rain = 0 if row == 5 else 280.5, 9831.3 if row == 7 else 0.25
        lines.append(f"{holiday},{temp},{rain},0.0,{row},Clouds,few clouds,{hour:%Y-%m-%d %H:%M:%S},{1000 + 3 * row}")
        hour += timedelta(hours=500 if row == 200 else 0 if row == 30 else 1)
    return "\n".join(lines) + "\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    return in_place_of_data(monkeypatch, traffic, tmp_path, {traffic.FILE: small_file()})


def test_traffic_features(folder):
    first, second = traffic.read(folder)
    assert len(first.values) == 201 and len(second.values) == 399  # 500 hours of silence part them
    assert first.values[:, 0].nonzero()[0].tolist() == [20]
    assert (first.values[:, 1] == 280.5).all() and (first.values[:, 2] == 0.25).all()  # no 0 kelvin, no flood
    when = [datetime(2012, 10, 2, 9) + timedelta(hours=row - (row > 30)) for row in range(201)]
    assert first.values[:, 5].tolist() == [moment.weekday() for moment in when]
    np.testing.assert_allclose(first.values[:, 6], [np.sin(np.pi * m.hour / 24) for m in when], atol=1e-6)
    assert first.dt[29:33].tolist() == [1, 1, 0, 1]


def test_traffic_in_blocks_of_time(folder):
    parts = find_task("traffic").load()
    rows = rows_in_parts(parts, channel=4)
    assert all((np.diff(windows, axis=1) == 1).all() for windows in rows)
    assert rows[0].max() < 450 <= rows[1].min() <= rows[1].max() < 510 <= rows[2].min()
    assert not ((rows[0][:, 0] <= 200) & (rows[0][:, -1] > 200)).any()
    used = np.unique(rows[0])
    np.testing.assert_allclose(parts.scaler.target_mean, [(1000 + 3 * used).mean()], rtol=1e-6)
    np.testing.assert_allclose(parts.train.target.values.mean(), 0, atol=1e-4)
    assert parts.train.clock.unit == "hour" and parts.train.dt.max() == 1
    runs_a_batch(parts)


def test_traffic_of_the_paper(folder):
    lines = [line.split(",") for line in (folder / traffic.FILE).read_text().splitlines()[1:]]
    when = [datetime.strptime(line[7], "%Y-%m-%d %H:%M:%S") for line in lines]
    weather = np.array([[float(cell) for cell in line[1:5]] for line in lines])
    weather[:, 0] -= weather[:, 0].mean()
    calendar = [[m.weekday(), np.sin(m.hour * np.pi / 24)] for m in when]
    x = np.concatenate([np.zeros((ROWS, 1)), weather, calendar], axis=1)
    y = np.array([float(line[8]) for line in lines])
    y = (y - y.mean()) / y.std()
    parts = find_task("traffic").load("paper")
    same_parts(parts, x, y, shuffled_starts(range_starts(ROWS, 32, 4), 23489), 32)


def test_traffic_that_goes_back_in_time_is_refused(folder):
    file = folder / traffic.FILE
    lines = file.read_text().splitlines()
    lines[10], lines[11] = lines[11], lines[10]
    file.write_text("\n".join(lines))
    with pytest.raises(ValueError, match=r"Volume.csv, line 12: .* is before the previous row"):
        traffic.read(folder)


def test_a_damaged_file_is_read_or_named(tmp_path):
    survives_damage(small_file(5), tmp_path / traffic.FILE, lambda: traffic.read(tmp_path))


def test_real_traffic():
    hours = traffic.read_as_authors(mirror("traffic"))[0]
    assert len(hours.values) == 48204 and hours.target.max() == 7280
    assert hours.target.astype(float).mean() == pytest.approx(3259.818, abs=1e-3)
    assert traffic.read(mirror("traffic")).values[:, 0].sum() == 61
    parts = check_sizes("traffic")
    assert parts.train.base_times.max() < parts.valid.base_times.min() + parts.valid.clock.offset(parts.train.clock)[1]
