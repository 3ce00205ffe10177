"""Prediction intervals: ranks, coverage on data with known errors, and scores against integrals."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from chronode import ModelSpec, SequenceModel
from chronode.data import forecast_windows, from_list
from chronode.estimators import SequenceForecaster
from chronode.judge import Margins
from chronode.training import Settings, fit
from chronode.training._calibration import interval_scores, margins_of
from chronode.training._forecasting import forecast_parts


@settings(deadline=None, max_examples=25)
@given(count=st.integers(30, 300), level=st.integers(1, 96), seed=st.integers(0, 99))
def test_a_margin_is_the_residual_of_its_rank(count, level, seed):
    residuals = np.random.default_rng(seed).normal(size=(count, 2))
    margins = Margins(2)
    margins.fit(torch.tensor(residuals))
    rank = math.ceil((count + 1) * level / 100 - 1e-9)
    np.testing.assert_allclose(margins.at([level])[0], np.sort(np.abs(residuals), axis=0)[rank - 1])


def test_few_residuals_give_wider_margins_than_the_largest_one():
    margins = Margins(2)
    margins.fit(torch.tensor([[1.0, math.nan], [2.0, math.nan], [3.0, math.nan]]))
    found = margins.at([75, 90, 95, 99])
    assert found[0, 0] == 3 and (found[1:, 0] > found[:-1, 0]).all()
    assert found[:, 1].isnan().all() and margins.known


def drifting(count, seed=0):
    """A random walk with a season: errors of the best forecast one step ahead are normal with deviation 1."""
    rng = np.random.default_rng(seed)
    return from_list([5 * np.sin(np.arange(count) * 2 * np.pi / 12) + rng.normal(size=count).cumsum()])


@pytest.fixture(scope="module")
def walk():
    """A linear start on a long random walk, and its test windows."""
    train, valid, test = forecast_parts(drifting(6000), 3, ["x0"], (0.5, 0.25, 0.25), window=24, by_time=True)
    spec = ModelSpec.for_data(train, "gru", 4, relative=(0,))
    return fit(train, spec, Settings(epochs=1, learning_rate=1e-9), valid=valid, start="linear"), test


def test_intervals_cover_what_they_say_and_grow_with_the_horizon(walk):
    fitted, test = walk
    scores = interval_scores(fitted.model, test, [50, 80, 90])
    for level in (50, 80, 90):
        assert scores[f"coverage {level}%"] == pytest.approx(level / 100, abs=0.03)
    wide = margins_of(fitted.model, test, [90])[0].mean(0)
    assert wide[0] < wide[1] < wide[2]
    # 90% of normal errors with deviation 1 lie within 1.645.
    assert wide[0] == pytest.approx(1.645, rel=0.15)


def test_the_crps_is_the_integral_of_its_definition(walk):
    fitted, test = walk
    few = test[:20]
    error = few.target.values - fitted.model(few.batch().x).detach().numpy()
    every = margins_of(fitted.model, few, range(1, 100))
    levels = np.concatenate([(1 - np.arange(99, 0, -1) / 100) / 2, [0.5], (1 + np.arange(1, 100) / 100) / 2])
    total = []
    for row, column in np.ndindex(error.shape):
        half = every[:, row, column]
        quantiles = np.concatenate([-half[::-1], [0.0], half])
        grid = np.linspace(min(quantiles[0], error[row, column]) - 1, max(quantiles[-1], error[row, column]) + 1, 4001)
        below = np.interp(grid, quantiles, levels, left=0.0, right=1.0)
        total.append(np.trapezoid((below - (grid >= error[row, column])) ** 2, grid))
    assert interval_scores(fitted.model, few, [80])["crps"] == pytest.approx(np.mean(total), rel=0.02)


def test_the_pinball_loss_is_that_of_both_ends(walk):
    fitted, test = walk
    few = test[:10]
    error = few.target.values - fitted.model(few.batch().x).detach().numpy()
    half = margins_of(fitted.model, few, [80])[0]
    ends = [np.maximum(q * (error - end), (q - 1) * (error - end)).mean() for q, end in ((0.1, -half), (0.9, half))]
    assert interval_scores(fitted.model, few, [80])["pinball"] == pytest.approx(np.mean(ends), rel=1e-4)


def test_margins_are_saved(walk, tmp_path):
    fitted, test = walk
    fitted.model.save(tmp_path / "model")
    again = SequenceModel.load(tmp_path / "model")
    np.testing.assert_array_equal(margins_of(again, test[:5], [80]), margins_of(fitted.model, test[:5], [80]))


def test_a_model_without_windows_has_none():
    s = from_list([[1.0, 2.0], [2.0, 1.0]] * 10, target=[0.5, 1.5] * 10)
    model = SequenceModel.build(ModelSpec.for_data(s, "gru", 4))
    with pytest.raises(ValueError, match="no prediction intervals"):
        margins_of(model, s, [80])


def test_the_estimator_gives_ends_around_its_forecast():
    walks = np.random.default_rng(0).normal(size=(12, 60)).cumsum(1) * 100
    forecaster = SequenceForecaster("gru", horizon=2, epochs=1, hidden_size=4, random_state=0, intervals=[50, 90]).fit(
        walks
    )
    found, middle = forecaster.predict_intervals(walks), forecaster.predict(walks)
    assert list(found) == [50, 90]
    np.testing.assert_allclose(found[90].mean(-1), middle)
    assert (found[50][..., 0] > found[90][..., 0]).all() and (found[50][..., 1] < found[90][..., 1]).all()
    held = walks[:, -2:, None]
    shorter = forecaster.predict_intervals(walks[:, :-2])[90]
    inside = (shorter[..., 0] <= held) & (held <= shorter[..., 1])
    assert inside.mean() > 0.7


@pytest.mark.parametrize(("levels", "message"), [([0], "from 1 to 99"), ([80, 80], "a level twice")])
def test_wrong_levels_are_refused(levels, message):
    forecaster = SequenceForecaster("gru", horizon=2, epochs=1, hidden_size=4, intervals=levels).fit(
        np.arange(60.0)[None]
    )
    with pytest.raises(ValueError, match=message):
        forecaster.predict_intervals(np.arange(60.0)[None])


def test_windows_with_unknown_targets_count_where_they_are_known():
    s = drifting(200)
    values = s[0].values.copy()
    values[150::7] = np.nan
    w = forecast_windows(from_list([values]), 2, window=12)
    spec = ModelSpec.for_data(w, "gru", 4, relative=(0,))
    fitted = fit(w[:120], spec, Settings(epochs=1), valid=w[120:], start="linear")
    scores = interval_scores(fitted.model, w[120:], [80])
    assert all(math.isfinite(value) for value in scores.values()) and 0.5 < scores["coverage 80%"] <= 1


def test_intervals_reach_no_further_than_the_series_has_ever_moved():
    rng = np.random.default_rng(0)
    values = np.concatenate([0.01 * rng.normal(size=30), rng.normal(size=30).cumsum()])
    options = {"epochs": 1, "hidden_size": 4, "random_state": 0, "intervals": [50, 99]}
    forecaster = SequenceForecaster(horizon=6, **options).fit(values[None])
    moves = max(np.abs(values[ahead:] - values[:-ahead]).max() for ahead in range(1, 7))
    wide = np.diff(forecaster.predict_intervals(values[None])[99], axis=-1).max() / 2
    assert 0.3 * moves < wide < 3 * moves
    margins = forecaster.model_.margins
    assert bool((margins.most < 1e6).all()) and bool((margins.most.diff() >= 0).all())
    margins.table.mul_(1e9)
    spread = torch.full((1, 6), 2.0, dtype=torch.float64)
    torch.testing.assert_close(margins.widths([99], spread)[0, 0], 2 * margins.most)


def test_the_scaled_interval_score_is_that_of_its_definition(walk):
    fitted, test = walk
    some = test[:40]
    found = interval_scores(fitted.model, some, [90])["msis 90%"]
    half = margins_of(fitted.model, some, [90])[0]
    middle = np.stack(fitted.predict(some).values).astype(np.float64)
    scores = []
    for row, series in enumerate(some):
        unit = np.abs(np.diff(series.values[:, 0])).mean()
        for center, wide, true in zip(middle[row], half[row], some.target.values[row], strict=True):
            scores.append((2 * wide + 20 * max(abs(true - center) - wide, 0)) / unit)
    assert found == pytest.approx(np.mean(scores), rel=1e-4)


def test_a_wide_last_window_of_a_short_series_does_not_widen_its_intervals_as_much():
    rng = np.random.default_rng(0)
    calm = rng.normal(size=26).cumsum()
    torn = np.concatenate([calm[:-4], calm[-4:] + 40 * np.arange(1, 5)])  # a last window with ten times the scale
    usual, wide = (
        np.ptp(
            SequenceForecaster("gru", horizon=4, epochs=1, hidden_size=4, random_state=0, intervals=[90])
            .fit([calm])
            .predict_intervals([values])[90],
            axis=-1,
        ).mean()
        for values in (calm, torn)
    )
    scales = [np.std(values[-13:]) for values in (calm, torn)]
    assert scales[1] > 8 * scales[0]
    assert usual < wide < 0.7 * usual * scales[1] / scales[0]


def test_margins_of_several_series_follow_the_scale_of_a_window():
    traits = torch.stack([torch.linspace(0, 3, 40), torch.zeros(40), torch.zeros(40)], dim=-1)[:, None]
    residuals = torch.ones(40, 1)
    several, single = Margins(1), Margins(1)
    several.fit(residuals, traits)
    single.fit(residuals, traits, one_series=True)
    assert several.spread(traits, 1).unique().tolist() == [1.0]
    # A scale e^3 times as large counts as e^(3 * 2/3) times as large a unit.
    ends = single.spread(traits, 1)[[0, -1], 0] * traits[[0, -1], 0, 0].double().exp()
    assert float(ends[1] / ends[0]) == pytest.approx(math.e**2, rel=1e-6)


def test_errors_that_grow_with_the_scale_of_a_window_keep_it_as_their_unit():
    rng = np.random.default_rng(0)
    traits = torch.tensor(np.stack([rng.normal(size=400), np.zeros(400), np.zeros(400)], axis=-1)[:, None])
    errors = torch.tensor(rng.normal(size=(400, 1)))
    margins = Margins(1)
    margins.fit(errors, traits, one_series=True)  # in units of the scale
    assert margins.spread(traits, 1).log().std() < 0.1
    margins.fit(errors / traits[:, 0, :1].exp(), traits, one_series=True)  # the same errors whatever the scale
    assert (margins.spread(traits, 1).log()[:, 0] + traits[:, 0, 0]).std() < 0.5


def test_few_windows_of_one_series_have_the_margins_of_student():
    rng = np.random.default_rng(0)
    residuals = rng.normal(size=(12, 3)) * [1.0, 1.0, 0.1]
    residuals[3:, 1] = np.nan
    traits = torch.zeros(12, 1, 3, dtype=torch.float64)
    margins = Margins(3)
    margins.fit(torch.tensor(residuals), traits, one_series=True)
    first, count = np.sqrt(np.square(residuals[:, 0]).mean()), 12
    assert margins.at([90])[0, 0].item() == pytest.approx(first * stats.t.ppf(0.95, count) * np.sqrt(1 + 1 / count))
    second, count = np.sqrt(np.square(residuals[:3, 1]).mean()), 3 / np.sqrt(2)
    wanted = second * stats.t.ppf(0.95, count) * np.sqrt(1 + 1 / count)
    assert margins.at([90])[0, 1].item() == pytest.approx(wanted) and wanted > margins.at([90])[0, 0]
    assert margins.at([90])[0, 2] == margins.at([90])[0, 1]  # no step is surer than the one before


@pytest.mark.slow  # 60 fits
def test_intervals_of_short_series_cover_what_they_say():
    """Windows overlap, so the largest of a few errors says less than that of as many independent ones."""
    inside = []
    for seed in range(60):
        walk = np.random.default_rng(seed).normal(size=24).cumsum()
        fitted = SequenceForecaster(horizon=4, intervals=[90], random_state=0).fit([walk[:20]])
        low, high = fitted.predict_intervals([walk[:20]])[90][0, :, 0].T
        inside.append((low <= walk[20:]) & (walk[20:] <= high))
    assert 0.84 <= np.mean(inside) <= 0.97
