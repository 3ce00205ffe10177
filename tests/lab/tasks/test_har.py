"""The tasks of human activity, on small files of the publisher's format and on the real ones where they are."""

import numpy as np
import pytest
from sensor_checks import mirror, range_starts, runs_a_batch, same_windows, shuffled_starts
from sensor_parts import check_sizes, survives_damage

from chronode.lab.tasks import har
from chronode.training._task import find_task

SUBJECTS = {"train": [1, 3, 5, 6, 7, 8, 11], "test": [2, 4]}


def lines_of(matrix):
    return "\n".join("  " + "  ".join(f"{x: .7e}" for x in row) for row in matrix) + "\n"


def write(folder, each=6):
    """Small files of the publisher's format; gives signals (N, 128, 9), features, activities and subjects by part."""
    rng, found = np.random.default_rng(0), {}
    for part, subjects in SUBJECTS.items():
        root = folder / har.FOLDER / part
        (root / "Inertial Signals").mkdir(parents=True, exist_ok=True)
        subject = np.repeat(subjects, each)
        activity = np.arange(len(subject)) % 6 + 1
        signals = rng.normal(subject[:, None, None], 1, (len(subject), 128, 9))
        features = rng.uniform(-1, 1, (len(subject), 561))
        for i, name in enumerate(har.SIGNALS):
            (root / "Inertial Signals" / f"{name}_{part}.txt").write_text(lines_of(signals[:, :, i]))
        (root / f"X_{part}.txt").write_text(lines_of(features))
        (root / f"y_{part}.txt").write_text("".join(f"{x}\n" for x in activity))
        (root / f"subject_{part}.txt").write_text("".join(f"{x}\n" for x in subject))
        found[part] = signals, features, activity, subject
    return found


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.setattr(har, "folder", lambda name: {"har": tmp_path}[name])
    return tmp_path, write(tmp_path)


def test_two_classes():
    merged = dict(zip(har.CLASSES, har.IN_PAIR.tolist(), strict=True))
    assert {name for name, to in merged.items() if to == 0} == {"sitting", "laying", "walking upstairs"}
    assert {name for name, to in merged.items() if to == 1} == {"standing", "walking", "walking downstairs"}


def test_windows_of_nine_signals(files):
    folder, found = files
    signals, _, activity, subject = found["train"]
    windows = har.read(folder, "train")
    np.testing.assert_allclose(windows.batch().x, signals, rtol=1e-5, atol=1e-6)
    assert (windows.target.values == activity - 1).all() and (windows.groups == subject).all()
    assert [windows.classes[i] for i in (0, 3, 5)] == ["walking", "sitting", "laying"]


