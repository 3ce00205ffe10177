"""Classifier and regressor take series of any kind, in any order, and give the same answers."""

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest
from estimator_samples import QUICK, classifier, even_times, fitted_classifier, long_frame, uneven_times, waves
from hypothesis import given, settings
from hypothesis import strategies as st

from chronode.data import from_numpy
from chronode.estimators import SequenceClassifier, SequenceForecaster

fitted = pytest.fixture(scope="module")(fitted_classifier)


def test_all_kinds_of_input_give_the_same_model_and_predictions():
    X, y = waves()
    times = uneven_times()
    frame = long_frame(X, y, times)
    s = from_numpy(X, order="NDT", times=times, target=y)
    parts = [pd.DataFrame(x.T) for x in X]
    kinds = {
        "NDT": ({}, (X, y), {"times": times}),
        "NTD": ({"order": "NTD"}, (X.transpose(0, 2, 1), y), {"times": times}),
        "list": ({}, (list(X), y), {"times": list(times)}),
        "list NTD": ({"order": "NTD"}, ([x.T for x in X], y), {"times": list(times)}),
        "Sequences": ({}, (s, y), {}),
        "Sequences with their target": ({}, (s,), {}),
        "Series": ({}, (list(s), y), {}),
        "pandas": ({}, (frame.sample(frac=1, random_state=0), "label"), {"time": "when", "id": "who"}),
        "polars": ({}, (pl.DataFrame(frame), "label"), {"time": "when", "id": "who"}),
        "DuckDB": ({}, (duckdb.from_df(frame), "label"), {"time": "when", "id": "who"}),
        "columns": ({}, (dict(frame.items()), "label"), {"time": "when", "id": "who"}),
        "list of pandas": ({}, (list(parts), y), {"times": list(times)}),
    }
    chances = {}
    for name, (options, data, more) in kinds.items():
        clf = classifier(**options).fit(*data, **more)
        again = (
            {} if isinstance(data[0], (pd.DataFrame, pl.DataFrame, duckdb.DuckDBPyRelation, dict)) else more
        )  # a frame's columns are known
        chances[name] = clf.predict_proba(data[0], **again)
        assert clf.n_features_in_ == 2
        assert clf.score(*data, **again) == (clf.predict(data[0], **again).astype(int) == y).mean()
    for name, found in chances.items():
        np.testing.assert_allclose(found, chances["NDT"], atol=2e-5, err_msg=name)


def test_a_two_dimensional_array_is_series_of_one_channel():
    X, y = waves(channels=1)
    one, other = classifier().fit(X, y), classifier().fit(X[:, 0], y)
    assert (one.predict_proba(X) == other.predict_proba(X[:, 0])).all()
    assert (one.predict_proba(X) == other.predict_proba(pd.DataFrame(X[:, 0]))).all()
    assert (one.predict_proba(X) == other.predict_proba(X[:, 0].tolist())).all()


def test_frames_keep_names_and_types():
    X, y = waves()
    frame = long_frame(X, np.array([3.0, 7.0])[y], even_times())
    clf = classifier().fit(frame, "label", time="when", id="who")
    assert clf.feature_names_in_.tolist() == ["x0", "x1"]
    assert clf.classes_.tolist() == [3.0, 7.0] and clf.classes_.dtype == float
    swapped = frame[["x1", "label", "x0", "who", "when"]]
    assert (clf.predict_proba(swapped) == clf.predict_proba(frame)).all()
    with pytest.raises(ValueError, match="x1"):
        clf.predict(frame.drop(columns="x1"))
    assert not hasattr(clf.fit(X, y), "feature_names_in_")


@given(st.permutations(range(8)), st.integers(0, 5))
@settings(max_examples=15, deadline=None)
def test_answers_follow_the_order_of_the_series(fitted, order, seed):
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(2, n)) for n in rng.integers(1, 12, size=8)]
    np.testing.assert_allclose(
        fitted.predict_proba([X[i] for i in order]), fitted.predict_proba(X)[list(order)], atol=1e-6
    )


def test_dates_in_another_unit_mean_the_same():
    X, y = waves(channels=1)
    hours = np.cumsum(np.random.default_rng(3).integers(1, 4, size=(24, 9)), axis=1)
    dates = np.datetime64("2024-01-01T00") + hours.astype("timedelta64[h]")
    clf = SequenceClassifier("mmrnn", **QUICK).fit(X, y, times=dates)
    assert clf.clock_.unit == "hour"
    here = clf.predict_proba(X, times=dates)
    np.testing.assert_allclose(clf.predict_proba(X, times=dates.astype("datetime64[s]")), here, atol=1e-6)
    in_days = from_numpy(X, order="NDT", times=dates, unit="days")
    np.testing.assert_allclose(clf.predict_proba(in_days), here, atol=1e-5)


