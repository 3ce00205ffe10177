"""Weights saved before a default changed, or before a setting existed, give the numbers that they gave then."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import chronode
from chronode.model._model import SequenceModel
from chronode.model._spec import ModelSpec
from chronode.training import Settings, fit

# Written by version 0.1.0 at commit b7e7a99, with `SequenceModel.save`.
OLDER = Path(__file__).parent / "older"
OUTPUTS = json.loads((OLDER / "outputs.json").read_text())
CHANGED = {
    "ct-rnn": {"solver": "rk4"},
    "gru-ode": {"solver": "euler"},
    "reciprocal": {"solver": "rk4"},
    "cornn": {"solver": "symplectic"},
    "ct-lstm": {"candidate": "tanh"},
    "lipschitz": {"max_step": None},
}
"""Earlier defaults of these models."""


@pytest.mark.parametrize("name", OUTPUTS)
def test_saved_models_answer_as_they_did(name):
    model = SequenceModel.load(OLDER / name)
    x, dt = torch.arange(20.0).sin().view(2, 5, 2), 0.5 + torch.arange(10.0).cos().abs().view(2, 5)
    with torch.no_grad():
        got = model(x, dt=dt).flatten()
    torch.testing.assert_close(got, torch.tensor(OUTPUTS[name]), rtol=1e-5, atol=1e-6)
    assert model.spec.settings == CHANGED.get(name, {})


@pytest.mark.parametrize("name", CHANGED)
def test_a_loaded_model_is_saved_with_its_settings(name, tmp_path):
    SequenceModel.load(OLDER / name).save(tmp_path / "again")
    assert SequenceModel.load(tmp_path / "again").spec.settings == CHANGED[name]


@pytest.mark.parametrize("name", CHANGED)
def test_a_layer_with_other_settings_says_which_to_use(name):
    """And one that is built with them takes the weights."""
    tensors = load_file(OLDER / f"{name}.safetensors")
    weights = {key.removeprefix("layer."): tensor for key, tensor in tensors.items() if key.startswith("layer.")}
    ((setting, value),) = CHANGED[name].items()
    with pytest.raises(ValueError, match=f"they were saved with {setting}={value!r}, but this layer has {setting}="):
        chronode.create(name, 2, 2).load_state_dict(weights)
    chronode.create(name, 2, 2, **CHANGED[name]).load_state_dict(weights)


def test_a_setting_of_the_spec_is_not_replaced(tmp_path):
    for suffix in (".json", ".safetensors"):
        shutil.copy(OLDER / f"ct-rnn{suffix}", tmp_path / f"model{suffix}")
    spec = json.loads((tmp_path / "model.json").read_text()) | {"settings": {"solver": "euler"}}
    (tmp_path / "model.json").write_text(json.dumps(spec))
    with pytest.raises(ValueError, match="saved with solver='rk4', but this layer has solver='euler'"):
        SequenceModel.load(tmp_path / "model")


class Kept:
    """A store in memory, as `fit` takes it."""

    saved = None

    def save(self, tensors, facts):
        self.saved = {name: tensor.clone() for name, tensor in tensors.items()}, json.loads(json.dumps(facts))

    def latest(self):
        return self.saved


def test_a_resumed_run_keeps_the_settings_it_began_with():
    """A run that began when the default solver was RK4 goes on with RK4, to the same weights."""
    data = chronode.data.from_list([[0.1, 0.5, -0.2, 0.7], [1.0, 0.0, 0.3, 0.2]] * 8, target=["a", "b"] * 8)
    results = []
    for resumed in (False, True):
        store, spec = Kept(), ModelSpec.for_data(data, "ct-rnn", hidden_size=3, solver="rk4")
        fit(data, spec, Settings(epochs=2), valid=data, store=store)
        if resumed:
            store.saved[1]["about"]["model settings"] = {}
            spec = ModelSpec.for_data(data, "ct-rnn", hidden_size=3)
        fitted = fit(data, spec, Settings(epochs=4), valid=data, store=store, resume=True)
        assert fitted.model.spec.settings == {"solver": "rk4"}
        results.append(store.saved[0]["model.head.weight"])
    assert torch.equal(*results)
