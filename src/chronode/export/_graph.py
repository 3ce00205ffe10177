"""The step graph of a deployment, which all exports are generated from, and its evaluation in torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..compiler import Step, Traced, Unsupported, lower, trace
from ..kernels import backend
from ..model import Relative
from ..model.start import LinearStart
from ..nn import Cell
from ._deployment import Deployment
from ._pipeline import ObservationCell, Scaling
from ._reference import Series


@dataclass(frozen=True)
class StepGraph:
    """One step of a deployment, from a raw observation to a prediction.

    Attributes:
        deployment: The model to export.
        cell: The deployment as a cell.
        traced: The step as torch operations.
        step: The step as a graph of loops and products.
    """

    deployment: Deployment
    cell: Cell
    traced: Traced
    step: Step

    @classmethod
    def of(cls, deployment: Deployment, cell: Cell | None = None) -> StepGraph:
        """Traces the step, or another cell of the deployment."""
        cell = ObservationCell(deployment) if cell is None else cell
        try:
            with backend("torch"):
                traced = trace(cell, cell.input_size, backward=False)
                return cls(deployment, cell, traced, lower(traced))
        except Unsupported as reason:
            raise ValueError(f"this model cannot be exported: its step {reason}.") from reason

    @property
    def inputs(self) -> int:
        """Number of input channels."""
        return len(self.deployment.channels)

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
        own = [
            buffer.numpy()
            for module in self.cell.modules()
            if isinstance(module, (Scaling, LinearStart, Relative))
            for name, buffer in module.named_buffers(recurse=False)
            if name not in ("weight", "bias")
        ]
        return [i for i, tensor in enumerate(self.tensors) if any(np.array_equal(tensor, one) for one in own)]

    def facts(self) -> dict[str, Any]:
        """Names, units and the initial state, for the metadata of a file."""
        return facts(self.deployment, self.initial_state)

    def run(self, series: Series, tensors: Sequence[NDArray[Any]] | None = None) -> NDArray[np.float32]:
        """Returns the predictions `(B, T, K)` after each step, computed with the traced operations.

        Args:
            series: The observations.
            tensors: Parameters that replace those of the model, such as rounded ones.
        """
        constants = self.traced.tensors if tensors is None else [torch.from_numpy(np.array(t)) for t in tensors]
        x, observed, dt = map(torch.from_numpy, series)
        rows = torch.cat([torch.where(observed, x, 0), observed.float()], dim=-1)
        found, size = [], self.traced.batch
        with torch.no_grad():
            # The operations were recorded with this number of rows.
            for start in range(0, len(rows), size):
                places = torch.arange(start, start + size).clamp(max=len(rows) - 1)
                state = [torch.from_numpy(part).expand(size, -1) for part in self.initial_state]
                outputs = []
                for row, gap in zip(rows[places].unbind(1), dt[places].unbind(1), strict=True):
                    y, *state = self.traced.joint([row, gap[:, None], *state], constants)
                    outputs.append(y)
                found.append(torch.stack(outputs, dim=1))
        return torch.cat(found)[: len(rows)].numpy()


def facts(deployment: Deployment, initial_state: Sequence[NDArray[np.float32]]) -> dict[str, Any]:
    """Returns names, units and the first state, for the metadata of a file."""
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
        "initial_state": [part.tolist() for part in initial_state],
        **(deployment.about or {}),
    }
