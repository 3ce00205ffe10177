"""Weights of series: metrics as in scikit-learn, fits as with repeated series, and errors that name the place."""

from dataclasses import replace

import numpy as np
import pytest
import sklearn.metrics as sk
import torch

from chronode.data import from_channel_rows, from_long, from_series_rows, load
from chronode.data._windows import concat, windows
from chronode.judge import metric_intervals, rates_at
from chronode.judge._baselines import measured_baselines
from chronode.judge._intervals import weighted_metric
from chronode.model.start._boosting import fit_boosting
from chronode.model.start._linear import LOGISTIC_PENALTIES, _logistic_path, _minimize, _ridge_path, newton
from chronode.settings import SettingError
from chronode.training import Objective, Parts, Settings, class_counts, fit
from chronode.training._metrics import CLASS_METRICS, TWO_CLASSES, VALUE_METRICS, Scores

RNG = np.random.default_rng(0)
ROWS = 60
WEIGHTS = RNG.integers(0, 4, ROWS).astype(np.float64)
TIMES = np.repeat(np.arange(ROWS), WEIGHTS.astype(int))  # each row as often as it counts


@pytest.mark.parametrize("classes", [2, 3])
def test_metrics_of_classes(classes):
    logits = torch.from_numpy(RNG.normal(size=(ROWS, classes)).round(1))
    true = torch.from_numpy(RNG.integers(0, classes, ROWS))
    names = tuple(name for name in CLASS_METRICS if classes == 2 or name not in TWO_CLASSES)
    weighted, repeated = (Scores(names, classes) for _ in range(2))
    for part in (slice(0, 23), slice(23, None)):
        weighted.update(logits[part], true[part], torch.from_numpy(WEIGHTS[part]))
    repeated.update(logits[TIMES], true[TIMES])
    assert weighted.compute() == pytest.approx(repeated.compute(), rel=1e-12)
    predicted = logits.argmax(-1)
    assert weighted.compute()["accuracy"] == pytest.approx(sk.accuracy_score(true, predicted, sample_weight=WEIGHTS))
    if classes == 2:
        chances = logits.softmax(-1)[:, 1]
        assert weighted.compute()["auroc"] == pytest.approx(sk.roc_auc_score(true, chances, sample_weight=WEIGHTS))
        found = rates_at(chances, true == 1, [0.3, 0.6], WEIGHTS)
        same = rates_at(chances[TIMES], true[TIMES] == 1, [0.3, 0.6])
        np.testing.assert_allclose(found.net_benefit, same.net_benefit)
        np.testing.assert_allclose(found.missed, same.missed)


def test_metrics_of_values():
    output, true = (torch.from_numpy(RNG.normal(size=(ROWS, 2))) for _ in range(2))
    true[5, 1] = torch.nan
    weighted, repeated = (Scores(tuple(VALUE_METRICS), 2) for _ in range(2))
    for part in (slice(0, 23), slice(23, None)):
        weighted.update(output[part], true[part], torch.from_numpy(WEIGHTS[part]))
    repeated.update(output[TIMES], true[TIMES])
    assert weighted.compute() == pytest.approx(repeated.compute(), rel=1e-12)


def test_intervals_are_those_of_rows_that_count_as_often():
    chances = torch.from_numpy(RNG.normal(size=(ROWS, 2))).softmax(-1).numpy()
    true, place, drawn = RNG.integers(0, 2, ROWS), np.arange(ROWS), RNG.integers(0, 3, (5, ROWS)).astype(float)
    for metric in ("accuracy", "auroc", "f1", "cross_entropy"):
        found = weighted_metric(metric, chances, true, place, drawn, 1, WEIGHTS)
        same = weighted_metric(metric, chances[TIMES], true[TIMES], place[TIMES], drawn)
        np.testing.assert_allclose(found, same)
    ends = metric_intervals(("accuracy",), chances, true, place, WEIGHTS / WEIGHTS.mean())["accuracy"]
    value = sk.accuracy_score(true, chances.argmax(-1), sample_weight=WEIGHTS)
    assert ends[0] < value < ends[1]
    plain = metric_intervals(("accuracy",), chances, true, place)["accuracy"]
    assert ends[1] - ends[0] > plain[1] - plain[0]  # unequal weights leave fewer rows that count


