"""The step of a model: from a raw observation to a prediction, with a tuple as its state.

Exports are generated from it, and streams run it for many series at a time.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn

from ..data import Scaler, invert_columns, logarithms
from ..nn import Cell, State
from .start._several import SeveralStart
from .start._start import LinearStart

if TYPE_CHECKING:
    from ._model import SequenceModel


class Link(NamedTuple):
    """Conversion of the outputs of a target: to probabilities of classes, or to values in the units of the target.

    Attributes:
        size: Number of outputs.
        classes: Whether they are logits of classes.
        scaler: Scaling of the target; None if it is not scaled.
    """

    size: int
    classes: bool = False
    scaler: Scaler | None = None

    @property
    def scales(self) -> bool:
        """Whether values are scaled."""
        return not self.classes and self.scaler is not None and bool(self.scaler.targets)


class Units(nn.Module):
    """Conversion of raw observations to what a network sees, and of its outputs to predictions.

    values (x - mean) / std, clipped and as logarithms before if the scaler says so;  gaps dt / unit, shortened;
    outputs: probabilities, or values in the target's own units

    Args:
        scaler: Scaling of the inputs and of dt; None if they are not scaled.
        links: Conversion of the outputs of each target.
    """

    def __init__(self, scaler: Scaler | None, links: Sequence[Link]):
        super().__init__()
        self.links, self.scales = tuple(links), scaler is not None
        self.shapes = () if scaler is None else scaler.shapes
        self.limit = None if scaler is None else scaler.gaps
        self.time_scale = 1.0 if scaler is None else scaler.dt
        if scaler is not None:
            mean = torch.tensor(scaler.mean, dtype=torch.float64)
            # In two parts, so that the difference of a large value and a similar mean does not lose digits.
            self.register_buffer("mean", mean.float())
            self.register_buffer("mean_rest", (mean - mean.float().double()).float())
            self.register_buffer("std", torch.tensor(scaler.std))
        if self.shapes:
            low = [-math.inf if shape.low is None else shape.low for shape in self.shapes]
            high = [math.inf if shape.high is None else shape.high for shape in self.shapes]
            self.register_buffer("low", torch.tensor(low))
            self.register_buffer("high", torch.tensor(high))
        for number, link in enumerate(self.links):
            if link.scales:
                assert link.scaler is not None
                self.register_buffer(f"target_mean{number}", torch.tensor(link.scaler.target_mean))
                self.register_buffer(f"target_std{number}", torch.tensor(link.scaler.target_std))

    def values(self, x: Tensor) -> Tensor:
        """Returns raw values as the network sees them."""
        if not self.scales:
            return x
        if any(shape.low is not None for shape in self.shapes):
            x = torch.minimum(torch.maximum(x, self.get_buffer("low")), self.get_buffer("high"))
        return ((logarithms(x, self.shapes) - self.mean) - self.mean_rest) / self.std

    def gaps(self, dt: Tensor) -> Tensor:
        """Returns times in the network's unit."""
        if self.limit is not None and self.limit.rule == "cap":
            dt = dt.clamp(max=self.limit.MOST * self.limit.usual)
        elif self.limit is not None and self.limit.rule == "log":
            dt = (dt / self.limit.usual).log1p() * (self.limit.usual / math.log(2))
        return dt if self.time_scale == 1.0 else dt / self.time_scale

    def prediction(self, output: Tensor) -> Tensor:
        """Returns outputs of the network as a prediction."""
        if len(self.links) == 1:
            return self._linked(0, output)
        ends = list(itertools.accumulate(link.size for link in self.links))
        pairs = zip([0, *ends[:-1]], ends, strict=True)
        return torch.cat([self._linked(number, output[:, a:b]) for number, (a, b) in enumerate(pairs)], dim=-1)

    def _linked(self, number: int, output: Tensor) -> Tensor:
        link = self.links[number]
        if link.classes:
            return nn.functional.softmax(output, dim=-1)
        if not link.scales or link.scaler is None:
            return output
        mean, std = self.get_buffer(f"target_mean{number}"), self.get_buffer(f"target_std{number}")
        return invert_columns(output * std + mean, link.scaler.target_shapes)


