"""A trained model with what surrounds it, as it is exported."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field
from typing import Any

from ..compiler import remake_weights
from ..data import Reading, Scaler
from ..model import SequenceModel, check
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
        classes: Whether the outputs are class probabilities.
        scaler: Scaling of the inputs and of dt; None if they are not scaled.
        target_scaler: Scaling of the target; None if it is not scaled.
        unit: Unit of dt: "hour", "10 milliseconds"; "step" for series without times.
        gap: Typical time between observations, in that unit.
        window: Number of steps that a forecast from windows uses; 0 for other models.
        codes: Texts of the inputs that are codes, by the name of the input: text i is the value i.
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
        target_scaler = scaler if classes is None else None
        return cls(
            exportable(model),
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
        trained.check("export c")
        size = model.layer.input_size
        outputs = objective.classes or trained.output_names() or tuple(f"y{i}" for i in range(objective.num_outputs))
        return cls(
            model=exportable(model),
            channels=tuple(f"x{i}" for i in range(size)) if reading is None else reading.channels,
            outputs=tuple(map(str, outputs)),
            classes=objective.kind == "class",
            scaler=scaler,
            target_scaler=trained.scaler if objective.kind == "value" else None,
            unit="step" if reading is None else reading.unit,
            gap=1.0 if reading is None or reading.gap is None else reading.gap,
            window=0 if reading is None or model.relative is None else reading.window,
            codes={} if reading is None else _codes(reading),
            about=_origin(trained),
        )

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
        found = (-math.inf if shape.offset is None else -shape.offset for shape in shapes)
        return tuple(found) or (-math.inf,) * len(self.channels)


def _origin(trained: Trained) -> dict[str, str]:
    """Returns the names of the run and of its data, as far as they are known."""
    source = trained.facts.get("config", {}).get("data", {}).get("source")
    origin = {"run": None if trained.path is None else trained.path.name, "source": source}
    return {name: text for name, text in origin.items() if text is not None}


def _codes(reading: Reading) -> dict[str, tuple[str, ...]]:
    """Returns the texts of text columns that are read as codes."""
    categories = reading.options.get("categories", {})
    return {name: tuple(texts) for name, texts in categories.items() if name in reading.channels}


def exportable(model: SequenceModel) -> SequenceModel:
    """Returns a copy in float32 on the CPU and in evaluation mode; raises ValueError if it cannot be exported."""
    check("export c", model)
    remake_weights(model.layer.all_cells())
    made = copy.deepcopy(model).float().cpu().eval()
    made.start = copy.deepcopy(model.start)  # which stays float64
    return made
