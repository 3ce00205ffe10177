import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from series_checks import some
from task_checks import check_batch, check_parts, mirrored

from chronode.lab.tasks import find_task, robots
from chronode.lab.tasks.robots import FRAME, frames_dropped, read_traces, walk


@pytest.fixture
def traces(tmp_path, monkeypatch):
    """Twenty-six roll-outs in which frame f of roll-out r is 1000 r + f everywhere."""
    (tmp_path / "half_cheetah").mkdir()
    for number in range(26):
        trace = np.repeat(1000.0 * number + np.arange(100.0)[:, None], 17, axis=1)
        np.save(tmp_path / "half_cheetah" / f"trace_{number:04d}.npy", trace)
    monkeypatch.setattr(robots, "folder", lambda name: tmp_path / name)
    return tmp_path / "half_cheetah"


# ---- half-cheetah -----------------------------------------------------------------------------------------


def test_the_target_of_a_frame_is_the_next_one(traces):
    parts = find_task("half-cheetah").load()
    check_parts(find_task("half-cheetah"), parts)
    for part, numbers in ((parts.train, range(15, 25)), (parts.valid, range(5)), (parts.test, range(5, 15))):
        assert part.groups.tolist() == [f"trace_{number:04d}" for number in numbers for _ in range(7)]
        for i, series in enumerate(part):
            first = 1000 * numbers[i // 7] + 10 * (i % 7)
            np.testing.assert_array_equal(series.values, np.repeat(first + np.arange(32.0)[:, None], 17, axis=1))
            np.testing.assert_array_equal(series.target, series.values + 1)


def test_windows_can_be_chosen(traces):
    parts = find_task("half-cheetah").load(length=50, stride=49)
    assert set(parts.train.lengths) == {50}
    assert len(parts.train) == 20


@mirrored("half_cheetah")
def test_the_authors_traces():
    parts = find_task("half-cheetah").load()
    check_parts(find_task("half-cheetah"), parts, whole=True)
    check_batch(parts)
    rows = parts.train.values
    assert rows[:, 8].std() > rows[:, 0].std()  # the speed varies more than the height


# ---- traces -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("trace", "message"),
    [
        (np.zeros((10, 16)), r"at least two frames of 17 numbers, got shape \(10, 16\)"),
        (np.zeros((1, 17)), r"got shape \(1, 17\)"),
        (np.zeros(17), r"a table of numbers \(frames, 17\)"),
        (np.zeros((5, 17), dtype=np.int64), r"a table of numbers \(frames, 17\)"),
        (np.full((5, 17), np.inf), "number 0 of frame 0 is not finite"),
        (np.array([[{}] * 17] * 5), "not a valid .npy file of numbers"),
    ],
)
def test_bad_traces_are_refused_with_their_file(traces, trace, message):
    np.save(traces / "trace_0007.npy", trace, allow_pickle=True)
    with pytest.raises(ValueError, match=f"trace_0007.npy: .*{message}"):
        find_task("half-cheetah").load()


def test_missing_traces_are_reported_with_the_cure(traces):
    (traces / "trace_0024.npy").unlink()
    with pytest.raises(ValueError, match="trace_0024.npy: no such roll-out; run `chronode data fetch half_cheet"):
        find_task("half-cheetah").load()
    with pytest.raises(ValueError, match="build them once with `chronode data build walker2d`"):
        find_task("walker2d").load()


@some
@given(st.data())
def test_any_trace_is_read_or_refused_by_name(tmp_path, data):
    path = tmp_path / "trace_0000.npy"
    np.save(path, np.zeros((3, 17)))
    content = bytearray(path.read_bytes())
    for place in data.draw(st.lists(st.integers(0, 127), max_size=3)):
        content[place] = data.draw(st.integers(0, 255))
    path.write_bytes(content[: data.draw(st.integers(0, len(content)))])
    try:
        assert read_traces(tmp_path, 1, "build it")[0].shape[1] == 17
    except ValueError as error:
        assert str(path) in str(error)


# ---- walker2d ---------------------------------------------------------------------------------------------


@some
@given(st.integers(2, 60), st.floats(0, 0.9), st.integers(0, 99))
def test_dropped_frames_leave_gaps_and_targets_are_the_next_original_frame(frames, drop, seed):
    trace = np.repeat(np.arange(float(frames))[:, None], 17, axis=1)
    kept = frames - 1 - round(drop * (frames - 1))
    if not kept:
        return
    (series,) = frames_dropped([trace], [3], "walker2d", drop, np.random.default_rng(seed))
    assert len(series.values) == kept
    assert series.id == "trace_0003"
    np.testing.assert_array_equal(series.times, series.values[:, 0])
    np.testing.assert_array_equal(series.target, series.values + 1)
    np.testing.assert_array_equal(series.dt[1:], np.diff(series.values[:, 0]))


