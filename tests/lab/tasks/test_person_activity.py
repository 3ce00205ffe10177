import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from sensor_checks import damaged, mirror, range_starts, reads_or_tells, runs_a_batch, shuffled_starts

from chronode.lab.tasks import person_activity
from chronode.lab.tasks.person_activity import ACTIVITIES, CLASSES, TAGS, read
from chronode.training._task import find_task

FIRST_TICK = 633790226051280329
# The authors' own table, written out.
CLASS_MAP = {
    "lying down": 0,
    "lying": 0,
    "sitting down": 1,
    "sitting": 1,
    "standing up from lying": 2,
    "standing up from sitting": 2,
    "standing up from sitting on the ground": 2,
    "walking": 3,
    "falling": 4,
    "on all fours": 5,
    "sitting on the ground": 6,
}


def made_up(lengths=(200, 150, 170), seed=0):
    """Rows of recordings A01, A02, ...; x is the number of the row."""
    rng = np.random.default_rng(seed)
    rows, count = [], 0
    for i, length in enumerate(lengths):
        tick = FIRST_TICK + 10**10 * i
        for _ in range(length):
            tag, activity = rng.choice(list(TAGS)), rng.choice(list(ACTIVITIES))
            place = f"{count},{rng.normal():.6f},{rng.normal():.6f}"
            rows.append(f"A{i + 1:02d},{tag},{tick},27.05.2009 12:03:25:128,{place},{activity}")
            tick += int(rng.integers(20_000, 900_000))
            count += 1
    return rows


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / person_activity.FILE).write_text("\n".join(made_up()) + "\n")
    monkeypatch.setattr(person_activity, "folder", lambda name: {"person_activity": tmp_path}[name])
    return tmp_path


def test_a_row_is_a_step(folder):
    cells = [row.split(",") for row in made_up()]
    recordings = read(folder)
    assert recordings.ids.tolist() == ["A01", "A02", "A03"] and recordings.lengths.tolist() == [200, 150, 170]
    first = recordings[0]
    assert first.values[:, :4].argmax(1).tolist() == [list(TAGS).index(row[1]) for row in cells[:200]]
    assert (first.values[:, :4].sum(1) == 1).all()
    np.testing.assert_allclose(first.values[:, 4:], [[float(x) for x in row[4:7]] for row in cells[:200]], rtol=1e-6)
    assert first.target.tolist() == [CLASS_MAP[row[7]] for row in cells[:200]]
    gaps = np.diff([int(row[2]) for row in cells[:200]]) / 1e6  # ticks of 100 ns in units of 100 ms
    np.testing.assert_allclose(first.dt[1:], gaps, rtol=1e-9)


def test_rows_that_step_back_in_time_are_sorted(tmp_path):
    rows = made_up((40,))
    (tmp_path / person_activity.FILE).write_text("\n".join([*rows[:10], rows[11], rows[10], *rows[12:]]))
    series = read(tmp_path)[0]
    assert series.values[:, 4].tolist() == list(range(40)) and series.dt.min() >= 0


def test_without_times_steps_count(folder):
    recordings = read(folder, "ltc")
    assert recordings.base_times is None and (recordings.values == read(folder).values).all()


def test_latent_ode_features_by_a_plain_loop(folder):
    """Latent ODE's own loop over the rows: round to 10 ms, mean of a tag's readings, a mask."""
    steps = read(folder, "latent-ode")
    for i, recording in enumerate(("A01", "A02", "A03")):
        rows = [row.split(",") for row in made_up() if row.startswith(recording)]
        start, when, sums, counts, labels = int(rows[0][2]), [], [], [], []
        for _, tag, tick, _, x, y, z, activity in rows:
            time = round((int(tick) - start) / 10**5)
            if not when or time != when[-1]:
                when.append(time)
                sums.append(np.zeros((4, 3)))
                counts.append(np.zeros((4, 1)))
                labels.append(0)
            sums[-1][list(TAGS).index(tag)] += [float(x), float(y), float(z)]
            counts[-1][list(TAGS).index(tag)] += 1
            labels[-1] = CLASS_MAP[activity]
        values = [(s / np.maximum(c, 1)).ravel() for s, c in zip(sums, counts, strict=True)]
        masks = [np.repeat(c > 0, 3) for c in counts]
        found = steps[i]
        np.testing.assert_allclose(found.values, np.concatenate([values, masks], axis=1), rtol=1e-5)
        np.testing.assert_allclose(found.times, np.array(when) / 10, atol=1e-9)
        assert found.target.tolist() == labels


@pytest.mark.parametrize("features", ["mmrnn", "ltc", "latent-ode"])
def test_clean_parts_share_no_recording(folder, features):
    parts = find_task("person-activity").load(features=features)
    groups = [set(part.groups.tolist()) for part in (parts.train, parts.valid, parts.test)]
    assert sorted(map(len, groups)) == [1, 1, 1] and len(set().union(*groups)) == 3
    assert parts.train.num_channels == (24 if features == "latent-ode" else 7)
    runs_a_batch(parts)


