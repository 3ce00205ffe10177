"""Classifier and regressor: the numbers they give, and scikit-learn's tools around them."""

import pickle

import numpy as np
import pytest
import sklearn
import torch
from estimator_samples import QUICK, classifier, fitted_classifier, uneven_times, waves
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import chronode.estimators._base as base
from chronode.data import from_numpy
from chronode.estimators import SequenceClassifier, SequenceRegressor

fitted = pytest.fixture(scope="module")(fitted_classifier)

# ---- the same numbers as by hand -----------------------------------------------------------------------------


def test_probabilities_are_the_models_on_scaled_series(fitted):
    X, _ = waves(seed=1)
    mean, std = np.array(fitted.scaler_.mean), np.array(fitted.scaler_.std)
    scaled = (X.transpose(0, 2, 1) - mean) / std
    with torch.no_grad():
        chances = fitted.model_(torch.tensor(scaled, dtype=torch.float32)).softmax(-1)
    np.testing.assert_allclose(fitted.predict_proba(X), chances.numpy(), atol=1e-6)
    assert (fitted.predict(X) == chances.numpy().argmax(1)).all()
    assert fitted.score(X, chances.numpy().argmax(1)) == 1


def test_scaling_sees_the_training_part_alone(monkeypatch):
    seen = {}

    def spy(config, series):
        prepared = prepare(config, series)
        seen.update(train=prepared.parts.train, valid=prepared.parts.valid)
        return prepared

    prepare = base.prepare
    monkeypatch.setattr(base, "prepare", spy)
    X, y = waves()
    groups = np.repeat(np.arange(6), 4)
    classifier(validation=0.3).fit(X, y, groups=groups)
    np.testing.assert_allclose(seen["train"].values.mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(seen["train"].values.std(axis=0), 1, atol=1e-5)
    assert set(seen["train"].groups) | set(seen["valid"].groups) == set(groups)
    assert not set(seen["train"].groups) & set(seen["valid"].groups)
    classifier(validation=0).fit(X, y)
    assert len(seen["train"]) == len(seen["valid"]) == len(X)


def test_times_are_what_the_layer_gets():
    X, y = waves(channels=1)
    times = uneven_times()
    clf = SequenceClassifier("mmrnn", **QUICK).fit(X, y, times=times)
    scaled = torch.tensor((X.transpose(0, 2, 1) - clf.scaler_.mean) / clf.scaler_.std, dtype=torch.float32)
    dt = torch.tensor(np.diff(times, axis=1, prepend=times[:, :1]), dtype=torch.float32)
    with torch.no_grad():
        chances = clf.model_(scaled, dt=dt).softmax(-1).numpy()
    np.testing.assert_allclose(clf.predict_proba(X, times=times), chances, atol=1e-6)
    assert np.abs(clf.predict_proba(X, times=2 * times) - chances).max() > 1e-4


# ---- labels and numbers --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "labels",
    [np.array(["no", "yes"]), np.array(["no", "yes"], dtype=object), np.array([False, True]), np.array([-4, 9])],
    ids=lambda labels: labels.dtype.str,
)
def test_labels_come_back_in_their_own_type(labels, tmp_path):
    X, y = waves()
    clf = classifier().fit(X, labels[y])
    loaded = SequenceClassifier.load(clf.save(tmp_path / "clf"))
    for one in (clf, loaded):
        assert one.classes_.dtype == labels.dtype
        assert one.classes_.tolist() == labels.tolist()
        assert set(one.predict(X).tolist()) <= set(labels.tolist())


def test_numbers_come_back_in_their_own_units_and_shape():
    X, _ = waves(60)
    y = np.stack([1000 + 50 * X.mean(axis=(1, 2)), 0.01 * X[:, 0, -1]], axis=1)
    reg = SequenceRegressor("mmrnn", hidden_size=8, epochs=40, batch_size=8, random_state=0).fit(X, y)
    assert reg.predict(X).shape == (60, 2)
    assert reg.score(X, y) > 0.8
    assert abs(reg.predict(X)[:, 0].mean() - 1000) < 50
    assert SequenceRegressor("gru", **QUICK).fit(X, y[:, 0]).predict(X).shape == (60,)
    s = from_numpy(X, order="NDT", target=y[:, 0])
    assert np.isfinite(SequenceRegressor("gru", **QUICK).fit(s).score(s))