def test_every_step_of_every_channel_is_scaled_by_itself(files):
    _, found = files
    parts = find_task("har-2").load("paper", scaling="step")
    signals, held = found["train"][0], found["test"][0]
    mean, deviation = signals.mean(0), signals.std(0)
    seen = np.concatenate([part.batch().x for part in (parts.train, parts.valid)])
    np.testing.assert_allclose(seen.mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(seen.std(0), 1, rtol=1e-4)
    np.testing.assert_allclose(parts.test.batch().x, (held - mean) / deviation, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["har", "har-2"])
def test_clean_parts_share_no_subject(files, name):
    _, found = files
    parts = find_task(name).load()
    groups = [set(part.groups.tolist()) for part in (parts.train, parts.valid, parts.test)]
    assert groups[0] | groups[1] == set(SUBJECTS["train"]) and groups[2] == set(SUBJECTS["test"])
    assert not groups[0] & groups[1] and groups[1]
    signals, _, _, subject = found["train"]
    own = signals[np.isin(subject, list(groups[0]))].reshape(-1, 9)
    np.testing.assert_allclose(parts.scaler.mean, own.mean(0), rtol=1e-5)
    np.testing.assert_allclose(parts.scaler.std, own.std(0), rtol=1e-5)
    assert set(parts.train.target.values.tolist()) <= set(range(find_task(name).sizes.classes))
    runs_a_batch(parts)


def test_scaling_sees_no_test_window(files):
    folder, _ = files
    before = find_task("har").load().scaler
    file = folder / har.FOLDER / "test" / "Inertial Signals" / "body_acc_x_test.txt"
    assert file.exists()
    file.write_text(lines_of(np.full((12, 128), 5.0)))
    assert find_task("har").load().scaler == before


def test_har_of_the_papers_holds_out_subjects_and_scales_by_the_others(files):
    _, found = files
    parts = find_task("har-2").load("paper")
    assert len(parts.train) + len(parts.valid) == len(found["train"][0]) and len(parts.test) == len(found["test"][0])
    assert not set(parts.train.groups) & set(parts.valid.groups)
    own = found["train"][0][np.isin(found["train"][3], parts.train.groups)]
    flat = own.reshape(-1, 9)
    np.testing.assert_allclose(parts.train.batch().x, (own - flat.mean(0)) / flat.std(0), atol=1e-4)


def test_features_of_ltc(files):
    folder, _ = files
    found = write(folder, each=20)
    parts = find_task("har").load("paper", features="handmade")
    rows = len(found["train"][0])
    train, valid, _ = shuffled_starts(range_starts(rows, 16, 1), 893429, test=0.0)
    for part, own in ((parts.train, train), (parts.valid, valid)):
        same_windows(part, found["train"][1], found["train"][2] - 1, own, 16)
    same_windows(parts.test, found["test"][1], found["test"][2] - 1, range_starts(40, 16, 8), 16)


def test_features_by_subject(files):
    folder, _ = files
    found = write(folder, each=20)
    parts = find_task("har").load(features="handmade")
    assert len(parts.train) + len(parts.valid) == 7 * 5 and len(parts.test) == 2
    assert not set(parts.train.groups) & set(parts.valid.groups)
    own = found["train"][1][np.isin(found["train"][3], parts.train.groups)]
    np.testing.assert_allclose(parts.scaler.mean, own.mean(0), rtol=1e-4, atol=1e-6)


def test_missing_features_are_reported(files):
    folder, _ = files
    (folder / har.FOLDER / "train" / "X_train.txt").unlink()
    with pytest.raises(ValueError, match=r"X_train.txt is missing: features='handmade' needs it"):
        find_task("har").load(features="handmade")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("y_train.txt", "7\n" * 42, r"y_train.txt, line 1: 7 is not a whole number from 1 to 6"),
        ("y_train.txt", "1\n" * 41, r"subject_train.txt has 42 rows, y_train.txt has 41"),
        ("subject_train.txt", "1.5\n" * 42, r"subject_train.txt, line 1: 1.5 is not a subject's number"),
        (
            "Inertial Signals/body_gyro_y_train.txt",
            "1 2 3\n",
            r"body_gyro_y_train.txt, line 1: 3 numbers instead of 128",
        ),
    ],
)
def test_wrong_files_are_reported(files, name, text, message):
    folder, _ = files
    (folder / har.FOLDER / "train" / name).write_text(text)
    with pytest.raises(ValueError, match=message):
        har.read(folder, "train")


def test_a_damaged_file_is_read_or_named(files):
    folder, found = files
    file = folder / har.FOLDER / "test" / "Inertial Signals" / "total_acc_z_test.txt"
    survives_damage(lines_of(found["test"][0][:, :, 8]), file, lambda: har.read(folder, "test"))


def test_the_real_windows():
    test = har.read(mirror("har"), "test")
    assert len(test) == 2947 and np.bincount(test.target.values).tolist() == [496, 471, 420, 491, 532, 537]
    assert sorted(set(test.groups.tolist())) == [2, 4, 9, 10, 12, 13, 18, 20, 24]


@pytest.mark.slow
def test_the_real_training_windows():
    train = har.read(mirror("har"), "train")
    assert len(train) == 7352 and np.bincount(train.target.values).tolist() == [1226, 1073, 986, 1286, 1374, 1407]
    assert train.batch([0]).x.shape == (1, 128, 9)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["har", "har-2"])
def test_the_real_sizes(name):
    mirror("har")
    check_sizes(name)
