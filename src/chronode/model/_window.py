"""Forecasts from windows, step by step: the last W observations, and the parts of a step that reads them, as cells.

window: keeps the last W observations
measure: the window -> its level and scale, and the output of the linear start
network: one step of the layers over the window, relative to its level and scale
decode: head, linear start, and conversion to the units of the target
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..nn import Cell, State
from ._step import NetworkStep, Units
from .start import Readings, Recent, Values

if TYPE_CHECKING:
    from ._model import SequenceModel


class Window(Cell):
    """The last `steps` observations, newest last; y is the state after an observation.

    The state is one part: values `(W, D)`, whether they were observed `(W, D)`, the gap before each observation `(W,)`,
    the time from each to the newest `(W,)`, and the number of observations. Its input is `(x, observed)`.
    """

    def __init__(self, channels: int, steps: int):
        super().__init__(2 * channels, channels)
        self.channels, self.steps = channels, steps
        self.sizes = [steps * channels, steps * channels, steps, steps, 1]
        self.output_size = sum(self.sizes)

    def initial_state(self, batch: int, like: Tensor) -> State:
        """Returns an empty window."""
        return (like.new_zeros(batch, self.output_size),)

    def forward(self, x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
        """Drops the oldest observation and adds a new one."""
        values, observed, gaps, ages, count = state[0].split(self.sizes, dim=-1)
        value, flag = x.chunk(2, dim=-1)
        pushed = (
            *(values[:, self.channels :], value, observed[:, self.channels :], flag, gaps[:, 1:], dt),
            *(ages[:, 1:] + dt, torch.zeros_like(dt), (count + 1).clamp(max=self.steps)),
        )
        window = torch.cat(pushed, dim=-1)
        return window, (window,)


class Measure(Cell):
    """Maps a window to `(level, scale, start)`: `2 C + K` numbers."""

    def __init__(self, model: SequenceModel, units: Units, window: Window, *, regular: bool):
        super().__init__(window.output_size, model.layer.hidden_size)
        assert model.relative is not None
        self.window, self.units, self.relative = window, units, copy.deepcopy(model.relative).float()
        self.start = None if model.start is None else copy.deepcopy(model.start).float()
        self.regular = regular
        self.output_size = 2 * len(self.relative.channels) + (0 if self.start is None else model.head.out_features)
        self.register_buffer("place", torch.arange(window.steps).float())

    def initial_state(self, batch: int, like: Tensor) -> State:
        """There is none."""
        return ()

    def forward(self, x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
        """Measures a window."""
        steps, channels = self.window.steps, self.window.channels
        values, observed, gaps, ages, count = x.split(self.window.sizes, dim=-1)
        place = self.get_buffer("place")
        inside, later = place >= steps - count, place > steps - count
        seen = (observed.reshape(-1, steps, channels) > 0) & inside[..., None]
        values = self.units.values(values.reshape(-1, steps, channels))
        level, scale = self.relative.measure(values, seen)
        if self.start is None:
            return torch.cat([level, scale], dim=-1), ()
        gaps = torch.where(later, self.units.gaps(gaps), torch.zeros_like(gaps))
        view = self.relative.seen_from(values, seen, level, scale)
        recent = Recent(view, seen, gaps, self.units.gaps(ages), inside, count)
        assert isinstance(self.start.features, (Values, Readings))
        started = self.start.of(*self.start.features.of_window(recent, regular=self.regular))
        return torch.cat([level, scale, started], dim=-1), ()


class Network(Cell):
    """One step of the layers: maps `(values, observed, level, scale)` to their output."""

    def __init__(self, model: SequenceModel, units: Units):
        assert model.relative is not None
        self_size = 2 * model.layer.input_size + 2 * len(model.relative.channels)
        super().__init__(self_size, model.layer.hidden_size)
        self.units, self.relative = units, copy.deepcopy(model.relative).float()
        self.steps = NetworkStep(model)
        self.channels, self.output_size = model.layer.input_size, self.steps.output_size

    def initial_state(self, batch: int, like: Tensor) -> State:
        """Returns the state of all layers."""
        return self.steps.initial_state(batch, like)

    def forward(self, x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
        """Performs one step."""
        wanted = len(self.relative.channels)
        values, observed, level, scale = x.split([self.channels] * 2 + [wanted] * 2, dim=-1)
        seen = observed > 0
        view = self.relative.seen_from(self.units.values(values)[:, None], seen[:, None], level, scale)[:, 0]
        return self.steps(view, observed, self.units.gaps(dt), state)


class Decode(Cell):
    """Maps `(output of the layers, level, scale, start)` to the forecast."""

    def __init__(self, model: SequenceModel, units: Units, measured: int):
        assert model.relative is not None
        network = NetworkStep(model)
        super().__init__(network.output_size + measured, model.layer.hidden_size)
        self.features, self.head, self.units = network.output_size, network.head, units
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
        return self.units.prediction(self.relative.at(output, level, scale)), ()


def window_cells(model: SequenceModel, units: Units, steps: int, *, regular: bool) -> dict[str, Cell]:
    """Returns the parts of a step of a forecast from windows, by name.

    Args:
        model: The model, in evaluation mode.
        units: Units of inputs and outputs.
        steps: Steps of a window.
        regular: Whether series have neither times nor missing values.
    """
    window = Window(model.layer.input_size, steps)
    measure = Measure(model, units, window, regular=regular)
    decode = Decode(model, units, measure.output_size)
    return {"window": window, "measure": measure, "network": Network(model, units), "decode": decode}
