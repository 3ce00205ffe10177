import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from series_checks import some
from task_checks import check_batch, check_parts, mirrored

from chronode.data import from_list, from_numpy, write_ts
from chronode.lab.tasks import bidmc, eigenworms, find_task
from chronode.training import Objective

# ---- eigenworms -------------------------------------------------------------------------------------------


@pytest.fixture
def worms(tmp_path, monkeypatch):
    """Sixty worms in the archive's two files; the first value of each is its number."""
    (tmp_path / "eigenworms").mkdir()
    rng = np.random.default_rng(0)
    for name, numbers in (("TRAIN", np.arange(30)), ("TEST", np.arange(30, 60))):
        values = rng.normal(size=(30, 20, 6))
        values[:, 0, 0] = numbers
        s = from_numpy(values, order="NTD", target=numbers % 5, classes=list("12345"))
        write_ts(s, tmp_path / "eigenworms" / f"EigenWorms_{name}.ts")
    monkeypatch.setattr(eigenworms, "folder", lambda name: tmp_path / name)
    return tmp_path / "eigenworms"


@pytest.mark.parametrize("protocol", ["clean", "paper"])
def test_both_files_are_joined_and_divided(worms, protocol):
    parts = find_task("eigenworms").load(protocol, seed=3)
    check_parts(find_task("eigenworms"), parts)
    check_batch(parts)
    every = (parts.train, parts.valid, parts.test)
    assert [len(part) for part in every] == [42, 9, 9]
    numbers = []
    for part in every:
        for series in part:
            number = round(series.values[0, 0] * parts.scaler.std[0] + parts.scaler.mean[0])
            assert number % 5 == int(series.target)
            numbers.append(number)
    assert sorted(numbers) == list(range(60))
    np.testing.assert_allclose(parts.train.values.mean(0), 0, atol=1e-5)


def test_clean_parts_have_all_mutants(worms):
    for seed in range(5):
        parts = find_task("eigenworms").load(seed=seed)
        assert np.bincount(parts.test.target.values, minlength=5).min() >= 1


def test_a_missing_file_is_reported(worms):
    (worms / "EigenWorms_TEST.ts").unlink()
    with pytest.raises(ValueError, match="EigenWorms_TEST.ts not found"):
        find_task("eigenworms").load()


@mirrored("eigenworms")
@pytest.mark.slow
def test_the_publishers_worms():
    check_parts(find_task("eigenworms"), find_task("eigenworms").load(), whole=True)


# ---- bidmc ------------------------------------------------------------------------------------------------


def write_recording(top, number, signals, numerics):
    top.mkdir(parents=True, exist_ok=True)
    rows = "\n".join(f"{i / 125:.3f}, {0.1}, {a:.6f}, {b:.6f}" for i, (a, b) in enumerate(signals))
    (top / f"bidmc_{number:02d}_Signals.csv").write_text(f"Time [s], RESP, PLETH, II\n{rows}\n")
    rows = "\n".join(f"{i}, {hr}, 90, {rr}, 97" for i, (hr, rr) in enumerate(numerics))
    (top / f"bidmc_{number:02d}_Numerics.csv").write_text(f"Time [s], HR, PULSE, RESP, SpO2\n{rows}\n")


@pytest.fixture
def recordings(tmp_path, monkeypatch):
    """Seven recordings of 40 s, whose windows begin at 0, 3 and 6 s; the readings count seconds."""
    top, rng = tmp_path / "bidmc" / "bidmc_csv", np.random.default_rng(0)
    for number in range(1, 8):
        numerics = np.stack([100 * number + np.arange(41.0), np.arange(41.0)], axis=1)
        if number == 2:
            numerics[:33, 1] = np.nan  # the first window has no breaths
        write_recording(top, number, rng.normal(number, 1, (5001, 2)), numerics)
    monkeypatch.setattr(bidmc, "folder", lambda name: tmp_path / name)
    return top


