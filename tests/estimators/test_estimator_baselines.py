"""Baselines beside an estimator: on the series that chose its epoch, and what is said of a model that loses."""

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from chronode.data import from_numpy
from chronode.data._split import hold_out
from chronode.estimators import SequenceClassifier, SequenceRegressor


def levels(rows=60, seed=0):
    """Series whose level is the target, for which a linear model is right."""
    rng = np.random.default_rng(seed)
    y = rng.normal(size=rows)
    return y[:, None, None] + 0.1 * rng.normal(size=(rows, 1, 6)), y


def bad(kind, **more):
    """A network that has learned nothing."""
    return kind("gru", hidden_size=2, epochs=1, learning_rate=1e-9, random_state=0, **more)


def test_a_network_that_loses_to_a_linear_model_says_so_with_three_remedies():
    X, y = levels()
    model = bad(SequenceRegressor).fit(X, y)
    train, valid = hold_out(from_numpy(X, order="NDT", target=y), seed=0)
    mean = np.sqrt(np.mean((valid.target.values[:, 0] - train.target.values.mean()) ** 2))
    assert model.baselines_["mean"]["rmse"] == pytest.approx(mean, rel=1e-4)
    means = [part.values.reshape(len(part), -1).mean(1, keepdims=True) for part in (train, valid)]
    line = LinearRegression().fit(means[0], train.target.values[:, 0]).predict(means[1])
    by_hand = np.sqrt(np.mean((valid.target.values[:, 0] - line) ** 2))
    (linear,) = [found for name, found in model.baselines_.items() if name.startswith("linear")]
    assert linear["rmse"] < 2 * by_hand < model.validated_["rmse"]
    assert 'does not beat the baseline "linear' in model.notes_[-1]
    remedies = model.notes_[-1].partition("Most likely to help: ")[2].split("; ")
    assert len(remedies) == 3 and remedies[0] == 'a linear start (start="linear")'
    assert "--" not in model.notes_[-1]


def test_a_classifier_is_compared_with_the_nearest_series_and_the_majority():
    X, y = levels()
    model = bad(SequenceClassifier).fit(X, np.where(y > 0.5, "high", "low"))
    assert {"majority", "nearest by DTW"} < set(model.baselines_)
    assert model.baselines_["nearest by DTW"]["accuracy"] > model.baselines_["majority"]["accuracy"]
    assert "held-out series" in model._repr_mimebundle_()["text/html"]
    assert "nearest by DTW" in model._repr_mimebundle_()["text/html"]


def test_after_a_refit_the_numbers_are_those_of_cross_validation():
    X, y = levels()
    model = SequenceRegressor(epochs=2, budget="5s", random_state=0).fit(X, y)
    assert model.race_.settings.refit
    assert model.validated_ == model.race_.chosen.metrics
    assert model.baselines_["linear start alone"]["rmse"] < 0.2


def test_without_held_out_series_there_is_nothing_to_compare():
    X, y = levels(20)
    model = bad(SequenceRegressor, validation=0).fit(X, y)
    assert model.baselines_ == {} and model.validated_ == {}
    assert "held-out series" not in model._repr_mimebundle_()["text/html"]


def test_metrics_of_two_labels_are_those_of_the_rarer_one_or_of_the_one_asked_for(tmp_path):
    X, level = levels()
    y = np.where(level > 0.7, 3, 8)  # the rarer label comes first
    found = {}
    for positive in (None, 3, 8):
        model = bad(SequenceClassifier, positive=positive).fit(X, y)
        assert model.positive_ == (positive or 3)
        found[positive] = {"positive": model.positive_, **model.validated_}
        assert f"f1 ({model.positive_})" in model._repr_html_inner()
    assert found[None] == found[3]
    assert (found[3]["sensitivity"], found[3]["specificity"]) == (found[8]["specificity"], found[8]["sensitivity"])
    assert found[3]["auprc"] != found[8]["auprc"]
    assert SequenceClassifier.load(model.save(tmp_path / "saved")).positive_ == 8
    with pytest.raises(ValueError, match="positive='5'"):
        bad(SequenceClassifier, positive=5).fit(X, y)
