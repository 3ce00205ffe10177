"""Heads that see the mean or the maximum over all valid steps."""

import json

import numpy as np
import pandas as pd
import pytest
import torch
from commands import chronode

import chronode as package
from chronode import ModelSpec, SequenceModel
from chronode.data import from_list
from chronode.estimators import SequenceClassifier
from chronode.settings import SettingError
from chronode.stream import Stream
from chronode.training import Settings, fit

LENGTHS = [5, 2, 7]


def drawn():
    rng = np.random.default_rng(0)
    return [rng.normal(size=(length, 2)) for length in LENGTHS]


@pytest.mark.parametrize("pool", ["mean", "max"])
@pytest.mark.parametrize("name", ["gru", "mmrnn"])
def test_the_head_sees_the_pooled_outputs_of_valid_steps_only(pool, name):
    s = from_list(drawn(), target=["a", "b", "a"])
    model = SequenceModel.build(ModelSpec.for_data(s, name, hidden_size=4, pool=pool)).eval()
    batch = s.batch()
    found = model(batch.x, **batch.inputs)
    for row, length in enumerate(LENGTHS):
        y = model.layer(batch.x[row : row + 1, :length])[0][0].detach().numpy()
        seen = y.mean(0) if pool == "mean" else y.max(0)
        expected = model.head.weight.detach().numpy() @ seen + model.head.bias.detach().numpy()
        np.testing.assert_allclose(found[row].detach().numpy(), expected, rtol=1e-4, atol=1e-6)


def test_a_pooled_model_is_trained_saved_and_loaded(tmp_path):
    s = from_list(drawn() * 8, target=["a", "b", "a"] * 8)
    fitted = fit(s, ModelSpec.for_data(s, "gru", hidden_size=4, pool="max"), Settings(epochs=2), valid=s)
    predictions = fitted.predict(s)
    loaded = SequenceModel.load(fitted.model.save(tmp_path / "model"))
    assert loaded.pool == "max" and not loaded.per_step
    batch = s.batch()
    torch.testing.assert_close(loaded(batch.x, **batch.inputs), fitted.model(batch.x, **batch.inputs))
    assert np.asarray(predictions.values).shape == (24, 2)


def test_a_pooled_model_of_a_file_is_that_of_the_estimator_and_does_not_stream(tmp_path):
    rows = [(i, t, float(i % 2) * t + np.sin(i + t), i % 2) for i in range(40) for t in range(6)]
    pd.DataFrame(rows, columns=["who", "t", "x", "y"]).to_csv(tmp_path / "file.csv", index=False)
    flags = ("--id", "who", "--time", "t", "--target", "y", "--model", "gru", "--hidden", 4, "--epochs", 1)
    chronode("train", tmp_path / "file.csv", *flags, "--set", "pool=mean", "--output", tmp_path / "run")
    assert json.loads((tmp_path / "run" / "model.json").read_text())["pool"] == "mean"
    with pytest.raises(SettingError, match="a model with pool='mean' needs whole series") as error:
        Stream(tmp_path / "run")
    assert error.value.argument == "pool"
    X = np.random.default_rng(0).normal(size=(20, 1, 6))
    model = SequenceClassifier("gru", hidden_size=4, epochs=1, settings={"pool": "mean"}, random_state=0)
    assert model.fit(X, np.arange(20) % 2).model_.pool == "mean"


def test_what_a_pooled_model_cannot_do():
    with pytest.raises(ValueError, match="pool='median' is not supported; choose one of"):
        ModelSpec("gru", 2, 2, pool="median")
    with pytest.raises(ValueError, match="needs one target per series"):
        ModelSpec("gru", 2, 2, per_step=True, pool="mean")
    with pytest.raises(ValueError, match='create the layer with outputs="all"'):
        SequenceModel(package.create("gru", 2, 4, outputs="last"), 2, pool="mean")
    model = SequenceModel.build(ModelSpec("gru", 2, 2, pool="mean"))
    with pytest.raises(SettingError) as error:
        model.run(torch.zeros(1, 3, 2))
    assert (error.value.argument, error.value.cure) == ("pool", "train with settings={'pool': 'last'}")
    s = from_list(drawn(), target=["a", "b", "a"])
    with pytest.raises(ValueError, match="tbptt cannot train a model with pool='mean'"):
        fit(s, ModelSpec.for_data(s, "gru", pool="mean"), Settings(epochs=1, tbptt=2), valid=s)
