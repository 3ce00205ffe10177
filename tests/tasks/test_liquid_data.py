"""LTC's sensor tasks, on small files of the publishers' formats and on the real ones where they are."""

from datetime import datetime, timedelta

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from sensor_checks import (
    check_blocks,
    damaged,
    mirror,
    range_starts,
    reads_or_tells,
    rows_of,
    runs_a_batch,
    same_windows,
    shuffled_starts,
)

from chronode.tasks import gesture, occupancy, ozone, power, traffic
from chronode.tasks.task import find

ROWS = 600
DICE = np.random.default_rng(0)


def put(monkeypatch, module, folder):
    """Lets a task read `folder` in place of its data set."""

    def own(name):
        assert name == find(module.__name__.rpartition(".")[2]).data
        return folder

    monkeypatch.setattr(module, "folder", own)


# ---- small files; the first feature holds the number of the row ----------------------------------------------


def ozone_text(rows=ROWS):
    day, lines = datetime(1998, 1, 1), []
    for row in range(rows):
        cells = [f"{x:.2f}" if x < 2 else "?" for x in DICE.normal(size=71)]
        lines.append(",".join([f"{day.month}/{day.day}/{day.year}", str(row), *cells, f"{int(row % 9 == 0)}."]))
        day += timedelta(days=3 if row == 50 else 1)
    return "\n".join(lines)


def power_text(rows=ROWS):
    lines = ["Date;Time;" + ";".join((power.TARGET, *power.FEATURES))]
    for row in range(rows):
        numbers = [f"{row / 100}", str(row), *(f"{x:.3f}" for x in DICE.normal(size=5))]
        gone = row in range(100, 170) or row == 300
        lines.append(f"16/12/2006;17:24:00;{'?;?;?;?;?;?;' if gone else ';'.join(numbers)}")
    return "\r\n".join(lines) + "\r\n"


def traffic_text(rows=ROWS):
    hour, lines = datetime(2012, 10, 2, 9), [",".join(traffic.COLUMNS)]
    for row in range(rows):
        holiday = "Labor Day" if row == 20 else "None"
        temp, rain = 0 if row == 5 else 280.5, 9831.3 if row == 7 else 0.25
        lines.append(f"{holiday},{temp},{rain},0.0,{row},Clouds,few clouds,{hour:%Y-%m-%d %H:%M:%S},{1000 + 3 * row}")
        hour += timedelta(hours=500 if row == 200 else 0 if row == 30 else 1)
    return "\n".join(lines) + "\n"


def occupancy_text(start, rows):
    lines = ['"date","Temperature","Humidity","Light","CO2","HumidityRatio","Occupancy"']
    for row in range(start, start + rows):
        when = datetime(2015, 2, 2) + timedelta(seconds=60 * row - row % 2)
        lines.append(
            f'"{row}","{when:%Y-%m-%d %H:%M:%S}",{row},{DICE.normal()},0,{DICE.normal()},0.5,{int(row % 3 == 0)}'
        )
    return "\n".join(lines) + "\n"


def gesture_text(start, rows):
    lines = [",".join([*gesture.FEATURES, "Phase"])]
    for row in range(start, start + rows):
        lines.append(",".join([str(row), *(f"{x:.4f}" for x in DICE.normal(size=31)), "DPSHR"[row % 5]]))
    return "\r\n".join(lines) + "\r\n"


OCCUPANCY = {"datatraining": (1000, 400), "datatest": (0, 100), "datatest2": (3000, 57)}
STORIES = {name: (1000 * i, 70 + 15 * i) for i, name in enumerate(gesture.FILES)}


@pytest.fixture
def ozone_folder(tmp_path, monkeypatch):
    (tmp_path / ozone.FILE).write_text(ozone_text())
    put(monkeypatch, ozone, tmp_path)
    return tmp_path


@pytest.fixture
def power_folder(tmp_path, monkeypatch):
    (tmp_path / power.FILE).write_text(power_text())
    put(monkeypatch, power, tmp_path)
    return tmp_path


@pytest.fixture
def traffic_folder(tmp_path, monkeypatch):
    (tmp_path / traffic.FILE).write_text(traffic_text())
    put(monkeypatch, traffic, tmp_path)
    return tmp_path


@pytest.fixture
def occupancy_folder(tmp_path, monkeypatch):
    for name, (start, rows) in OCCUPANCY.items():
        (tmp_path / f"{name}.txt").write_text(occupancy_text(start, rows))
    put(monkeypatch, occupancy, tmp_path)
    return tmp_path


@pytest.fixture
def gesture_folder(tmp_path, monkeypatch):
    for name, (start, rows) in STORIES.items():
        (tmp_path / f"{name}_va3.csv").write_text(gesture_text(start, rows))
    put(monkeypatch, gesture, tmp_path)
    return tmp_path


