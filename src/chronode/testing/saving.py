"""Checks of copies, saved weights and exported programs."""

from __future__ import annotations

import copy
import io
import pickle
from typing import Any

import torch
from torch import Tensor, nn

from ..nn import Layer, State, cell_settings
from .case import Case, agree, check, require, same


def _numbers(layer: Layer, case: Case) -> dict[str, Tensor]:
    x, dt, _ = case.data()
    y, state = layer(x, dt=dt)
    return {"y": y, **{f"state[{i}]": part for i, part in enumerate(state)}}


def _disturb(layer: Layer) -> None:
    """Gives every parameter and buffer another value."""
    with torch.no_grad():
        for tensor in (*layer.parameters(), *layer.buffers()):
            tensor.copy_(tensor + 1)


def _saved_and_read(layer: Layer) -> dict[str, Any]:
    file = io.BytesIO()
    torch.save(layer.state_dict(), file)
    file.seek(0)
    return torch.load(file, weights_only=True)


@check
def state_dict_holds_everything(case: Case) -> None:
    """A saved state_dict, loaded into a layer with other parameters and buffers, gives the same numbers."""
    layer, other = case.layer(), case.layer(seed=1)
    _disturb(other)
    other.load_state_dict(_saved_and_read(layer))
    agree("a layer with loaded weights", _numbers(other, case), _numbers(layer, case), 0.0)


@check
def other_settings_are_loaded_or_refused(case: Case) -> None:
    """Weights saved with another value of a setting give that layer's numbers (it was saved too), or are rejected."""
    layer = case.layer()
    saved, wanted = _saved_and_read(layer), _numbers(layer, case)
    described = cell_settings(layer.cell_class, layer.settings, 0, layer.num_layers, defaults=True)
    for name, value in described.items():
        try:
            other = case.layer(**{name: _another(value, layer.num_layers)})
            other.load_state_dict(saved)
        except (ValueError, TypeError, RuntimeError):
            continue  # not allowed for this model, or rejected
        what = f"weights of a layer with {name}={value!r} were loaded into one with another value, unnoticed"
        agree(what, _numbers(other, case), wanted, 0.0)


def _another(value: Any, num_layers: int) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, (list, tuple)):
        return [_another(one, num_layers) for one in value]
    if isinstance(value, int):
        return value + 1
    return 1.5 * value + 0.25 if isinstance(value, float) else value


@check
def copies(case: Case) -> None:
    """A deep copy and an unpickled layer give the same numbers and share nothing with the original."""
    layer = case.layer()
    wanted = _numbers(layer, case)
    for how, other in {"deepcopy": copy.deepcopy(layer), "pickle": pickle.loads(pickle.dumps(layer))}.items():
        agree(f"a copy by {how}", _numbers(other, case), wanted, 0.0)
        _disturb(other)
        agree(f"the original after its {how} has changed", _numbers(layer, case), wanted, 0.0)
    require(repr(layer) == repr(case.layer()), "repr of two equal layers differs")


class _Step(nn.Module):
    def __init__(self, layer: Layer):
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
        return self.layer.step(x, state, dt)


@check
def exported_step(case: Case) -> None:
    """The exported program of `step` gives the same numbers as `step`, on data other than the example inputs."""
    layer, (x, dt, _) = case.layer(), case.data()
    state = case.state(layer, len(x))
    with torch.no_grad():
        program = torch.export.export(_Step(layer), (x[:, 0], state, dt[:, :1])).module()
        got, after = program(x[:, 1], state, dt[:, 1:2])
        y, wanted = layer.step(x[:, 1], state, dt[:, 1:2])
    same("y of the exported step", got, y, case.agreement)
    for i, part in enumerate(wanted):
        same(f"state[{i}] of the exported step", after[i], part, case.agreement)
