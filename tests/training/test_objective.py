import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk
from sklearn.utils.class_weight import compute_class_weight

from chronode.data import Scaler, from_list
from chronode.lab.tasks.bitstream import bitstream
from chronode.training._metrics import CLASS_METRICS, TWO_CLASSES, VALUE_METRICS, Scores
from chronode.training._objective import Objective
from chronode.training._task import METRICS, find_task


def class_objective(classes, **options):
    metrics = tuple(name for name in CLASS_METRICS if classes == 2 or name not in TWO_CLASSES)
    options = {"metric": "accuracy", "metrics": metrics, **options}
    return Objective("class", classes, True, loss="cross_entropy", **options)


def value_objective(columns, **options):
    return Objective("value", columns, True, "rmse", VALUE_METRICS, "squared", **options)


def expected_of_classes(logits, labels):
    chances = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    said, binary = logits.argmax(1), logits.shape[1] == 2
    occurs = [c for c in range(logits.shape[1]) if 0 < (labels == c).sum() < len(labels)]
    areas, precisions = (
        [score(labels == c, chances[:, c]) for c in occurs] for score in (sk.roc_auc_score, sk.average_precision_score)
    )
    entropy = -np.log(chances[np.arange(len(labels)), labels]).mean()
    return {
        "accuracy": sk.accuracy_score(labels, said),
        "f1": sk.f1_score(labels, said) if binary else sk.f1_score(labels, said, average="macro"),
        "auroc": areas[-1] if binary else np.mean(areas),
        "auprc": precisions[-1] if binary else np.mean(precisions),
        **({"min_se_ppv": np.minimum(*sk.precision_recall_curve(labels, chances[:, 1])[:2]).max()} if binary else {}),
        "cross_entropy": entropy,
        "perplexity": np.exp(entropy),
    }


@pytest.mark.parametrize("classes", [2, 5])
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6))
@example(seed=1106)  # two chances that are equal in float32
def test_metrics_over_batches_of_mixed_length_are_those_of_all_predictions_together(classes, seed):
    rng = np.random.default_rng(seed)
    objective = class_objective(classes)
    scores, every = objective.scores(), []
    for _ in range(int(rng.integers(1, 5))):
        shape = int(rng.integers(1, 5)), int(rng.integers(1, 9))
        logits, target = rng.normal(size=(*shape, classes)), rng.integers(0, classes, size=shape)
        target[rng.random(shape) < 0.3] = -100
        objective.measure(scores, torch.tensor(logits, dtype=torch.float32), torch.tensor(target))
        every.append((logits[target != -100].astype(np.float32).astype(float), target[target != -100]))
    logits, labels = (np.concatenate(part) for part in zip(*every, strict=True))
    found = scores.compute()
    if len(np.unique(labels)) < 2:
        return  # sklearn has no area for one class
    for name, value in expected_of_classes(logits, labels).items():
        assert found[name] == pytest.approx(value, rel=1e-5, abs=1e-6), name


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), columns=st.integers(1, 3))
def test_metrics_of_values_are_those_of_all_predictions_together(seed, columns):
    rng = np.random.default_rng(seed)
    objective, every = value_objective(columns), []
    scores = objective.scores()
    for _ in range(int(rng.integers(2, 5))):
        shape = int(rng.integers(2, 5)), int(rng.integers(2, 9)), columns
        output, target = rng.normal(size=shape), 1000 + rng.normal(size=shape)
        target[rng.random(shape) < 0.1] = np.nan
        objective.measure(scores, torch.tensor(output), torch.tensor(target))
        every.append((output.reshape(-1, columns), target.reshape(-1, columns)))
    output, target = (np.concatenate(part) for part in zip(*every, strict=True))
    known, rows = ~np.isnan(target), ~np.isnan(target).any(1)
    gaps, found = (output - target)[known], scores.compute()
    assert found["mse"] == pytest.approx((gaps**2).mean())
    assert found["rmse"] == pytest.approx(np.sqrt((gaps**2).mean()))
    assert found["mae"] == pytest.approx(np.abs(gaps).mean())
    assert found["nrmse"] == pytest.approx(np.sqrt((gaps**2).mean() / (target[known] ** 2).mean()))
    assert found["r2"] == pytest.approx(sk.r2_score(target[rows], output[rows]), rel=1e-4)


def test_an_absent_class_does_not_lower_the_area():
    scores = Scores(("auroc",), 3)
    scores.update(torch.tensor([[2.0, 0.0, 0.0], [0.0, 2.0, 0.0]]), torch.tensor([0, 1]))
    assert scores.compute() == {"auroc": 1.0}