def dated(steps=40, start="2024-01-01", phase=0.0):
    """A frame with an index of dates a day apart, one of them left out."""
    days = pd.date_range(start, periods=steps, freq="D").delete(5)
    return pd.DataFrame({"x": np.sin(0.5 * np.arange(len(days)) + phase)}, index=days)


@pytest.mark.parametrize("kind", ["array", "pandas", "polars"])
def test_one_axis_is_one_series(kind):
    wave = np.sin(0.5 * np.arange(60))
    given = {"array": wave, "pandas": pd.Series(wave), "polars": pl.Series(wave)}[kind]
    one = SequenceForecaster("gru", horizon=2, **QUICK).fit(given)
    other = SequenceForecaster("gru", horizon=2, **QUICK).fit(wave[None])
    assert one.predict(given).shape == (1, 2, 1)
    assert (one.predict(given) == other.predict(wave[None])).all()
    X, y = waves(channels=1)
    clf = classifier().fit(X[:, 0], y)
    assert (clf.predict_proba(X[0, 0]) == clf.predict_proba(X[:1, 0])).all()


def test_a_list_of_numbers_is_one_series_and_a_file_is_refused():
    from chronode import SequenceForecaster

    values = np.sin(np.arange(40) / 3)
    first, second = (
        SequenceForecaster("gru", horizon=2, hidden_size=2, epochs=1).fit(X).predict(X)
        for X in (values, values.tolist())
    )
    assert first.tolist() == second.tolist()
    with pytest.raises(TypeError, match="X='a.csv' is a file: pass chronode.data.read"):
        SequenceForecaster("gru", horizon=2).fit("a.csv")


def test_one_axis_with_its_own_times():
    wave, times = np.sin(0.5 * np.arange(60)), np.cumsum(np.random.default_rng(0).uniform(0.5, 2, 60))
    one = SequenceForecaster("mmrnn", **QUICK).fit(wave, times=times)
    other = SequenceForecaster("mmrnn", **QUICK).fit(wave[None], times=times[None])
    assert (one.predict(wave, times=times) == other.predict(wave[None], times=times[None])).all()


def test_an_index_of_dates_carries_the_times():
    frame = dated()
    named = frame.rename_axis("day").reset_index()
    by_index = SequenceForecaster("mmrnn", **QUICK).fit(frame)
    by_column = SequenceForecaster("mmrnn", **QUICK).fit(named, time="day")
    by_series = SequenceForecaster("mmrnn", **QUICK).fit(frame["x"])
    assert by_index.clock_.unit == "day"
    assert (by_index.predict(frame) == by_column.predict(named)).all()
    np.testing.assert_allclose(by_series.predict(frame["x"]), by_index.predict(frame), atol=1e-6)


def test_a_list_of_frames_with_their_own_dates():
    frames = [dated(start=f"2024-0{i % 9 + 1}-01", phase=i) for i in range(12)]
    y = np.arange(12) % 2
    clf = SequenceClassifier("mmrnn", **QUICK).fit(frames, y)
    assert clf.clock_.unit == "day"
    values, days = [frame.to_numpy().T for frame in frames], [frame.index.to_numpy() for frame in frames]
    np.testing.assert_allclose(clf.predict_proba(frames), clf.predict_proba(values, times=days), atol=1e-6)


def test_what_is_done_to_the_data_is_a_warning():
    X, y = waves()
    times = even_times()
    with pytest.warns(UserWarning, match=r"192 times went back .*: the rows were sorted by time") as caught:
        backwards = classifier().fit(X, y, times=times[:, ::-1])
    assert caught[0].filename == __file__
    forwards = classifier().fit(X[:, :, ::-1].copy(), y, times=times)
    with pytest.warns(UserWarning, match="went back") as caught:
        found = backwards.predict_proba(X, times=times[:, ::-1])
    assert caught[0].filename == __file__
    np.testing.assert_allclose(found, forwards.predict_proba(X[:, :, ::-1].copy(), times=times), atol=1e-6)


def test_a_constant_series_to_predict_gives_no_warning(fitted, recwarn):
    fitted.predict(np.ones((1, 2, 4)))
    assert not recwarn.list
