"""Base class of the estimators: arguments and training."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ..data import Parts, Sequences
from ..judge import Race, compare, remark
from ..runs import Config, DataConfig, ModelConfig, assemble_run, choose, prepare
from ..settings import SettingError, named, number, whole
from ..system import check_device
from ..training import Event, ProgressBar, Settings, Trained, assemble
from ._arguments import COMMON, Argument, constructor, with_arguments
from ._files import Displayed
from ._inputs import OTHER_ORDER, Reader, is_frame, level_of_caller


class SequenceEstimator(Displayed):
    """Base class of SequenceClassifier, SequenceRegressor and SequenceForecaster.

    Its arguments are declared in `_arguments`; `__init__` and the section of the docstring are made from them.
    """

    _kind: ClassVar[str]
    _races: ClassVar[bool] = True
    _arguments: ClassVar[dict[str, Argument]] = COMMON

    race_: Race | None = None
    epochs: int
    validation: float
    order: str
    settings: dict[str, Any] | None
    training: dict[str, Any] | None
    log: Sequence[str] | str | None
    categorical: str
    ignore: Sequence[str] | None
    static: Sequence[str] | None
    verbose: bool | int
    callbacks: Sequence[Callable[[Event], None]] | None
    n_threads: int | None
    random_state: int | np.random.RandomState | None

    if TYPE_CHECKING:

        def __init__(self, model: str | None = None, **arguments: Any): ...

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.__init__ = constructor(cls._arguments)
        cls.__doc__ = with_arguments(cls.__doc__ or "", cls._arguments)

    def __sklearn_tags__(self) -> Any:
        tags: Any = super().__sklearn_tags__()  # pyrefly: ignore[missing-attribute]
        tags.input_tags.three_d_array = True
        tags.input_tags.allow_nan = True
        return tags

    # ---- reading ----------------------------------------------------------------------------------------

    def _new_reader(self) -> Reader:
        columns = {"ignore": self.ignore or (), "static": self.static or ()}
        return Reader(self.order, self._kind, categorical=self.categorical, **columns)

    def _reader(self) -> Reader:
        """Returns the reader of data like those of training."""
        check_is_fitted(self, "trained_")
        return Reader(self.order, self._kind, self.reading_)

    def _series(self, X: Any, times: Any, id: str | None, time: str | None) -> Sequences:
        """Reads series to predict and checks them against the training series."""
        return self._like_training(replace(self._reader().series(X, times=times, id=id, time=time), target=None))

    def _like_training(self, s: Sequences) -> Sequences:
        """Converts series to the time unit of training; rejects series that differ from training."""
        count = len(self.reading_.channels)
        try:
            series = self.reading_.matching(self.reading_.extended(s), "X", anyway=True)
        except ValueError as error:
            if s.num_channels == count or not (s.lengths == count).all():
                raise
            raise SettingError(
                f"{error}\n  Did you mean {named('order', OTHER_ORDER[self.order])}?", argument="order"
            ) from None
        for note in series.notes[len(s.notes) :]:
            warnings.warn(note, UserWarning, stacklevel=level_of_caller())
        return series

    # ---- training ---------------------------------------------------------------------------------------

    def _train(
        self, s: Sequences, roles: Mapping[str, str], class_weights: str | list[float] | None = None, **known: Any
    ) -> None:
        """Trains new weights on series with a target; `known` are additional attributes of the fitted estimator."""
        config = self._config(s, self.epochs, class_weights, **roles)
        prepared = prepare(config, s)
        progress = ProgressBar(config.training.epochs) if self.verbose else None
        config, self.race_ = choose(config, prepared, on_event=progress)
        assembly = assemble_run(config, prepared, race=self.race_)
        fitted = assembly.fit(on_event=self._listener(config.training))
        notes = (*prepared.notes, *fitted.notes)
        notes += () if self.race_ is None else (f"model: {self.race_.reason}",)
        notes += self._compare(fitted, prepared.parts)
        for name, value in known.items():
            setattr(self, name, value)
        record = replace(fitted.record, notes=tuple(dict.fromkeys(notes)))
        self._keep_fitted(replace(fitted, record=record, reading=prepared.reading))

    def _compare(self, fitted: Trained, parts: Parts) -> tuple[str, ...]:
        """Measures the baselines on held-out series; returns a message if the model does not beat them."""
        self.validated_, self.baselines_ = {}, {}
        if not self._races or parts.train is parts.valid:
            return ()
        self.validated_, self.baselines_ = compare(fitted, self.race_, parts.train, parts.valid)
        return remark(fitted, self.validated_, self.baselines_, len(parts.train))

    def _train_on(self, s: Sequences, epochs: int | None, class_weights: str | list[float] | None = None) -> None:
        """Continues training on more series; the scaling is unchanged."""
        config = self._config(s, self.epochs if epochs is None else epochs, class_weights)
        # The rarer class of more series may be the other one, but the metrics of one model have to mean the same.
        positive = config.data.positive or self.trained_.objective.positive
        config = replace(config, data=replace(config.data, positive=positive))
        prepared = prepare(config, s, self.reading_)
        # If training fails, this estimator is unchanged; the linear part of the model does not change.
        model = copy.deepcopy(self.model_)
        assembly = assemble(prepared.parts, model, config.training, objective=prepared.objective)
        fitted = assembly.fit(on_event=self._listener(config.training))
        epochs_before = {"history": (*self.history_, *fitted.history), "notes": self.notes_}
        record = replace(fitted.record, best_epoch=len(self.history_) + fitted.best_epoch, **epochs_before)
        self._keep_fitted(replace(fitted, record=record, reading=self.reading_))

    def _listener(self, settings: Settings) -> Callable[[Event], None] | None:
        """Returns what is called during training: the progress bar and the callbacks."""
        called = [*([ProgressBar(settings.epochs)] if self.verbose else []), *(self.callbacks or ())]

        def listen(event: Event) -> None:
            for callback in called:
                callback(event)

        return listen if called else None

    def _config(self, s: Sequences, epochs: int, class_weights: str | list[float] | None, **roles: Any) -> Config:
        """Returns the config with which `chronode train` makes the same model of the same series."""
        data: dict[str, Any] = {
            **self._given("log clip_values gaps"),
            "split": self._split(s),
            **self._data(s),
            **roles,
        }
        model = self._given("model hidden_size num_layers missing start budget")
        model["settings"] = self._own("settings", self.settings, ("model", "hidden_size", "num_layers", "missing"))
        training = {**self._given("batch_size learning_rate early_stop refit"), "epochs": epochs}
        training |= {"threads": self.n_threads, "seed": self._seed(), "class_weights": class_weights}
        training["accelerator"] = "gpu" if check_device("device", self.device) == "cuda" else "cpu"
        training |= self._own("training", self.training, tuple(training.keys() - {"class_weights"}))
        return Config(DataConfig(**data), ModelConfig(**model), Settings.from_dict(training))

    def _given(self, names: str) -> dict[str, Any]:
        """Returns the settings that are given as arguments, as plain values: a grid search passes NumPy numbers."""
        values = {name: getattr(self, name, None) for name in names.split()}
        values = {name: value.item() if isinstance(value, np.generic) else value for name, value in values.items()}
        if isinstance(values.get("log"), str):
            values["log"] = (values["log"],)
        kinds = (list, tuple)
        return {n: tuple(v) if isinstance(v, kinds) else v for n, v in values.items() if v is not None}

    def _data(self, s: Sequences) -> dict[str, Any]:
        """Returns the settings of the data that only some estimators have."""
        return {}

    def _split(self, s: Sequences) -> tuple[float, ...]:
        """Returns the shares of training, validation and test."""
        share = number("validation", self.validation, at_least=0, below=1)
        return (1 - share, share, 0.0) if share and len(np.unique(s.groups)) > 1 else (1.0, 0.0, 0.0)

    def _keep_fitted(self, fitted: Trained) -> None:
        self._keep(fitted)
        if fitted.stopped == "interrupted":
            raise KeyboardInterrupt  # the estimator is usable with the weights so far

    def _seed(self) -> int:
        if isinstance(self.random_state, (int, np.integer)):  # the same seed as --seed of the command line
            return whole("random_state", self.random_state, at_least=0)
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _own(self, argument: str, given: Mapping[str, Any] | None, taken: tuple[str, ...]) -> dict[str, Any]:
        """Returns a copy of `given`; rejects names that are arguments of the estimator itself."""
        for name in given or {}:
            if name in taken:
                names = {"seed": "random_state", "threads": "n_threads", "accelerator": "device"}
                other = names.get(name, name)
                raise ValueError(
                    f"{argument} contains {name!r}, which is an argument of the estimator: pass {other}=..."
                )
        return dict(given or {})

    def _roles(self, X: Any, id: str | None, time: str | None) -> dict[str, str]:
        """Returns the roles of the columns of a frame."""
        return self._new_reader().roles_of(id, time) if is_frame(X) else {}
