"""Stays of intensive care, in small files of the publisher's format and in the real ones where they are."""

import numpy as np
import pytest
from sensor_checks import mirror, runs_a_batch
from sensor_parts import check_sizes, survives_damage

from chronode.lab.tasks import physionet2012
from chronode.lab.tasks.physionet2012 import CHANNELS, SKEWED, VARIABLES, bounded, read
from chronode.training._task import find_task

HEADER = "RecordID,SAPS-I,SOFA,Length_of_stay,Survival,In-hospital_death"
STAY = """Time,Parameter,Value
00:00,RecordID,{stay}
00:00,Age,{age}
00:00,Gender,-1
00:00,ICUType,{unit}
00:00,Weight,-1
00:07,HR,73
00:07,HR,75
00:07,,4
01:30,Temp,{temp}
48:00,Urine,100
"""


def stay_text(stay):
    return STAY.format(stay=stay, age=20 + stay % 60, unit=1 + stay % 4, temp=36 + stay % 3)


def small_files(count=40):
    files = {}
    for start, name in enumerate("abc"):
        stays = [1000 * start + number for number in range(count)]
        rows = "\n".join(f"{stay},6,1,5,-1,{int(stay % 4 == 0)}" for stay in stays)
        files[f"Outcomes-{name}.txt"] = f"{HEADER}\n{rows}\n"
        files |= {f"set-{name}/{stay}.txt": stay_text(stay) for stay in stays}
    return files


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name in "abc":
        (tmp_path / f"set-{name}").mkdir()
    for name, text in small_files().items():
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(physionet2012, "folder", {"physionet2012": tmp_path}.__getitem__)
    return tmp_path


def test_a_step_is_a_minute_with_readings(folder):
    series = read(folder, "b")[1]
    assert series.id == 1001
    assert (series.times * 8 * 60).round().tolist() == [0, 7, 90, 2880]
    known = {(int(t), CHANNELS[c]): series.values[t, c] for t, c in np.argwhere(~np.isnan(series.values))}
    units = {(0, f"ICU: {unit}"): float(place == 1) for place, unit in enumerate(physionet2012.UNITS)}
    # The last reading of a minute counts; -1 is unknown, and so is what has no name.
    assert known == {(0, "Age"): 20 + 1001 % 60, (1, "HR"): 75, (2, "Temp"): 36 + 1001 % 3, (3, "Urine"): 100} | units


def test_the_sets_of_the_challenge_are_the_parts(folder):
    parts = find_task("physionet-2012").load(seed=3)
    assert sorted([*parts.train.ids, *parts.valid.ids]) == list(range(40))
    assert len(parts.valid) == 8
    assert parts.test.ids.tolist() == [*range(1000, 1040), *range(2000, 2040)]
    assert parts.test.classes == ("survived", "died")
    np.testing.assert_array_equal(parts.test.target.values, parts.test.ids % 4 == 0)
    assert parts.train.ids.tolist() != find_task("physionet-2012").load(seed=4).train.ids.tolist()
    runs_a_batch(parts)


def test_seeds_are_the_splits_of_the_literature(folder):
    for seed in range(3):
        parts = find_task("physionet-2012").load("paper", seed)
        ids = [part.ids.tolist() for part in (parts.train, parts.valid, parts.test)]
        assert sorted(one for part in ids for one in part) == list(range(40))
        assert [len(part) for part in ids] == [26, 6, 8]


def test_training_stays_alone_decide_bounds_and_scale(folder):
    parts = find_task("physionet-2012").load()
    own = read(folder, "a")
    age = CHANNELS.index("Age")
    train = own[np.isin(own.ids, parts.train.ids)]
    (limited,) = bounded(train)
    low, high = np.nanquantile(train.values[:, age], (0.001, 0.999))
    np.testing.assert_allclose(np.nanmin(limited.values[:, age]), low, rtol=1e-5)
    np.testing.assert_allclose(np.nanmax(limited.values[:, age]), high, rtol=1e-5)
    assert parts.scaler.mean[age] == pytest.approx(np.nanmean(limited.values[:, age]), rel=1e-5)
    urine = CHANNELS.index("Urine")
    assert "Urine" in SKEWED
    assert np.nanmax(limited.values[:, urine]) == pytest.approx(np.log(101), rel=1e-5)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("01:30", "01:75", r"7.txt, line 10: '01:75' is not a time from 00:00 to 48:00"),
        ("48:00", "48:01", r"7.txt, line 11: '48:01' is not a time"),
        ("01:30", "1:30", r"7.txt, line 10: '1:30' is not a time"),
        ("HR,75", "Pulse,75", r"7.txt, line 8: 'Pulse' is not a valid 'Parameter'"),
        ("HR,75", "HR,high", r"7.txt, line 8: 'high' is not a valid 'Value'"),
        ("ICUType,4", "ICUType,5", r"7.txt, line 5: ICUType is 5, expected 1 to 4"),
        ("Time,Parameter", "Minute,Parameter", r"7.txt, line 1: expected 'Time,Parameter,Value' followed by readings"),
    ],
)
def test_a_wrong_line_is_named(folder, old, new, message):
    file = folder / "set-a" / "7.txt"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    with pytest.raises(ValueError, match=message):
        read(folder, "a")


def test_a_missing_stay_is_named(folder):
    (folder / "set-a" / "7.txt").unlink()
    with pytest.raises(ValueError, match="7.txt: this file cannot be read"):
        read(folder, "a")


def test_a_damaged_file_is_read_or_named(folder):
    survives_damage(stay_text(7), folder / "set-a" / "7.txt", lambda: read(folder, "a"))


def test_there_are_37_variables():
    assert len(set(VARIABLES)) == len(VARIABLES) == 37
    assert set(SKEWED) < set(VARIABLES)


@pytest.mark.slow
def test_the_real_stays():
    stays = read(mirror("physionet2012"), "a")
    assert (len(stays), int(stays.target.values.sum())) == (4000, 554)
    first = stays[0]
    assert (first.id, first.values[0, CHANNELS.index("Age")]) == (132539, 54)
    assert first.values[1, CHANNELS.index("NIMAP")] == pytest.approx(92.33)
    check_sizes("physionet-2012")