@pytest.mark.parametrize("classes", [2, 3])
def test_one_class_alone_has_no_area(classes):
    scores = Scores(("auroc",), classes)
    scores.update(torch.randn(4, classes), torch.ones(4, dtype=torch.int64))
    assert np.isnan(scores.compute()["auroc"])


def test_nothing_known_gives_nan_not_an_error():
    objective = class_objective(2)
    scores = objective.scores()
    objective.measure(scores, torch.zeros(2, 3, 2), torch.full((2, 3), -100))
    assert all(np.isnan(value) for value in scores.compute().values())
    loss = objective.loss_of(torch.zeros(2, 3, 2, requires_grad=True), torch.full((2, 3), -100))
    assert loss.mean.item() == 0


@pytest.mark.parametrize("weights", [None, (0.5, 2.0, 1.0)])
def test_cross_entropy_is_torchs_with_its_weights_over_the_known(weights):
    objective = class_objective(3, class_weights=weights)
    logits, target = torch.randn(4, 6, 3), torch.randint(0, 3, (4, 6))
    target[1, 2:] = -100
    wanted = torch.nn.functional.cross_entropy(
        logits[target >= 0], target[target >= 0], None if weights is None else torch.tensor(weights)
    )
    torch.testing.assert_close(objective.loss_of(logits, target).mean, wanted)


def test_squared_error_is_the_mean_over_known_entries_and_its_gradient_is_finite():
    output = torch.tensor([[[1.0, 2.0], [3.0, 4.0]]], requires_grad=True)
    target = torch.tensor([[[0.0, float("nan")], [float("nan"), 1.0]]])
    loss = value_objective(2).loss_of(output, target).mean
    assert loss.item() == pytest.approx((1 + 9) / 2)
    loss.backward()
    assert output.grad.tolist() == [[[1.0, 0.0], [0.0, 3.0]]]


def test_balanced_weights_are_scikit_learns():
    data = from_list([[1.0]] * 7, target=["a", "b", "b", "c", "c", "c", "c"])
    objective = Objective.for_data(data).with_settings(None, "balanced", data)
    wanted = compute_class_weight("balanced", classes=np.arange(3), y=data.target.values)
    assert objective.class_weights == pytest.approx(wanted)


def test_metrics_of_own_data_are_in_the_targets_units():
    data = from_list([[1.0], [2.0], [3.0]], target=[100.0, 200.0, 600.0])
    scaler = Scaler.fit(data)
    objective = Objective.for_data(scaler.transform(data), scaler=scaler)
    scores = objective.scores()
    target = torch.tensor(scaler.transform(data).target.values)
    objective.measure(scores, torch.zeros(3, 1), target)  # the mean: 300
    assert scores.compute()["mae"] == pytest.approx((200 + 100 + 300) / 3)
    plain = Objective.for_data(scaler.transform(data)).scores()
    Objective.for_data(scaler.transform(data)).measure(plain, torch.zeros(3, 1), target)
    assert plain.compute()["rmse"] == pytest.approx(1.0)  # in standard deviations


def test_every_metric_of_a_task_is_there():
    assert set(METRICS) <= {*CLASS_METRICS, *VALUE_METRICS}
    task = find_task("bitstream")
    objective = Objective.for_task(task, bitstream(4, seed=0))
    assert (objective.loss, objective.metric, objective.num_outputs) == ("cross_entropy", "accuracy", 2)


@pytest.mark.parametrize(
    ("metric", "value", "than", "better"),
    [
        ("accuracy", 0.6, 0.5, True),
        ("accuracy", 0.5, 0.5, False),
        ("loss", 0.6, 0.5, False),
        ("perplexity", 5.0, 6.0, True),
        ("accuracy", float("nan"), None, False),
        ("accuracy", float("nan"), 0.5, False),
        ("accuracy", 0.1, None, True),
    ],
)
def test_better(metric, value, than, better):
    assert class_objective(2, metric=metric).better(value, than) is better


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: class_objective(2, metrics=("rmse",), metric="rmse"), "rmse"),
        (lambda: class_objective(3, metrics=("min_se_ppv",), metric="min_se_ppv").scores(), "needs two classes, got 3"),
        (lambda: class_objective(2, class_weights=(1.0,)), "1 class_weights were given for 2 classes"),
        (lambda: Objective("value", 1, False, "rmse", ("rmse",), "cross_entropy"), "cannot be used for"),
        (lambda: Objective.for_data(from_list([[1.0]])), "no target"),
        (lambda: value_objective(1).with_settings(None, "balanced", bitstream(2, 0)), "a number"),
        (lambda: class_objective(2).with_settings("acuracy", None, bitstream(2, 0)), "Did you mean 'accuracy'"),
    ],
)
def test_what_does_not_fit_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
