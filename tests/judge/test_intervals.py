"""Intervals of metrics: draws measure the rows that were drawn, and intervals contain the truth as often as stated."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from chronode.judge._intervals import metric_intervals, weighted_metric
from chronode.training._metrics import CLASS_METRICS, TWO_CLASSES, VALUE_METRICS, Scores


def drawn_again(names, predicted, true, place, weights, positive=1):
    """The oracle: rows repeated as often as their group was drawn, into torchmetrics."""
    rows = np.repeat(np.arange(len(place)), weights[place].astype(int))
    scores = Scores(names, predicted.shape[1], positive)
    scores.update(torch.tensor(predicted[rows]), torch.tensor(true[rows]))
    return scores.compute()


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 4), st.integers(0, 10_000), st.booleans(), st.integers(0, 1))
def test_classes_are_measured_as_torchmetrics_does(classes, seed, ties, positive):
    rng = np.random.default_rng(seed)
    place = rng.integers(0, 8, 40)
    true = rng.integers(0, classes, 40)
    logits = rng.normal(size=(40, classes)) + np.eye(classes)[true]
    logits = logits.round(0) if ties else logits
    chances = torch.tensor(logits).softmax(-1).numpy()
    weights = rng.multinomial(8, np.full(8, 1 / 8), size=3).astype(float)
    names = tuple(name for name in CLASS_METRICS if classes == 2 or name not in TWO_CLASSES)
    for draw in weights:
        if not draw[place].any():
            continue
        wanted = drawn_again(names, logits, true, place, draw, positive)
        for name in names:
            (found,) = weighted_metric(name, chances, true, place, draw[None], positive)
            assert found == pytest.approx(wanted[name], abs=1e-6, nan_ok=True), name


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 3), st.integers(0, 10_000), st.booleans())
def test_values_are_measured_as_torchmetrics_does(targets, seed, holes):
    rng = np.random.default_rng(seed)
    place = rng.integers(0, 8, 40)
    true = rng.normal(3, 2, size=(40, targets))
    predicted = true + rng.normal(size=true.shape)
    if holes and targets > 1:
        true[rng.random(40) < 0.2, 0] = np.nan
    weights = np.vstack([np.ones(8), rng.multinomial(8, np.full(8, 1 / 8), size=2)])
    for draw in weights:
        wanted = drawn_again(VALUE_METRICS, predicted, true, place, draw)
        for name in VALUE_METRICS:
            (found,) = weighted_metric(name, predicted, true, place, draw[None])
            assert found == pytest.approx(wanted[name], rel=1e-9, nan_ok=True), name


def test_the_interval_of_a_mean_is_that_of_theory():
    rng = np.random.default_rng(0)
    errors = np.abs(rng.normal(size=400))
    low, high = metric_intervals(("mae",), errors[:, None], np.zeros((400, 1)), np.arange(400), draws=4000)["mae"]
    half = 1.96 * errors.std() / 20
    assert (low, high) == pytest.approx((errors.mean() - half, errors.mean() + half), abs=0.15 * half)


def test_rows_of_a_group_are_drawn_together():
    errors = np.repeat([0.0, 1.0], 200)[:, None]
    truth = np.zeros((400, 1))
    apart = metric_intervals(("mae",), errors, truth, np.arange(400))["mae"]
    together = metric_intervals(("mae",), errors, truth, np.repeat(np.arange(8), 50))["mae"]
    assert together[1] - together[0] > 3 * (apart[1] - apart[0])


def test_one_group_has_no_interval():
    assert metric_intervals(("mae",), np.ones((5, 1)), np.zeros((5, 1)), np.zeros(5)) == {}


SHARES = ("accuracy", "balanced_accuracy", "f1", "sensitivity", "specificity", "auroc", "auprc", "min_se_ppv")


def rows_of(true, margin):
    """Probabilities of two classes with the second one ahead by `margin`."""
    chance = 1 / (1 + np.exp(-np.asarray(margin, dtype=float)))
    return np.stack([1 - chance, chance], 1), np.asarray(true).astype(int)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("count", [4, 13, 60])
def test_perfect_and_hopeless_scores_have_wide_intervals(count, sign):
    true = np.arange(count) % 2
    found = metric_intervals(SHARES, *rows_of(true, sign * (2 * true - 1)), np.arange(count))
    assert set(found) == set(SHARES)
    for name, (low, high) in found.items():
        assert 0 <= low < high <= 1, name
        # Even the best of these intervals is not surer than 3 failures in as many rows (the rule of three).
        assert high - low > 1.2 / count, name
    exact = stats.binomtest(count if sign == 1 else 0, count).proportion_ci(method="exact")
    assert found["accuracy"] == pytest.approx((exact.low, exact.high))


def test_the_interval_of_a_share_is_that_of_clopper_and_pearson():
    true = np.repeat([0, 1], [20, 11])
    wrong = np.isin(np.arange(31), [3, 7, 25])
    found = metric_intervals(SHARES, *rows_of(true, np.where(wrong, -1, 1) * (2 * true - 1)), np.arange(31))
    for name, right, of in (("accuracy", 28, 31), ("sensitivity", 10, 11), ("specificity", 18, 20)):
        exact = stats.binomtest(right, of).proportion_ci(method="exact")
        assert found[name] == pytest.approx((exact.low, exact.high)), name


def test_the_positive_class_may_be_the_first():
    true = np.repeat([0, 1], [6, 24])
    chances, true = rows_of(true, np.where(np.arange(30) == 0, -1, 1) * (2 * true - 1))
    found = [metric_intervals(("sensitivity", "specificity"), chances, true, np.arange(30), positive=p) for p in (0, 1)]
    assert found[0]["sensitivity"] == found[1]["specificity"]
    assert found[0]["specificity"] == found[1]["sensitivity"]


def test_rows_of_a_group_that_are_alike_count_once():
    true = np.repeat(np.arange(12) % 2, 50)
    groups = np.repeat(np.arange(12), 50)
    found = metric_intervals(SHARES, *rows_of(true, 2 * true - 1), groups)
    alone = metric_intervals(SHARES, *rows_of(np.arange(12) % 2, 2 * (np.arange(12) % 2) - 1), np.arange(12))
    for name in SHARES:
        assert found[name] == pytest.approx(alone[name], abs=1e-6), name


def test_a_large_offset_does_not_change_the_interval_of_r2():
    rng = np.random.default_rng(0)
    true = rng.normal(size=(50, 1))
    predicted = true + 0.3 * rng.normal(size=(50, 1))
    wanted = metric_intervals(("r2",), predicted, true, np.arange(50))["r2"]
    for offset in (1e4, 1e8, -1e9):
        found = metric_intervals(("r2",), predicted + offset, true + offset, np.arange(50))["r2"]
        assert found == pytest.approx(wanted, abs=1e-4)
    assert (
        metric_intervals(("r2", "mae"), true, true, np.arange(50)) == {}
    )  # nothing is known of errors that never were


def covered(draw, truths, count, rounds):
    """Returns the share of intervals that contain the true values."""
    rng = np.random.default_rng(count)
    inside = {name: [] for name in truths}
    for round in range(rounds):
        true, margin = draw(rng, count)
        found = metric_intervals(tuple(truths), *rows_of(true, margin), np.arange(count), draws=100, seed=round)
        for name, (low, high) in found.items():
            inside[name].append(low <= truths[name] <= high)
    return {name: np.mean(hits) for name, hits in inside.items()}


@pytest.mark.slow
@pytest.mark.parametrize("count", [10, 30, 100])
@pytest.mark.parametrize("share", [0.8, 0.9, 0.95, 0.99])
def test_intervals_of_called_classes_contain_the_true_value(share, count):
    prevalence = 0.3

    def draw(rng, count):
        true = rng.random(count) < prevalence
        return true, np.where(rng.random(count) < share, 1, -1) * (2 * true - 1)

    called = prevalence * share + (1 - prevalence) * (1 - share)
    truths = dict.fromkeys(("accuracy", "balanced_accuracy", "sensitivity", "specificity"), share)
    truths["f1"] = 2 * prevalence * share / (prevalence + called)
    for name, rate in covered(draw, truths, count, 600).items():
        assert rate >= 0.93, (name, rate)


@pytest.mark.slow
@pytest.mark.parametrize("count", [10, 30, 100])
@pytest.mark.parametrize("area", [0.8, 0.9, 0.95, 0.99])
def test_intervals_of_areas_contain_the_true_value(area, count):
    prevalence, shift = 0.3, np.sqrt(2) * stats.norm.ppf(area)

    def draw(rng, count):
        true = rng.random(count) < prevalence
        return true, rng.normal(size=count) + shift * true

    edges = np.linspace(-8, 8 + shift, 20_001)
    hit, alarm = stats.norm.sf(edges - shift), stats.norm.sf(edges)
    precision = prevalence * hit / (prevalence * hit + (1 - prevalence) * alarm)
    truths = {"auroc": area, "auprc": -np.trapezoid(precision, hit)}
    for name, rate in covered(draw, truths, count, 600).items():
        assert rate >= 0.93, (name, rate)
