"""Classifier and regressor: what they take, what they give, and scikit-learn's tools around them."""

import json
import pickle
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import chronode.estimators.base as base
from chronode.data import from_list, from_numpy
from chronode.estimators import SequenceClassifier, SequenceRegressor

QUICK = {"hidden_size": 6, "epochs": 2, "random_state": 0}


def waves(count=24, channels=2, steps=9, seed=0):
    """Series (n, channels, time) whose mean tells their class."""
    dice = np.random.default_rng(seed)
    y = np.arange(count) % 2
    return dice.normal(size=(count, channels, steps)) + y[:, None, None], y


def classifier(**told):
    return SequenceClassifier("gru", **{**QUICK, **told})


@pytest.fixture(scope="module")
def fitted():
    return classifier().fit(*waves())


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

    def spy(train, model, settings, *, valid, scaler):
        seen.update(train=train, valid=valid)
        return fit(train, model, settings, valid=valid, scaler=scaler)

    fit = base.fit
    monkeypatch.setattr(base, "fit", spy)
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
    times = np.cumsum(np.random.default_rng(3).uniform(0.5, 2, size=(24, 9)), axis=1)
    clf = SequenceClassifier("mmrnn", **QUICK).fit(X, y, times=times)
    scaled = torch.tensor((X.transpose(0, 2, 1) - clf.scaler_.mean) / clf.scaler_.std, dtype=torch.float32)
    dt = torch.tensor(np.diff(times, axis=1, prepend=times[:, :1]), dtype=torch.float32)
    with torch.no_grad():
        chances = clf.model_(scaled, dt=dt).softmax(-1).numpy()
    np.testing.assert_allclose(clf.predict_proba(X, times=times), chances, atol=1e-6)
    assert np.abs(clf.predict_proba(X, times=2 * times) - chances).max() > 1e-4


# ---- every kind of input -------------------------------------------------------------------------------------


def long_frame(X, y, times):
    rows = [(f"s{i:02d}", t, *X[i, :, k], y[i]) for i in range(len(X)) for k, t in enumerate(times[i])]
    return pd.DataFrame(rows, columns=["who", "when", "x0", "x1", "label"])


def test_all_kinds_of_input_give_the_same_model_and_answers():
    X, y = waves()
    times = np.cumsum(np.random.default_rng(3).uniform(0.5, 2, size=(24, 9)), axis=1)
    frame = long_frame(X, y, times)
    s = from_numpy(X, order="NDT", times=times, target=y)
    kinds = {
        "NDT": ({}, (X, y), {"times": times}),
        "NTD": ({"order": "NTD"}, (X.transpose(0, 2, 1), y), {"times": times}),
        "list": ({}, (list(X), y), {"times": list(times)}),
        "list NTD": ({"order": "NTD"}, ([x.T for x in X], y), {"times": list(times)}),
        "Sequences": ({}, (s, y), {}),
        "Sequences with their target": ({}, (s,), {}),
        "Series": ({}, (list(s), y), {}),
        "pandas": ({}, (frame.sample(frac=1, random_state=0), "label"), {"times": "when", "ids": "who"}),
        "polars": ({}, (pl.DataFrame(frame), "label"), {"times": "when", "ids": "who"}),
        "columns": ({}, (dict(frame.items()), "label"), {"times": "when", "ids": "who"}),
    }
    chances = {}
    for name, (told, data, more) in kinds.items():
        clf = classifier(**told).fit(*data, **more)
        again = {} if isinstance(data[0], (pd.DataFrame, pl.DataFrame, dict)) else more  # a frame's columns are known
        chances[name] = clf.predict_proba(data[0], **again)
        assert clf.n_features_in_ == 2
        assert clf.score(*data, **again) == (clf.predict(data[0], **again).astype(int) == y).mean()
    for name, found in chances.items():
        np.testing.assert_allclose(found, chances["NDT"], atol=2e-5, err_msg=name)


