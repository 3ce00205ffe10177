"""A trained model that follows series: the state of a series and new observations in, predictions out.

A forecast from windows consists of cells:

window: keeps the last W observations
measure: the window -> its level and scale, and the output of the linear start
network: one step of the layers over the window, relative to its level and scale
decode: head, linear start, and conversion to the units of the target
"""

from __future__ import annotations

import copy
from typing import Any, cast

import torch
from torch import Tensor, nn

from ..nn import TOO_LARGE, Cell, Plan, State, run_cell
from ._model import SequenceModel
from ._step import NetworkStep, RunningStart, Units
from .start import LinearStart, Readings, Recent, Values

Vectors = list[Tensor]
"""Memory of the states of series, `(B, size)`, one for each type of number."""


class LiveModel:
    """Runs a model from the states of series, on observations that are scaled already.

    The state of a series is that of all layers and of the linear start, or, for a forecast from windows, the last
    observations.

    Args:
        model: The trained model.
        window: Number of steps of a window; 0 for a model with a state.
    """

    def __init__(self, model: SequenceModel, window: int = 0):
        self._model = copy.deepcopy(model).eval()
        self._window = Window(model.layer.input_size, window) if window else None
        self._stepper = self._start = None
        if self._window is None:
            self._model.layer.outputs = "all"  # every observation gets a prediction
            self._stepper = None if model.is_linear else self._model.layer.stepper(batch=1)
            self._start = None if model.start is None else RunningStart(cast(LinearStart, self._model.start))
        self._weights = self._model.head.weight, self._model.head.bias
        like = torch.zeros(1)
        self._sizes = [] if self._start is None else [p.shape[1] for p in self._start.initial_state(1, like)]

    def initial_state(self) -> State:
        """Returns the state of one new series, each part `(cells, 1, size)`."""
        if self._window is not None:
            (part,) = self._window.initial_state(1, self._model.head.weight.detach())
            return (part[None],)
        return tuple(part.detach().clone() for part in self._model.initial_state(1))

    @property
    def has_own_maps(self) -> bool:
        """Whether series have maps of their own, which `run` finds by their keys."""
        return self._model.own_maps is not None

    @torch.no_grad()
    def run(self, x: Tensor, state: State, **times: Any) -> tuple[Tensor, State]:
        """Returns outputs `(B, T, K)` after each step of `x (B, T, D)`, and the states after the last valid one.

        Args:
            x: Values.
            state: Parts `(cells, B, size)` of the state.
            times: `lengths (B,)` always; `dt (B, T)` if series have times; `observed` if values may be missing;
                `series (B,)` for a model with maps of the series' own.
        """
        if self._window is not None:
            return self._run_windows(self._window, x, state[0][0], **times)
        if self._stepper is not None or self._start is None:
            return self._model.run(x, state, **times)
        count = self._model.network_parts  # they add nothing
        outputs, after = self._model.run_start(x, tuple(part[0] for part in state[count:]), **times)
        return outputs.to(self._model.head.weight), (*state[:count], *(part[None] for part in after))

    @torch.no_grad()
    def step(self, x: Tensor, state: Vectors, dt: float | None, observed: Tensor | None) -> Tensor | None:
        """Performs `run` for one observation of one series in few operations, and changes its state.

        Args:
            x: Values `(1, D)`.
            state: Memory of the state, `(1, size)`: of the layers, and of the linear start.
            dt: Time since the last observation; None if series have no times.
            observed: Mask of the observed values, `(1, D)`; None if no values may be missing.

        Returns:
            The output `(1, K)`; None, and nothing is changed, if only `run` can perform the step.
        """
        stepper = self._stepper
        if self._window is not None or self._model.pooling or len(state) != 1 + (self._start is not None):
            return None
        output = None
        if stepper is not None:
            stepper.vector = state[0].view(-1)
            y = stepper.advance(x, 1.0 if dt is None else dt, observed)
            if not abs(y.sum().item()) < TOO_LARGE:
                return None  # `run` warns
            output = nn.functional.linear(y, *self._weights)
        if self._start is not None:
            rows = torch.cat([x, torch.ones_like(x) if observed is None else observed.to(x)], dim=-1).to(state[1])
            gap = rows.new_full((1, 1), 1.0 if dt is None else dt)
            started, after = self._start(rows, state[1].split(self._sizes, dim=1), gap)
            torch.cat(after, dim=1, out=state[1])
            output = started.to(self._weights[0]) if output is None else output + started.to(output)
        if stepper is not None:
            state[0].copy_(cast(Tensor, stepper.vector))
        return output

    def _run_windows(self, window: Window, x: Tensor, state: Tensor, **times: Any) -> tuple[Tensor, State]:
        """Returns the outputs of the windows that end at each step, and the last windows."""
        batch, steps, channels = x.shape
        lengths, dt = times["lengths"], times.get("dt", x.new_ones(batch, steps))
        observed = times.get("observed", torch.ones_like(x))
        rows = torch.cat([x, observed.to(x)], dim=-1).transpose(0, 1)
        windows, (after,) = run_cell(window, rows, (state,), dt.to(x).T[..., None], Plan(lengths))
        inside = torch.arange(steps) < lengths[:, None]
        # The window of each valid step, with its first step first.
        values, flags, gaps, _, count = windows.transpose(0, 1)[inside].split(window.sizes, dim=1)
        size = count[:, 0].long()
        at = (window.steps - size)[:, None] + torch.arange(int(size.max()))
        row, at = torch.arange(len(size))[:, None], at.clamp(max=window.steps - 1)
        arguments: dict[str, Any] = {"lengths": size}
        if "dt" in times:
            arguments["dt"] = gaps[row, at]
            arguments["dt"][:, 0] = 0  # as in training, the first gap of a window is 0
        if "observed" in times:
            arguments["observed"] = flags.view(-1, window.steps, channels)[row, at] > 0
        if "series" in times:
            arguments["series"] = times["series"][:, None].expand(batch, steps)[inside]
        output = self._model(values.view(-1, window.steps, channels)[row, at], **arguments)
        outputs = output.new_zeros(batch, steps, output.shape[-1])
        outputs[inside] = output
        return outputs, (after[None],)


# ---- forecasts from windows ---------------------------------------------------------------------------------


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
        position = self.get_buffer("place")
        inside, later = position >= steps - count, position > steps - count
        is_observed = (observed.reshape(-1, steps, channels) > 0) & inside[..., None]
        values = self.units.values(values.reshape(-1, steps, channels))
        level, scale = self.relative.measure(values, is_observed)
        if self.start is None:
            return torch.cat([level, scale], dim=-1), ()
        gaps = torch.where(later, self.units.gaps(gaps), torch.zeros_like(gaps))
        view = self.relative.seen_from(values, is_observed, level, scale)
        recent = Recent(view, is_observed, gaps, self.units.gaps(ages), inside, count)
        assert isinstance(self.start, LinearStart) and isinstance(self.start.features, (Values, Readings))
        started = self.start.of(*self.start.features.of_window(recent, regular=self.regular))
        return torch.cat([level, scale, started], dim=-1), ()


class Network(Cell):
    """One step of the layers: maps `(values, observed, level, scale)` to their output."""

    def __init__(self, model: SequenceModel, units: Units):
        assert model.relative is not None
        super().__init__(2 * (model.layer.input_size + len(model.relative.channels)), model.layer.hidden_size)
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
        is_observed = observed > 0
        view = self.relative.seen_from(self.units.values(values)[:, None], is_observed[:, None], level, scale)[:, 0]
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
