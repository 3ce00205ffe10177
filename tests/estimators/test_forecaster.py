"""The forecaster: closed forms, what it looks at, what it refuses."""

import numpy as np
import pandas as pd
import pytest
from commands import chronode
from sklearn.metrics import r2_score
from sklearn.model_selection import cross_val_score

from chronode.data import from_list, from_numpy
from chronode.estimators import SequenceForecaster
from chronode.runs import Run
from chronode.training._forecasting import default_window, forecast_parts

QUICK = {"hidden_size": 6, "epochs": 2, "random_state": 0}


def lines(count=30, steps=20, seed=0):
    """Series (n, 2, time) that rise by 2 and fall by 3 a step, from anywhere."""
    start = np.random.default_rng(seed).uniform(-50, 50, size=(count, 2, 1))
    return start + np.array([[2.0], [-3.0]]) * np.arange(steps)


def noisy(**options):
    X = lines(**options)
    return X + np.random.default_rng(9).normal(size=X.shape)


@pytest.fixture(scope="module")
def fitted():
    return SequenceForecaster("gru", horizon=3, window=8, **QUICK).fit(noisy())


def test_lines_go_on_beyond_what_training_saw():
    X = lines(steps=23)
    forecaster = SequenceForecaster("mmrnn", horizon=3, hidden_size=8, epochs=10, random_state=0).fit(X[..., :20])
    np.testing.assert_allclose(forecaster.predict(X[..., :20]), X[..., 20:].transpose(0, 2, 1), atol=1)
    assert forecaster.score(X) > 0.99
    far = lines(5, 23, seed=1) + 500
    np.testing.assert_allclose(forecaster.predict(far[..., :20]), far[..., 20:].transpose(0, 2, 1), atol=3)


def test_slopes_are_learned():
    rng = np.random.default_rng(0)
    X = rng.uniform(-5, 5, size=(80, 1)) + rng.uniform(-2, 2, size=(80, 1)) * np.arange(14)
    forecaster = SequenceForecaster("mmrnn", horizon=2, hidden_size=16, epochs=20, batch_size=8, random_state=0).fit(
        X[:60]
    )
    moves = X[60:, 12:] - X[60:, 11:12]
    found = forecaster.predict(X[60:, :12])[..., 0] - X[60:, 11:12]
    assert r2_score(moves, found) > 0.8  # a forecast of no change has less than 0


def test_score_holds_back_the_last_steps(fitted):
    X = noisy(seed=2)
    found, true = fitted.predict(X[..., :-3]), X[..., -3:].transpose(0, 2, 1)
    by_hand = np.mean([r2_score(true[..., i].ravel(), found[..., i].ravel()) for i in range(2)])
    assert fitted.score(X) == pytest.approx(by_hand)
    assert fitted.score(X[..., :-3], true) == pytest.approx(by_hand)
    assert len(cross_val_score(fitted, X, cv=2)) == 2


def test_a_forecast_looks_back_window_steps(fitted):
    X = noisy()
    np.testing.assert_allclose(fitted.predict(X), fitted.predict(X[..., -8:]), atol=1e-4)
    changed = X.copy()
    changed[..., -8] += 10
    assert np.abs(fitted.predict(changed) - fitted.predict(X)).max() > 1e-4


def test_chosen_channels():
    X = lines()
    by_number = SequenceForecaster("gru", horizon=2, channels=[1], **QUICK).fit(X)
    by_name = SequenceForecaster("gru", horizon=2, channels=["x1"], **QUICK).fit(X)
    assert by_number.channels_ == by_name.channels_ == ("x1",)
    assert by_number.predict(X).shape == (30, 2, 1)
    assert (by_number.predict(X) == by_name.predict(X)).all()
    for wrong, match in ((["x7"], "x7"), ([5], "counted from 0")):
        with pytest.raises(ValueError, match=match):
            SequenceForecaster(channels=wrong, **QUICK).fit(X)


def test_missing_values_start_from_the_last_seen():
    X = lines()
    X[:, 0, -2:] = np.nan
    X[0, 0] = np.nan
    forecaster = SequenceForecaster("gru", horizon=1, hidden_size=8, epochs=1, learning_rate=1e-9, random_state=0).fit(
        X
    )
    answers = forecaster.predict(X)
    assert np.isfinite(answers).all()
    # Nothing was learned, so the forecast is the last value seen, give or take what steps usually change.
    assert np.abs(answers[1:, 0, 0] - X[1:, 0, -3]).max() < 10
    assert np.abs(answers[1:, 0, 1] - X[1:, 1, -1]).max() < 10
    assert np.isfinite(forecaster.score(X))