def test_a_two_dimensional_array_is_series_of_one_channel():
    X, y = waves(channels=1)
    one, other = classifier().fit(X, y), classifier().fit(X[:, 0], y)
    assert (one.predict_proba(X) == other.predict_proba(X[:, 0])).all()
    assert (one.predict_proba(X) == other.predict_proba(pd.DataFrame(X[:, 0]))).all()
    assert (one.predict_proba(X) == other.predict_proba(X[:, 0].tolist())).all()


def test_frames_keep_names_and_types():
    X, y = waves()
    frame = long_frame(X, np.array([3.0, 7.0])[y], np.tile(np.arange(9), (24, 1)))
    clf = classifier().fit(frame, "label", times="when", ids="who")
    assert clf.feature_names_in_.tolist() == ["x0", "x1"]
    assert clf.classes_.tolist() == [3.0, 7.0] and clf.classes_.dtype == float
    swapped = frame[["x1", "label", "x0", "who", "when"]]
    assert (clf.predict_proba(swapped) == clf.predict_proba(frame)).all()
    with pytest.raises(ValueError, match="x1"):
        clf.predict(frame.drop(columns="x1"))
    assert not hasattr(clf.fit(X, y), "feature_names_in_")


@given(st.permutations(range(8)), st.integers(0, 5))
@settings(max_examples=15, deadline=None)
def test_answers_follow_the_order_of_the_series(fitted, order, seed):
    dice = np.random.default_rng(seed)
    X = [dice.normal(size=(2, n)) for n in dice.integers(1, 12, size=8)]
    np.testing.assert_allclose(
        fitted.predict_proba([X[i] for i in order]), fitted.predict_proba(X)[list(order)], atol=1e-6
    )


def test_dates_in_another_unit_mean_the_same():
    X, y = waves(channels=1)
    hours = np.cumsum(np.random.default_rng(3).integers(1, 4, size=(24, 9)), axis=1)
    dates = np.datetime64("2024-01-01T00") + hours.astype("timedelta64[h]")
    clf = SequenceClassifier("mmrnn", **QUICK).fit(X, y, times=dates)
    assert clf.clock_.unit == "hour"
    here = clf.predict_proba(X, times=dates)
    np.testing.assert_allclose(clf.predict_proba(X, times=dates.astype("datetime64[s]")), here, atol=1e-6)
    in_days = from_numpy(X, order="NDT", times=dates, unit="days")
    np.testing.assert_allclose(clf.predict_proba(in_days), here, atol=1e-5)


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
    times = np.cumsum(np.random.default_rng(3).uniform(0.5, 2, size=(24, 9)), axis=1)
    s = from_numpy(X, order="NDT", times=times, target=y)
    groups = np.repeat(np.arange(6), 4)
    told = cross_val_score(classifier(), s, y, groups=groups, cv=GroupKFold(3))
    rows = [np.flatnonzero(~np.isin(np.arange(24), test)) for _, test in GroupKFold(3).split(X, y, groups)]
    by_hand = []
    for train in rows:
        test = np.setdiff1d(np.arange(24), train)
        clf = classifier().fit(X[train], y[train], times=times[train])
        by_hand.append(clf.score(X[test], y[test], times=times[test]))
    np.testing.assert_allclose(told, by_hand)


def test_times_are_routed():
    X, y = waves()
    times = [np.cumsum(np.ones(9)) * (1 + i % 3) for i in range(24)]
    with sklearn.config_context(enable_metadata_routing=True):
        clf = classifier().set_fit_request(times=True).set_score_request(times=True)
        told = cross_val_score(clf, list(X), y, cv=2, params={"times": times}, error_score="raise")
    assert np.isfinite(told).all()


# ---- going on ------------------------------------------------------------------------------------------------


