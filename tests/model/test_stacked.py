"""The stack of linear models and gradient boosting: against scikit-learn's own trees, its shares, its files."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

from chronode import ModelSpec, SequenceModel
from chronode.data import from_list
from chronode.model.start import fit_stack, fit_start
from chronode.model.start._boosting import _SETTINGS, fit_boosting, refit_boosting
from chronode.model.start._stacked import StackedStart, shares_of
from chronode.training import Settings, fit


def holes(rng, rows, columns):
    """Features that float32 holds exactly, a fifth of them unknown, one column never known."""
    x = rng.normal(size=(rows, columns)).astype(np.float32).astype(float)
    x[rng.random(x.shape) < 0.2] = np.nan
    x[:, columns // 2] = np.nan
    return x


@pytest.mark.parametrize("classes", [2, 3, 0])
def test_trees_as_arrays_predict_as_scikit_learn(classes):
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    rng = np.random.default_rng(classes)
    x, new = holes(rng, 200, 5), holes(rng, 60, 5)
    score = np.nan_to_num(x[:, 0]) + np.nan_to_num(x[:, 1]) ** 2
    y = np.digitize(score, [0.5, 1.5][: classes - 1]) if classes else np.stack([score, -x[:, 4]], axis=1)
    y = np.nan_to_num(y)
    trees = refit_boosting(torch.tensor(x), torch.tensor(y), classes, 30, seed=4)
    known = [0, 1, 3, 4]
    options = {**_SETTINGS, "max_iter": 30, "random_state": 4, "early_stopping": False, "min_samples_leaf": 13}
    if classes:
        peer = HistGradientBoostingClassifier(**options).fit(x[:, known], y).predict_proba(new[:, known])
        found = trees.of(torch.tensor(new)).softmax(1)
    else:
        peers = [HistGradientBoostingRegressor(**options).fit(x[:, known], own) for own in y.T]
        peer = np.stack([own.predict(new[:, known]) for own in peers], axis=1)
        found = trees.of(torch.tensor(new))
    np.testing.assert_allclose(found.numpy(), peer, rtol=1e-12, atol=1e-12)


def test_the_outputs_after_some_rounds_are_those_of_fewer_trees():
    rng = np.random.default_rng(0)
    x, y = torch.tensor(holes(rng, 90, 3)), torch.tensor(rng.integers(0, 3, 90))
    many, few = (refit_boosting(x, y, 3, rounds) for rounds in (40, 20))
    torch.testing.assert_close(many.after_rounds(x, 20)[:, 0], few.of(x))


def test_a_class_that_is_absent_from_a_fold_has_a_low_chance():
    rng = np.random.default_rng(0)
    y = torch.tensor([0] * 40 + [1] * 38 + [2] * 2)
    x = torch.tensor(rng.normal(size=(80, 3))) + y[:, None]
    folds = torch.arange(80) % 5
    folds[y == 2] = 0  # unknown to the trees of the first fold
    found = fit_boosting(x, y, folds, 3)
    assert found.held_out[y == 2].softmax(1)[:, 2].max() < 0.1
    assert found.trees.of(x[y == 2]).softmax(1)[:, 2].min() > 0.02


def test_boosting_that_is_clearly_worse_in_the_first_fold_is_not_fitted_further(monkeypatch):
    rng = np.random.default_rng(0)
    y = torch.tensor(rng.integers(0, 2, 200))
    perfect = 9.0 * (torch.nn.functional.one_hot(y, 2).double() - 0.5)
    assert fit_boosting(torch.tensor(rng.normal(size=(200, 3))), y, torch.arange(200) % 5, 2, rival=perfect) is None


def test_shares_follow_from_held_out_outputs():
    rng = np.random.default_rng(0)
    goal = torch.tensor(rng.normal(size=(400, 1)))
    errors = torch.tensor(rng.normal(size=(3, 400, 1)))
    share = shares_of(torch.stack([goal + errors[0], goal + errors[1], goal + 9 * errors[2]]), goal, 0)
    assert abs(float(share.sum()) - 1) < 1e-12 and share[2] == 0
    assert share[:2].min() > 0.3  # two models with independent errors of the same size
    alone = shares_of(torch.stack([goal + 0.1 * errors[0], goal + 9 * errors[1]]), goal, 0)
    assert alone.tolist() == [1.0, 0.0]


def steps_and_products(rows=300, seed=0):
    """The class depends on a mean, which is linear, and on the sign of a product of means, which trees see."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 6, 2)) + rng.normal(size=(rows, 1, 2))
    mean = x.mean(1)
    label = mean[:, 0] + 2 * np.sign(mean[:, 0] * mean[:, 1]) > 0
    return from_list(list(x), target=np.where(label, "yes", "no").tolist())