# ---- ozone ---------------------------------------------------------------------------------------------------


def test_ozone_in_blocks_of_time(ozone_folder):
    parts = find("ozone").load()
    check_blocks(parts, ROWS, 32)
    series = ozone.read(ozone_folder)[0]
    seen = series.values[:450].astype(np.float64)  # 75 % of 600
    assert np.unique(rows_of(parts.train, parts.scaler)).max() <= 449
    used = seen[: np.unique(rows_of(parts.train, parts.scaler)).max() + 1]
    np.testing.assert_allclose(parts.scaler.mean, np.nanmean(used, axis=0), rtol=1e-5)
    np.testing.assert_allclose(parts.scaler.std, np.nanstd(used, axis=0), rtol=1e-5)
    assert parts.train.has_missing and parts.train.clock.unit == "day"
    assert sorted(set(parts.train.dt.tolist())) == [0, 1, 3]
    runs_a_batch(parts)


def test_ozone_scaling_sees_no_later_day(ozone_folder):
    before = find("ozone").load().scaler
    file = ozone_folder / ozone.FILE
    lines = file.read_text().split("\n")
    file.write_text("\n".join([*lines[:450], *(line.replace(",?", ",77") for line in lines[450:])]))
    assert find("ozone").load().scaler == before


def test_ozone_of_the_paper(ozone_folder):
    lines = [line.split(",") for line in (ozone_folder / ozone.FILE).read_text().split("\n")]
    x = np.array([[0 if cell == "?" else float(cell) for cell in line[1:-1]] for line in lines])
    y = np.array([int(float(line[-1])) for line in lines])
    x = (x - x.mean()) / x.std()
    parts = find("ozone").load("paper")
    starts = shuffled_starts(range_starts(ROWS, 32, 4), 23489)
    for part, own in zip((parts.train, parts.valid, parts.test), starts, strict=True):
        same_windows(part, x, y, own, 32)
    assert find("ozone").class_weights == (0.1, 1.6)


# ---- power ---------------------------------------------------------------------------------------------------


def test_power_in_blocks_of_time(power_folder):
    parts = find("power").load()
    batch = parts.train.batch()
    assert batch.observed is not None
    rows = [rows_of(part, parts.scaler) for part in (parts.train, parts.valid, parts.test)]
    seen = batch.observed[..., 0].numpy()
    # Minutes 100 to 169 are missing: windows 128:160 are left out, the others start every 32 minutes.
    assert sorted(rows[0][:, 0][seen[:, 0]].tolist()) == [0, 32, 64, 96, 192, 224, 256, 288, 320, 352, 384, 416]
    assert rows[0][seen].max() < 450 <= rows[1].min() <= rows[1].max() < 510 <= rows[2].min()
    assert np.isnan(batch.target.numpy()[..., 0][~seen]).all()
    known = np.array([row for row in range(448) if row not in range(100, 170) and row != 300])
    np.testing.assert_allclose(parts.scaler.mean[0], known.mean(), rtol=1e-6)
    np.testing.assert_allclose(parts.scaler.target_std, [(known / 100).std()], rtol=1e-5)
    runs_a_batch(parts)


def test_power_of_the_paper(power_folder):
    memory, table = list(range(7)), []
    for line in (power_folder / power.FILE).read_text().split("\n")[1:]:
        cells = line.split(";")
        if len(cells) < 8:
            continue
        memory = [memory[i] if cell in ("?", "", "\r") else float(cell) for i, cell in enumerate(cells[2:])]
        table.append(memory)
    table = np.array(table)
    table = (table - table.mean(0)) / table.std(0)
    parts = find("power").load("paper")
    for part, own in zip(
        (parts.train, parts.valid, parts.test), shuffled_starts(range_starts(ROWS, 32, 32), 23489), strict=True
    ):
        assert len(part) == len(own)
        if own:
            same_windows(part, table[:, 1:], table[:, 0], own, 32)


# ---- traffic -------------------------------------------------------------------------------------------------


def test_traffic_features(traffic_folder):
    first, second = traffic.read(traffic_folder)
    assert len(first.values) == 201 and len(second.values) == 399  # 500 hours of silence part them
    assert first.values[:, 0].nonzero()[0].tolist() == [20]
    assert (first.values[:, 1] == 280.5).all() and (first.values[:, 2] == 0.25).all()  # no 0 kelvin, no flood
    when = [datetime(2012, 10, 2, 9) + timedelta(hours=row - (row > 30)) for row in range(201)]
    assert first.values[:, 5].tolist() == [moment.weekday() for moment in when]
    np.testing.assert_allclose(first.values[:, 6], [np.sin(np.pi * m.hour / 24) for m in when], atol=1e-6)
    assert first.dt[29:33].tolist() == [1, 1, 0, 1]


