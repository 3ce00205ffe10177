"""Drift: the promised rate of false alarms, distances against scipy, and changes of each kind."""

import numpy as np
import pytest
from scipy.stats import ks_2samp

from chronode.data import from_list
from chronode.judge import features_of, find_drift, metric_change, stretch_length, units_of
from chronode.training import KnownRows


@pytest.mark.parametrize("sizes", [(60, 12), (40, 40)])
def test_false_alarms_are_as_rare_as_promised(sizes):
    alarms = 0
    for seed in range(150):
        rng = np.random.default_rng(seed)
        shared = rng.normal(size=sum(sizes))  # features of a series depend on each other
        table = {f"f{k}": shared + rng.normal(size=sum(sizes)) for k in range(6)}
        table["ties"] = np.round(shared)
        before, now = ({name: values[part] for name, values in table.items()} for part in _parts(sizes))
        alarms += bool(find_drift(before, now, level=0.1, draws=99, seed=seed).found)
    # 15 are expected; more than 27 would come by chance once in a thousand times.
    assert alarms <= 27
    assert alarms >= 4


def _parts(sizes):
    return slice(0, sizes[0]), slice(sizes[0], sum(sizes))


def test_distances_are_those_of_scipy():
    rng = np.random.default_rng(0)
    before = {"a": rng.normal(size=50), "b": np.round(rng.normal(size=50)), "c": rng.normal(size=50)}
    now = {"a": rng.normal(0.3, 1, 20), "b": np.round(rng.normal(0.5, 1, 20)), "c": rng.normal(size=20)}
    before["c"][:7], now["c"][:3] = np.nan, np.nan
    found = find_drift(before, now)
    for name, distance, p in zip(found.names, found.distances, found.p_values, strict=True):
        one, other = (side[name][~np.isnan(side[name])] for side in (before, now))
        alone = ks_2samp(one, other)
        assert distance == pytest.approx(alone.statistic)
        assert p >= 0.5 * alone.pvalue  # the probability over all features is larger
    assert found.units == (50, 20)


@pytest.mark.parametrize(
    ("changed", "feature"),
    [
        (lambda values: values + 2.0, "x: level"),
        (lambda values: 3 * values, "x: spread"),
        (lambda values: np.where(np.arange(len(values))[:, None] % 2, np.nan, values), "x: missing"),
        (lambda values: values[: len(values) // 2], "steps"),
    ],
)
def test_each_kind_of_change_is_found_by_its_feature(changed, feature):
    rng = np.random.default_rng(0)
    series = [rng.normal(size=(int(n), 1)) for n in rng.integers(20, 30, 120)]
    before = features_of(from_list(series[:80], channels=["x"]))
    now = features_of(from_list([changed(one) for one in series[80:]], channels=["x"]))
    assert find_drift(before, now).found[0] == feature
    assert not find_drift(before, features_of(from_list(series[80:], channels=["x"]))).found


def test_longer_gaps_are_found():
    rng = np.random.default_rng(0)

    def times(scale):
        return [np.cumsum(rng.exponential(scale, 20)) for _ in range(40)]

    values = [rng.normal(size=20) for _ in range(40)]
    before, now = (features_of(from_list(values, times=times(scale))) for scale in (1.0, 2.0))
    assert "time between observations" in find_drift(before, now).found


def test_a_single_series_is_compared_by_stretches_and_forecasts_by_changes():
    rng = np.random.default_rng(0)
    walk = np.cumsum(rng.normal(size=2000))
    one = from_list([walk[:1500]])
    steps = stretch_length(one)
    assert steps == 75
    before = features_of(one, changes=True, steps=steps)
    same = features_of(from_list([walk[1500:]]), changes=True, steps=steps)
    assert len(before["x0: changes"]) == 20
    assert not find_drift(before, same).found  # whatever the level is
    wild = features_of(from_list([np.cumsum(rng.normal(0, 3, 500))]), changes=True, steps=steps)
    assert "x0: spread" in find_drift(before, wild).found
    assert stretch_length(from_list([walk[:50]] * 30)) == 0


def test_groups_count_once():
    s = from_list([[1.0], [3.0], [7.0]], groups=["a", "a", "b"], channels=["x"])
    assert features_of(s)["x: level"].tolist() == [2.0, 7.0]


def test_a_metric_is_worse_only_by_more_than_chance():
    rng = np.random.default_rng(0)

    def rows(count, noise):
        true = rng.normal(size=(count, 1))
        return KnownRows(true + rng.normal(0, noise, size=true.shape), true, np.arange(count), None)

    test = rows(200, 0.5)
    same, worse = (metric_change("rmse", test, rows(100, noise)) for noise in (0.5, 1.0))
    assert not same.is_worse
    assert worse.is_worse
    assert worse.now == pytest.approx(1.0, abs=0.2)
    assert worse.low < worse.now - worse.before < worse.high


def test_few_groups_are_cut_into_stretches_of_rows():
    assert units_of(np.repeat(["b", "a"], 50), shortest=20).tolist() == [2] * 20 + [3] * 30 + [0] * 20 + [1] * 30
    assert len(np.unique(units_of(np.zeros(1000)))) == 20
    assert units_of(np.arange(10)[::-1]).tolist() == list(range(9, -1, -1))
    assert units_of(np.zeros(3), shortest=5).tolist() == [0, 0, 0]


def test_errors_of_one_series_rarely_raise_a_false_alarm():
    """Errors of neighboring steps resemble each other; a single group has no width, and would alarm half the time."""
    alarms = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        noise = np.convolve(rng.normal(size=400), np.ones(4), "valid")[:, None]
        halves = (noise[:150], noise[150:])
        sides = [KnownRows(part, 0 * part, units_of(np.zeros(len(part)), 4), None) for part in halves]
        alarms.append(metric_change("rmse", *sides, level=0.05, seed=seed).is_worse)
    assert np.sum(alarms) <= 7
    one = [side._replace(groups=np.zeros(len(side.true))) for side in sides]
    assert np.isnan(metric_change("rmse", *one).low) and not metric_change("rmse", *one).is_worse
