"""Estimators in a folder: weights as safetensors, all else as JSON; nothing in it is run when it is loaded."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from .._files import replacing
from .._version import __version__
from ..data import Clock, Scaler
from ..model import SequenceModel
from ..training import Epoch

if TYPE_CHECKING:
    from typing_extensions import Self

_FACTS = "estimator.json"
_MODEL = "model"


class Stored(BaseEstimator):
    """A fitted estimator's state, and its `save` and `load`."""

    model_: SequenceModel
    scaler_: Scaler
    options_: dict[str, Any]
    roles_: dict[str, str]
    clock_: Clock
    history_: tuple[Epoch, ...]
    best_epoch_: int
    notes_: tuple[str, ...]
    n_features_in_: int

    def save(self, folder: str | Path) -> Path:
        """Writes the fitted estimator into `folder`: model.safetensors, model.json and estimator.json.

        A `random_state` that is a generator is not stored; None takes its place.
        """
        check_is_fitted(self, "model_")
        folder = Path(folder)
        if folder.exists() and not folder.is_dir():
            raise ValueError(f"{folder} is a file; give a folder to save into.")
        text = json.dumps(self._facts(), indent=1, default=_plain)
        self.model_.save(folder / _MODEL)
        with replacing(folder / _FACTS) as draft:
            draft.write_text(text, encoding="utf-8")
        return folder

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """Reads what `save` wrote."""
        path = Path(folder) / _FACTS
        if not path.is_file():
            raise FileNotFoundError(f"{path}: there is no such file; give the folder that save(folder) wrote.")
        try:
            facts = json.loads(path.read_text(encoding="utf-8"))
            if facts["estimator"] != cls.__name__:
                raise ValueError(f"this is a {facts['estimator']}: use {facts['estimator']}.load.")
            made = cls(**facts["arguments"])
            made._restore(facts)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{path}: this is no estimator that this chronode can read ({error}).") from error
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
        made.model_ = SequenceModel.load(Path(folder) / _MODEL)
        return made

    def _facts(self) -> dict[str, Any]:
        """All but the weights, for JSON."""
        arguments = self.get_params(deep=False)
        if isinstance(arguments["random_state"], np.random.RandomState):
            arguments["random_state"] = None
        return {
            "estimator": type(self).__name__,
            "chronode": __version__,
            "arguments": arguments,
            "scaler": self.scaler_.as_dict(),
            "options": self.options_,
            "roles": self.roles_,
            "clock": asdict(self.clock_),
            "history": [epoch.as_dict() for epoch in self.history_],
            "best_epoch": self.best_epoch_,
            "notes": list(self.notes_),
        }

    def _restore(self, facts: dict[str, Any]) -> None:
        """Takes what `_facts` told."""
        self.scaler_ = Scaler.from_dict(facts["scaler"])
        self.options_ = facts["options"]
        self.roles_ = facts["roles"]
        self.clock_ = Clock(**facts["clock"])
        self.history_ = tuple(Epoch(**epoch) for epoch in facts["history"])
        self.best_epoch_ = facts["best_epoch"]
        self.notes_ = tuple(facts["notes"])
        self.n_features_in_ = len(self.scaler_.channels)
        if self.roles_:
            self.feature_names_in_ = np.array(self.scaler_.channels, dtype=object)


def _plain(value: Any) -> Any:
    """NumPy's numbers, which a grid search leaves in the arguments."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise TypeError(f"{value!r} ({type(value).__name__}) cannot be saved as JSON: use plain numbers, texts, lists.")
