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

from ..data import (
    VALIDATION,
    Parts,
    Reading,
    Scaler,
    Sequences,
    hold_out,
    note_on_gaps,
    options_like,
    ranges_of,
    remarks,
    shaping,
)
from ..judge import (
    EARLY_STOP,
    EPOCHS,
    Candidate,
    Race,
    auto_settings,
    can_race,
    candidates_for,
    compare,
    pools_for,
    race,
    remark,
)
from ..model import ModelSpec, SequenceModel
from ..settings import SettingError, named, number, one_of, whole
from ..system import check_device
from ..training import AUTO, STARTS, Event, Objective, ProgressBar, Settings, Trained, fit, together
from ._display import Displayed
from ._inputs import OTHER_ORDER, Reader, is_frame, level_of_caller

USUAL_MODEL = "mmrnn"
"""Model of an estimator that is given none."""


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
            with features that can be updated step by step, for live data and export; "none": the network alone. By
            default "linear" if no model is named.
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
        seed = self._seed()
        options = {**options_like(s), **roles}
        reading = Reading.of(s, options=options, target=(), missing=True, **self._forecast_fields(s, seed))
        own = s.channels
        s = reading.extended(s)
        missing = s.has_missing if self.missing is None else self.missing
        reading = replace(reading, channels=s.channels, static=s.static_names, missing=missing)
        train, valid = self._divide(s, reading, seed)
        settings, auto = self._training(self.epochs, seed, class_weights), self._is_auto(train, valid)
        if auto:
            settings = auto_settings(settings, self._free(), len(s))
        fitted_to = together(train, valid) if settings.refit else train
        shapes = shaping(fitted_to, own, log=self.log or (), clip_values=self.clip_values, gaps=self.gaps)
        scaler = self._fit_scaler(fitted_to, reading, **shapes)
        reading = replace(reading, scaler=scaler, ranges=ranges_of(fitted_to))
        chosen = Candidate(self._name() or USUAL_MODEL, self._network())
        self.race_ = None
        if auto or settings.refit:
            self.race_ = self._race(train, valid, reading, settings, None if auto else chosen)
            chosen, settings = self.race_.winner, self.race_.settings
        fields_of_spec: dict[str, Any] = {"missing": missing, "relative": reading.relative, **chosen.network}
        fitted = self._run(train, valid, ModelSpec.for_data(train, chosen.model, **fields_of_spec), reading, settings)
        found = () if self.race_ is None else (f"model: {self.race_.reason}",)
        found += self._compare(fitted, train, valid, reading)
        about = (
            *s.notes,
            *remarks(s),
            *note_on_gaps(s, self.gaps),
            *scaler.notes(),
            *train.notes,
            *fitted.notes,
            *found,
        )
        for name, value in known.items():
            setattr(self, name, value)
        self._keep_fitted(replace(fitted, record=replace(fitted.record, notes=tuple(dict.fromkeys(about)))), reading)

    def _compare(self, fitted: Trained, train: Sequences, valid: Sequences, reading: Reading) -> tuple[str, ...]:
        """Measures the baselines on held-out series; returns a message if the model does not beat them."""
        self.validated_, self.baselines_ = {}, {}
        if not self._races or train is valid or reading.scaler is None:
            return ()
        parts = [reading.scaler.transform(part) for part in (train, valid)]
        self.validated_, self.baselines_ = compare(fitted, self.race_, *parts)
        return remark(fitted, self.validated_, self.baselines_, len(train))

    def _train_on(self, s: Sequences, epochs: int | None, class_weights: str | list[float] | None = None) -> None:
        """Continues training on more series; the scaling is unchanged."""
        seed = self._seed()
        train, valid = self._divide(s, self.reading_, seed)
        settings = self._training(self.epochs if epochs is None else epochs, seed, class_weights)
        # If training fails, this estimator is unchanged.
        fitted = self._run(train, valid, copy.deepcopy(self.model_), self.reading_, settings)
        epochs_before = {"history": (*self.history_, *fitted.history), "notes": self.notes_}
        record = replace(fitted.record, best_epoch=len(self.history_) + fitted.best_epoch, **epochs_before)
        self._keep_fitted(replace(fitted, record=record), self.reading_)

    def _run(
        self, train: Sequences, valid: Sequences, model: ModelSpec | SequenceModel, reading: Reading, settings: Settings
    ) -> Trained:
        scaler = reading.scaler
        assert scaler is not None
        # When training continues, the linear part does not change; a race has fitted it already.
        linear = None if self.race_ is None else self.race_.linear
        start = "none" if isinstance(model, SequenceModel) else linear or self._start(train)
        settings = self._completed(settings, train)
        parts = [scaler.transform(part, compact=not reading.horizon) for part in (train, valid)]
        about: dict[str, Any] = {"start": start, "scaler": scaler, "on_event": self._listener(settings)}
        about["objective"] = self._objective(parts[0], scaler, continued=isinstance(model, SequenceModel))
        return fit(parts[0], model, settings, valid=parts[1], **about)

    def _completed(self, settings: Settings, train: Sequences) -> Settings:
        """Returns the settings with defaults that depend on the training series."""
        return settings

    def _listener(self, settings: Settings) -> Callable[[Event], None] | None:
        """Returns what is called during training: the progress bar and the callbacks."""
        called = [*([ProgressBar(settings.epochs)] if self.verbose else []), *(self.callbacks or ())]

        def listen(event: Event) -> None:
            for callback in called:
                callback(event)

        return listen if called else None

    def _race(
        self, train: Sequences, valid: Sequences, reading: Reading, settings: Settings, only: Candidate | None
    ) -> Race:
        """Chooses a model and its number of epochs; of `only` one, the number of epochs."""
        scaler = reading.scaler
        assert scaler is not None
        scaled = scaler.transform(valid)
        parts = Parts(scaler.transform(train), scaled, scaled, scaler)
        network = self._network()
        candidates = [only] if only else candidates_for(parts.train, network, small=bool(settings.refit))
        options = {"budget": self.budget, "start": self._start(train), "free": self._free(), "missing": reading.missing}
        pools = () if only else pools_for(network)
        goal = self._objective(parts.train, scaler)
        return race(parts, goal, settings, candidates, pools=pools, **options)

    def _objective(self, train: Sequences, scaler: Scaler | None, *, continued: bool = False) -> Objective:
        """Returns what is learned from series that are scaled; `continued`: by an estimator that is already fitted."""
        return Objective.for_data(train, scaler=scaler)

    def _name(self) -> str | None:
        """Returns the model, if one is named."""
        return None if self.model == AUTO else self.model

    def _network(self) -> dict[str, Any]:
        """Returns the sizes and settings of the model that are given."""
        network = self._own("settings", self.settings, ("model", "hidden_size", "num_layers", "missing"))
        for name in ("hidden_size", "num_layers"):
            if (size := getattr(self, name)) is not None:
                # A grid search passes NumPy numbers, but a spec is stored as JSON.
                network[name] = whole(name, size, at_least=1)
        return network

    def _start(self, train: Sequences) -> str:
        usual = "linear" if self._name() is None and train.base_values.dtype.kind == "f" else "none"
        return usual if self.start is None else one_of("start", self.start, STARTS)

    def _is_auto(self, train: Sequences, valid: Sequences) -> bool:
        """Returns whether a race chooses the model."""
        return self._races and self._name() is None and train is not valid and can_race(train, valid)

    def _free(self) -> set[str]:
        """Returns the training settings that a race may choose."""
        usual = {"batch_size": None, "refit": None, "epochs": EPOCHS, "early_stop": EARLY_STOP}
        given = {name for name, value in usual.items() if getattr(self, name) != value} | set(self.training or {})
        return {field.name for field in fields(Settings)} - given

    def _forecast_fields(self, s: Sequences, seed: int) -> dict[str, Any]:
        """Returns the fields of the Reading about forecasts."""
        return {}

    def _fit_scaler(self, train: Sequences, reading: Reading, **shapes: Any) -> Scaler:
        return Scaler.fit(train, **shapes)

    def _keep_fitted(self, fitted: Trained, reading: Reading) -> None:
        self._keep(replace(fitted, reading=reading))
        if fitted.stopped == "interrupted":
            raise KeyboardInterrupt  # the estimator is usable with the weights so far

    def _divide(self, s: Sequences, reading: Reading, seed: int) -> tuple[Sequences, Sequences]:
        """Splits series into training and validation."""
        share = number("validation", self.validation, at_least=0, below=1)
        if share == 0 or len(np.unique(s.groups)) < 2:
            return s, s
        return hold_out(s, share, seed=seed)

    def _seed(self) -> int:
        if isinstance(self.random_state, (int, np.integer)):  # the same seed as --seed of the command line
            return whole("random_state", self.random_state, at_least=0)
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _training(self, epochs: int, seed: int, class_weights: str | list[float] | None) -> Settings:
        own = ("epochs", "batch_size", "learning_rate", "early_stop", "refit", "seed", "threads", "accelerator")
        options = {
            "epochs": epochs,
            "batch_size": 16 if self.batch_size is None else self.batch_size,
            "learning_rate": self.learning_rate,
            "early_stop": self.early_stop,
            "threads": self.n_threads,
            "accelerator": "gpu" if check_device("device", self.device) == "cuda" else "cpu",
            "metric": None if self._races and self._name() is None else "loss",
            "refit": self.refit,
            "class_weights": class_weights,
            "seed": seed,
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