def test_one_long_series_is_divided_by_time():
    t = np.arange(400)
    wave = np.sin(t / 3)
    forecaster = SequenceForecaster(
        "mmrnn", horizon=2, window=20, hidden_size=8, epochs=30, batch_size=4, random_state=0
    )
    forecaster.fit(pd.DataFrame({"t": t[:380], "wave": wave[:380]}), time="t")
    assert forecaster.feature_names_in_.tolist() == ["wave"]
    answer = forecaster.predict(pd.DataFrame({"t": t[:390], "wave": wave[:390]}))
    np.testing.assert_allclose(answer[0, :, 0], wave[390:392], atol=0.2)
    # Too short for a part of its own to validate on: it is validated on what it learns from.
    short = SequenceForecaster("gru", horizon=2, **QUICK).fit([np.arange(4.0)])
    assert short.predict([np.arange(4.0)]).shape == (1, 2, 1)


def test_unequal_irregular_series_and_files(tmp_path):
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(1, n)) for n in (5, 9, 30, 120)]
    times = [np.cumsum(rng.uniform(0.5, 2, size=x.shape[1])) for x in X]
    forecaster = SequenceForecaster("mmrnn", horizon=4, **QUICK).fit(X, times=times)
    loaded = SequenceForecaster.load(forecaster.save(tmp_path / "f"))
    assert (loaded.predict(X, times=times) == forecaster.predict(X, times=times)).all()
    before = forecaster.predict(X, times=times)
    forecaster.set_params(learning_rate=1e-12).continue_fit(X, times=times, epochs=1)
    np.testing.assert_allclose(forecaster.predict(X, times=times), before, atol=1e-5)
    # These series are noise: only a network alone changes by learning from them, if it beats the last value.
    alone = SequenceForecaster("mmrnn", horizon=4, start="none", **{**QUICK, "epochs": 30}).fit(X, times=times)
    before = alone.predict(X, times=times)
    assert (alone.set_params(learning_rate=0.1).continue_fit(X, times=times).predict(X, times=times) != before).any()


def test_other_units_of_time_give_the_same_forecasts_and_scores():
    X = noisy()[:, :1]
    hours = np.cumsum(np.random.default_rng(3).integers(1, 4, size=(30, 20)), axis=1)
    dates = np.datetime64("2024-01-01T00") + hours.astype("timedelta64[h]")
    forecaster = SequenceForecaster("mmrnn", horizon=2, **QUICK).fit(X, times=dates)
    days = from_numpy(X, order="NDT", times=dates, unit="days")
    assert forecaster.clock_.unit == "hour"
    np.testing.assert_allclose(forecaster.predict(days), forecaster.predict(X, times=dates), atol=1e-3)
    assert forecaster.score(days) == pytest.approx(forecaster.score(X, times=dates), abs=1e-5)


@pytest.mark.parametrize(
    ("options", "X", "match"),
    [
        ({"horizon": 30}, lines(), "horizon=30 needs a series of more than 30 steps"),
        ({"horizon": 0}, lines(), "horizon"),
        ({"window": 0}, lines(), "window"),
        ({"order": "NTD"}, [np.zeros((2, n)) for n in (5, 6)], "Did you mean order='NDT'"),
    ],
)
def test_mistakes_of_a_forecaster_are_reported(options, X, match):
    with pytest.raises(ValueError, match=match):
        SequenceForecaster(**{**QUICK, **options}).fit(X)


def test_mistakes_in_scoring_are_reported(fitted):
    with pytest.raises(ValueError, match=r"must have shape \(30, 3, 2\)"):
        fitted.score(lines(), np.zeros((30, 2)))
    with pytest.raises(ValueError, match="3 steps, which is not more than the horizon"):
        fitted.score(lines(steps=3))


@pytest.mark.parametrize(("period", "steps", "window"), [(12, 50, 25), (12, 200, 36), (1, 60, 30), (1, 200, 32)])
def test_windows_are_longer_if_there_is_a_season(period, steps, window):
    place = np.arange(steps)
    values = 0.1 * place + (np.sin(2 * np.pi * place / period) if period > 1 else 0)
    s = from_list([values, values])
    assert default_window(s, 6, s.channels) == window
    assert default_window(s[:1], 6, s.channels) == steps  # a short series alone: all of it


def test_a_short_series_alone_has_no_network():
    values = np.random.default_rng(0).normal(size=60).cumsum()
    fitted = SequenceForecaster(horizon=6, random_state=0).fit([values])
    assert fitted.best_epoch_ == 0 and not fitted.history_ and fitted.window_ == 60
    assert len(SequenceForecaster("gru", horizon=6, epochs=1, random_state=0).fit([values]).history_) == 1
    with pytest.raises(ValueError, match="epochs=0 leaves the network untrained"):
        SequenceForecaster("gru", horizon=6, epochs=0, start="none").fit([values])


