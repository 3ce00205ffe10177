"""Cache of `layer.step`, so that the same weights are not prepared at every step."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..compiler import Fingerprint, Members
from ..kernels import Snapshot, autocasts, chosen, has_values, transformed
from ._cell import State
from ._inputs import TOO_LARGE
from ._stepper import Stepper

if TYPE_CHECKING:
    from ._layer import Layer


class StepCache:
    """Stepper of a layer that is valid as long as the layer does not change.

    It is used in evaluation mode without gradients, if a single kernel call computes the whole step. Before each use,
    the bits of all weights are compared, and hooks, methods and the backend are checked again. A copy of the layer
    starts with an empty cache.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._shape: torch.Size | None = None
        self._stepper: Stepper | None = None
        self._backend = ""
        self._weights: Snapshot | None = None
        self._code: list[Members | Fingerprint] = []

    def __reduce__(self):
        return StepCache, ()

    def step(self, layer: Layer, x: Tensor, state: State | None, dt: Tensor | float) -> tuple[Tensor, State] | None:
        """Returns y and the state after a step; None if the step must be computed without the cache."""
        if torch.is_grad_enabled() or layer.training or type(x) is not Tensor or not has_values(x):
            return None
        if transformed() or autocasts(x) or not self._lock.acquire(blocking=False):
            return None
        try:
            stepper = self._current(layer, x)
            if stepper is None or not stepper.load(state):
                return None
            y = stepper.advance(x, dt)
            # Diverging outputs are reported by the uncached path.
            return (y, stepper.state) if abs(y.sum().item()) < TOO_LARGE else None
        finally:
            self._lock.release()

    def _current(self, layer: Layer, x: Tensor) -> Stepper | None:
        """Returns a stepper for this shape of x, prepared at the second consecutive step if a single kernel computes
        it.
        """
        stepper = self._stepper
        if x.shape != self._shape:
            self._shape, self._stepper = x.shape, None
            return None
        if stepper is None or stepper.layer is not layer or not self._holds():
            self._stepper = stepper = self._prepared(layer, x)
        return stepper if stepper is not None and stepper.is_one_call() else None

    def _holds(self) -> bool:
        return (
            self._weights is not None
            and self._backend == chosen()
            and all(code.holds() for code in self._code)
            and self._weights.holds()
        )

    def _prepared(self, layer: Layer, x: Tensor) -> Stepper | None:
        tensors = [*layer.parameters(), *layer.buffers()]
        if layer.bidirectional or not Snapshot.possible(tensors):
            return None
        self._backend, self._weights = chosen(), Snapshot(tensors)
        compiled = [cell for cell in layer.all_cells() if cell.kernel() is None]
        self._code = [Members(layer), *map(Fingerprint, compiled)]
        return Stepper(layer, None if x.dim() == 1 else x.shape[0])
