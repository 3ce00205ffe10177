"""Estimators made of run folders and packed models answer as `chronode predict` does."""

import csv
import io

import numpy as np
import pandas
import pytest
from commands import QUICK, VITALS, chronode, write_vitals

import chronode as chronode_package
from chronode import SequenceClassifier, SequenceForecaster, SequenceRegressor


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Runs on classes and on a number per patient, and new patients, in one folder."""
    home = tmp_path_factory.mktemp("runs")
    data = write_vitals(home / "vitals.csv", stay=lambda row: int(row["patient"][1:]) % 7)
    write_vitals(home / "new.csv", patients=9, seed=5, outcome=None)
    chronode("train", data, *VITALS, "--ignore", "stay", *QUICK, "--epochs", 2, "--output", home / "classes")
    flags = ("--target", "stay", "--kind", "value", *VITALS[2:], "--ignore", "outcome")
    chronode("train", data, *flags, *QUICK, "--epochs", 2, "--output", home / "values")
    flags = ("--forecast", 2, "--channels", "hr", *VITALS[2:], "--ignore", "outcome,stay")
    chronode("train", data, *flags, *QUICK, "--epochs", 2, "--output", home / "next")
    for name in ("classes", "values"):
        chronode("pack", home / name, "-o", home / f"{name}.chronode")
    return home


def predicted(home, run):
    return list(csv.DictReader(io.StringIO(chronode("predict", home / run, home / "new.csv").out)))


@pytest.mark.parametrize("name", ["classes", "classes.chronode"])
def test_a_classifier(home, name):
    loaded = SequenceClassifier.load(home / name)
    frame = pandas.read_csv(home / "new.csv")
    wanted = predicted(home, "classes")
    assert loaded.classes_.tolist() == ["ill", "well"]
    assert loaded.predict(frame).tolist() == [row["outcome"] for row in wanted]
    np.testing.assert_allclose(loaded.predict_proba(frame)[:, 0], [float(row["p_ill"]) for row in wanted], atol=1e-5)
    assert loaded.feature_names_in_.tolist() == ["hr", "temp"]


@pytest.mark.parametrize("name", ["values", "values.chronode"])
def test_a_regressor(home, name, tmp_path):
    frame = pandas.read_csv(home / "new.csv")
    loaded = SequenceRegressor.load(home / name)
    wanted = [float(row["stay"]) for row in predicted(home, "values")]
    np.testing.assert_allclose(loaded.predict(frame), wanted, rtol=1e-4)
    again = SequenceRegressor.load(loaded.save(tmp_path / "own"))
    np.testing.assert_array_equal(again.predict(frame), loaded.predict(frame))


def test_a_forecaster(home, tmp_path):
    frame = pandas.read_csv(home / "new.csv")
    loaded = SequenceForecaster.load(home / "next")
    wanted = [float(row["forecast"]) for row in predicted(home, "next")]
    np.testing.assert_allclose(loaded.predict(frame).ravel(), wanted, rtol=1e-4)
    assert (loaded.horizon, loaded.channels_) == (2, ("hr",))
    again = SequenceForecaster.load(loaded.save(tmp_path / "own"))
    np.testing.assert_array_equal(again.predict(frame), loaded.predict(frame))


@pytest.mark.parametrize("name", ["classes", "values", "next", "values.chronode"])
def test_a_frame_is_read_as_a_file_that_holds_it(home, name):
    trained, frame = chronode_package.load(home / name), pandas.read_csv(home / "new.csv")
    for anyway in (False, True):
        of_file = trained.series(str(home / "new.csv"), labeled=False, anyway=anyway)
        of_frame = trained.series(frame, labeled=False, anyway=anyway)
        np.testing.assert_array_equal(of_file.values, of_frame.values)
        np.testing.assert_array_equal(of_file.dt, of_frame.dt)
    with pytest.raises(ValueError, match="the frame does not match the training data of the model:\n  - hr: missing"):
        trained.series(frame.drop(columns="hr"), labeled=False)
    with pytest.raises(ValueError, match="hr: about .* here, .* in training .another unit"):
        trained.series(frame.assign(hr=frame["hr"] * 1000), labeled=False)
    later = frame.assign(charted_at=pandas.to_datetime(frame["charted_at"], utc=True))
    np.testing.assert_array_equal(trained.series(later, labeled=False).dt, of_file.dt)


def test_the_wrong_estimator(home):
    with pytest.raises(ValueError, match=r"classes: this is a SequenceClassifier: use SequenceClassifier.load"):
        SequenceRegressor.load(home / "classes")
    with pytest.raises(ValueError, match="use SequenceRegressor.load"):
        SequenceClassifier.load(home / "values.chronode")
    with pytest.raises(ValueError, match="use SequenceRegressor.load"):
        SequenceForecaster.load(home / "values")
    (home / "bad.chronode").write_text("no")
    with pytest.raises(ValueError, match=r"bad\.chronode"):
        SequenceClassifier.load(home / "bad.chronode")
