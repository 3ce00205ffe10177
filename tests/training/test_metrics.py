"""Metrics against torchmetrics and scikit-learn, in one batch and in many."""

from __future__ import annotations

import math

import numpy as np
import pytest
import sklearn.metrics
import torch
import torchmetrics.functional as oracle
import torchmetrics.functional.classification as by_class
from hypothesis import given, settings
from hypothesis import strategies as st

from chronode.training._metrics import CLASS_METRICS, TWO_CLASSES, VALUE_METRICS, Scores

CASES = st.tuples(st.integers(0, 2**32 - 1), st.integers(2, 60), st.integers(2, 5), st.booleans())


def scored(names, outputs, target, pieces, positive=1):
    scores = Scores(names, outputs.shape[1], positive)
    for rows in np.array_split(np.arange(len(outputs)), pieces):
        scores.update(outputs[rows], target[rows])
    return scores.compute()


@settings(max_examples=60, deadline=None)
@given(CASES, st.integers(1, 4), st.integers(0, 1))
def test_class_metrics_are_those_of_the_libraries(case, pieces, positive):
    seed, count, classes, ties = case
    rng = torch.Generator().manual_seed(seed)
    logits = torch.randn(count, classes, generator=rng)
    if ties:
        logits = logits.round()
    target = torch.randint(classes, (count,), generator=rng)
    names = tuple(name for name in CLASS_METRICS if name not in TWO_CLASSES or classes == 2)
    found = scored(names, logits, target, pieces, positive)
    chances = logits.double().softmax(-1)
    assert found["accuracy"] == pytest.approx(float((logits.argmax(-1) == target).double().mean()))
    called = logits.argmax(-1)
    f1 = by_class.binary_f1_score((called == positive).int(), (target == positive).int()) if classes == 2 else None
    f1 = by_class.multiclass_f1_score(logits.argmax(-1), target, classes) if f1 is None else f1
    assert found["f1"] == pytest.approx(float(f1), abs=1e-6)
    recalls = [float((called[target == k] == k).double().mean()) for k in range(classes) if (target == k).any()]
    assert found["balanced_accuracy"] == pytest.approx(np.mean(recalls))
    if classes == 2:
        for name, one in (("sensitivity", positive), ("specificity", 1 - positive)):
            wanted = float((called[target == one] == one).double().mean())
            assert found[name] == pytest.approx(wanted, nan_ok=True)
    entropy = sklearn.metrics.log_loss(target, chances.numpy(), labels=list(range(classes)))
    assert found["cross_entropy"] == pytest.approx(entropy, rel=1e-5)
    assert found["perplexity"] == pytest.approx(math.exp(entropy), rel=1e-5)
    present = [k for k in ([positive] if classes == 2 else range(classes)) if 0 < int((target == k).sum()) < count]
    for name, measure in (
        ("auroc", sklearn.metrics.roc_auc_score),
        ("auprc", sklearn.metrics.average_precision_score),
    ):
        wanted = [measure(target == k, chances[:, k].numpy()) for k in present]
        assert found[name] == pytest.approx(np.mean(wanted) if wanted else math.nan, nan_ok=True, abs=1e-9)
    if classes == 2 and present:
        precision, recall, _ = sklearn.metrics.precision_recall_curve(target == positive, chances[:, positive].numpy())
        assert found["min_se_ppv"] == pytest.approx(np.minimum(precision, recall).max(), abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(CASES, st.integers(1, 4), st.sampled_from([0.0, 1e5]))
def test_value_metrics_are_those_of_the_libraries(case, pieces, level):
    seed, count, columns, holes = case
    rng = torch.Generator().manual_seed(seed)
    target = torch.randn(count, columns, generator=rng, dtype=torch.float64) + level
    output = target + torch.randn(count, columns, generator=rng, dtype=torch.float64)
    if holes:
        target[torch.rand(count, columns, generator=rng) < 0.2] = math.nan
    found = scored(VALUE_METRICS, output, target, pieces)
    known = ~target.isnan()
    if known.any():
        error = output[known] - target[known]
        assert found["mse"] == pytest.approx(float(oracle.mean_squared_error(output[known], target[known])))
        assert found["rmse"] == pytest.approx(math.sqrt(found["mse"]))
        assert found["mae"] == pytest.approx(float(error.abs().mean()))
        assert found["nrmse"] == pytest.approx(float(error.norm() / target[known].norm()))
    rows = known.all(-1)
    wanted = sklearn.metrics.r2_score(target[rows], output[rows]) if rows.sum() > 1 else math.nan
    assert found["r2"] == pytest.approx(wanted, nan_ok=True, rel=1e-6, abs=1e-9)


def test_a_class_that_does_not_occur_is_left_out_of_the_areas():
    logits = torch.eye(3)[[0, 1, 1, 0]]
    found = scored(("auroc", "auprc"), logits, torch.tensor([0, 1, 1, 0]), 1)
    assert found == {"auroc": 1.0, "auprc": 1.0}
    assert math.isnan(scored(("auroc",), logits, torch.zeros(4, dtype=torch.int64), 1)["auroc"])


def test_a_target_that_never_changes_has_r2_0_or_1():
    flat = torch.ones(4, 1)
    assert scored(("r2",), flat, flat, 2)["r2"] == 1
    assert scored(("r2",), flat + 1, flat, 2)["r2"] == 0


def test_very_many_classes_need_memory_for_their_counts_only():
    # A confusion matrix of these classes would take 320 GB.
    scores, target = Scores(("accuracy", "f1", "perplexity"), 200_000), torch.tensor([3, 199_999, 5])
    output = torch.zeros(3, 200_000)
    output[[0, 1, 2], [3, 199_999, 7]] = 50.0
    scores.update(output, target)
    found = scores.compute()
    assert found["accuracy"] == pytest.approx(2 / 3)
    assert found["f1"] == pytest.approx(2 / 4)  # classes 3 and 199,999 have 1; 5 and 7 have 0
    assert found["perplexity"] == pytest.approx(math.exp(50 / 3), rel=1e-4)