def transcribed(traces, length=64):
    """The loader of the authors, transcribed: (x, y, dt) of the windows of training, validation and test."""
    names = [f"rollout_{number:03d}" for number in range(len(traces))]
    np.random.RandomState(125487).shuffle(names)
    rng, cuts = np.random.RandomState(891374), (int(0.15 * len(names)), int(0.25 * len(names)))
    for part in (names[cuts[1] :], names[cuts[0] : cuts[1]], names[: cuts[0]]):
        windows = []
        for trace in (traces[int(name[-3:])] for name in part):
            rows, gaps, skip = [], [], 0
            for t in range(len(trace) - 1):
                skip += 1
                if rng.rand() < 0.9:
                    rows.append(t), gaps.append(skip)
                    skip = 0
            for t in range(0, len(rows) - length, length // 4):
                own = np.array(rows[t : t + length])
                windows.append((trace[own], trace[own + 1], gaps[t : t + length]))
        yield windows


def test_the_authors_recordings_are_divided_as_in_their_code(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    traces = [rng.normal(size=(int(rng.integers(60, 150)), 17)).astype(np.float32) for _ in range(400)]
    for number, trace in enumerate(traces):
        np.save(tmp_path / f"rollout_{number:03d}.npy", trace)
    monkeypatch.setattr(robots, "folder", lambda name: tmp_path)
    task = find_task("walker2d")
    parts = task.load("paper")
    for part, expected in zip((parts.train, parts.valid, parts.test), transcribed(traces), strict=True):
        batch = part.batch()
        assert len(part) == len(expected) > 0
        for name, column in (("x", 0), ("target", 1), ("dt", 2)):
            np.testing.assert_array_equal(getattr(batch, name), np.stack([window[column] for window in expected]))
    check_parts(task, task.load("clean"))
    (tmp_path / "rollout_399.npy").unlink()
    with pytest.raises(ValueError, match="expected 400 roll-outs.*found 399"):
        task.load("paper")


def test_scripted_walks_have_the_tasks_sizes():
    task = find_task("walker2d")
    parts = task.load(source="scripted")
    check_parts(task, parts, whole=True)
    check_batch(parts)
    gaps = parts.train.batch(range(400)).dt
    assert gaps.min() >= 0
    assert 1.05 < gaps.mean() < 1.15  # a tenth of the frames is missing
    # A window starts where the previous one ended.
    ends, starts = parts.train[0].times[-1], parts.train[1].times[0]
    assert parts.train[1].dt[0] == starts - ends


def test_the_seed_draws_what_is_dropped():
    one, same, other = (find_task("walker2d").load(seed=s, source="scripted", frames=80).test.times for s in (0, 0, 1))
    assert one.tolist() == same.tolist()
    assert one.tolist() != other.tolist()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"drop": 1.0}, "drop must be less than 1"),
        ({"source": "real"}, "source='real' is not supported"),
        ({"source": "scripted", "frames": 1}, "frames must be at least 2"),
        ({"source": "scripted", "frames": 40}, "window=64 is longer than every series"),
        ({"age": 2}, "walker2d has no option 'age'"),
    ],
)
def test_bad_options_are_reported(options, message):
    with pytest.raises(ValueError, match=message):
        find_task("walker2d").load(**options)


def test_speeds_are_the_derivatives_of_places_and_angles():
    shown = walk(5, seed=1, frames=400).astype(np.float64)
    places, speeds = shown[..., :8], shown[..., 9:]
    slopes = np.diff(places, axis=1) / FRAME
    middle = (speeds[:, 1:] + speeds[:, :-1]) / 2
    # Where a joint was kicked, the angle jumps: a hundredth of the frames.
    close = np.abs(slopes - middle) < 0.05 * (1 + np.abs(middle))
    assert 0.97 < close.mean() < 1.0


def test_legs_swing_in_turn_once_they_are_in_step():
    shown = walk(20, seed=2, frames=600)[:, 300:]
    both = [np.corrcoef(trace[:, 2], trace[:, 5])[0, 1] for trace in shown]
    assert np.median(both) < -0.7