def test_missing_values(fitted):
    X, y = waves()
    X[np.random.default_rng(0).random(X.shape) < 0.3] = np.nan
    assert np.isfinite(classifier().fit(X, y).predict_proba(X)).all()
    with pytest.raises(ValueError, match="missing=True"):
        fitted.predict(X)
    whole, y = waves()
    assert np.isfinite(classifier(missing=True).fit(whole, y).predict_proba(X)).all()


def test_a_series_without_label_is_left_out():
    X, y = waves()
    labels = np.where(np.arange(24) < 20, y, -100)
    s = from_numpy(X, order="NDT", target=labels)
    clf = classifier().fit(s)
    np.testing.assert_array_equal(clf.predict_proba(s)[:20], classifier().fit(X[:20], y[:20]).predict_proba(X[:20]))
    assert len(clf.predict(s)) == 24
    assert clf.score(s) == clf.score(s[:20])


# ---- scikit-learn's tools ------------------------------------------------------------------------------------


def test_clone_pickle_and_seeds(fitted):
    X, y = waves()
    again = clone(fitted).fit(X, y)
    assert (again.predict_proba(X) == fitted.predict_proba(X)).all()
    assert (pickle.loads(pickle.dumps(fitted)).predict_proba(X) == fitted.predict_proba(X)).all()
    assert (classifier(random_state=1).fit(X, y).predict_proba(X) != fitted.predict_proba(X)).any()
    state = torch.get_rng_state()
    clone(fitted).fit(X, y)
    assert (torch.get_rng_state() == state).all()


def test_grid_search_over_a_pipeline_of_unequal_series():
    X, y = waves()
    X = [x[:, : 4 + i % 5] for i, x in enumerate(X)]
    pipe = make_pipeline(FunctionTransformer(), classifier())
    search = GridSearchCV(pipe, {"sequenceclassifier__hidden_size": np.array([2, 3])}, cv=2).fit(X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert set(search.predict(X)) <= {0, 1}


def test_cross_validation_by_group_over_sequences():
    X, y = waves()
    times = uneven_times()
    s = from_numpy(X, order="NDT", times=times, target=y)
    groups = np.repeat(np.arange(6), 4)
    found = cross_val_score(classifier(), s, y, groups=groups, cv=GroupKFold(3))
    rows = [np.flatnonzero(~np.isin(np.arange(24), test)) for _, test in GroupKFold(3).split(X, y, groups)]
    by_hand = []
    for train in rows:
        test = np.setdiff1d(np.arange(24), train)
        clf = classifier().fit(X[train], y[train], times=times[train])
        by_hand.append(clf.score(X[test], y[test], times=times[test]))
    np.testing.assert_allclose(found, by_hand)


def test_times_are_routed():
    X, y = waves()
    times = [np.cumsum(np.ones(9)) * (1 + i % 3) for i in range(24)]
    with sklearn.config_context(enable_metadata_routing=True):
        clf = classifier().set_fit_request(times=True).set_score_request(times=True)
        found = cross_val_score(clf, list(X), y, cv=2, params={"times": times}, error_score="raise")
    assert np.isfinite(found).all()


def test_without_a_named_model_there_is_a_linear_start():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 1, 12))
    y = (X[:, 0, 3] - X[:, 0, 8] > 0).astype(int)
    quick = {"hidden_size": 4, "epochs": 1, "random_state": 0}
    unnamed, named = SequenceClassifier(**quick).fit(X, y), SequenceClassifier("gru", **quick).fit(X, y)
    assert "values" in unnamed.model_.start.kind and named.model_.start is None
    assert unnamed.score(X, y) > 0.9 > named.score(X, y)
    assert SequenceClassifier("gru", start="linear", **quick).fit(X, y).model_.start is not None