class Pooling(Cell):
    """Mean, sum or maximum of all steps so far.

        mean:  s' = s + x,         n' = n + 1,   y = s'/n'
        sum:   s' = s + x,         n' = n + 1,   y = s'/√n'
        max:   s' = max(s, x),     n' = n + 1,   y = s'

    State: (s, n).

    Args:
        size: Number of features.
        pool: "mean", "sum" or "max".
    """

    def __init__(self, size: int, pool: str):
        super().__init__(size, size)
        self.pool = pool

    def initial_state(self, batch: int, like: Tensor) -> State:
        """Returns the state before the first step."""
        return like.new_zeros(batch, self.hidden_size), like.new_zeros(batch, 1)

    def forward(self, x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
        """Performs one step."""
        s, n = state
        count = n + 1
        if self.pool == "max":
            s = torch.where(n > 0, torch.maximum(s, x), x)
            return s, (s, count)
        s = s + x
        return s / (count if self.pool == "mean" else count.sqrt()), (s, count)


class NetworkStep(nn.Module):
    """One step of the layers of a model and of its pooling; the state is that of the encoder, of all layers and of the
    pooling, one after the other.

    Layers whose head is 0, as those of a linear start that no epoch improved on, are left out: y = 0.

    Attributes:
        head: The head for the outputs of the step.
    """

    def __init__(self, model: SequenceModel):
        super().__init__()
        self.layer = None if model.is_linear else model.layer
        self.output_size = 1 if self.layer is None else self.layer.output_size
        self.head = model.head
        if self.layer is None:
            self.head = nn.Linear(self.output_size, model.head.out_features)
            nn.init.zeros_(self.head.weight)
            nn.init.zeros_(self.head.bias)
        self.pooling = None if self.layer is None else model.pooling
        self.cells: list[Cell] = [] if self.layer is None else self.layer.all_cells()
        self.cells += [] if self.pooling is None else [self.pooling]
        self.counts = [len(cell.initial_state(1, model.layer.like().detach())) for cell in self.cells]
        self.size = sum(self.counts) or 1

    def initial_state(self, batch: int, like: Tensor) -> State:
        """Returns the states of all cells; a single 0 without layers, because a struct in C has at least one member."""
        parts = [part.contiguous() for cell in self.cells for part in cell.initial_state(batch, like)]
        return tuple(parts) or (like.new_zeros(batch, 1),)

    def forward(self, values: Tensor, observed: Tensor, dt: Tensor, state: State) -> tuple[Tensor, State]:
        """Performs one step; values that were not observed are not read if the layer knows of missing ones."""
        layer = self.layer
        if layer is None:
            return torch.zeros_like(dt), state
        dt = dt if layer.max_gap is None else dt.clamp(max=layer.max_gap)
        parts, after = iter(state), []

        def advance(index: int, x: Tensor) -> Tensor:
            cell = self.cells[index]
            before = tuple(next(parts) for _ in range(self.counts[index]))
            y, new = cell.prepare()(cell.project(x), before, dt)
            after.extend(new)
            return y

        if layer.missing:
            masked = torch.where(observed > 0, values, torch.zeros_like(values))
            values = advance(0, torch.cat([masked, observed], dim=-1))
        first = len(layer.encoders)
        y = layer.through([values], lambda index, x: advance(first + index, x))
        return (y if self.pooling is None else advance(-1, y)), tuple(after)


class RunningStart(Cell):
    """A linear start step by step: y are its outputs for all steps so far.

    Its input is `(x, observed)`, `2 D` features. State: the running sums of its features.
    """

    def __init__(self, start: LinearStart | SeveralStart):
        super().__init__(2 * start.running.channels, start.running.channels)
        self.start, self.output_size = start, start.num_outputs

    def initial_state(self, batch: int, like: Tensor) -> State:
        """Returns sums of nothing."""
        return self.start.running.initial_state(batch, like)

    def forward(self, x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
        """Performs one step."""
        values, observed = x.chunk(2, dim=-1)
        state = self.start.running.step(values, observed > 0, dt, state)
        return self.start.of(*self.start.running.columns(state)), state


class ObservationStep(Cell):
    """A raw observation in, a prediction out.

        y = prediction(head(layers(values, gaps)) + start(values, gaps))

    Its input is `(x, observed)`, `2 D` features, as the layer receives them. State: those of the encoder and of all
    layers, then that of the linear start, then, for series with times, whether the series has begun: what is before
    the first observation of a series does not count.

    Args:
        model: The model, in evaluation mode.
        units: Units of inputs and outputs.
        timed: Whether series have times.
    """

    def __init__(self, model: SequenceModel, units: Units, *, timed: bool):
        super().__init__(2 * model.layer.input_size, model.layer.hidden_size)
        self.network, self.units, self.timed = NetworkStep(model), units, timed
        assert model.start is None or isinstance(model.start, (LinearStart, SeveralStart))
        self.start = None if model.start is None else RunningStart(copy.deepcopy(model.start).float())
        self.output_size = model.head.out_features

    def initial_state(self, batch: int, like: Tensor) -> State:
        """Those of all cells, one after the other, that of the linear start, and whether the series has begun."""
        start = () if self.start is None else self.start.initial_state(batch, like)
        begun = (like.new_zeros(batch, 1),) if self.timed else ()
        return self.network.initial_state(batch, like) + start + begun

    def forward(self, x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
        """Performs one step."""
        raw, observed = x.chunk(2, dim=-1)
        begun: State = ()
        if self.timed:
            state, flag = state[:-1], state[-1]
            dt, begun = torch.where(flag > 0, dt, torch.zeros_like(dt)), (torch.ones_like(flag),)
        values, dt = self.units.values(raw), self.units.gaps(dt)
        y, after = self.network(values, observed, dt, state[: self.network.size])
        output = self.network.head(y)
        if self.start is not None:
            started, new = self.start(torch.cat([values, observed], dim=-1), state[self.network.size :], dt)
            output, after = output + started, (*after, *new)
        return self.units.prediction(output), (*after, *begun)
