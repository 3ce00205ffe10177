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
from ._pack import unpack
from ._prepare import DataFacts, Learnt, check_unchanged, prepare
from ._reading import Reading
from ._train import check_registered, config_of


@dataclass(frozen=True)
class Trained:
    """The model of a run, ready to answer about new files.

    Attributes:
        path: the run folder, or the file that `pack` wrote.
        config: what was asked.
        model: with the best weights.
        objective: what it was trained for.
        scaler: what brings number answers back to the target's own units.
        reading: how files are read; None if it was trained on a task.
    """

    path: Path
    config: Config
    model: SequenceModel
    objective: Objective
    scaler: Scaler | None
    reading: Reading | None

    @classmethod
    def load(cls, path: str | Path, *, anyway: bool = False) -> Trained:
        """Loads the model of a run folder, or one packed into a file; no pickle is read.

        Args:
            path: The run folder, or the file that `chronode pack` wrote.
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
            raise ValueError(
                f"{run.path} failed{fault}. Train anew; anyway=True uses the best weights before the failure."
            )
        if not (run.path / "model.safetensors").is_file() or not (run.path / "objective.json").is_file():
            raise ValueError(f"{run.path} has no model yet ({run.status}): `chronode train --resume {run.path}`.")
        learnt: Learnt = run.load_json("objective.json", Learnt)
        reading = DataFacts.load(run.path).reading
        model = SequenceModel.load(run.path / "model")
        places = {name: str(run.path / f"{name}.json") for name in ("objective", "data")}
        _check_sizes(places, model, learnt, reading)
        return cls(run.path, config, model, learnt.objective, learnt.scaler, reading)

    @classmethod
    def _of_file(cls, path: Path) -> Trained:
        contents, model = unpack(path)
        learnt, reading = contents.objective, contents.data.reading
        _check_sizes({name: f"{path}: {name}" for name in ("objective", "data")}, model, learnt, reading)
        return cls(path, contents.config, model, learnt.objective, learnt.scaler, reading)

    def series(self, source: str | None = None, *, labelled: bool, anyway: bool = False) -> Sequences:
        """The series of a file, read and scaled as in training; None: the run's own test part.

        Args:
            source: a file; for a run on a task, that task's name.
            labelled: with their targets.
            anyway: even if times or values look like other units.
        """
        if source is None and self.path.is_file() and self.reading is not None:
            raise ValueError(f"{self.path} is a packed model and has no data: give a file.")
        if source is None or (self.reading is None and source == self.config.data.source):
            if self.path.is_dir():
                check_unchanged(self.config.data.source, DataFacts.load(self.path).source, self.path)
            return prepare(self.config).parts.test
        if self.reading is None:
            task = self.config.data.source
            raise ValueError(f"{self.path} was trained on the task {task}: it answers about {task}, not {source}.")
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


def load(path: str | Path) -> Trained:
    """Loads a trained model from a run folder or from a file that `chronode pack` wrote.

    Nothing in either is executed. The result predicts: `model.predict(model.series("new.csv", labelled=False))`.

    Raises:
        ValueError: The folder or file is damaged; the message names the file and the field.
    """
    return Trained.load(path)


def _check_sizes(places: dict[str, str], model: SequenceModel, learnt: Learnt, reading: Reading | None) -> None:
    """Refuses parts that are whole, each by itself, but do not belong together; `places` names them in messages."""
    spec, objective = model.spec, learnt.objective
    assert spec is not None
    pairs = [("objective", "num_outputs", objective.num_outputs, spec.num_outputs)]
    pairs.append(("objective", "per_step", objective.per_step, spec.per_step))
    if reading is not None:
        pairs.append(("data", "reading.channels", len(reading.channels), spec.input_size))
        pairs.append(("data", "reading.per_step", reading.per_step, spec.per_step))
    for name, field, found, wanted in pairs:
        if found != wanted:
            raise ValueError(f"{places[name]}: {field} is {found}, in the model it is {wanted}.")
    if learnt.scaler is not None and learnt.scaler.targets and len(learnt.scaler.targets) != spec.num_outputs:
        targets = len(learnt.scaler.targets)
        raise ValueError(f"{places['objective']}: scaler.targets has {targets} names for {spec.num_outputs} outputs.")
