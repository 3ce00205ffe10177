"""Loggers: the numbers of every epoch also go to a CSV file, TensorBoard, Weights & Biases or MLflow."""

from __future__ import annotations

import csv
import hashlib
import importlib
import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Protocol

from ..settings import one_of
from ..storage import replacing
from ._folder import Run

Numbers = Mapping[str, float | None]


class Logger(Protocol):
    """Receives the numbers of a run.

    `log` is called after every epoch; `finish` once, with the test metrics of a run that was tested.
    """

    def log(self, epoch: int, numbers: Numbers) -> None:
        """Takes the losses, metrics, learning rate and seconds of an epoch."""

    def finish(self, test: Numbers) -> None:
        """Takes the test metrics and closes what is open."""


class CsvLogger:
    """metrics.csv in the run folder: a row per epoch, those from before a resume included."""

    def __init__(self, run: Run):
        self.path, self.rows = run.path / "metrics.csv", run.metrics()

    def log(self, epoch: int, numbers: Numbers) -> None:
        """Writes the whole file again, so that it is complete at any time."""
        self.rows = [row for row in self.rows if row["epoch"] < epoch] + [{"epoch": epoch, **numbers}]
        text = io.StringIO()
        names = dict.fromkeys(name for row in self.rows for name in row)
        writer = csv.DictWriter(text, list(names), lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows)
        with replacing(self.path) as draft:
            draft.write_text(text.getvalue(), encoding="utf-8")

    def finish(self, test: Numbers) -> None:
        """Writes nothing more: test metrics are in summary.json."""


class TensorBoardLogger:
    """Event files in tensorboard/ of the run folder."""

    def __init__(self, run: Run):
        writer = importlib.import_module("torch.utils.tensorboard").SummaryWriter
        # Steps from a crashed process on are hidden.
        self.last = len(run.metrics())
        self.writer = writer(str(run.path / "tensorboard"), purge_step=self.last + 1)

    def log(self, epoch: int, numbers: Numbers) -> None:
        """Adds a scalar for each number."""
        self.last = epoch
        for name, value in _known(numbers).items():
            self.writer.add_scalar(name, value, epoch)
        self.writer.flush()

    def finish(self, test: Numbers) -> None:
        """Adds the test metrics at the last epoch."""
        for name, value in _known(test).items():
            self.writer.add_scalar(f"test/{name}", value, self.last)
        self.writer.close()


class WandbLogger:
    """A run of Weights & Biases in the project "chronode"; a resumed training continues it."""

    def __init__(self, run: Run):
        name = f"{run.path.resolve()} {run.environment.get('started')}"
        identity = hashlib.sha256(name.encode()).hexdigest()[:16]
        options = {"name": run.path.name, "dir": str(run.path), "config": run.config, "id": identity}
        self.session = importlib.import_module("wandb").init(project="chronode", resume="allow", **options)

    def log(self, epoch: int, numbers: Numbers) -> None:
        """Logs the numbers at step `epoch`."""
        self.session.log(_known(numbers), step=epoch)

    def finish(self, test: Numbers) -> None:
        """Puts the test metrics into the summary."""
        self.session.summary.update({f"test/{name}": value for name, value in _known(test).items()})
        self.session.finish()


class MlflowLogger:
    """A run of MLflow, whose id is kept in mlflow.json; a resumed training continues it."""

    def __init__(self, run: Run):
        self.mlflow = importlib.import_module("mlflow")
        file = run.path / "mlflow.json"
        identity = run.load_json(file.name, dict[str, str])["run_id"] if file.is_file() else None
        session = self.mlflow.start_run(run_id=identity, run_name=None if identity else run.path.name)
        if identity is None:
            run.save_json(file.name, {"run_id": session.info.run_id})
            # MLflow refuses longer values.
            self.mlflow.log_params({name: str(value)[:500] for name, value in _flat(run.config).items()})

    def log(self, epoch: int, numbers: Numbers) -> None:
        """Logs the numbers at step `epoch`."""
        self.mlflow.log_metrics(_known(numbers), step=epoch)

    def finish(self, test: Numbers) -> None:
        """Logs the test metrics."""
        self.mlflow.log_metrics({f"test_{name}": value for name, value in _known(test).items()})
        self.mlflow.end_run()


LOGGERS = {
    "csv": (CsvLogger, ""),
    "tensorboard": (TensorBoardLogger, "tensorboard"),
    "wandb": (WandbLogger, "wandb"),
    "mlflow": (MlflowLogger, "mlflow"),
}
"""Name -> (class, package that it needs)."""


def check_loggers(names: Sequence[str]) -> tuple[str, ...]:
    """Returns the names without repetitions; refuses an unknown one, and one whose package is not installed.

    Example:
        >>> check_loggers(["csv", "csv"])
        ('csv',)
    """
    for name in names:
        package = LOGGERS[one_of("logger", name, LOGGERS)][1]
        try:
            importlib.import_module(package or "csv")
        except ImportError as error:
            raise ImportError(f"the logger {name} needs {package}: pip install 'chronode[{name}]'") from error
    return tuple(dict.fromkeys(names))


@contextmanager
def logging_to(names: Sequence[str], run: Run) -> Iterator[list[Logger]]:
    """The loggers of a run; they are closed at the end with the test metrics in its summary, however it ends."""
    with ExitStack() as stack:
        opened: list[Logger] = []
        for name in check_loggers(names):
            logger = LOGGERS[name][0](run)
            stack.callback(lambda one=logger: one.finish(_test_metrics(run)))
            opened.append(logger)
        yield opened


def _test_metrics(run: Run) -> Numbers:
    summary = run.summary()
    return {} if summary is None else summary.test


def _known(numbers: Numbers) -> dict[str, float]:
    """The numbers that are finite."""
    return {name: float(value) for name, value in numbers.items() if value is not None and abs(value) < float("inf")}


def _flat(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in config.items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
    return flat
