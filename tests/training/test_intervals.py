"""Bootstrap intervals: every draw equals the metric of the rows that were drawn, measured by torchmetrics."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from chronode.training._intervals import bootstrap_intervals, weighted_metric
from chronode.training._metrics import CLASS_METRICS, VALUE_METRICS, Scores


def drawn_again(names, predicted, true, place, weights):
    """The oracle: rows repeated as often as their group was drawn, into torchmetrics."""
    rows = np.repeat(np.arange(len(place)), weights[place].astype(int))
    scores = Scores(names, predicted.shape[1])
    scores.update(torch.tensor(predicted[rows]), torch.tensor(true[rows]))
    return scores.compute()


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 4), st.integers(0, 10_000), st.booleans())
def test_classes_are_measured_as_torchmetrics_does(classes, seed, ties):
    rng = np.random.default_rng(seed)
    place = rng.integers(0, 8, 40)
    true = rng.integers(0, classes, 40)
    logits = rng.normal(size=(40, classes)) + np.eye(classes)[true]
    logits = logits.round(0) if ties else logits
    chances = torch.tensor(logits).softmax(-1).numpy()
    weights = rng.multinomial(8, np.full(8, 1 / 8), size=3).astype(float)
    names = tuple(name for name in CLASS_METRICS if classes == 2 or name != "min_se_ppv")
    for draw in weights:
        if not draw[place].any():
            continue
        wanted = drawn_again(names, logits, true, place, draw)
        for name in names:
            (found,) = weighted_metric(name, chances, true, place, draw[None])
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
    low, high = bootstrap_intervals(("mae",), errors[:, None], np.zeros((400, 1)), np.arange(400), draws=4000)["mae"]
    half = 1.96 * errors.std() / 20
    assert (low, high) == pytest.approx((errors.mean() - half, errors.mean() + half), abs=0.15 * half)


def test_rows_of_a_group_are_drawn_together():
    errors = np.repeat([0.0, 1.0], 200)[:, None]
    truth = np.zeros((400, 1))
    apart = bootstrap_intervals(("mae",), errors, truth, np.arange(400))["mae"]
    together = bootstrap_intervals(("mae",), errors, truth, np.repeat(np.arange(8), 50))["mae"]
    assert together[1] - together[0] > 3 * (apart[1] - apart[0])


def test_one_group_has_no_interval():
    assert bootstrap_intervals(("mae",), np.ones((5, 1)), np.zeros((5, 1)), np.zeros(5)) == {}
