"""The whole path from a raw observation to a prediction as one cell, which all formats are generated from."""

from __future__ import annotations

import copy
import math

import torch
from torch import Tensor, nn

from ..data import invert_columns, logarithms
from ..model import SequenceModel
from ..nn import Cell, Layer, State
from ._deployment import Deployment


class Scaling(nn.Module):
    """Scaling of inputs, gaps and outputs.

    values (x - mean) / std, clipped and as logarithms before if the scaler says so;  gaps dt / unit, shortened;
    outputs: probabilities, or values in the target's own units
    """

    def __init__(self, deployment: Deployment):
        super().__init__()
        self.classes = deployment.classes
        scaler, target = deployment.scaler, deployment.target_scaler
        self.scales = scaler is not None
        if scaler is not None:
            mean = torch.tensor(scaler.mean, dtype=torch.float64)
            # In two parts, so that the difference of a large value and a similar mean does not lose digits.
            self.register_buffer("mean", mean.float())
            self.register_buffer("mean_rest", (mean - mean.float().double()).float())
            self.register_buffer("std", torch.tensor(scaler.std))
        self.shapes = () if scaler is None else scaler.shapes
        if self.shapes:
            none = torch.inf
            self.register_buffer(
                "low", torch.tensor([-none if shape.low is None else shape.low for shape in self.shapes])
            )
            self.register_buffer(
                "high", torch.tensor([none if shape.high is None else shape.high for shape in self.shapes])
            )
        self.limit = None if scaler is None else scaler.gaps
        self.time_scale = 1.0 if scaler is None else scaler.dt
        self.target_shapes = () if target is None else target.target_shapes
        self.scales_target = target is not None and bool(target.targets)
        if target is not None and target.targets:
            self.register_buffer("target_mean", torch.tensor(target.target_mean))
            self.register_buffer("target_std", torch.tensor(target.target_std))

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
        if self.classes:
            return nn.functional.softmax(output, dim=-1)
        return (
            invert_columns(output * self.target_std + self.target_mean, self.target_shapes)
            if self.scales_target
            else output
        )


class LayerSteps(nn.Module):
    """All cells of a layer, one after the other; the state is that of the encoder and of all layers."""

    def __init__(self, layer: Layer):
        super().__init__()
        self.layer = layer
        self.cells: list[Cell] = layer.all_cells()
        self.counts = [len(cell.initial_state(1, layer.like().detach())) for cell in self.cells]
        self.output_size = layer.output_size

    def initial_state(self, batch: int, like: Tensor) -> State:
        """Returns the states of all cells, one after the other."""
        return tuple(part.contiguous() for cell in self.cells for part in cell.initial_state(batch, like))

    def forward(self, values: Tensor, observed: Tensor, dt: Tensor, state: State) -> tuple[Tensor, State]:
        """Performs one step; values that were not observed are not read if the layer knows of missing ones."""
        y, after, parts = values, [], iter(state)
        if self.layer.missing:
            y = torch.cat([torch.where(observed > 0, values, torch.zeros_like(values)), observed], dim=-1)
        dt = dt if self.layer.max_gap is None else dt.clamp(max=self.layer.max_gap)
        levels: list[Tensor] = []
        for index, cell in enumerate(self.cells, start=-len(self.layer.encoders)):
            if index >= 0:
                levels.append(y)
                skip = self.layer.residual
                y = torch.cat([y, levels[index - skip]], dim=-1) if skip and index >= skip else y
            own = tuple(next(parts) for _ in range(self.counts[index + len(self.layer.encoders)]))
            y, new = cell.prepare()(cell.project(y), own, dt)
            after.extend(new)
        return y, tuple(after)


class NoSteps(nn.Module):
    """In place of layers that add nothing: y = 0."""

    counts, output_size = (1,), 1

    def initial_state(self, batch: int, like: Tensor) -> State:
        """Returns a single 0, because a struct in C has at least one member."""
        return (like.new_zeros(batch, 1),)

    def forward(self, values: Tensor, observed: Tensor, dt: Tensor, state: State) -> tuple[Tensor, State]:
        """Performs one step."""
        return torch.zeros_like(dt), state


def network_of(model: SequenceModel) -> tuple[LayerSteps | NoSteps, nn.Linear]:
    """Returns the layers and the head; `NoSteps` if the head is 0, as for a linear start that no epoch improved on."""
    if not model.is_linear:
        return LayerSteps(model.layer), model.head
    head = nn.Linear(NoSteps.output_size, model.head.out_features)
    for part in head.parameters():
        nn.init.zeros_(part)
    return NoSteps(), head


class ObservationCell(Cell):
    """A raw observation in, a prediction out.

        y = prediction(head(layers(values, gaps)) + start(values, gaps))

    Its input is `(x, observed)`, `2 D` features, as the layer receives them. State: those of the encoder and of all
    layers, then that of the linear start, then, for series with times, whether the series has begun: what is before
    the first observation of a series does not count, as in chronode.
    """

    def __init__(self, deployment: Deployment):
        model = deployment.model
        layer = model.layer
        super().__init__(2 * layer.input_size, layer.hidden_size)
        self.steps, self.head = network_of(model)
        self.scaling = Scaling(deployment)
        self.start = None if model.start is None else copy.deepcopy(model.start).float()
        self.features, self.output_size = layer.input_size, model.head.out_features
        self.has_times = deployment.has_times

    def initial_state(self, batch: int, like: Tensor) -> State:
        """Those of all cells, one after the other, that of the linear start, and whether the series has begun."""
        start = () if self.start is None else self.start.running.initial_state(batch, like)
        begun = (like.new_zeros(batch, 1),) if self.has_times else ()
        return self.steps.initial_state(batch, like) + start + begun

    def forward(self, x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
        """Performs one step."""
        raw, observed = x.chunk(2, dim=-1)
        begun: State = ()
        if self.has_times:
            state, flag = state[:-1], state[-1]
            dt, begun = torch.where(flag > 0, dt, torch.zeros_like(dt)), (torch.ones_like(flag),)
        values, dt = self.scaling.values(raw), self.scaling.gaps(dt)
        count = sum(self.steps.counts)
        y, after = self.steps(values, observed, dt, state[:count])
        output = self.head(y)
        if self.start is not None:
            started, new = self.start.step(values, observed > 0, dt, state[count:])
            output, after = output + started, (*after, *new)
        return self.scaling.prediction(output), (*after, *begun)
