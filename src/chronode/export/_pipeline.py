"""The whole path from a raw observation to a prediction as one cell, which all formats are generated from."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from .._model import SequenceModel
from ..data import Scaler
from ..data._shaping import invert_columns, logarithms
from ..nn._cell import Cell, State
from ..nn._changes import remake_weights
from ..nn._layer import Layer
from ..nn._solvers import ADAPTIVE, Solver
from ..runs import Trained


@dataclass(frozen=True)
class Deployment:
    """A trained model with what surrounds it: names, units and scaling of inputs and outputs.

    Attributes:
        model: The network.
        channels: Names of the inputs.
        outputs: Names of the classes or of the target columns.
        classes: Whether the outputs are class probabilities.
        scaler: Scaling of the inputs and of dt; None if they are not scaled.
        target_scaler: Scaling of the target; None if it is not scaled.
        unit: Unit of dt: "hour", "10 milliseconds"; "step" for series without times.
        gap: Typical time between observations, in that unit.
        window: Number of steps that a forecast from windows uses; 0 for other models.
        about: Further facts for readers of the export, by name.
    """

    model: SequenceModel
    channels: tuple[str, ...]
    outputs: tuple[str, ...]
    classes: bool
    scaler: Scaler | None = None
    target_scaler: Scaler | None = None
    unit: str = "step"
    gap: float = 1.0
    window: int = 0
    about: dict[str, Any] | None = None

    @classmethod
    def of_model(
        cls,
        model: SequenceModel,
        *,
        channels: tuple[str, ...] | None = None,
        classes: tuple[str, ...] | None = None,
        scaler: Scaler | None = None,
        unit: str = "step",
        window: int = 0,
    ) -> Deployment:
        """Returns the deployment of a model without a run folder."""
        if (model.relative is None) != (window == 0):
            cure = "pass window=...: the number of its steps" if window == 0 else "leave window out"
            raise ValueError(f"this is {'not ' if window else ''}a forecast from windows: {cure}.")
        inputs, count = model.layer.input_size, model.head.out_features
        names = channels or (scaler.channels if scaler is not None else tuple(f"x{i}" for i in range(inputs)))
        for what, given, wanted in (("channels", names, inputs), ("classes", classes, count)):
            if given is not None and len(given) != wanted:
                raise ValueError(f"{what} has {len(given)} names, the model has {wanted}.")
        values = scaler.targets if scaler is not None and scaler.targets else tuple(f"y{i}" for i in range(count))
        target_scaler = scaler if classes is None else None
        return cls(
            _float32(model),
            tuple(names),
            tuple(classes) if classes is not None else values,
            classes is not None,
            scaler,
            target_scaler,
            unit,
            1.0 if scaler is None else scaler.dt,
            window,
        )

    @classmethod
    def of_run(cls, trained: Trained) -> Deployment:
        """Returns the deployment of a run, with the units and names of its data."""
        model, reading, objective = trained.model, trained.reading, trained.objective
        scaler = None if reading is None else reading.scaler
        if model.relative is not None and scaler is not None and scaler.gaps is not None:
            raise ValueError(
                "a forecast from windows with gaps='cap' or 'log' cannot be exported. Train with gaps='keep'."
            )
        size = model.layer.input_size
        outputs = objective.classes or trained.output_names() or tuple(f"y{i}" for i in range(objective.num_outputs))
        return cls(
            model=_float32(model),
            channels=tuple(f"x{i}" for i in range(size)) if reading is None else reading.channels,
            outputs=tuple(map(str, outputs)),
            classes=objective.kind == "class",
            scaler=scaler,
            target_scaler=trained.scaler if objective.kind == "value" else None,
            unit="step" if reading is None else reading.unit,
            gap=1.0 if reading is None or reading.gap is None else reading.gap,
            window=0 if reading is None or model.relative is None else reading.window,
            about={"run": trained.path.name, "source": trained.config.data.source},
        )

    @property
    def missing(self) -> bool:
        """Whether values may be missing."""
        return self.model.layer.missing


def _float32(model: SequenceModel) -> SequenceModel:
    """Returns a copy in float32 on the CPU and in evaluation mode; raises ValueError if it cannot be exported."""
    layer = model.layer
    if model.modulation is not None:
        raise ValueError(
            "a model with static values, or known values of the future, cannot be exported yet. Train without "
            "--static, --known and --calendar (in Python: the same names); static columns are then channels."
        )
    if model.pool != "last":
        raise ValueError(
            f"a model with pool={model.pool} cannot be exported: it needs the outputs of all steps. "
            "Train it with pool=last."
        )
    if layer.bidirectional:
        raise ValueError(
            "a bidirectional model cannot be exported: at each step it would need the future. "
            "Train it without bidirectional=true."
        )
    if model.start is not None and model.relative is None:
        _ = model.start.running  # refuses features that need whole series
    if model.embedding is not None:
        raise ValueError("a model of symbols (text) cannot be exported yet. Train one on numbers.")
    for module in layer.modules():
        for value in vars(module).values():
            if isinstance(value, Solver) and value.name in ADAPTIVE:
                raise ValueError(
                    f"solver={value.name!r} cannot be exported: its steps depend on the data. "
                    "Train with a fixed solver, such as --set solver=rk4."
                )
    remake_weights(layer.all_cells())
    made = copy.deepcopy(model).float().cpu().eval()
    made.start = copy.deepcopy(model.start)  # which stays float64
    return made


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
        self.counts = [len(cell.initial_state(1, next(layer.parameters()).detach())) for cell in self.cells]
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
    if model.start is None or any(part.count_nonzero() for part in model.head.parameters()):
        return LayerSteps(model.layer), model.head
    head = nn.Linear(NoSteps.output_size, model.head.out_features)
    for part in head.parameters():
        nn.init.zeros_(part)
    return NoSteps(), head


class ObservationCell(Cell):
    """A raw observation in, a prediction out.

        y = prediction(head(layers(values, gaps)) + start(values, gaps))

    Its input is `(x, observed)`, `2 D` features, as the layer receives them. State: those of the encoder and of all
    layers, then that of the linear start.
    """

    def __init__(self, deployment: Deployment):
        model = deployment.model
        layer = model.layer
        super().__init__(2 * layer.input_size, layer.hidden_size)
        self.steps, self.head = network_of(model)
        self.scaling = Scaling(deployment)
        self.start = None if model.start is None else copy.deepcopy(model.start).float()
        self.features, self.output_size = layer.input_size, model.head.out_features

    def initial_state(self, batch: int, like: Tensor) -> State:
        """Those of all cells, one after the other, and that of the linear start."""
        start = () if self.start is None else self.start.running.initial_state(batch, like)
        return self.steps.initial_state(batch, like) + start

    def forward(self, x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
        """Performs one step."""
        raw, observed = x.chunk(2, dim=-1)
        values, dt = self.scaling.values(raw), self.scaling.gaps(dt)
        count = sum(self.steps.counts)
        y, after = self.steps(values, observed, dt, state[:count])
        output = self.head(y)
        if self.start is not None:
            started, new = self.start.step(values, observed > 0, dt, state[count:])
            output, after = output + started, (*after, *new)
        return self.scaling.prediction(output), after
