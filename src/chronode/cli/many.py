"""What commands share that train many times: their folder, and one bar over all trainings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from ..training import BatchDone, Event, Note
from .outcome import say


def folder_for(command: str, source: str, output: Path | None, *more: str) -> Path:
    """The folder that the user named, or runs/COMMAND-NAME-MORE.

    Example:
        >>> print(folder_for("sweep", "data/vitals.csv.gz", None, "ltc"))
        runs/sweep-vitals-ltc
    """
    return output or Path("runs") / "-".join([command, Path(source).name.split(".")[0], *more])


class Trainings:
    """One bar over many trainings, with what the present ones are at and the time left for all.

    Args:
        console: where to show it.
        total: trainings, those already done included.
        epochs: of each, at most.
        done: trainings from before.

    Example:
        >>> import io
        >>> told = io.StringIO()
        >>> with Trainings(Console(file=told), total=2, epochs=5) as bar:
        ...     bar.begin("gru")
        ...     bar.event("gru", BatchDone(1, 3, 4, 3, 0.5))
        ...     bar.end("gru", "gru: accuracy 0.9")
        >>> print(told.getvalue().strip())
        1/2  gru: accuracy 0.9
    """

    def __init__(self, console: Console, total: int, epochs: int, done: int = 0):
        self.console, self.total, self.epochs, self.done = console, total, epochs, done
        self.shares: dict[str, float] = {}
        columns = (TextColumn("{task.fields[count]}"), BarColumn(24), TextColumn("{task.fields[told]}"))
        # Trainings differ in speed: what the last half minute tells is too little.
        self.progress = Progress(
            *(*columns, TimeRemainingColumn(elapsed_when_finished=True)),
            console=console,
            disable=not console.is_terminal,
            speed_estimate_period=24 * 3600,
        )
        self.bar = self.progress.add_task("", total=total, completed=done, told="", count=f"{done}/{total}")

    def __enter__(self) -> Trainings:
        self.progress.start()
        return self

    def __exit__(self, *error: Any) -> None:
        self.progress.stop()

    def begin(self, label: str) -> None:
        """A training begins."""
        self.shares[label] = 0.0
        self.progress.update(self.bar, told=label)

    def event(self, label: str, event: Event) -> None:
        """Shows an event of a training."""
        if isinstance(event, Note):
            say(self.console, f"note: {event.text}")
        elif isinstance(event, BatchDone):
            self.shares[label] = (event.epoch - 1 + event.batch / event.batches) / self.epochs
            told = f"{label}  epoch {event.epoch}/{self.epochs}  loss {event.loss:.4g}"
            self.progress.update(self.bar, completed=self.done + sum(self.shares.values()), told=told)

    def end(self, label: str, line: str) -> None:
        """A training ended: a line that stays says how."""
        self.shares.pop(label, None)
        self.done += 1
        count = f"{self.done}/{self.total}"
        self.progress.update(self.bar, completed=self.done + sum(self.shares.values()), told="", count=count)
        say(self.console, f"{count}  {line}")