def test_traffic_in_blocks_of_time(traffic_folder):
    parts = find("traffic").load()
    rows = [rows_of(part, parts.scaler, channel=4) for part in (parts.train, parts.valid, parts.test)]
    assert all((np.diff(windows, axis=1) == 1).all() for windows in rows)
    assert rows[0].max() < 450 <= rows[1].min() <= rows[1].max() < 510 <= rows[2].min()
    assert not ((rows[0][:, 0] <= 200) & (rows[0][:, -1] > 200)).any()
    used = np.unique(rows[0])
    np.testing.assert_allclose(parts.scaler.target_mean, [(1000 + 3 * used).mean()], rtol=1e-6)
    np.testing.assert_allclose(parts.train.target.values.mean(), 0, atol=1e-4)
    assert parts.train.clock.unit == "hour" and parts.train.dt.max() == 1
    runs_a_batch(parts)


def test_traffic_of_the_paper(traffic_folder):
    lines = [line.split(",") for line in (traffic_folder / traffic.FILE).read_text().splitlines()[1:]]
    when = [datetime.strptime(line[7], "%Y-%m-%d %H:%M:%S") for line in lines]
    weather = np.array([[float(cell) for cell in line[1:5]] for line in lines])
    weather[:, 0] -= weather[:, 0].mean()
    calendar = [[m.weekday(), np.sin(m.hour * np.pi / 24)] for m in when]
    x = np.concatenate([np.zeros((ROWS, 1)), weather, calendar], axis=1)
    y = np.array([float(line[8]) for line in lines])
    y = (y - y.mean()) / y.std()
    parts = find("traffic").load("paper")
    starts = shuffled_starts(range_starts(ROWS, 32, 4), 23489)
    for part, own in zip((parts.train, parts.valid, parts.test), starts, strict=True):
        same_windows(part, x, y, own, 32)


def test_traffic_that_goes_back_in_time_is_refused(traffic_folder):
    file = traffic_folder / traffic.FILE
    lines = file.read_text().splitlines()
    lines[10], lines[11] = lines[11], lines[10]
    file.write_text("\n".join(lines))
    with pytest.raises(ValueError, match=r"Volume.csv, line 12: .* comes before the row above"):
        traffic.read(traffic_folder)


# ---- occupancy -----------------------------------------------------------------------------------------------


def test_occupancy_keeps_the_publishers_test_files(occupancy_folder):
    parts = find("occupancy").load()
    rows = [rows_of(part, parts.scaler) for part in (parts.train, parts.valid, parts.test)]
    assert rows[0][:, 0].tolist() == list(range(1000, 1325)) and rows[1].min() == 1340 and rows[1].max() < 1400
    assert rows[2][:, 0].tolist() == [*range(0, 85, 8), *range(3000, 3042, 8)]
    assert parts.scaler.mean[0] == pytest.approx(np.arange(1000, 1340).mean())
    gaps = parts.train[0].dt
    assert parts.train.clock.unit == "minute" and set(np.round(gaps[1:] * 60).tolist()) == {59, 61}
    for name, count in (("datatest", 11), ("datatest2", 6)):
        assert len(find("occupancy").load(test=name).test) == count
    with pytest.raises(ValueError, match="test='datatest3' is not known"):
        find("occupancy").load(test="datatest3")
    runs_a_batch(parts)


def test_occupancy_of_the_paper(occupancy_folder):
    tables = {}
    for name in OCCUPANCY:
        cells = [line.split(",") for line in (occupancy_folder / f"{name}.txt").read_text().splitlines()[1:]]
        tables[name] = np.array([[float(cell) for cell in row[2:]] for row in cells])
    known = tables["datatraining"][:, :5]
    mean, std = known.mean(0), known.std(0)
    std[std == 0] = 1
    parts = find("occupancy").load("paper")
    train, valid, _ = shuffled_starts(range_starts(400, 16, 1), 893429, test=0.0)
    same_windows(parts.train, (known - mean) / std, tables["datatraining"][:, 5], train, 16)
    same_windows(parts.valid, (known - mean) / std, tables["datatraining"][:, 5], valid, 16)
    both = np.concatenate([tables["datatest"], tables["datatest2"]])
    starts = [*range_starts(100, 16, 8), *(100 + start for start in range_starts(57, 16, 8))]
    same_windows(parts.test, (both[:, :5] - mean) / std, both[:, 5], starts, 16)


