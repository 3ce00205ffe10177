"""Heads that see the mean, the sum or the maximum over all valid steps."""

import csv
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
from chronode.stream import Stream
from chronode.training import Settings, fit

LENGTHS = [5, 2, 7]


def drawn():
    rng = np.random.default_rng(0)
    return [rng.normal(size=(length, 2)) for length in LENGTHS]


@pytest.mark.parametrize("pool", ["mean", "sum", "max"])
@pytest.mark.parametrize("name", ["gru", "mmrnn"])
def test_the_head_sees_the_pooled_outputs_of_valid_steps_only(pool, name):
    s = from_list(drawn(), target=["a", "b", "a"])
    model = SequenceModel.build(ModelSpec.for_data(s, name, hidden_size=4, pool=pool)).eval()
    batch = s.batch()
    found = model(batch.x, **batch.inputs)
    for row, length in enumerate(LENGTHS):
        y = model.layer(batch.x[row : row + 1, :length])[0][0].detach().numpy()
        seen = {"mean": y.mean(0), "sum": y.sum(0) / length**0.5, "max": y.max(0)}[pool]
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


@pytest.mark.parametrize("pool", ["mean", "sum", "max"])
@pytest.mark.parametrize("start", [None, {"kind": "summaries", "channels": 2}])
def test_pieces_of_a_series_are_pooled_as_the_whole(pool, start):
    """Outputs at every step are those of the series up to there; lengths and a carried state change nothing."""
    torch.manual_seed(0)
    model = SequenceModel.build(ModelSpec("gru", 2, 2, hidden_size=4, pool=pool, start=start)).eval()
    with torch.no_grad():
        model.head.weight.normal_()
    x, lengths = torch.randn(3, 7, 2), torch.tensor(LENGTHS)
    whole, end = model.run(x, lengths=lengths)
    first, state = model.run(x[:, :2], lengths=torch.tensor([2, 2, 2]))
    rest, state = model.run(x[:, 2:], state, lengths=torch.tensor([3, 1, 5]))
    assert whole.shape == (3, 7, 2)
    for row, length in enumerate(LENGTHS):
        for n in range(1, length + 1):
            wanted = model(x[row : row + 1, :n])[0]
            torch.testing.assert_close(whole[row, n - 1], wanted, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(torch.cat([first, rest], dim=1)[[0, 2]], whole[[0, 2]], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close([part[:, [0, 2]] for part in state], [part[:, [0, 2]] for part in end])


def test_a_pooled_model_of_a_file_streams_and_is_that_of_the_estimator(tmp_path):
    rows = [(i, t, float(i % 2) * t + np.sin(i + t), i % 2) for i in range(40) for t in range(6)]
    pd.DataFrame(rows, columns=["who", "t", "x", "y"]).to_csv(tmp_path / "file.csv", index=False)
    flags = ("--id", "who", "--time", "t", "--target", "y", "--model", "lru", "--hidden", 4, "--epochs", 1)
    settings = ("--set", "pool=mean", "--set", "block=residual", "--start", "none")
    chronode("train", tmp_path / "file.csv", *flags, *settings, "--output", tmp_path / "run")
    assert json.loads((tmp_path / "run" / "model.json").read_text())["pool"] == "mean"
    stream = Stream(tmp_path / "run")
    answers = {str(who): stream.observe(who, time, {"x": x}) for who, time, x, _ in rows}
    for row in csv.DictReader(chronode("predict", tmp_path / "run", tmp_path / "file.csv").out.splitlines()):
        assert answers[row["who"]]["p_1"] == pytest.approx(float(row["p_1"]), abs=1e-6)
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
    s = from_list(drawn(), target=["a", "b", "a"])
    with pytest.raises(ValueError, match="tbptt cannot train a model with pool='mean'"):
        fit(s, ModelSpec.for_data(s, "gru", pool="mean"), Settings(epochs=1, tbptt=2), valid=s)
