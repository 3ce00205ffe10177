"""Base class of the estimators: arguments and training."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ..data import VALIDATION, Parts, Sequences
from ..judge import EARLY_STOP, EPOCHS, Race, compare, remark
from ..runs import Config, DataConfig, ModelConfig, assemble_run, choose, prepare, with_forecast_defaults
from ..settings import SettingError, named, number, whole
from ..system import check_device
from ..training import AUTO, Event, ProgressBar, Settings, Trained, assemble
from ._display import Displayed
from ._inputs import OTHER_ORDER, Reader, is_frame, level_of_caller


class SequenceEstimator(Displayed):
    """Base class of SequenceClassifier, SequenceRegressor and SequenceForecaster.

    Args:
        model: Name of a registered model (`chronode.models()`); None or "auto": a short race of a few models chooses
            one (docs/choosing.md).
        hidden_size: Units of each layer; by default 64, or chosen by the race.
        num_layers: Number of stacked layers; by default 1.
        epochs: Maximum number of passes over the training series.
        batch_size: Series per optimizer step; by default 16, or 64 if no model is named and there are 1,000 series.
        learning_rate: Learning rate.
        validation: Share of the groups that is held out; by default 15 of 85, as in `chronode train` after the test
            part. The weights of the epoch with the lowest loss on it are kept. 0: nothing is held out, and the loss on
            the training series decides.
        early_stop: Number of epochs without a lower validation loss after which training stops; 0 for never.
        order: Order of the axes of 3-D arrays: "NDT" (series, channels, time, as in aeon and sktime) or "NTD"; in a
            list, of each 2-D array without the N.
        missing: Whether values may be missing (NaN); by default if some training values are.
        settings: Settings of the layer and the model (`{"dropout": 0.1, "bidirectional": True}`) and of `ModelSpec`.
        training: Other `chronode.training.Settings` (`{"optimizer": "adamw", "weight_decay": 0.01}`).
        start: "linear": a linear model is fitted first, and the network learns the residuals; "summaries": the same
            with features that can be updated step by step, for live data and export; "stacked": several linear
            models and gradient boosting; "none": the network alone. By default "linear" if no model is named.
        budget: Approximate time of the race of models, such as "90s" or "2m".
        refit: Whether to choose the number of epochs by cross-validation and then train on all series. By default if
            no model is named and there are fewer than 500 series.
        categorical: Treatment of text in a long frame: "error", "codes" or "onehot".
        ignore: Columns of a long frame to leave out.
        static: Columns of a long frame with one value per series, such as age or sex; numbers or text.
        log: Channels with positive values or counts that are modeled as logarithms (of 1 + value if zeros occur), or
            "all"; predictions are in the original units.
        clip_values: Whether values are clipped to the 0.5 to 99.5% range of each channel in training: "on", "off", or
            "auto" for channels with values more than 20 times that range beyond it.
        gaps: Gaps of more than 50 times the median: "keep", "cap" or "log" (all gaps on a logarithmic scale).
        verbose: Whether to show a progress bar during training.
        callbacks: Functions that are called with each `BatchDone`, `EpochDone` and `Note` of `chronode.training`; not
            saved.
        n_threads: Threads of torch in training; by default chosen automatically.
        device: Device for training and prediction: "cpu" or "cuda".
        random_state: Random seed; an integer makes training reproducible.
    """

    _kind: ClassVar[str]
    _races: ClassVar[bool] = True

    race_: Race | None = None

    def __init__(
        self,
        model: str | None = None,
        *,
        hidden_size: int | None = None,
        num_layers: int | None = None,
        epochs: int = EPOCHS,
        batch_size: int | None = None,
        learning_rate: float = 5e-3,
        validation: float = VALIDATION,
        early_stop: int = EARLY_STOP,
        order: str = "NDT",
        missing: bool | None = None,
        settings: dict[str, Any] | None = None,
        training: dict[str, Any] | None = None,
        start: str | None = None,
        budget: str | float = "1m",
        refit: bool | None = None,
        categorical: str = "error",
        ignore: Sequence[str] | None = None,
        static: Sequence[str] | None = None,
        log: Sequence[str] | str | None = None,
        clip_values: str = "auto",
        gaps: str = "keep",
        verbose: bool | int = False,
        callbacks: Sequence[Callable[[Event], None]] | None = None,
        n_threads: int | None = None,
        device: str = "cpu",
        random_state: int | np.random.RandomState | None = None,
    ):
        self.model = model
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.validation = validation
        self.early_stop = early_stop
        self.order = order
        self.missing = missing
        self.settings = settings
        self.training = training
        self.start = start
        self.budget = budget
        self.refit = refit
        self.categorical = categorical
        self.ignore = ignore
        self.static = static
        self.log = log
        self.clip_values = clip_values
        self.gaps = gaps
        self.verbose = verbose
        self.callbacks = callbacks
        self.n_threads = n_threads
        self.device = device
        self.random_state = random_state

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
            found = self.reading_.matching(self.reading_.extended(s), "X", anyway=True)
        except ValueError as error:
            if s.num_channels == count or not (s.lengths == count).all():
                raise
            raise SettingError(
                f"{error}\n  Did you mean {named('order', OTHER_ORDER[self.order])}?", argument="order"
            ) from None
        for note in found.notes[len(s.notes) :]:
            warnings.warn(note, UserWarning, stacklevel=level_of_caller())
        return found

    # ---- training ---------------------------------------------------------------------------------------

    def _train(
        self, s: Sequences, roles: Mapping[str, str], class_weights: str | list[float] | None = None, **known: Any
    ) -> None:
        """Trains new weights on series with a target; `known` are additional attributes of the fitted estimator."""
        config = self._config(s, self.epochs, class_weights, **roles)
        prepared = prepare(config, s)
        config, self.race_ = choose(config, prepared, free=self._free())
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
        settings = with_forecast_defaults(config, self._free(), prepared).training
        # If training fails, this estimator is unchanged; the linear part of the model does not change.
        model = copy.deepcopy(self.model_)
        assembly = assemble(prepared.parts, model, settings, objective=prepared.objective)
        fitted = assembly.fit(on_event=self._listener(settings))
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
        log = (self.log,) if isinstance(self.log, str) else tuple(self.log or ())
        data: dict[str, Any] = {"split": self._split(s), "log": log, "clip_values": self.clip_values, "gaps": self.gaps}
        data |= {**self._data(s), **roles}
        sizes = {"hidden_size": "hidden", "num_layers": "layers"}
        # A grid search passes NumPy numbers, but a spec is stored as JSON.
        model: dict[str, Any] = {
            own: whole(name, size, at_least=1) for name, own in sizes.items() if (size := getattr(self, name))
        }
        model["settings"] = self._own("settings", self.settings, ("model", "hidden_size", "num_layers", "missing"))
        model |= {"model": self.model or AUTO, "missing": self.missing, "start": self.start, "budget": self.budget}
        return Config(DataConfig(**data), ModelConfig(**model), self._training(epochs, class_weights))

    def _data(self, s: Sequences) -> dict[str, Any]:
        """Returns the settings of the data that only some estimators have."""
        return {}

    def _split(self, s: Sequences) -> tuple[float, ...]:
        """Returns the shares of training, validation and test."""
        share = number("validation", self.validation, at_least=0, below=1)
        return (1 - share, share, 0.0) if share and len(np.unique(s.groups)) > 1 else (1.0, 0.0, 0.0)

    def _free(self) -> set[str]:
        """Returns the settings that a race may choose."""
        usual = {"batch_size": None, "refit": None, "epochs": EPOCHS, "early_stop": EARLY_STOP}
        given = {name for name, value in usual.items() if getattr(self, name) != value} | set(self.training or {})
        sizes = {"hidden": self.hidden_size, "layers": self.num_layers}
        return {field.name for field in fields(Settings)} - given | {name for name, size in sizes.items() if not size}

    def _keep_fitted(self, fitted: Trained) -> None:
        self._keep(fitted)
        if fitted.stopped == "interrupted":
            raise KeyboardInterrupt  # the estimator is usable with the weights so far

    def _seed(self) -> int:
        if isinstance(self.random_state, (int, np.integer)):  # the same seed as --seed of the command line
            return whole("random_state", self.random_state, at_least=0)
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _training(self, epochs: int, class_weights: str | list[float] | None) -> Settings:
        own = ("epochs", "batch_size", "learning_rate", "early_stop", "refit", "seed", "threads", "accelerator")
        options = {
            "epochs": epochs,
            "batch_size": 16 if self.batch_size is None else self.batch_size,
            "learning_rate": self.learning_rate,
            "early_stop": self.early_stop,
            "threads": self.n_threads,
            "accelerator": "gpu" if check_device("device", self.device) == "cuda" else "cpu",
            "metric": None if self._races and self.model in (None, AUTO) else "loss",
            "refit": self.refit,
            "class_weights": class_weights,
            "seed": self._seed(),
        }
        return Settings.from_dict({**options, **self._own("training", self.training, own)})

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