def test_linear_models_are_those_of_repeated_rows():
    x, weights = torch.from_numpy(RNG.normal(size=(ROWS, 4))), torch.from_numpy(WEIGHTS)
    y, label = x[:, :1] + 0.3 * torch.from_numpy(RNG.normal(size=(ROWS, 1))), (x[:, 0] > 0.2).long()
    label[:4] = 1 - label[:4]
    for solve, goal in ((_ridge_path, y), (_logistic_path, label)):
        found = solve(x, goal, LOGISTIC_PENALTIES, 2, weights)
        same = solve(x[TIMES], goal[TIMES], LOGISTIC_PENALTIES, 2)
        for (weight, bias), (other, other_bias) in zip(found, same, strict=True):
            torch.testing.assert_close(weight, other, rtol=1e-6, atol=1e-8)
            if goal is label:  # the same number added to all biases changes nothing
                bias, other_bias = bias - bias.mean(), other_bias - other_bias.mean()
            torch.testing.assert_close(bias, other_bias, rtol=1e-6, atol=1e-8)
    points = []
    for minimize in (newton, _minimize):
        weight, bias = torch.zeros(4, 2).double().requires_grad_(), torch.zeros(2).double().requires_grad_()
        for _ in range(5):
            minimize(x, label, weight, bias, 0.01, weights / weights.mean())
        points.append(weight.detach())
    torch.testing.assert_close(points[0], points[1], rtol=1e-3, atol=1e-4)


def test_boosting_takes_weights():
    x = torch.from_numpy(RNG.normal(size=(200, 2)))
    label, folds = (x[:, 0] > 0).long(), torch.arange(200) % 5
    wrong = torch.cat([label[:100], 1 - label[100:]])
    weights = torch.cat([torch.ones(100), torch.zeros(100)]).double()
    found = fit_boosting(x, wrong, folds, 2, weights=weights)
    assert found is not None
    right = (found.held_out.argmax(-1) == label)[:100].double().mean()
    assert right > 0.9  # the other half, whose labels are wrong, does not count


def both_halves():
    """Series whose second half has the opposite labels, and weights that leave it out."""
    rows, values = np.repeat(np.arange(80), 3), RNG.normal(size=240).round(2)
    up = np.add.reduceat(values, np.arange(0, 240, 3)) > 0
    first = rows < 40
    table = {"who": rows, "x": values, "y": np.where(first, up[rows], ~up[rows]), "w": np.where(first, 2.0, 0.0)}
    return from_long(table, id="who", target="y", weight="w")


def test_training_and_baselines_follow_the_weights():
    s = both_halves()
    assert s.weights.tolist() == [2.0] * 40 + [0.0] * 40 and "w" not in s.channels
    parts = Parts(s[::2], s[1::2], s[1::2])
    for start in ("linear", "stacked"):
        trained = fit(parts, "gru", Settings(epochs=1), start=start)
        assert trained.evaluate(parts.test)["accuracy"] > 0.8
        plain = replace(parts.test, weights=None)
        assert trained.evaluate(plain)["accuracy"] < 0.7
    goal = Objective.for_data(parts.train)
    found = measured_baselines(goal, parts).overall
    assert found["linear (summaries)"]["accuracy"] > 0.7
    assert class_counts(s, weighted=True).sum() == pytest.approx(80) and class_counts(s).sum() == 80


def test_parts_files_and_windows_keep_the_weights(tmp_path):
    s = both_halves()
    assert s[[3, 50]].weights.tolist() == [2.0, 0.0] and s.batch([50, 3]).weights.tolist() == [0.0, 2.0]
    assert windows(s[39:41], 2, 1).weights.tolist() == [2.0, 2.0, 0.0, 0.0]
    assert concat([s[:1], replace(s[1:2], weights=None)]).weights.tolist() == [2.0, 1.0]
    assert load(s.save(tmp_path / "a.npz")).weights.tolist() == s.weights.tolist()
    table = {"id": ["a", "b"], "w": [1, 3], "t0": [1, 2], "t1": [2, 3], "y": [0, 1]}
    assert from_series_rows(table, id="id", weight="w", target="y").weights.tolist() == [1.0, 3.0]
    readings = {"id": ["a", "b"], "t": [0, 1], "c": ["x", "x"], "v": [1.0, 2.0], "w": [1, 3]}
    s = from_channel_rows(readings, id="id", time="t", channel="c", value="v", weight="w")
    assert s.weights.tolist() == [1.0, 3.0] and not s.notes


@pytest.mark.parametrize(
    ("weights", "problem"),
    [
        ([1, -2, 1, 1], "the weight of row 2 is -2 .1 such row.: weights are 0 or larger"),
        ([1, float("inf"), 1, 1], "the weight of row 2 is inf"),
        ([1, 1, None, None], "id b has no weight .1 such id."),
        ([1, 1, 1, 2], "id b has more than one weight"),
        (["1", "2", "x", "1"], "row 3 is not a number: 'x'"),
        ([0, 0, 0, 0], "every weight is 0"),
    ],
)
def test_refused(weights, problem):
    with pytest.raises(SettingError, match=f"weight='w': {problem}"):
        from_long({"id": list("aabb"), "x": [1, 2, 3, 4], "w": weights}, id="id", weight="w")
