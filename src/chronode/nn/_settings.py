"""The settings of the cells of a layer."""

from __future__ import annotations

import inspect
from typing import Any

from .._checks import near
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
    known = {
        name: parameter.default
        for name, parameter in inspect.signature(cell_class).parameters.items()
        if name not in ("input_size", "hidden_size")
    }
    chosen = dict(known) if defaults else {}
    for name, value in settings.items():
        if name not in known:
            raise TypeError(
                f"{cell_class.__name__} has no setting {name!r}; it has {', '.join(known) or 'none'}."
                + near(name, [*known, *LAYER_SETTINGS])
            )
        if name in cell_class.per_layer and isinstance(value, (list, tuple)):
            if len(value) != num_layers:
                raise ValueError(f"{name} has {len(value)} values for num_layers={num_layers}; pass one per layer.")
            value = value[index]
        chosen[name] = value
    return chosen
