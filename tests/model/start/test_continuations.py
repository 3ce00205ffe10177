"""Linear maps of windows to what follows them: against loops, scikit-learn and the naive forecasts."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Ridge

from chronode.data import forecast_windows, from_list
from chronode.judge import drift, fit_forecast, last_value, seasonal_naive
from chronode.model.start._continuations import Member, average, choose
from chronode.model.start._families import families, joint_family
from chronode.model.start._features import build_features
from chronode.model.start._window_rows import Fold, Windows


def windows(values, steps, horizon):
    """Windows relative to their last value, (N, K, 1), and what follows, (N, H)."""
    cut = torch.tensor(np.asarray(values, dtype=np.float64)).unfold(0, steps + horizon, 1)
    x, y = cut[:, :steps], cut[:, steps:]
    return (x - x[:, -1:])[..., None], y - x[:, -1:]


def averaged(members, x, y, known):
    return average(members, Windows(x, y, torch.full((len(x),), x.shape[1])), known)


def noise(count=60, seed=0):
    return np.random.default_rng(seed).normal(size=count).cumsum()


def applied(found, x):
    return torch.einsum("nkc,kch->nh", x, found.weight) + found.bias


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 1000), horizon=st.integers(1, 9), season=st.integers(2, 5))
def test_naive_maps_are_the_naive_forecasts(seed, horizon, season):
    x, y = windows(noise(seed=seed), 12, horizon)
    known, lengths = families(12, horizon, (season,)), torch.full((len(x),), 12)
    expected = {
        "last value": last_value(x, lengths, horizon),
        f"season of {season}": seasonal_naive(x, lengths, horizon, season),
        "mean": x.mean(1, keepdim=True).expand(-1, horizon, -1),
    }
    for name, values in expected.items():
        found = averaged([Member(name, "naive")], x, y, known)
        torch.testing.assert_close(applied(found, x), values[..., 0])


def test_a_moved_season_grows_by_its_latest_change():
    season = np.tile([3.0, -1.0, 4.0], 10) + np.repeat(np.arange(10.0), 3)
    x, y = windows(season, 9, 6)
    found = averaged([Member("moved season of 3", "naive")], x, y, families(9, 6, (3,)))
    torch.testing.assert_close(applied(found, x), y)


@pytest.mark.parametrize("penalty", [1e-3, 1.0])
def test_direct_maps_are_the_ridge_regression_of_scikit_learn(penalty):
    x, y = windows(noise(), 10, 3)
    found = averaged([Member("last value", "direct", 4, penalty)], x, y, families(10, 3, ()))
    inputs = np.diff(x[..., 0].numpy(), axis=1)[:, ::-1][:, :4]
    ridge = Ridge(alpha=penalty * len(x) * np.square(inputs).mean(), fit_intercept=False).fit(inputs, y.numpy())
    np.testing.assert_allclose(applied(found, x).numpy(), ridge.predict(inputs), rtol=1e-8, atol=1e-10)


def test_shifted_maps_add_the_mean_change_of_the_past():
    x, y = windows(noise(), 10, 3)
    found = averaged([Member("last value", "shifted")], x, y, families(10, 3, ()))
    torch.testing.assert_close(applied(found, x), y.mean(0).expand(len(x), -1))


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 1000), lags=st.integers(1, 7))
def test_recursive_maps_feed_their_forecasts_back(seed, lags):
    series = noise(seed=seed)
    x, y = windows(series, 10, 4)
    found = averaged([Member("last value", "recursive", lags, 0.1)], x, y, families(10, 4, ()))
    one = averaged([Member("last value", "direct", lags, 0.1)], x, y[:, :1], families(10, 1, ()))
    history = series[:10].tolist()
    for _ in range(4):
        last = torch.tensor(history[-10:], dtype=torch.float64)
        history.append(history[-1] + float(applied(one, (last - last[-1])[None, :, None])))
    expected = np.array(history[10:]) - series[9]
    np.testing.assert_allclose(applied(found, x[:1])[0].numpy(), expected, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("lags", [1, 3, 9])
def test_recursive_maps_of_deviations_return_to_the_mean(lags):
    series = noise(seed=1)
    x, y = windows(series, 10, 4)
    found = averaged([Member("mean", "recursive", lags, 0.1)], x, y, families(10, 4, ()))
    level = x[..., 0].mean(1, keepdim=True)
    inputs = (x[..., 0] - level).flip(1)[:, :lags].numpy()
    goal = (y[:, :1] - level).numpy()
    ridge = Ridge(alpha=0.1 * len(x) * np.square(inputs).mean(), fit_intercept=False).fit(inputs, goal)
    past, expected = inputs[0].tolist(), []
    for _ in range(4):
        expected.append(float(np.dot(past[:lags], ridge.coef_.ravel())))
        past = [expected[-1], *past]
    np.testing.assert_allclose(applied(found, x[:1])[0].numpy(), np.array(expected) + float(level[0]), rtol=1e-8)


def test_a_recursive_map_that_explodes_is_the_naive_forecast():
    x, y = windows(1.5 ** np.arange(16.0), 4, 1)
    grown = torch.zeros(len(x), 11, dtype=torch.float64)  # what follows stands still after the first step
    rows = Windows(x, torch.cat([y, grown[:, 1:]], 1), torch.full((len(x),), 4))
    found = average([Member("last value", "recursive", 1, 1e-4)], rows, families(4, 11, ()))
    last = torch.zeros(4, 1, 11, dtype=torch.float64)
    last[-1] = 1
    assert torch.equal(found.weight, last)


def test_the_start_of_a_series_is_extended_by_its_first_value_or_season():
    x = torch.tensor([[[5.0], [6.0], [7.0]]])
    extended = {
        season: build_features({"kind": "values", "channels": 1, "steps": 8, "season": season}) for season in (1, 2)
    }
    assert extended[1](x).tolist() == [[5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 6.0, 7.0]]
    assert extended[2](x).tolist() == [[6.0, 5.0, 6.0, 5.0, 6.0, 5.0, 6.0, 7.0]]


@settings(deadline=None, max_examples=30)
@given(steps=st.integers(1, 30), count=st.integers(1, 30), season=st.integers(1, 9))
def test_extending_back_repeats_the_first_season(steps, count, season):
    values = np.arange(1.0, min(count, steps) + 1)
    found = build_features({"kind": "values", "channels": 1, "steps": steps, "season": season})(
        torch.tensor(values)[None, :, None]
    )
    expected = list(values)
    while len(expected) < steps:
        expected.insert(0, expected[season - 1] if season <= len(expected) else np.nan)
    np.testing.assert_array_equal(found[0].numpy(), expected)


def test_a_map_of_all_channels_sees_the_others():
    rng = np.random.default_rng(0)
    lead = rng.normal(size=200)
    own = np.concatenate([[0.0], lead[:-1]]).cumsum()
    both = torch.tensor(np.stack([own, lead], 1)).unfold(0, 7, 1).transpose(1, 2)
    x, y = both[:, :6].clone(), both[:, 6:, 0] - both[:, 5:6, 0]
    x[..., 0] -= x[:, -1:, 0].clone()
    found = averaged([Member("all channels", "direct", 2, 1e-4)], x, y, [joint_family(6, 2, 0, 1)])
    assert float((applied(found, x) - y).abs().max()) < 1e-2


def test_a_map_that_could_not_be_fitted_in_a_fold_counts_as_its_naive_forecast():
    # A line in the first fold, which has no rows to fit, and noise in the second, where a fitted map is good by chance.
    x, y = windows(np.concatenate([np.arange(40.0) ** 2, noise(40)]), 8, 2)
    rows = torch.arange(len(x))
    folds = [Fold(rows < 0, rows < 0, rows < 20), Fold(rows < 20, rows < 20, (rows >= 20) & (rows < 28))]
    seen = Windows(x, y, torch.full((len(x),), 8))
    known = families(8, 2, ())
    found = choose(seen, folds, known[:1])
    assert sum(member.share for member in found) == pytest.approx(1)
    few = choose(seen, folds[:1], known)
    assert not {member.method for member in few} & {"direct", "recursive", "shifted"}


def shares(repeats):
    """Shares of members by number of lags and family, where the judged windows count several times."""
    x, y = windows(noise(seed=3), 12, 4)
    later = torch.arange(len(x)) >= 30
    rows = torch.cat([torch.arange(30), torch.arange(30, len(x)).repeat(repeats)])
    fit, judge = ~later[rows], later[rows]
    every = Windows(x[rows], y[rows], torch.full((len(rows),), 12))
    return choose(every, [Fold(fit, fit, judge)], families(12, 4, ()))


def test_maps_with_more_to_fit_need_more_windows_to_count():
    few, many = (sum(m.share * m.lags for m in shares(repeats)) for repeats in (1, 50))
    assert few < 0.9 * many
    assert sum(m.share for m in shares(1)) == pytest.approx(1)


@pytest.mark.parametrize("seed", range(3))
def test_an_average_is_no_worse_than_the_naive_forecasts_on_a_seasonal_trend(seed):
    rng, steps = np.random.default_rng(seed), np.arange(160)
    series = 0.3 * steps + 5 * np.sin(2 * np.pi * steps / 12) + rng.normal(size=160)
    w = forecast_windows(from_list([series]), 6, window=36)
    train, valid, test = w[:80], w[80:100], w[106:]
    error = (fit_forecast(train, valid, [0]).outputs(test) - torch.tensor(test.target.values)).abs().mean()
    batch = test.batch()
    naive = (last_value, drift, lambda *past: seasonal_naive(*past, 12))
    others = [(forecast(batch.x, batch.lengths, 6)[..., 0] - batch.target).abs().mean() for forecast in naive]
    assert error < 0.8 * min(others)


def test_series_that_end_at_other_times_are_judged_by_series():
    rng = np.random.default_rng(0)
    series = [np.sin(np.arange(40) + phase) for phase in rng.uniform(0, 6, 12)]
    w = forecast_windows(from_list(series), 3, window=12)
    first = np.isin(w.groups, np.unique(w.groups)[:9])
    fitted = fit_forecast(w[first], w[~first], [0])
    assert float((fitted.outputs(w[~first]) - torch.tensor(w[~first].target.values)).abs().mean()) < 0.02
    again = fitted.refitted(w)
    assert again.description == fitted.description and not torch.equal(again.start.weight, fitted.start.weight)


def test_holes_in_what_follows_do_not_lose_the_window():
    series = np.sin(np.arange(120.0)) + 0.1 * np.arange(120)
    holes = series.copy()
    holes[np.random.default_rng(0).random(120) < 0.2] = np.nan
    holes[[0, -1]] = series[[0, -1]]
    w = forecast_windows(from_list([holes]), 4, window=20)
    fitted = fit_forecast(w[:60], w[60:80], [0])
    error = (fitted.outputs(w[80:]) - torch.tensor(w[80:].target.values)).abs().nanmean()
    assert float(error) < 0.5
