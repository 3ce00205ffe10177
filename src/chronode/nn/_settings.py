"""The settings of a layer and its cells, also those that are saved with the weights."""

from __future__ import annotations

import inspect
import json
from typing import Any

import torch
from torch import Tensor

from ..settings import near
from ._cell import Cell

LAYER_SETTINGS = (
    *("num_layers", "dropout", "bidirectional", "batch_first", "residual", "missing", "outputs", "memory"),
    "max_gap",
)
"""The settings of every layer, independent of its cell."""


def cell_settings(
    cell_class: type[Cell], settings: dict[str, Any], index: int, num_layers: int, *, defaults: bool = False
) -> dict[str, Any]:
    """Returns the settings of the cell of layer `index`; rejects unknown names and lists of the wrong length."""
    parameters = {
        name: parameter.default
        for name, parameter in inspect.signature(cell_class).parameters.items()
        if name not in ("input_size", "hidden_size")
    }
    chosen = dict(parameters) if defaults else {}
    for name, value in settings.items():
        if name not in parameters:
            raise TypeError(
                f"{cell_class.__name__} has no setting {name!r}; it has {', '.join(parameters) or 'none'}."
                + near(name, [*parameters, *LAYER_SETTINGS])
            )
        if name in cell_class.per_layer and isinstance(value, (list, tuple)):
            if len(value) != num_layers:
                raise ValueError(f"{name} has {len(value)} values for num_layers={num_layers}; pass one per layer.")
            value = value[index]
        chosen[name] = value
    return chosen


def as_bytes(settings: dict[str, Any]) -> Tensor:
    """Returns settings as JSON in a tensor of bytes."""
    text = json.dumps(settings, sort_keys=True, default=str)
    return torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8)


def differing(cell_class: type[Cell], own: Tensor, saved: Tensor) -> dict[str, Any]:
    """Returns the saved settings that are not those of the layer; both are results of `as_bytes`.

    A setting that the cell did not have when the weights were saved counts as its default.
    """
    here, there = (json.loads(bytes(settings.tolist()).decode()) for settings in (own, saved))
    defaults = cell_settings(cell_class, {}, 0, 1, defaults=True)
    there = {name: defaults.get(name) for name in here} | there
    return {name: there[name] for name in sorted(there) if there[name] != here.get(name)}