# ---- the command line -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [{}, {"epochs": 3, "batch_size": 8}, pytest.param({"model": "gru"}, marks=pytest.mark.slow)],
)
def test_command_line_and_estimator_give_the_same_forecasts(tmp_path, options):
    rng, steps = np.random.default_rng(0), np.arange(200.0)
    frame = pd.DataFrame({"t": steps, "x": 0.05 * steps + np.sin(steps / 4) + rng.normal(size=200) / 5})
    frame.to_csv(tmp_path / "a.csv", index=False)
    flags = [part for name, value in options.items() for part in (f"--{name.replace('_', '-')}", value)]
    flags += ["--time", "t", "--forecast", 4, "--window", 24, "--seed", 3, "-o", tmp_path / "run"]
    chronode("train", tmp_path / "a.csv", *flags)
    # The last 15% are the test part of the command line.
    model = SequenceForecaster(horizon=4, window=24, random_state=3, **options).fit(frame[:170], time="t")
    losses = [row["valid_loss"] for row in Run.open(tmp_path / "run").metrics()]
    assert losses == pytest.approx([epoch.valid_loss for epoch in model.history_])
    stored = SequenceForecaster.load(tmp_path / "run")
    expected = model.predict(frame, time="t")
    np.testing.assert_allclose(stored.predict(frame, time="t"), expected, rtol=1e-5, atol=1e-6)
    ours, theirs = (own.predict_intervals(frame, time="t")[80] for own in (stored, model))
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_the_command_line_takes_the_short_series_that_the_estimator_takes(tmp_path):
    values = 100 + 10 * np.sin(np.arange(36) / 2) + np.random.default_rng(0).normal(size=36)
    frame = pd.DataFrame({"t": np.arange(36), "x": values})
    frame.to_csv(tmp_path / "a.csv", index=False)
    quick = ("--epochs", 1, "--hidden", 4, "-o", tmp_path / "run")
    chronode("train", tmp_path / "a.csv", "--time", "t", "--forecast", 8, *quick)
    stored = SequenceForecaster.load(tmp_path / "run")
    assert np.isfinite(stored.predict(frame, time="t")).all()
    s = from_list([values], channels=["x"])
    parts = forecast_parts(s, 8, ["x"], (0.7, 0.15, 0.15), window=18, by_time=True)
    assert [int(part.target.values.shape[0]) for part in parts] == [7, 1, 1]


def test_steps_without_times_are_in_order():
    values = np.sin(np.arange(90) / 3) + np.random.default_rng(0).normal(size=90).cumsum()
    found = []
    for times in (None, [np.arange(90.0)]):
        fitted = SequenceForecaster(horizon=4, epochs=1, random_state=0).fit([values], times=times)
        found.append(fitted.predict([values], times=times))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-4)


def test_four_years_of_months_are_enough_to_learn_the_season():
    errors = []
    for seed in range(3):
        rng, steps = np.random.default_rng(seed), np.arange(60)
        values = 100 + 10 * np.sin(2 * np.pi * steps / 12) + 4 * rng.normal(size=60)
        found = SequenceForecaster(horizon=12, epochs=1, random_state=0).fit([values[:48]]).predict([values[:48]])
        errors.append([np.abs(own - values[48:]).mean() for own in (found[0, :, 0], values[36:48])])
    own, naive = np.mean(errors, axis=0)
    assert own < 0.9 * naive


@pytest.mark.parametrize(("frequency", "season", "most"), [("MS", 12, 0.1), ("QS", 4, 0.02)])
def test_dates_of_months_and_quarters_give_the_forecasts_of_steps(frequency, season, most):
    rng, steps = np.random.default_rng(0), np.arange(11 * season)
    past = 0.02 * steps + 3 * rng.normal(size=season)[steps % season] + rng.normal(size=len(steps))
    frame = pd.DataFrame({"date": pd.date_range("1990-01-01", periods=len(past), freq=frequency), "x": past})
    options = {**QUICK, "horizon": season, "epochs": 1}
    by_steps = SequenceForecaster(**options).fit([past]).predict([past])
    by_dates = SequenceForecaster(**options).fit(frame, time="date").predict(frame, time="date")
    # The noise is 1. On a grid of 31 or 92 days, the forecasts differed by 0.4 and 0.04.
    assert np.abs(by_steps - by_dates).mean() < most