def test_continue_fit_starts_from_the_weights():
    X, y = waves()
    clf = classifier().fit(X, y)
    before, history = clf.predict_proba(X), len(clf.history_)
    clf.set_params(learning_rate=1e-12).continue_fit(X, y, epochs=1)
    np.testing.assert_allclose(clf.predict_proba(X), before, atol=1e-6)
    assert len(clf.history_) == history + 1 and clf.best_epoch_ == history + 1
    clf.set_params(learning_rate=0.01).continue_fit(X[:1], y[:1], epochs=40)  # one class alone is fine here
    assert clf.predict_proba(X[:1])[0, y[0]] > before[0, y[0]]


def test_ctrl_c_ends_fit_with_what_was_learnt_so_far(monkeypatch):
    fit = base.fit
    monkeypatch.setattr(base, "fit", lambda *data, **told: replace(fit(*data, **told), stopped="interrupted"))
    X, y = waves()
    clf = classifier()
    with pytest.raises(KeyboardInterrupt):
        clf.fit(X, y)
    assert set(clf.predict(X)) <= {0, 1} and len(clf.history_) == 2


def test_continue_fit_refuses_new_classes_and_stays_as_it_was(fitted):
    X, y = waves()
    before = fitted.predict_proba(X)
    with pytest.raises(ValueError, match=r"did not see: \[5\]; it saw \[0, 1\]"):
        fitted.continue_fit(X, np.where(y == 1, 5, 0))
    with pytest.raises(ValueError, match="channels"):
        fitted.continue_fit(X[:, :1], y)
    assert (fitted.predict_proba(X) == before).all()


# ---- files ---------------------------------------------------------------------------------------------------


def test_save_and_load(tmp_path):
    X, y = waves()
    frame = long_frame(X, y, np.tile(np.arange(9), (24, 1)))
    clf = classifier(hidden_size=np.int64(6), settings={"bidirectional": True}, training={"weight_decay": 0.01})
    clf.fit(frame, "label", times="when", ids="who")
    folder = clf.save(tmp_path / "clf")
    assert sorted(p.name for p in folder.iterdir()) == ["estimator.json", "model.json", "model.safetensors"]
    loaded = SequenceClassifier.load(folder)
    assert (loaded.predict_proba(frame) == clf.predict_proba(frame)).all()
    assert loaded.get_params() == clf.get_params()
    assert loaded.history_ == clf.history_ and loaded.feature_names_in_.tolist() == ["x0", "x1"]
    assert loaded.continue_fit(frame, "label", epochs=1).best_epoch_ == 3
    clf.set_params(random_state=np.random.RandomState(0)).save(folder)
    assert SequenceClassifier.load(folder).random_state is None


def test_load_refuses_what_is_not_its_own(fitted, tmp_path):
    with pytest.raises(FileNotFoundError, match="save"):
        SequenceClassifier.load(tmp_path)
    folder = fitted.save(tmp_path / "clf")
    with pytest.raises(ValueError, match=r"use SequenceClassifier\.load"):
        SequenceRegressor.load(folder)
    path = folder / "estimator.json"
    facts = json.loads(path.read_text())
    for text in ("{", "[]", json.dumps({**facts, "arguments": {"depth": 3}}), json.dumps({**facts, "clock": 3})):
        path.write_text(text)
        with pytest.raises(ValueError, match=r"estimator\.json"):
            SequenceClassifier.load(folder)
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="folder"):
        fitted.save(tmp_path / "file")
    with pytest.raises(NotFittedError):
        classifier().save(tmp_path / "none")


def test_the_examples_of_the_documentation_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (Path(__file__).parents[2] / "docs" / "estimators.md").read_text(encoding="utf-8")
    names: dict = {}
    for example in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(example, names)
    assert (tmp_path / "gait" / "estimator.json").is_file() and names["forecaster"].predict(names["waves"]).shape == (
        20,
        3,
        1,
    )


# ---- mistakes ------------------------------------------------------------------------------------------------

X, Y = waves()
TIMES = np.tile(np.arange(9.0), (24, 1))


