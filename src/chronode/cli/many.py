"""Shared code of commands with many runs: their folder, and one progress bar."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, TextColumn

from ..storage import check_text
from ..training import BatchDone, Event, Note
from .bars import ProgressDisplay
from .outcome import say, say_note


def folder_for(command: str, source: str, output: Path | None, *more: str) -> Path:
    """Returns the folder named by the user, or runs/COMMAND-NAME-MORE.

    Example:
        >>> print(folder_for("sweep", "data/vitals.csv.gz", None, "ltc"))
        runs/sweep-vitals-ltc
    """
    if output is not None:
        return check_text(output, "--output")
    return Path("runs") / "-".join([command, Path(source).name.split(".")[0], *more])


def this_command() -> str:
    """Returns the command line of this process, as it can be typed again."""
    return shlex.join(["chronode", *sys.argv[1:]])


class RunsBar(ProgressDisplay):
    """One progress bar for many runs, with the state of the current ones and the total remaining time.

    Args:
        console: Console for the output.
        total: Number of runs, including finished ones.
        epochs: Maximum number of epochs of each training.
        done: Number of runs that were already finished.

    Example:
        >>> import io
        >>> output = io.StringIO()
        >>> with RunsBar(Console(file=output), total=2, epochs=5) as bar:
        ...     bar.begin("gru")
        ...     bar.event("gru", BatchDone(1, 3, 4, 3, 0.5))
        ...     bar.end("gru", "gru: accuracy 0.9")
        >>> print(output.getvalue().strip())
        1/2  gru: accuracy 0.9
    """

    def __init__(self, console: Console, total: int, epochs: int, done: int = 0):
        columns = (TextColumn("{task.fields[count]}"), BarColumn(24), TextColumn("{task.fields[text]}"))
        # Runs differ in speed, so the last half minute is not representative.
        super().__init__(console, *columns, speed_estimate_period=24 * 3600)
        self.total, self.epochs, self.done = total, epochs, done
        self.shares: dict[str, float] = {}
        self.notes: set[str] = set()
        self.bar = self.progress.add_task("", total=total, completed=done, text="", count=f"{done}/{total}")

    def begin(self, label: str) -> None:
        """Starts a run."""
        self.shares[label] = 0.0
        self.progress.update(self.bar, text=label)

    def event(self, label: str, event: Event) -> None:
        """Shows an event of a run; a note that several runs have is shown once."""
        if isinstance(event, Note):
            if event.text not in self.notes:
                say_note(self.console, event.text)
            self.notes.add(event.text)
        elif isinstance(event, BatchDone):
            self.shares[label] = event.epochs_done / self.epochs
            text = f"{label}  epoch {event.epoch}/{self.epochs}  loss {event.loss:.4g}"
            self.progress.update(self.bar, completed=self.done + sum(self.shares.values()), text=text)

    def end(self, label: str, line: str) -> None:
        """Ends a run and prints a permanent line."""
        self.shares.pop(label, None)
        self.done += 1
        count = f"{self.done}/{self.total}"
        self.progress.update(self.bar, completed=self.done + sum(self.shares.values()), text="", count=count)
        say(self.console, f"{count}  {line}")
