"""Forecasts from windows: the parts of a step that reads the last observations, as cells.

window: the last W observations -> level and scale of the window, and the output of the linear start
network: one step of the layers over the window, relative to its level and scale
decode: head, linear start, and conversion to the units of the target
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..model.start import Readings, Recent, Values
from ..nn import Cell, State
from ._deployment import Deployment
from ._graph import StepGraph, facts
from ._pipeline import Scaling, network_of
from ._reference import Series


class WindowCell(Cell):
    """Maps a window `values, observed, gaps, ages, count` to `(level, scale, start)`: `2 C + K` numbers.

    Values and flags are `(W, D)`, newest last; an age is the time from an observation to the newest.
    """

    def __init__(self, deployment: Deployment):
        model, window = deployment.model, deployment.window
        channels = model.layer.input_size
        super().__init__(window * (2 * channels + 2) + 1, model.layer.hidden_size)
        assert model.relative is not None
        self.window, self.channels = window, channels
        self.scaling, self.relative = Scaling(deployment), copy.deepcopy(model.relative).float()
        self.start = None if model.start is None else copy.deepcopy(model.start).float()
        self.regular = deployment.unit == "step" and not deployment.missing
        self.output_size = 2 * len(self.relative.channels) + (0 if self.start is None else model.head.out_features)
        self.register_buffer("place", torch.arange(window).float())

    def initial_state(self, batch: int, like: Tensor) -> State:
        """There is none."""
        return ()

    def forward(self, x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
        """Measures a window."""
        size, channels = self.window, self.channels
        values, observed, gaps, ages, count = x.split([size * channels] * 2 + [size] * 2 + [1], dim=-1)
        place = self.get_buffer("place")
        inside, later = place >= size - count, place > size - count
        seen = (observed.reshape(-1, size, channels) > 0) & inside[..., None]
        values = self.scaling.values(values.reshape(-1, size, channels))
        level, scale = self.relative.measure(values, seen)
        if self.start is None:
            return torch.cat([level, scale], dim=-1), ()
        gaps = torch.where(later, self.scaling.gaps(gaps), torch.zeros_like(gaps))
        view = self.relative.seen_from(values, seen, level, scale)
        recent = Recent(view, seen, gaps, self.scaling.gaps(ages), inside, count)
        assert isinstance(self.start.features, (Values, Readings))
        started = self.start.of(*self.start.features.of_window(recent, regular=self.regular))
        return torch.cat([level, scale, started], dim=-1), ()


class NetworkCell(Cell):
    """One step of the layers: maps `(values, observed, level, scale)` to their output."""

    def __init__(self, deployment: Deployment):
        model = deployment.model
        assert model.relative is not None
        super().__init__(2 * model.layer.input_size + 2 * len(model.relative.channels), model.layer.hidden_size)
        self.scaling, self.relative = Scaling(deployment), copy.deepcopy(model.relative).float()
        self.steps, _ = network_of(model)
        self.channels, self.output_size = model.layer.input_size, self.steps.output_size

    def initial_state(self, batch: int, like: Tensor) -> State:
        """Returns the state of all layers."""
        return self.steps.initial_state(batch, like)

    def forward(self, x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
        """Performs one step."""
        wanted = len(self.relative.channels)
        values, observed, level, scale = x.split([self.channels] * 2 + [wanted] * 2, dim=-1)
        seen = observed > 0
        view = self.relative.seen_from(self.scaling.values(values)[:, None], seen[:, None], level, scale)[:, 0]
        return self.steps(view, observed, self.scaling.gaps(dt), state)


class DecodeCell(Cell):
    """Maps `(output of the layers, level, scale, start)` to the forecast."""

    def __init__(self, deployment: Deployment):
        model = deployment.model
        assert model.relative is not None
        steps, head = network_of(model)
        super().__init__(steps.output_size + WindowCell(deployment).output_size, model.layer.hidden_size)
        self.features, self.head, self.scaling = steps.output_size, head, Scaling(deployment)
        self.relative, self.output_size = model.relative, model.head.out_features
        self.start_size = [] if model.start is None else [self.output_size]

    def initial_state(self, batch: int, like: Tensor) -> State:
        """There is none."""
        return ()

    def forward(self, x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
        """Returns the forecast."""
        wanted = len(self.relative.channels)
        y, level, scale, *started = x.split([self.features, wanted, wanted, *self.start_size], dim=-1)
        output = self.head(y) + started[0] if started else self.head(y)
        return self.scaling.prediction(self.relative.at(output, level, scale)), ()


@dataclass(frozen=True)
class WindowGraph:
    """A step of a forecast from windows: the window is shifted, measured and run through the layers and the head.

    The state is the window, in one part: `values, observed, gaps, ages, count`.

    Attributes:
        deployment: The model to export.
        measure: A `WindowCell`.
        network: A `NetworkCell`.
        decode: A `DecodeCell`.
    """

    deployment: Deployment
    measure: StepGraph
    network: StepGraph
    decode: StepGraph

    @classmethod
    def of(cls, deployment: Deployment) -> WindowGraph:
        """Traces the parts."""
        cells = (WindowCell(deployment), NetworkCell(deployment), DecodeCell(deployment))
        return cls(deployment, *(StepGraph.of(deployment, cell) for cell in cells))

    @property
    def parts(self) -> dict[str, StepGraph]:
        """The graphs by name."""
        return {"measure": self.measure, "network": self.network, "decode": self.decode}

    @property
    def window(self) -> int:
        """Steps of a window."""
        return self.deployment.window

    @property
    def inputs(self) -> int:
        """Number of input channels."""
        return len(self.deployment.channels)

    @property
    def outputs(self) -> int:
        """Number of outputs."""
        return self.decode.outputs

    @property
    def states(self) -> list[int]:
        """Sizes of the parts of the state."""
        return [self.measure.cell.input_size]

    @cached_property
    def initial_state(self) -> list[NDArray[np.float32]]:
        """An empty window."""
        return [np.zeros(size, np.float32) for size in self.states]

    def facts(self) -> dict[str, Any]:
        """Names, units and the initial state, for the metadata of a file."""
        return facts(self.deployment, self.initial_state)

    def run(self, series: Series, tensors: dict[str, list[NDArray[Any]]] | None = None) -> NDArray[np.float32]:
        """Returns the predictions `(B, T, K)` after each step, computed with the traced operations.

        Args:
            series: The observations.
            tensors: Parameters that replace those of the model, by the name of the part.
        """
        from ._pt2_window import WindowSequence  # which is made of this graph

        x, observed, dt = map(torch.from_numpy, series)
        with torch.no_grad():
            lengths = torch.full((len(x),), x.shape[1])
            return WindowSequence(self, tensors)(x, observed, dt, lengths)[0].numpy()


Graph = StepGraph | WindowGraph
"""A step of any model."""