@pytest.mark.parametrize(
    ("told", "data", "more", "match"),
    [
        ({}, (X, np.zeros(24)), {}, "one class only"),
        ({}, (X, None), {}, "requires y"),
        ({}, (X, np.where(Y == 1, np.nan, 0)), {}, "NaN"),
        ({}, (X, Y[:-1]), {}, "inconsistent"),
        ({}, (X, Y + 0.5 * np.arange(24)), {}, "continuous"),
        ({}, (X[:0], Y[:0]), {}, "0 sample"),
        ({}, ([], []), {}, "1D array"),
        ({}, (np.where(X > 1, np.inf, X), Y), {}, "infinity"),
        ({"order": "TDN"}, (X, Y), {}, "order='TDN'"),
        ({}, (X.transpose(0, 2, 1), Y), {"times": TIMES}, r"Did you mean order='NTD'\?"),
        ({}, ([x.T[: 3 + i % 5] for i, x in enumerate(X)], Y), {}, r"3 to 7 channels .* Did you mean order='NTD'\?"),
        ({}, (X, Y), {"ids": "who"}, "frame"),
        ({}, (from_list(list(X.transpose(0, 2, 1))), Y), {"times": TIMES}, "own times"),
        ({}, (from_list([[1.0, 2.0]] * 4, target=[[0, 1]] * 4), None), {}, "every step"),
        ({}, (X, Y), {"groups": [1, 2]}, "groups"),
        ({"settings": {"hidden_size": 3}}, (X, Y), {}, "give hidden_size="),
        ({"training": {"seed": 3}}, (X, Y), {}, "give random_state="),
        ({"training": {"learning": 3}}, (X, Y), {}, "learning_rate"),
        ({"validation": 1.5}, (X, Y), {}, "validation"),
    ],
)
def test_mistakes_are_told(told, data, more, match):
    with pytest.raises(ValueError, match=match):
        classifier(**told).fit(*data, **more)


def test_an_unknown_setting_of_the_model_is_told():
    with pytest.raises(TypeError, match=r"no setting 'depht'"):
        classifier(settings={"depht": 3}).fit(X, Y)


def test_mistakes_in_a_frame_are_told():
    frame = long_frame(X, Y, TIMES)
    with pytest.raises(TypeError, match="y must be the name of a column"):
        classifier().fit(frame, Y, ids="who")
    with pytest.raises(ValueError, match="'label'"):
        classifier().fit(frame, "lable", ids="who")
    for X_, y in ((frame, "label"), (dict(frame.items()), None)):
        with pytest.raises(ValueError, match="give ids="):
            classifier().fit(X_, y)
    with pytest.raises(TypeError, match="times must be the name"):
        classifier().fit(frame, "label", ids="who", times=TIMES)


@pytest.mark.parametrize(
    ("given", "more", "match"),
    [
        (X[:, :1], {}, "1 channels, those of training 2"),
        (X[:, :, :2].transpose(0, 2, 1)[:, :1], {}, "1 channels"),
        (X.transpose(0, 2, 1), {}, r"9 channels, those of training 2\. Did you mean order='NTD'\?"),
        (X, {"times": TIMES}, "times of two kinds"),
        (from_list(list(X.transpose(0, 2, 1)), channels=["a", "b"]), {}, None),
    ],
)
def test_series_that_are_not_like_those_of_training(fitted, given, more, match):
    if match is None:
        assert len(fitted.predict(given, **more)) == 24
        return
    with pytest.raises(ValueError, match=match):
        fitted.predict(given, **more)


def test_other_names_of_channels_are_refused_with_what_differs():
    named = from_numpy(X, order="NDT", channels=["hr", "bp"], target=Y)
    clf = classifier().fit(named)
    with pytest.raises(ValueError, match=r"missing \['bp'\], not known \['temp'\]"):
        clf.predict(from_numpy(X, order="NDT", channels=["hr", "temp"]))
    with pytest.raises(ValueError, match=r"order \['bp', 'hr'\]"):
        clf.predict(from_numpy(X, order="NDT", channels=["bp", "hr"]))
    with pytest.raises(NotFittedError):
        classifier().predict(X)