def test_scaling_sees_the_training_recordings_only(folder):
    parts = find_task("person-activity").load()
    (own,) = set(parts.train.groups.tolist())
    rows = {"A01": range(200), "A02": range(200, 350), "A03": range(350, 520)}[own]
    last = (len(rows) - 32) // 16 * 16 + 32
    assert parts.scaler.mean[4] == pytest.approx(np.mean(rows[:last]))
    assert parts.scaler.mean[:4] == (0, 0, 0, 0) and parts.scaler.std[:4] == (1, 1, 1, 1)
    lines = [line if line.startswith(own) else line.replace(",0.", ",7.") for line in made_up()]
    (folder / person_activity.FILE).write_text("\n".join(lines))
    assert find_task("person-activity").load().scaler == parts.scaler


def _held(training, validation):
    """The authors' protocol has no validation part: it is the first tenth of their training windows."""
    count = len(training) // 10 or 1
    return training[:count] if validation else training[count:]


@pytest.mark.parametrize(("features", "seed", "valid", "test"), [("mmrnn", 98841, 0.0, 0.2), ("ltc", 27731, 0.1, 0.15)])
def test_the_papers_windows(folder, features, seed, valid, test):
    cells = [row.split(",") for row in made_up()]
    starts = [*range_starts(200, 32, 16), *(200 + s for s in range_starts(150, 32, 16))]  # A03 is lost
    expected = shuffled_starts(starts, seed, valid, test)
    parts = find_task("person-activity").load("paper", features=features)
    for part, own in zip((parts.train, parts.valid, parts.test), expected, strict=True):
        if not own or part is parts.train:
            own = _held(own or expected[0], part is parts.valid) if not valid else own
        assert [int(window.values[0, 4]) for window in part] == own
        labels = np.array([CLASS_MAP[row[7]] for row in cells])
        assert (part.batch().target.numpy() == labels[np.asarray(own)[:, None] + np.arange(32)]).all()
        if features == "mmrnn":
            ticks = np.array([int(row[2]) for row in cells])
            gaps = np.diff(ticks, prepend=0) / 1e6
            gaps[[0, 200]] = 5.0
            np.testing.assert_allclose(part.batch().dt, gaps[np.asarray(own)[:, None] + np.arange(32)], rtol=1e-4)
    assert parts.scaler is None


def test_latent_odes_windows(folder):
    steps = read(folder, "latent-ode")
    parts = find_task("person-activity").load("paper", features="latent-ode")
    starts = [(i, s) for i, length in enumerate(steps.lengths) for s in range_starts(length, 50, 25)]
    order = np.random.RandomState(42).permutation(len(starts))
    size = int(0.2 * len(starts))
    rest = order[size:]
    for part, own in ((parts.test, order[:size]), (parts.valid, _held(rest, True)), (parts.train, _held(rest, False))):
        for window, at in zip(part, own, strict=True):
            recording, start = starts[at]
            assert (window.values == steps[recording].values[start : start + 50]).all()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("010-000-024-033", "010-000-024-034", r"is not a valid 'tag'; expected one of"),
        ("walking", "wading", r"'wading' is not a valid 'activity'"),
        (str(FIRST_TICK), "soon", r"line 1: 'soon' is not a valid 'ticks'"),
    ],
)
def test_what_the_file_cannot_hold(folder, old, new, message):
    file = folder / person_activity.FILE
    file.write_text(file.read_text().replace(old, new, 1))
    with pytest.raises(
        ValueError, match=rf"ConfLongDemo_JSI.txt, line \d+: .*{message}" if "line" not in message else message
    ):
        read(folder)
    with pytest.raises(ValueError, match="features='lode' is not supported"):
        find_task("person-activity").load(features="lode")


def test_a_damaged_file_is_read_or_named(tmp_path):
    file = tmp_path / person_activity.FILE

    @settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(damaged("\n".join(made_up((4, 3)))))
    def check(content):
        file.write_bytes(content)
        reads_or_tells(lambda: read(tmp_path), file)
        reads_or_tells(lambda: read(tmp_path, "latent-ode"), file)

    check()


def test_the_real_recordings():
    recordings = read(mirror("person_activity"))
    rows = dict(zip(recordings.ids.tolist(), recordings.lengths.tolist(), strict=True))
    # The first three are there even in a part of the file; the last of them may be cut short.
    assert rows["A01"] == 5830 and rows["A02"] == 5691 and rows["A03"] >= 4965
    first = recordings[0]
    np.testing.assert_allclose(first.values[0], [1, 0, 0, 0, 4.0629311, 1.8924342, 0.5074254], rtol=1e-6)
    assert CLASSES[first.target[0]] == "walking" and first.dt[1] == pytest.approx(0.540584)
    assert np.bincount(recordings.target.values[: 5830 + 5691 + 4965], minlength=7).min() > 200
    parts = find_task("person-activity").load()
    assert not set(parts.train.groups) & set(parts.test.groups)
