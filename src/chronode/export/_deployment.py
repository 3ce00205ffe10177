"""A trained model with what surrounds it, and its step as traced cells, which all exports are generated from."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from ..compiler import Step, Traced, Unsupported, lower, remake_weights, trace
from ..data import Reading, Scaler
from ..kernels import backend
from ..model import Link, ObservationStep, Relative, SequenceModel, Units, check, window_cells
from ..model.start import LinearStart
from ..nn import Cell
from ..settings import named
from ..training import Trained

DEFAULT_NAME = "chronode_model"
"""Beginning of all names in C."""
LOWEST_OPSET = 18
"""The lowest operator set version with all operators that are written to ONNX (ReduceMax with axes as an input)."""


@dataclass(frozen=True)
class Deployment:
    """A trained model with what surrounds it: names, units and scaling of inputs and outputs.

    Attributes:
        model: The network.
        channels: Names of the inputs.
        outputs: Names of the classes or of the target columns.
        links: Conversion of the outputs of each target to its predictions.
        scaler: Scaling of the inputs and of dt; None if they are not scaled.
        unit: Unit of dt: "hour", "10 milliseconds"; "step" for series without times.
        gap: Typical time between observations, in that unit.
        window: Number of steps that a forecast from windows uses; 0 for other models.
        codes: Texts of the inputs that are codes, by the name of the input: text i is the value i.
        about: Further facts for readers of the export, by name.
    """

    model: SequenceModel
    channels: tuple[str, ...]
    outputs: tuple[str, ...]
    links: tuple[Link, ...]
    scaler: Scaler | None = None
    unit: str = "step"
    gap: float = 1.0
    window: int = 0
    codes: dict[str, tuple[str, ...]] = field(default_factory=dict)
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
            cure = f"pass {named('window', ...)}: the number of its steps" if window == 0 else "leave window out"
            raise ValueError(f"this is {'not ' if window else ''}a forecast from windows: {cure}.")
        inputs, count = model.layer.input_size, model.head.out_features
        names = channels or (scaler.channels if scaler is not None else tuple(f"x{i}" for i in range(inputs)))
        for what, given, wanted in (("channels", names, inputs), ("classes", classes, count)):
            if given is not None and len(given) != wanted:
                raise ValueError(f"{what} has {len(given)} names, the model has {wanted}.")
        values = scaler.targets if scaler is not None and scaler.targets else tuple(f"y{i}" for i in range(count))
        return cls(
            exportable(model),
            tuple(names),
            tuple(classes) if classes is not None else values,
            (Link(count, classes is not None, scaler),),
            scaler,
            unit,
            1.0 if scaler is None else scaler.dt,
            window,
        )

    @classmethod
    def of_run(cls, trained: Trained) -> Deployment:
        """Returns the deployment of a run, with the units and names of its data."""
        model, reading, objective = trained.model, trained.reading, trained.objective
        scaler = None if reading is None else reading.scaler
        trained.check("export c")
        size = model.layer.input_size
        outputs = prediction_names(trained) or tuple(f"y{i}" for i in range(objective.num_outputs))
        links = (Link(part.num_outputs, part.kind == "class", part.scaler) for part in objective.parts)
        return cls(
            model=exportable(model),
            channels=tuple(f"x{i}" for i in range(size)) if reading is None else reading.channels,
            outputs=tuple(map(str, outputs)),
            links=tuple(links),
            scaler=scaler,
            unit="step" if reading is None else reading.unit,
            gap=1.0 if reading is None or reading.gap is None else reading.gap,
            window=0 if reading is None or model.relative is None else reading.window,
            codes={} if reading is None else _codes(reading),
            about=_origin(trained),
        )

    @property
    def classes(self) -> bool:
        """Whether all outputs are class probabilities."""
        return all(link.classes for link in self.links)

    @property
    def meaning(self) -> str:
        """Meaning of the outputs in a few words."""
        if self.classes:
            return "probabilities of the classes"
        values = "values in the units of the target"
        return f"probabilities of classes, and {values}s" if any(link.classes for link in self.links) else values

    @property
    def missing(self) -> bool:
        """Whether values may be missing."""
        return self.model.layer.missing

    @property
    def has_times(self) -> bool:
        """Whether series have times; the time before the first observation of a series is then not used."""
        return self.unit != "step"

    @property
    def no_logarithm(self) -> tuple[float, ...]:
        """The largest value of each channel that has no logarithm; -inf for channels that are used as they are."""
        shapes = () if self.scaler is None else self.scaler.shapes
        bounds = (-math.inf if shape.offset is None else -shape.offset for shape in shapes)
        return tuple(bounds) or (-math.inf,) * len(self.channels)


def _origin(trained: Trained) -> dict[str, str]:
    """Returns the names of the run and of its data, as far as they are known."""
    source = trained.facts.get("config", {}).get("data", {}).get("source")
    origin = {"run": None if trained.path is None else trained.path.name, "source": source}
    return {name: text for name, text in origin.items() if text is not None}


def prediction_names(trained: Trained) -> tuple[str, ...]:
    """Returns the names of all outputs: classes, with their target if there are several, and targets."""
    goal = trained.objective
    if not goal.heads:
        return goal.classes or trained.output_names()
    pairs = zip(goal.targets, goal.parts, strict=True)
    return tuple(
        name if classes is None else f"{name} {classes}"
        for name, part in pairs
        for classes in (part.classes or (None,))
    )


def _codes(reading: Reading) -> dict[str, tuple[str, ...]]:
    """Returns the texts of text columns that are read as codes."""
    categories = reading.options.get("categories", {})
    return {name: tuple(texts) for name, texts in categories.items() if name in reading.channels}


def exportable(model: SequenceModel) -> SequenceModel:
    """Returns a copy in float32 on the CPU and in evaluation mode; raises ValueError if it cannot be exported."""
    check("export c", model)
    remake_weights(model.layer.all_cells())
    prepared = copy.deepcopy(model).float().cpu().eval()
    prepared.start = copy.deepcopy(model.start)  # which stays float64
    return prepared


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
        model, units = deployment.model, Units(deployment.scaler, deployment.links)
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