def test_windows_have_the_mean_reading_of_their_seconds(recordings):
    s = bidmc.read_recordings(recordings, "HR")
    assert len(s) == 21
    assert s.base_values.shape == (7 * 5001, 2)
    assert s.groups.tolist() == [f"{number:02d}" for number in range(1, 8) for _ in range(3)]
    for i, series in enumerate(s):
        assert series.target[0] == 100 * (i // 3 + 1) + 3 * (i % 3) + 15.5
        np.testing.assert_array_equal(series.values, s.base_values[i // 3 * 5001 + 375 * (i % 3) :][:4000])


def test_missing_readings_do_not_count(recordings):
    s = bidmc.read_recordings(recordings, "RESP")
    assert len(s) == 20
    assert "1 windows without a reading of RESP dropped." in s.notes
    second = s[s.groups == "02"]
    assert second.ids.tolist() == ["02[375:4375]", "02[750:4750]"]
    assert second.target.values[:, 0].tolist() == [33.5, 35.0]  # of 33, 34 and of 33 to 37


@pytest.mark.parametrize("name", ["bidmc-rr", "bidmc-hr"])
def test_clean_parts_share_no_recording(recordings, name):
    parts = find_task(name).load()
    check_parts(find_task(name), parts)
    check_batch(parts)
    np.testing.assert_allclose(parts.train.target.values.mean(), 0, atol=1e-5)
    beats = parts.scaler.inverse_target(parts.test.target.values)
    assert beats.min() > parts.scaler.target_std[0]


def test_errors_are_in_beats_a_minute(recordings):
    task = find_task("bidmc-hr")
    parts = task.load()
    objective = Objective.for_task(task, parts.train, scaler=parts.scaler)
    scores = objective.scores()
    target = torch.tensor(parts.test.target.values)
    objective.measure(scores, target + 2 / parts.scaler.target_std[0], target)
    assert scores.compute()["rmse"] == pytest.approx(2, rel=1e-4)


def test_paper_parts_overlap_as_documented(recordings):
    parts = find_task("bidmc-hr").load("paper")
    assert set(parts.test.groups) & set(parts.train.groups)
    assert sorted([*parts.train.ids, *parts.valid.ids, *parts.test.ids]) == sorted(
        bidmc.read_recordings(recordings, "HR").ids
    )


def test_the_archives_files_serve_the_paper_protocol(tmp_path, monkeypatch):
    (tmp_path / "bidmc_tser").mkdir()
    for part, count in (("TRAIN", 14), ("TEST", 6)):
        values = [np.random.default_rng(i).normal(size=(30, 2)) for i in range(count)]
        s = from_list(values, target=np.linspace(10.0, 20.0, count), kind="value")
        write_ts(s, tmp_path / "bidmc_tser" / f"BIDMC32RR_{part}.ts")
    monkeypatch.setattr(bidmc, "folder", lambda name: tmp_path / name)
    parts = find_task("bidmc-rr").load("paper", source="archive")
    check_parts(find_task("bidmc-rr"), parts)
    assert [len(part) for part in (parts.train, parts.valid, parts.test)] == [14, 3, 3]
    with pytest.raises(ValueError, match="the archive does not identify recordings"):
        find_task("bidmc-rr").load("clean", source="archive")
    with pytest.raises(ValueError, match="source='tser' is not supported"):
        find_task("bidmc-rr").load(source="tser")


def test_bad_recordings_are_refused_with_their_file(recordings):
    file = recordings / "bidmc_03_Signals.csv"
    lines = file.read_text().splitlines()
    file.write_text("\n".join([lines[0].replace("II", "V"), *lines[1:]]))
    with pytest.raises(ValueError, match="bidmc_03_Signals.csv, line 1: column 'II' is missing"):
        find_task("bidmc-rr").load()
    file.write_text("\n".join(lines[:3000]))
    with pytest.raises(
        ValueError, match=r"bidmc_03_Signals.csv: 23.992 s of signals and 41 readings; expected at least"
    ):
        find_task("bidmc-rr").load()
    file.write_text("\n".join([*lines[:100], "0.8, 1, one, 2", *lines[101:]]))
    with pytest.raises(ValueError, match="bidmc_03_Signals.csv"):
        find_task("bidmc-rr").load()


@some
@given(st.binary(max_size=80) | st.text("0123456789.,\n naPLETHI", max_size=80).map(str.encode))
def test_any_table_is_read_or_refused_by_name(tmp_path, content):
    path = tmp_path / "bidmc_01_Signals.csv"
    path.write_bytes(b"Time [s], PLETH, II\n" + content)
    try:
        assert bidmc.read_columns(path, bidmc.CHANNELS).shape[1] == 2
    except ValueError as error:
        assert str(path) in str(error)


@mirrored("bidmc")
@pytest.mark.parametrize("name", ["bidmc-rr", "bidmc-hr"])
def test_the_publishers_recordings(name):
    parts = find_task(name).load()
    check_parts(find_task(name), parts, whole=True)
    check_batch(parts)
    groups = np.concatenate([parts.train.groups, parts.valid.groups, parts.test.groups])
    assert np.unique(groups, return_counts=True)[1].tolist() == [150] * 53
