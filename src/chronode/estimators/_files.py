"""The state of a fitted estimator, which is a `Trained`: its files, which are those of a run, and its display."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, get_type_hints

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from .._version import __version__
from ..data import Clock, Reading, Scaler, holiday_place
from ..model import SequenceModel
from ..runs import load, save
from ..settings import near
from ..storage import parse
from ..system import drawn
from ..training import Epoch, Record, Trained

if TYPE_CHECKING:
    from typing_extensions import Self

_BY_KIND = {"class": "SequenceClassifier", "value": "SequenceRegressor"}


def as_estimator(trained: Trained, estimator: str) -> Trained:
    """Returns a trained model with the facts of an estimator; those of a run are completed.

    Args:
        trained: The model.
        estimator: Name of the class of the estimator.

    Raises:
        ValueError: The model is not that of such an estimator.
    """
    reading, objective = trained.reading, trained.objective
    if reading is None or objective.per_step or (reading.window and not reading.horizon):
        raise ValueError("the model does not make one prediction per series of a file: use chronode.load.")
    kind = "SequenceForecaster" if reading.horizon else _BY_KIND[objective.kind]
    stored = trained.facts.get("estimator", {"estimator": kind})
    if isinstance(stored, dict) and isinstance(name := stored.get("estimator"), str) and name != estimator:
        raise ValueError(f"this is a {name}: use {name}.load.")
    if "estimator" in trained.facts:
        return trained
    scaler = _scaler(trained, reading)
    objective, reading = replace(objective, scaler=scaler), replace(reading, scaler=scaler)
    facts = {**trained.facts, "estimator": _facts_of(trained, reading, estimator)}
    return replace(trained, objective=objective, reading=reading, facts=facts)


def _facts_of(trained: Trained, reading: Reading, estimator: str) -> dict[str, Any]:
    """Returns the facts that an estimator with the model of a run would save."""
    objective, spec = trained.objective, trained.spec
    assert spec is not None
    arguments = {"model": spec.model, "hidden_size": spec.hidden_size, "num_layers": spec.num_layers}
    arguments |= {"missing": spec.missing, "settings": dict(spec.settings) or None}
    facts = {"estimator": estimator, "chronode": __version__, "arguments": arguments}
    facts |= {"history": [], "best_epoch": 0, "notes": []}
    if reading.horizon:
        names = {"horizon": reading.horizon, "channels": reading.forecast_channels, "window": reading.window}
        place = holiday_place(reading.calendar)
        calendar = len(reading.calendar) > (place is not None)
        names |= {"known": reading.known or None, "calendar": calendar, "holidays": place}
        levels = {"intervals": trained.levels()} if trained.levels() else {}
        return facts | {"arguments": {**arguments, **names, **levels}}
    if objective.classes is None:
        return facts | {"flat": objective.num_outputs == 1}
    labels = _labels(objective.classes)
    positive = None if objective.positive is None else labels["classes"][objective.positive_number]
    return facts | labels | {"positive": positive}


def _labels(classes: tuple[str, ...]) -> dict[str, Any]:
    """Returns the classes as labels: whole numbers if all of them are, else text."""
    if all(name.removeprefix("-").isdecimal() for name in classes):
        return {"classes": [int(name) for name in classes], "label_type": "<i8"}
    return {"classes": list(classes), "label_type": "U"}


def _scaler(trained: Trained, reading: Reading) -> Scaler:
    """Returns the scaling of channels and targets; without one, values stay as they are."""
    count = len(reading.channels)
    scaler = reading.scaler or Scaler(reading.channels, (0.0,) * count, (1.0,) * count)
    if trained.objective.classes is not None or scaler.targets:
        return scaler
    names = trained.output_names()
    return replace(scaler, targets=names, target_mean=(0.0,) * len(names), target_std=(1.0,) * len(names))


@dataclass(frozen=True)
class EstimatorFacts:
    """The facts of an estimator that are stored with its model."""

    estimator: str
    chronode: str
    arguments: dict[str, Any]
    history: tuple[Epoch, ...]
    best_epoch: int
    notes: tuple[str, ...]


class Stored(BaseEstimator):
    """Base class with the state of a fitted estimator and its `save` and `load`.

    Attributes:
        trained_: The trained model, as `chronode.load` returns it: it can be streamed, exported and packed.
    """

    _facts_kind: ClassVar[type[EstimatorFacts]] = EstimatorFacts

    trained_: Trained
    n_features_in_: int
    device: str

    @property
    def model_(self) -> SequenceModel:
        """The trained SequenceModel."""
        return self.trained_.model

    @property
    def reading_(self) -> Reading:
        """Schema by which later series are read."""
        assert self.trained_.reading is not None
        return self.trained_.reading

    @property
    def history_(self) -> tuple[Epoch, ...]:
        """One `Epoch` for each pass over the training series."""
        return self.trained_.history

    @property
    def best_epoch_(self) -> int:
        """Epoch of the weights, from 1."""
        return self.trained_.best_epoch

    @property
    def notes_(self) -> tuple[str, ...]:
        """Remarks about the data."""
        return self.trained_.notes

    @property
    def scaler_(self) -> Scaler:
        """Scaler of the channels and the numeric targets."""
        assert self.trained_.scaler is not None
        return self.trained_.scaler

    @property
    def clock_(self) -> Clock:
        """Unit of the times of training."""
        return self.reading_.clock

    def save(self, path: str | Path) -> Path:
        """Writes the fitted estimator as one file if the name ends with .chronode, otherwise into a folder.

        Both can be used in place of a run folder, for example by `chronode predict`. Callbacks, and a `random_state`
        that is a generator, are stored as None.
        """
        check_is_fitted(self, "trained_")
        facts = {**self.trained_.facts, "estimator": _plain(self._facts())}
        return save(replace(self.trained_, facts=facts), path)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Loads an estimator written by `save`, or the model of a run.

        Args:
            path: A folder or file written by `save`, a run folder, or a file written by `chronode pack`.
        """
        path = Path(path)
        stored = path / "estimator.json"
        if path.is_dir() and not (path / "run.json").is_file() and not stored.is_file():
            raise FileNotFoundError(f"{stored}: no such file; pass what save(path) wrote, or a run folder.")
        trained = load(path)
        try:
            trained = as_estimator(trained, cls.__name__)
            facts = parse(cls._facts_kind, trained.facts["estimator"])
            estimator = cls(**_arguments(cls, facts.arguments))
            record = Record(history=facts.history, best_epoch=facts.best_epoch, notes=facts.notes)
            estimator._keep(replace(trained, record=record))
            estimator._restore(facts)
        except (ValueError, TypeError) as error:
            raise ValueError(f"{stored if stored.is_file() else path}: {error}") from error
        return estimator

    def _facts(self) -> dict[str, Any]:
        """Returns the facts to store beside the model."""
        arguments = self.get_params(deep=False)
        arguments["callbacks"] = None
        if isinstance(arguments["random_state"], np.random.RandomState):
            arguments["random_state"] = None
        return {
            "estimator": type(self).__name__,
            "chronode": __version__,
            "arguments": arguments,
            "history": [epoch.as_dict() for epoch in self.history_],
            "best_epoch": self.best_epoch_,
            "notes": list(self.notes_),
        }

    def _restore(self, facts: Any) -> None:
        """Restores what a `_facts_kind` has besides the model."""

    def _keep(self, trained: Trained) -> None:
        """Takes a trained model; one that was trained on a GPU predicts on the CPU where there is none."""
        assert trained.reading is not None
        self.trained_ = trained
        if self.device == "cpu" or torch.cuda.is_available():
            trained.model.to(self.device)
        self.n_features_in_ = len(trained.reading.channels)
        if {"id", "time"} & trained.reading.options.keys():  # a frame, whose channels have names
            self.feature_names_in_ = np.array(trained.reading.channels, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_


def _arguments(cls: type[Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """Returns the arguments of the constructor, converted to their types."""
    kinds = get_type_hints(cls.__init__)
    for name in arguments:
        if name not in kinds or name == "return":
            raise ValueError(f"arguments.{name} is not a known argument.{near(name, kinds)}")
    return {name: parse(kinds[name], value, f"arguments.{name}") for name, value in arguments.items()}


def _plain(value: Any) -> Any:
    """Converts NumPy numbers, which a grid search leaves in the arguments; rejects what JSON cannot hold."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic | np.ndarray):
        return _plain(value.tolist())
    if value is None or isinstance(value, str | int | float):
        return value
    raise TypeError(
        f"{value!r} ({type(value).__name__}) cannot be saved as JSON: use plain numbers, strings and lists."
    )


class Displayed(Stored):
    """Base class that adds facts of the fitted model to scikit-learn's diagram."""

    def _repr_html_inner(self) -> str:
        return super()._repr_html_inner() + self._fitted_html()  # pyrefly: ignore[missing-attribute]

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        bundle = super()._repr_mimebundle_(**options)  # pyrefly: ignore[missing-attribute]
        return {kind: text + self._fitted_html() if kind == "text/html" else text for kind, text in bundle.items()}

    validated_: Mapping[str, float] = MappingProxyType({})
    baselines_: Mapping[str, Mapping[str, float]] = MappingProxyType({})

    def _fitted_html(self) -> str:
        """Returns what a notebook shows below scikit-learn's diagram."""
        return drawn("fitted_html", self) if hasattr(self, "trained_") else ""
