"""Storage of estimators in a folder: weights as safetensors, the rest as JSON, without pickles."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, get_type_hints

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from .._version import __version__
from ..data import Clock, Reading, Scaler
from ..model import SequenceModel
from ..runs import Trained
from ..settings import near
from ..storage import parse, read_json, replacing
from ..training import Epoch
from ._of_run import facts_of, is_run

if TYPE_CHECKING:
    from typing_extensions import Self

_FACTS = "estimator.json"
_MODEL = "model"


@dataclass(frozen=True)
class EstimatorFacts:
    """Content of estimator.json: everything except the weights."""

    estimator: str
    chronode: str
    arguments: dict[str, Any]
    reading: Reading
    history: tuple[Epoch, ...]
    best_epoch: int
    notes: tuple[str, ...]


class Stored(BaseEstimator):
    """Base class with the state of a fitted estimator and its `save` and `load`."""

    _facts_kind: ClassVar[type[EstimatorFacts]] = EstimatorFacts

    model_: SequenceModel
    reading_: Reading
    history_: tuple[Epoch, ...]
    best_epoch_: int
    notes_: tuple[str, ...]
    n_features_in_: int
    device: str

    @property
    def scaler_(self) -> Scaler:
        """Scaler of the channels and the numeric targets."""
        assert self.reading_.scaler is not None
        return self.reading_.scaler

    @property
    def clock_(self) -> Clock:
        """Unit of the times of training."""
        return self.reading_.clock

    def save(self, folder: str | Path) -> Path:
        """Writes the fitted estimator into `folder`: model.safetensors, model.json and estimator.json.

        Callbacks, and a `random_state` that is a generator, are stored as None.
        """
        check_is_fitted(self, "model_")
        folder = Path(folder)
        if folder.exists() and not folder.is_dir():
            raise ValueError(f"{folder} is a file, not a folder.")
        text = json.dumps(self._facts(), indent=1, default=_plain)
        self.model_.save(folder / _MODEL)
        with replacing(folder / _FACTS) as draft:
            draft.write_text(text, encoding="utf-8")
        return folder

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Loads an estimator written by `save`, or the model of a run.

        Args:
            path: A folder written by `save`, a run folder, or a file written by `chronode pack`.
        """
        path = Path(path)
        if is_run(path):
            trained = Trained.load(path)
            return cls._with_facts(path, lambda: facts_of(trained, cls.__name__), trained.model)
        file = path / _FACTS
        if not file.is_file():
            raise FileNotFoundError(f"{file}: no such file; pass a folder written by save(folder), or a run folder.")
        facts, model = read_json(file, dict[str, Any]), SequenceModel.load(path / _MODEL)
        return cls._with_facts(file, lambda: facts, model)

    @classmethod
    def _with_facts(cls, path: Path, find: Callable[[], dict[str, Any]], model: SequenceModel) -> Self:
        """Returns an estimator with the facts that `find` returns; errors begin with `path`."""
        try:
            found = find()
            name = found.get("estimator")
            if isinstance(name, str) and name != cls.__name__:
                raise ValueError(f"this is a {name}: use {name}.load.")
            facts = parse(cls._facts_kind, found)
            made = cls(**_arguments(cls, facts.arguments))
            made._restore(facts)
        except (ValueError, TypeError) as error:
            raise ValueError(f"{path}: {error}") from error
        made.model_ = model
        if made.device == "cuda" and torch.cuda.is_available():  # trained there; elsewhere it predicts on the CPU
            made.model_.to("cuda")
        made._check_sizes(path)
        return made

    def _facts(self) -> dict[str, Any]:
        """Returns everything except the weights as plain data for JSON."""
        arguments = self.get_params(deep=False)
        arguments["callbacks"] = None
        if isinstance(arguments["random_state"], np.random.RandomState):
            arguments["random_state"] = None
        return {
            "estimator": type(self).__name__,
            "chronode": __version__,
            "arguments": arguments,
            "reading": self.reading_.as_dict(),
            "history": [epoch.as_dict() for epoch in self.history_],
            "best_epoch": self.best_epoch_,
            "notes": list(self.notes_),
        }

    def _restore(self, facts: Any) -> None:
        """Restores the state from a `_facts_kind`."""
        self.history_ = facts.history
        self.best_epoch_ = facts.best_epoch
        self.notes_ = facts.notes
        self._keep_reading(facts.reading)

    def _keep_reading(self, reading: Reading) -> None:
        self.reading_ = reading
        self.n_features_in_ = len(reading.channels)
        if {"id", "time"} & reading.options.keys():  # a frame, whose channels have names
            self.feature_names_in_ = np.array(reading.channels, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _check_sizes(self, path: Path) -> None:
        """Rejects data that do not match the model next to them."""
        spec = self.model_.spec
        assert spec is not None
        if self.n_features_in_ != spec.input_size:
            raise ValueError(f"{path}: scaler has {self.n_features_in_} channels, but the model has {spec.input_size}.")
        if self._num_outputs() != spec.num_outputs:
            raise ValueError(f"{path}: {self._num_outputs()} outputs, but the model has {spec.num_outputs}.")

    def _num_outputs(self) -> int:
        """Returns the number of outputs according to the stored data."""
        raise NotImplementedError


def _arguments(cls: type[Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """Returns the arguments of the constructor, converted to their types."""
    kinds = get_type_hints(cls.__init__)
    for name in arguments:
        if name not in kinds or name == "return":
            raise ValueError(f"arguments.{name} is not a known argument.{near(name, kinds)}")
    return {name: parse(kinds[name], value, f"arguments.{name}") for name, value in arguments.items()}


def _plain(value: Any) -> Any:
    """Converts NumPy numbers, which a grid search leaves in the arguments."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise TypeError(
        f"{value!r} ({type(value).__name__}) cannot be saved as JSON: use plain numbers, strings and lists."
    )
