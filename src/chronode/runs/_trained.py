"""Trained: the model of a run, for new files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from .._model import SequenceModel
from ..data import Scaler, Sequences
from ..training._objective import Objective
from ..training._predict import Predictions, evaluate, predict
from ._config import Config
from ._folder import Run
from ._prepare import DataFacts, check_unchanged, prepare
from ._reading import Reading
from ._train import config_of


@dataclass(frozen=True)
class _Learnt:
    """objective.json."""

    objective: Objective
    scaler: Scaler | None


@dataclass(frozen=True)
class Trained:
    """The model of a run, ready to answer about new files.

    Attributes:
        run: its folder.
        config: what was asked.
        model: with the best weights.
        objective: what it was trained for.
        scaler: what brings number answers back to the target's own units.
        reading: how files are read; None if it was trained on a task.
    """

    run: Run
    config: Config
    model: SequenceModel
    objective: Objective
    scaler: Scaler | None
    reading: Reading | None

    @classmethod
    def load(cls, folder: str | Path, *, anyway: bool = False) -> Trained:
        """Loads the model of a run folder; no pickle is read.

        Args:
            folder: The run folder.
            anyway: Whether to load the model of a failed run: its best weights before the failure.
        """
        run = Run.open(folder)
        if run.status == "failed" and not anyway:
            summary = run.summary()
            fault = f" ({summary.fault.rstrip('.')})" if summary is not None and summary.fault else ""
            raise ValueError(
                f"{run.path} failed{fault}. Train anew; anyway=True uses the best weights before the failure."
            )
        if not (run.path / "model.safetensors").is_file() or not (run.path / "objective.json").is_file():
            raise ValueError(f"{run.path} has no model yet ({run.status}): `chronode train --resume {run.path}`.")
        learnt: _Learnt = run.load_json("objective.json", _Learnt)
        reading = DataFacts.load(run.path).reading
        model = SequenceModel.load(run.path / "model")
        _check_sizes(run.path, model, learnt, reading)
        return cls(run, config_of(run), model, learnt.objective, learnt.scaler, reading)

    def series(self, source: str | None = None, *, labelled: bool, anyway: bool = False) -> Sequences:
        """The series of a file, read and scaled as in training; None: the run's own test part.

        Args:
            source: a file; for a run on a task, that task's name.
            labelled: with their targets.
            anyway: even if times or values look like other units.
        """
        if source is None or (self.reading is None and source == self.config.data.source):
            check_unchanged(self.config.data.source, DataFacts.load(self.run.path).source, self.run.path)
            return prepare(self.config).parts.test
        if self.reading is None:
            task = self.config.data.source
            raise ValueError(f"{self.run.path} was trained on the task {task}: it answers about {task}, not {source}.")
        return self.reading.read(source, labelled=labelled, anyway=anyway)

    def evaluate(self, data: Sequences) -> dict[str, float]:
        """Loss and metrics."""
        return evaluate(self.model, self.objective, data)

    def predict(self, data: Sequences) -> Predictions:
        """Probabilities or values of every series."""
        answers = predict(self.model, data, classes=self.objective.classes, scaler=self.scaler)
        return replace(answers, names=self.output_names() or answers.names)

    def output_names(self) -> tuple[str, ...]:
        """Names of the target columns; empty where only the data have them: a file to predict need not have them."""
        reading = self.reading
        if reading is None:
            return ()
        if reading.horizon:
            steps = range(1, reading.horizon + 1)
            return tuple(f"{name}+{step}" for step in steps for name in reading.forecast_channels)
        return reading.target


def _check_sizes(folder: Path, model: SequenceModel, learnt: _Learnt, reading: Reading | None) -> None:
    """Refuses files that are whole, each by itself, but do not belong together."""
    spec, objective = model.spec, learnt.objective
    assert spec is not None
    pairs = [("objective.json", "num_outputs", objective.num_outputs, spec.num_outputs)]
    pairs.append(("objective.json", "per_step", objective.per_step, spec.per_step))
    if reading is not None:
        pairs.append(("data.json", "reading.channels", len(reading.channels), spec.input_size))
        pairs.append(("data.json", "reading.per_step", reading.per_step, spec.per_step))
    for name, field, found, wanted in pairs:
        if found != wanted:
            raise ValueError(f"{folder / name}: {field} is {found}, in model.json it is {wanted}.")
    if learnt.scaler is not None and learnt.scaler.targets and len(learnt.scaler.targets) != spec.num_outputs:
        targets = len(learnt.scaler.targets)
        raise ValueError(
            f"{folder / 'objective.json'}: scaler.targets has {targets} names for {spec.num_outputs} outputs."
        )