@pytest.fixture(scope="module")
def stacked():
    s = steps_and_products()
    return s, fit_stack(s[:200], s[:0])


def test_trees_take_part_where_a_linear_model_misses_something(stacked):
    s, found = stacked
    linear = fit_start(s[:200], s[:0])
    truth = torch.tensor(s[200:].target.values)
    right = [(fitted.outputs(s[200:]).argmax(1) == truth).double().mean() for fitted in (found, linear)]
    assert isinstance(found.start, StackedStart) and "boosting on summaries" in found.start.kind
    assert right[0] > right[1] + 0.1
    assert found.held_out.shape == (200, 2)


def test_trees_do_not_take_part_by_chance():
    rng = np.random.default_rng(0)
    s = from_list(list(rng.normal(size=(120, 6, 2))), target=rng.choice(["yes", "no"], 120).tolist())
    assert "boosting" not in fit_stack(s, s[:0]).start.kind
    assert not any("boosting" in kind for kind in fit_stack(steps_and_products()[:99], s[:0]).losses)


def test_a_stack_is_saved_and_loaded_without_pickles(stacked, tmp_path):
    s, found = stacked
    trained = fit(s[:200], "gru", Settings(epochs=1), valid=s[200:], start=found)
    torch.nn.init.normal_(trained.model.head.weight)
    before = trained.model(s[200:].batch().x)
    loaded = SequenceModel.load(trained.model.save(tmp_path / "model"))
    torch.testing.assert_close(loaded(s[200:].batch().x), before, rtol=0, atol=0)
    assert loaded.title == trained.model.title == "stack + gru"


def test_a_stack_cannot_be_streamed_or_exported_and_says_what_to_do(stacked):
    s, found = stacked
    trained = fit(s[:200], "gru", Settings(epochs=1), valid=s[200:], start=found)
    for capability in ("step", "export c", "export onnx"):
        refused = trained.can(capability)
        assert refused.argument == "start" and "summaries" in refused.cure
    assert trained.can("predict") is None


def test_a_refit_of_a_stack_keeps_its_members(stacked):
    s, found = stacked
    again = found.refitted(s[:200], s[200:].with_classes(s.classes))
    assert [own["kind"] for own in again.description["members"]] == [
        own["kind"] for own in found.description["members"]
    ]
    assert torch.equal(again.start.get_buffer("share"), found.start.get_buffer("share"))
    assert not torch.equal(again.outputs(s[:5]), found.outputs(s[:5]))


def test_the_networks_of_an_ensemble_learn_as_they_would_alone(tmp_path):
    """With plain gradient descent and no clipping, the only thing they share is the order of the batches."""
    s = steps_and_products(60)
    settings = Settings(epochs=1, batch_size=10, optimizer="sgd", learning_rate=0.1, clip=0.0)
    spec = ModelSpec.for_data(s, "gru", 4, ensemble=3)
    ensemble = SequenceModel.build(spec)
    copies = [copy.deepcopy(network) for network in ensemble.networks]
    copies[0].others = torch.nn.ModuleList()
    trained = fit(s[:40], ensemble, settings, valid=s[:40])
    # The gradient of a mean over three networks is a third of that of each.
    alone = [fit(s[:40], own, replace(settings, learning_rate=0.1 / 3), valid=s[:40]) for own in copies]
    x = s.batch().x
    assert {trained.best_epoch, *(own.best_epoch for own in alone)} == {1}
    mean = torch.stack([own.model(x) for own in alone]).mean(0)
    torch.testing.assert_close(trained.model(x), mean, rtol=1e-4, atol=1e-5)
    loaded = SequenceModel.load(trained.model.save(tmp_path / "model"))
    torch.testing.assert_close(loaded(x), trained.model(x), rtol=0, atol=0)
    assert loaded.title == "3 × gru" and trained.can("export c").argument == "ensemble"
