"""Trained: the model of a run, for predictions on new files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data import Reading, Scaler, Sequences
from ..judge import MeasuredBaselines, measured_baselines
from ..model import Relative, SequenceModel
from ..settings import SettingError, named, percents
from ..training import (
    USUAL_INTERVALS,
    Objective,
    Predictions,
    evaluate,
    evaluate_targets,
    interval_scores,
    intervals_of,
    predict,
)
from ._again import check_unchanged, prepare_again
from ._config import Config
from ._folder import Run
from ._pack import unpack
from ._prepare import DataFacts, Prepared, SavedObjective, prepare
from ._train import check_registered, config_of


@dataclass(frozen=True)
class Trained:
    """Model of a run, for predictions on new files.

    Attributes:
        path: The run folder, or the file written by `pack`.
        config: Configuration of the run.
        model: Model with the best weights.
        objective: Objective of the training.
        scaler: Scaler that converts predictions to the units of the target.
        reading: Options for reading files; None if it was trained on a task.
    """

    path: Path
    config: Config
    model: SequenceModel
    objective: Objective
    scaler: Scaler | None
    reading: Reading | None

    @classmethod
    def load(cls, path: str | Path, *, anyway: bool = False) -> Trained:
        """Loads the model of a run folder, or of a packed file, without pickles.

        Args:
            path: The run folder, or the file written by `chronode pack`.
            anyway: Whether to load the model of a failed run: its best weights before the failure.
        """
        if Path(path).is_file():
            return cls._of_file(Path(path))
        run = Run.open(path)
        config = config_of(run)
        check_registered(run, config.model.model)
        if run.status == "failed" and not anyway:
            summary = run.summary()
            fault = f" ({summary.fault.rstrip('.')})" if summary is not None and summary.fault else ""
            raise SettingError(
                f"{run.path} failed{fault}. Train again; {named('anyway', True)} uses the best weights before the "
                "failure.",
                argument="anyway",
            )
        if not (run.path / "model.safetensors").is_file() or not (run.path / "objective.json").is_file():
            raise ValueError(f"{run.path} has no model yet ({run.status}): `chronode train --resume {run.path}`.")
        learned: SavedObjective = run.load_json("objective.json", SavedObjective)
        reading = DataFacts.load(run.path).reading
        model = SequenceModel.load(run.path / "model")
        places = {name: str(run.path / f"{name}.json") for name in ("objective", "data")}
        _check_sizes(places, model, learned, reading)
        return cls(run.path, config, model, learned.objective, learned.scaler, reading)

    @classmethod
    def _of_file(cls, path: Path) -> Trained:
        contents, model = unpack(path)
        learned, reading = contents.objective, contents.data.reading
        _check_sizes({name: f"{path}: {name}" for name in ("objective", "data")}, model, learned, reading)
        return cls(path, contents.config, model, learned.objective, learned.scaler, reading)

    def series(self, source: Any = None, *, labeled: bool, anyway: bool = False) -> Sequences:
        """Reads and scales the series of a file or a frame as in training; None: the test part of the run.

        Args:
            source: A file, or a frame of pandas or polars; for a run on a task, the name of that task.
            labeled: Whether to read the targets.
            anyway: Whether to accept times or values that seem to be in other units.
        """
        if source is None and self.path.is_file() and self.reading is not None:
            raise ValueError(f"{self.path} is a packed model without data: pass a file.")
        task = None if self.reading is not None else self.config.data.source
        if source is None or (isinstance(source, str) and source == task):
            test = self.prepared().parts.test
            if not len(test):
                raise ValueError(f"{self.path} has no test part: pass a file.")
            return test
        if self.reading is None:
            raise ValueError(f"{self.path} was trained on the task {task} and cannot be used on other data.")
        return self.reading.read(source, labeled=labeled, anyway=anyway)

    def prepared(self) -> Prepared:
        """Returns the series of training, divided as they were then.

        Raises:
            ValueError: The data have changed, or the run is of a version that divided them in another way.
        """
        if not self.path.is_dir():  # a packed model of a task
            return prepare(self.config)
        check_unchanged(self.config.data, DataFacts.load(self.path).source, self.path)
        return prepare_again(self.config, self.path)

    def evaluate(self, data: Sequences) -> dict[str, float]:
        """Returns loss and metrics."""
        return evaluate(self.model, self.objective, data)

    def baselines(self, data: Sequences | None = None) -> dict[str, dict[str, float]]:
        """Returns the metrics of simple baselines, fitted to the training part; empty without the training data.

        Args:
            data: Series with targets; None: the test part of the run, whose baselines training has measured.
        """
        return self.measured_baselines(data).overall

    def evaluate_targets(self, data: Sequences) -> dict[str, dict[str, float]]:
        """Returns the metrics of each target in its own units; empty for a single target."""
        return evaluate_targets(self.model, self.objective, data, self.scaler)

    def measured_baselines(self, data: Sequences | None = None) -> MeasuredBaselines:
        """Returns the metrics of `baselines`, over all targets and for each of several."""
        if data is None and self.path.is_dir():
            summary = Run.open(self.path).summary()
            if summary is None:
                return MeasuredBaselines({}, {})
            targets = {name: _all_numbers(found.baselines) for name, found in summary.targets.items()}
            return MeasuredBaselines(_all_numbers(summary.baselines), targets)
        source = Path(self.config.data.source)
        if not self.path.is_dir() or (self.reading is not None and not source.is_file()):
            return MeasuredBaselines({}, {})
        parts = self.prepared().parts
        channels = () if self.reading is None else self.reading.forecast_channels
        return measured_baselines(
            self.objective, parts if data is None else replace(parts, test=data), channels=channels, model=self.model
        )

    def predict(self, data: Sequences) -> Predictions:
        """Returns probabilities or values of every series."""
        predictions = predict(self.model, data, classes=self.objective.classes, scaler=self.scaler)
        return replace(predictions, names=self.output_names() or predictions.names)

    def levels(self, asked: Sequence[float] = ()) -> tuple[float, ...]:
        """Returns the levels of prediction intervals: those asked for, or those of the config."""
        return percents("intervals", asked) if asked else self.config.data.intervals

    def intervals(self, data: Sequences, levels: Sequence[float]) -> dict[float, NDArray[np.float64]]:
        """Returns the ends `(2, N, K)` of prediction intervals by level, in the units of the target."""
        if not levels:
            return {}
        return dict(zip(levels, intervals_of(self.model, data, levels, self.scaler), strict=True))

    def last_values(self, data: Sequences) -> NDArray[np.float64]:
        """Returns the last known value of every channel to forecast, `(N, channels)`, in its own units."""
        assert self.reading is not None and self.reading.relative is not None
        view = Relative(self.reading.relative)
        batch = data.batch()
        level = view.view(batch.x, batch.lengths, batch.observed).level.double().numpy()
        if self.scaler is None:
            return level
        return self.scaler.inverse_values(level, self.reading.relative)

    def interval_scores(self, data: Sequences, levels: Sequence[float] = ()) -> dict[str, float]:
        """Returns coverage, pinball loss and CRPS of a forecast; {} for other models without `levels`."""
        margins = self.model.margins
        if not levels and (margins is None or not margins.known):
            return {}
        return interval_scores(self.model, data, levels or USUAL_INTERVALS, self.scaler)

    def output_names(self) -> tuple[str, ...]:
        """Names of the target columns; empty if only the data have them."""
        reading = self.reading
        if reading is None:
            return ()
        if reading.horizon:
            steps = range(1, reading.horizon + 1)
            return tuple(f"{name}+{step}" for step in steps for name in reading.forecast_channels)
        return reading.target


def load(path: str | Path) -> Trained:
    """Loads a trained model from a run folder or from a file written by `chronode pack`.

    Nothing in either is executed. The result predicts: `model.predict(model.series("new.csv", labeled=False))`.

    Raises:
        ValueError: The folder or file is damaged; the message names the file and the field.
    """
    return Trained.load(path)


def _all_numbers(found: dict[str, dict[str, float | None]]) -> dict[str, dict[str, float]]:
    return {
        row: {name: float("nan") if value is None else value for name, value in own.items()}
        for row, own in found.items()
    }


def _check_sizes(
    places: dict[str, str], model: SequenceModel, learned: SavedObjective, reading: Reading | None
) -> None:
    """Rejects parts that are valid individually but do not belong together; `places` names them in messages."""
    spec, objective = model.spec, learned.objective
    assert spec is not None
    pairs = [("objective", "num_outputs", objective.num_outputs, spec.num_outputs)]
    pairs.append(("objective", "per_step", objective.per_step, spec.per_step))
    if reading is not None:
        pairs.append(("data", "reading.channels", len(reading.channels), spec.input_size))
        if reading.horizon:
            outputs = reading.horizon * len(reading.forecast_channels)
            pairs.append(("data", "reading.horizon times reading.forecast_channels", outputs, spec.num_outputs))
        pairs.append(("data", "reading.static", len(reading.static), spec.static))
        pairs.append(("data", "reading.per_step", reading.per_step, spec.per_step))
    for name, field, found, wanted in pairs:
        if found != wanted:
            raise ValueError(f"{places[name]}: {field} is {found}, but in the model it is {wanted}.")
    if learned.scaler is not None and learned.scaler.targets and len(learned.scaler.targets) != spec.num_outputs:
        targets = len(learned.scaler.targets)
        raise ValueError(f"{places['objective']}: scaler.targets has {targets} names for {spec.num_outputs} outputs.")
