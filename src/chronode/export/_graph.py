"""The step of a deployment as traced cells, which all exports are generated from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from ..compiler import Step, Traced, Unsupported, lower, trace
from ..kernels import backend
from ..model import ObservationStep, Relative, Units, window_cells
from ..model.start import LinearStart
from ..nn import Cell
from ._deployment import Deployment


class Series(NamedTuple):
    """Raw series of equal length, as a device receives them.

    Attributes:
        x: `(B, T, D)` float32, in the units of the data.
        observed: `(B, T, D)` bool.
        dt: `(B, T)` float32, in the deployment's unit.
    """

    x: NDArray[np.float32]
    observed: NDArray[np.bool_]
    dt: NDArray[np.float32]


@dataclass(frozen=True)
class Part:
    """A traced cell.

    Attributes:
        cell: The cell.
        traced: Its step as torch operations.
        step: Its step as a graph of loops and products.
    """

    cell: Cell
    traced: Traced
    step: Step

    @classmethod
    def of(cls, cell: Cell) -> Part:
        """Traces a cell."""
        try:
            with backend("torch"):
                traced = trace(cell, cell.input_size, backward=False)
                return cls(cell, traced, lower(traced))
        except Unsupported as reason:
            raise ValueError(f"this model cannot be exported: its step {reason}.") from reason

    @property
    def outputs(self) -> int:
        """Number of outputs."""
        return self.traced.y

    @property
    def states(self) -> list[int]:
        """Sizes of the parts of the state."""
        return self.traced.states

    @cached_property
    def tensors(self) -> list[NDArray[Any]]:
        """The parameters that the step reads."""
        return [tensor.numpy() for tensor in self.traced.tensors]

    @cached_property
    def initial_state(self) -> list[NDArray[np.float32]]:
        """The state before the first step."""
        parts = self.cell.initial_state(1, torch.zeros(1))
        return [part.detach().float().numpy().reshape(-1) for part in parts]

    def scaling(self) -> list[int]:
        """Parameters with the scaling of inputs, features and outputs; channels may have very different units."""
        scales = [
            buffer.numpy()
            for module in self.cell.modules()
            if isinstance(module, (Units, LinearStart, Relative))
            for name, buffer in module.named_buffers(recurse=False)
            if name not in ("weight", "bias")
        ]
        return [i for i, tensor in enumerate(self.tensors) if any(np.array_equal(tensor, one) for one in scales)]


@dataclass(frozen=True)
class Graph:
    """One step of a deployment, from a raw observation to a prediction.

    Attributes:
        deployment: The model to export.
        parts: A single part, `step`; for a forecast from windows `window`, which has the state, `measure`, `network`,
            which runs over the window, and `decode`.
    """

    deployment: Deployment
    parts: dict[str, Part]

    @classmethod
    def of(cls, deployment: Deployment) -> Graph:
        """Traces the step of a deployment."""
        model, units = deployment.model, Units(deployment.scaler, deployment.target_scaler, deployment.classes)
        if deployment.window:
            regular = not deployment.has_times and not deployment.missing
            cells = window_cells(model, units, deployment.window, regular=regular)
        else:
            cells = {"step": ObservationStep(model, units, timed=deployment.has_times)}
        return cls(deployment, {name: Part.of(cell) for name, cell in cells.items()})

    @property
    def window(self) -> int:
        """Steps of a window; 0 for other models."""
        return self.deployment.window

    @property
    def inputs(self) -> int:
        """Number of input channels."""
        return len(self.deployment.channels)

    @property
    def outputs(self) -> int:
        """Number of outputs."""
        return self.parts["decode" if self.window else "step"].outputs

    @property
    def states(self) -> list[int]:
        """Sizes of the parts of the state."""
        return next(iter(self.parts.values())).states

    @property
    def initial_state(self) -> list[NDArray[np.float32]]:
        """The state before the first step."""
        return next(iter(self.parts.values())).initial_state

    def facts(self) -> dict[str, Any]:
        """Names, units and the initial state, for the metadata of a file."""
        deployment = self.deployment
        no_logarithm = zip(deployment.channels, deployment.no_logarithm, strict=True)
        return {
            "inputs": list(deployment.channels),
            "outputs": list(deployment.outputs),
            "classes": deployment.classes,
            "missing": deployment.missing,
            "time_unit": deployment.unit,
            "first_dt": "ignored" if deployment.has_times or deployment.window else "used",
            "no_logarithm": {name: most for name, most in no_logarithm if most > -np.inf},
            "codes": {name: list(texts) for name, texts in deployment.codes.items()},
            "initial_state": [part.tolist() for part in self.initial_state],
            **(deployment.about or {}),
        }

    def run(self, series: Series, tensors: Mapping[str, Sequence[NDArray[Any]]] | None = None) -> NDArray[np.float32]:
        """Returns the predictions `(B, T, K)` after each step, computed with the traced operations.

        Args:
            series: The observations.
            tensors: Parameters that replace those of the model, such as rounded ones, by the name of the part.
        """
        from ._pt2 import sequence_of  # which is made of this graph

        x, observed, dt = map(torch.from_numpy, series)
        with torch.no_grad():
            lengths = torch.full((len(x),), x.shape[1])
            return sequence_of(self, tensors)(x, observed, dt, lengths)[0].numpy()
