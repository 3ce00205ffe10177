"""Trained: the one form of a trained model, which every consumer takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data import Reading, Scaler, Sequences, listed
from ..model import ModelSpec, Refusal, Relative, SequenceModel, refusal
from ..settings import SettingError, named, one_of, percents
from ._calibration import USUAL_INTERVALS, interval_scores, intervals_of
from ._events import Epoch
from ._explain import Explanation, explain
from ._objective import Objective
from ._predict import Predictions, evaluate, evaluate_targets, predict
from ._settings import Settings


@dataclass(frozen=True)
class Record:
    """Record of a training.

    Attributes:
        history: All epochs.
        best_epoch: Epoch of the weights, from 1; 0 if no epoch was completed or improved on the linear start.
        stopped: "epochs" (all done), "steps", "early" (no improvement for too long), "interrupted" or "fault".
        seconds: Wall-clock time, over all pieces of a resumed run.
        cpu_seconds: CPU time, over all threads and all pieces of a resumed run.
        steps: Number of optimizer steps.
        notes: Remarks about the data for the user.
        start: Results of the linear start alone, as epoch 0; None without a linear start.
        joined: Results of the weighted mean of network and start, if they were fitted apart from each other.
        chance: The gain on the linear start, as a share of what is left to gain, that an epoch has to exceed.
        baseline: Baseline whose forecasts these are, because it was better on the validation part: "last value" or
            "seasonal naive (12)"; empty for the model itself.
        settings: Training settings; None if they are not known.
    """

    history: tuple[Epoch, ...] = ()
    best_epoch: int = 0
    stopped: str = ""
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    steps: int = 0
    notes: tuple[str, ...] = ()
    start: Epoch | None = None
    joined: Epoch | None = None
    chance: float | None = None
    baseline: str = ""
    settings: Settings | None = None


@dataclass(frozen=True)
class Trained:
    """Trained model: the result of `fit`, the content of a run folder and of a packed file, `trained_` of an estimator.

    Attributes:
        model: Model with the weights of the best epoch by validation, in evaluation mode.
        objective: Loss and metrics, names of the classes, and the scaler of the data.
        reading: Schema by which later files and frames are read; None if it was trained on a task or on Sequences.
        record: Record of the training.
        facts: Further facts as plain data: "config", "data", "summary", "environment" of a run, "estimator".
        path: Run folder or file that it was loaded from; None for a model that was just trained.

    Example:
        >>> from chronode.data import from_list
        >>> from chronode.training import fit
        >>> s = from_list([[1.0, 2.0], [3.0]] * 8, target=["a", "b"] * 8)
        >>> trained = fit(s, "gru", Settings(epochs=1))
        >>> trained.predict(s[:2]).classes, trained.can("export c"), trained.can("stream").cure
        (('a', 'b'), None, 'train on a file')
    """

    model: SequenceModel
    objective: Objective
    reading: Reading | None = None
    record: Record = field(default_factory=Record)
    facts: Mapping[str, Any] = field(default_factory=dict)
    path: Path | None = None

    @property
    def spec(self) -> ModelSpec | None:
        """The spec of the model; None if it was assembled by hand."""
        return self.model.spec

    @property
    def scaler(self) -> Scaler | None:
        """Scaler of the training data; None if they are not scaled."""
        return self.objective.scaler

    @property
    def history(self) -> tuple[Epoch, ...]:
        """All epochs."""
        return self.record.history

    @property
    def best_epoch(self) -> int:
        """Epoch of the weights, from 1; 0 if no epoch was completed or improved on the linear start."""
        return self.record.best_epoch

    @property
    def best(self) -> Epoch | None:
        """The best epoch by validation, joined with a start that was fitted apart; the start if no epoch was better."""
        if self.record.joined is not None:
            return self.record.joined
        return self.history[self.best_epoch - 1] if self.best_epoch else self.record.start

    @property
    def stopped(self) -> str:
        """Reason for the end of training."""
        return self.record.stopped

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks about the data for the user."""
        return self.record.notes

    @property
    def by_target(self) -> Mapping[str, Trained]:
        """The model of each target by its name: of several targets with classes among them, the same body with one
        head; of others, this model.
        """
        goal, reading = self.objective, self.reading
        if not goal.heads:
            return {", ".join(self.output_names()) or "target": self}
        models: dict[str, Trained] = {}
        for number, (name, part) in enumerate(zip(goal.targets, goal.parts, strict=True)):
            model = self.model.part(number, goal.spans[number])
            if reading is not None:
                classes = None if part.classes is None else list(part.classes)
                options = {**reading.options, "kind": part.kind, "classes": classes}
                own = replace(reading, target=(name,), options=options)
                models[name] = replace(self, model=model, objective=part, reading=replace(own, scaler=part.scaler))
            else:
                models[name] = replace(self, model=model, objective=part)
        return models

    def of_target(self, target: str | None, capability: str) -> Trained:
        """Returns the model of one target, for what is done with one target at a time.

        Args:
            target: Name of the target; None for the only one.
            capability: Use of it, such as "a threshold", for messages.
        """
        models = self.by_target
        if target is None and len(models) > 1:
            names = listed(models)
            cure = f"pass {named('target', next(iter(models)))} or another of {names}"
            raise SettingError(f"{capability} is done for one target of {len(models)}", argument="target", cure=cure)
        return next(iter(models.values())) if target is None else models[one_of("target", target, tuple(models))]

    # ---- capabilities -------------------------------------------------------------------------------------

    def can(self, capability: str) -> Refusal | None:
        """Returns None if the model can do something, otherwise the reason with the cure.

        Args:
            capability: "predict", "evaluate", "intervals", "explain", "backtest", "step", "stream", "export c",
                "export onnx", "export pt2" or "pack".
        """
        return refusal(capability, self.model, self.reading)

    def check(self, capability: str) -> None:
        """Raises a SettingError with the reason and the cure if the model cannot do something."""
        if (found := self.can(capability)) is not None:
            raise found.error()

    def of_series(self, id: str | int | None) -> Trained:
        """Returns the model of one series of a panel of which each has a linear map of its own, for export; with None,
        that of unknown series.
        """
        return replace(self, model=self.model.of_series(id))

    # ---- use ----------------------------------------------------------------------------------------------

    def series(self, source: Any, *, labeled: bool, anyway: bool = False, labels: Any = None) -> Sequences:
        """Reads and scales the series of a file or a frame as in training.

        Args:
            source: A file, or a frame of pandas or polars.
            labeled: Whether to read the targets.
            anyway: Whether to accept times or values that seem to be in other units.
            labels: Second file or frame, with the target of each id.
        """
        if self.reading is None:
            raise ValueError("the model was trained on a task or on Sequences and cannot read files.")
        return self.reading.read(source, labeled=labeled, anyway=anyway, labels=labels)

    def evaluate(self, data: Sequences) -> dict[str, float]:
        """Returns loss and metrics on series that are scaled like the training series."""
        return evaluate(self.model, self.objective, data)

    def evaluate_targets(self, data: Sequences) -> dict[str, dict[str, float]]:
        """Returns the metrics of each target in its own units; empty for a single target."""
        return evaluate_targets(self.model, self.objective, data)

    def predict(self, data: Any, *, anyway: bool = False) -> Predictions:
        """Returns class probabilities or values (in the units of the target).

        Args:
            data: A file, a folder or a pattern of files, or a frame of pandas or polars, as for `chronode predict`; or
                series that are scaled like the training series.
            anyway: Whether to accept times or values of a file or frame that seem to be in other units.
        """
        if not isinstance(data, Sequences):
            data = self.series(data, labeled=False, anyway=anyway)
        predictions = predict(self.model, self.objective, data)
        return replace(predictions, names=self.output_names() or predictions.names)

    def explain(self, data: Sequences, *, of: str | None = None, spans: int = 4) -> Explanation:
        """Returns the contributions of every channel, static column and span of time to the prediction of each series.

        Args:
            data: Series that are scaled like the training series.
            of: Class or target to explain; by default the positive of two classes, the predicted one of more, or the
                first target.
            spans: Number of spans of equal duration.
        """
        self.check("explain")
        return explain(self.model, self.objective, data, self.output_names(), of=of, spans=spans)

    def output_names(self) -> tuple[str, ...]:
        """Names of the target columns; empty if only the data have them."""
        reading, scaler = self.reading, self.scaler
        if reading is None:
            return ()
        if reading.horizon:
            steps = range(1, reading.horizon + 1)
            return tuple(f"{name}+{step}" for step in steps for name in reading.forecast_channels)
        values = self.objective.classes is None
        return reading.target or (scaler.targets if values and scaler is not None else ("target",))

    def levels(self, asked: Sequence[float] = ()) -> tuple[float, ...]:
        """Returns the levels of prediction intervals: those asked for, or those of the configuration."""
        return percents("intervals", asked or self.facts.get("config", {}).get("data", {}).get("intervals", ()))

    def intervals(self, data: Sequences, levels: Sequence[float]) -> dict[float, NDArray[np.float64]]:
        """Returns the ends `(2, N, K)` of prediction intervals by level, in the units of the target."""
        if not levels:
            return {}
        return dict(zip(levels, intervals_of(self.model, data, levels, self.scaler), strict=True))

    def interval_scores(self, data: Sequences, levels: Sequence[float] = ()) -> dict[str, float]:
        """Returns coverage, pinball loss and CRPS of a forecast; {} for other models without `levels`."""
        if not levels and self.can("intervals") is not None:
            return {}
        return interval_scores(self.model, data, levels or USUAL_INTERVALS, self.scaler)

    def last_values(self, data: Sequences) -> NDArray[np.float64]:
        """Returns the last known value of every channel to forecast, `(N, channels)`, in its own units."""
        assert self.reading is not None and self.reading.relative is not None
        view = Relative(self.reading.relative)
        batch = data.batch()
        level = view.view(batch.x, batch.lengths, batch.observed).level.double().numpy()
        if self.scaler is None:
            return level
        return self.scaler.inverse_values(level, self.reading.relative)