# ---- gesture -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("group", ["file", "user"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_gesture_divides_no_file(gesture_folder, group, seed):
    parts = find("gesture").load(seed=seed, group=group)
    all_rows = [rows_of(part, parts.scaler) for part in (parts.train, parts.valid, parts.test)]
    stories = [{gesture.FILES[row // 1000] for row in rows.ravel().tolist()} for rows in all_rows]
    assert sum(map(len, stories)) == 7 == len(set().union(*stories))
    if group == "file":
        assert sorted(map(len, stories)) == [1, 1, 5]
    else:
        users = [{name[0] for name in names} for names in stories]
        assert sorted(map(len, users)) == [1, 1, 1] and len(set().union(*users)) == 3
    assert parts.scaler.mean[0] == pytest.approx(np.unique(all_rows[0]).mean())
    runs_a_batch(parts)


def test_gesture_of_the_paper(gesture_folder):
    x, y, starts, before = [], [], [], 0
    for name in ("a3", "b1", "b3", "c1", "c3", "a2", "a1"):
        lines = (gesture_folder / f"{name}_va3.csv").read_text().split()[1:]
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
    parts = find("gesture").load("paper")
    for part, own in zip((parts.train, parts.valid, parts.test), shuffled_starts(starts, 23489), strict=True):
        same_windows(part, x, y, own, 32)


# ---- damaged files -------------------------------------------------------------------------------------------

FUZZ = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.parametrize(
    ("file", "text", "read"),
    [
        (ozone.FILE, ozone_text(5), ozone.read),
        (power.FILE, power_text(5), power.read),
        (traffic.FILE, traffic_text(5), traffic.read),
        ("datatest.txt", occupancy_text(0, 5), lambda path: occupancy.read(path, "datatest")),
    ],
    ids=["ozone", "power", "traffic", "occupancy"],
)
def test_a_damaged_file_is_read_or_named(tmp_path, file, text, read):
    @FUZZ
    @given(damaged(text))
    def check(content):
        (tmp_path / file).write_bytes(content)
        reads_or_tells(lambda: read(tmp_path), tmp_path / file)

    check()


def test_a_damaged_story_is_read_or_named(gesture_folder):
    @FUZZ
    @given(damaged(gesture_text(0, 3)))
    def check(content):
        (gesture_folder / "b1_va3.csv").write_bytes(content)
        reads_or_tells(lambda: gesture.read(gesture_folder), gesture_folder / "b1_va3.csv")

    check()


# ---- the real files ------------------------------------------------------------------------------------------


def check_sizes(name):
    task = find(name)
    parts = task.load()
    sizes = task.sizes
    assert (len(parts.train), len(parts.valid), len(parts.test)) == (sizes.train, sizes.valid, sizes.test)
    assert parts.train.lengths.max() == sizes.steps and parts.train.num_channels == sizes.channels
    assert len(parts.train.classes or ()) == (sizes.classes or 0)
    return parts


def test_real_ozone():
    days = ozone.read(mirror("ozone"))[0]
    assert days.values.shape == (2534, 72) and np.isnan(days.values).sum() == 14937 and days.target.sum() == 160
    check_sizes("ozone")


def test_real_occupancy():
    folder = mirror("occupancy")
    for name, rows, occupied in (("datatraining", 8143, 1729), ("datatest", 2665, 972), ("datatest2", 9752, 2049)):
        series = occupancy.read(folder, name)[0]
        assert len(series.values) == rows and series.target.sum() == occupied
    check_sizes("occupancy")


def test_real_traffic():
    hours = traffic.read_as_authors(mirror("traffic"))[0]
    assert len(hours.values) == 48204 and hours.target.max() == 7280
    assert hours.target.astype(float).mean() == pytest.approx(3259.818, abs=1e-3)
    assert traffic.read(mirror("traffic")).values[:, 0].sum() == 61
    parts = check_sizes("traffic")
    assert parts.train.base_times.max() < parts.valid.base_times.min() + parts.valid.clock.offset(parts.train.clock)[1]


def test_real_gesture():
    stories = gesture.read(mirror("gesture_phase"))
    rows = dict(zip(stories.ids.tolist(), stories.lengths.tolist(), strict=True))
    assert rows == {"a1": 1743, "a2": 1260, "a3": 1830, "b1": 1069, "b3": 1420, "c1": 1107, "c3": 1444}
    assert np.bincount(stories.target.values).tolist() == [2741, 2097, 2950, 998, 1087]
    check_sizes("gesture")


@pytest.mark.slow
def test_real_power():
    minutes = power.read(mirror("power"))[0]
    assert len(minutes.values) == 2_075_259 and np.isnan(minutes.values).all(axis=1).sum() == 25979
    check_sizes("power")
