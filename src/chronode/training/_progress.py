"""Progress of one training or of many: a bar in notebooks and terminals, lines in files."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterable, Mapping
from typing import IO, TYPE_CHECKING, Any

from ..system import drawn
from ._events import BatchDone, Event, Note

if TYPE_CHECKING:
    from typing_extensions import Self

_SECONDS_BETWEEN = 0.2
_WIDTH = 16


class ProgressBar:
    """Shows the progress of training: pass it as `on_event` to `fit` or `chronode.runs.train_run`.

    In a notebook, a bar with the time left and the learning curves, which stay in the output; in a terminal, one line
    that is written over; elsewhere, one line per epoch. Many runs, also at the same time, are followed with
    `begin`, `event` and `end`: then each has one line when it ends. As a context manager it leaves a clean line.

    Args:
        epochs: Maximum number of epochs of each training.
        file: Stream to write to outside notebooks; standard error by default.
        labels: Names of runs that follow each other.
        runs: Number of runs that are followed with `begin`, `event` and `end`.
        ended: Number of these that ended before.
        costs: Relative cost of each of these by its label; equal by default.

    Example:
        >>> import io
        >>> from chronode.training import BatchDone, Epoch, EpochDone
        >>> output = io.StringIO()
        >>> show = ProgressBar(epochs=2, file=output)
        >>> show(EpochDone(Epoch(1, 0.5, 0.4, {"accuracy": 0.9}), True))
        >>> with ProgressBar(epochs=5, file=output, runs=2) as bar:
        ...     bar.event("gru", BatchDone(1, 3, 4, 3, 0.5))
        ...     bar.end("gru", "gru: accuracy 0.9")
        >>> print(output.getvalue().strip())
        epoch 1/2  loss 0.5  valid loss 0.4  accuracy 0.9  (best)
        1/2  gru: accuracy 0.9
    """

    def __init__(
        self,
        epochs: int,
        file: IO[str] | None = None,
        *,
        labels: Iterable[str] = (),
        runs: int = 0,
        ended: int = 0,
        costs: Mapping[str, float] | None = None,
    ):
        self.epochs, self.file, self.labels = epochs, file, iter(labels)
        self.runs, self.ended, self.costs = runs, ended, costs or {}
        self.total = sum(self.costs.values()) or runs
        self.shares: dict[str, float] = {"": float(ended)}
        self.rows: list[dict[str, Any]] = []
        self.notes: set[str] = set()
        self.label, self.measured, self.best = "", "", 0
        self.share: float | None = None
        self.began, self.first, self.shown = time.monotonic(), 0.0, -_SECONDS_BETWEEN
        self.handle: Any = None
        self.is_open = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self.is_open:
            self._write("\n")

    def __call__(self, event: Event) -> None:
        """Shows one event of the only training, or of the current one of several."""
        if isinstance(event, Note):
            return self._note(event)
        share = (event.epochs_done if isinstance(event, BatchDone) else event.epoch.number) / self.epochs
        if self.share is None or share < self.share:  # a resumed training starts at its position
            self._start(int(share * self.epochs) / self.epochs)
            self.label, self.measured = next(self.labels, ""), ""
        prefix = f"{self.label}  " if self.label else ""
        if isinstance(event, BatchDone):
            text = f"epoch {event.epoch}/{self.epochs}  loss {event.loss:.4g}{self.measured}"
            return self._show(share, f"{prefix}{text}", final=False)
        epoch = event.epoch
        self.rows.append(epoch.as_row())
        self.best = epoch.number if event.best else self.best
        # A terminal has room for the first metric, the one that was asked for.
        scores = [f"{name} {value:.4g}" for name, value in epoch.metrics.items()]
        self.measured = f"  {(scores or [f'valid loss {epoch.valid_loss:.4g}'])[0]}"
        short = f"{prefix}epoch {epoch.number}/{self.epochs}  loss {epoch.loss:.4g}{self.measured}"
        return self._show(share, f"{prefix}{event.line(self.epochs)}", final=True, short=short)

    def begin(self, label: str) -> None:
        """Starts one of many runs."""
        self.advance(label, 0.0, "")

    def event(self, label: str, event: Event) -> None:
        """Shows an event of one of many runs; a note that several have is shown once."""
        if isinstance(event, Note):
            self._note(event)
        elif isinstance(event, BatchDone):
            text = f"epoch {event.epoch}/{self.epochs}  loss {event.loss:.4g}"
            self.advance(label, event.epochs_done / self.epochs, text)

    def advance(self, label: str, share: float, text: str) -> None:
        """Shows that so much of one of many runs is done, from 0 to 1."""
        self.shares[label] = share
        done = sum(self.costs.get(name, 1.0) * part for name, part in self.shares.items()) / self.total
        if self.share is None:
            self._start(done)
        self._show(min(done, 1.0), f"{self.ended}/{self.runs}  {label}  {text}".rstrip(), final=False)

    def end(self, label: str, line: str) -> None:
        """Ends one of many runs and prints a line that stays."""
        self.shares[label] = 1.0
        self.ended += 1
        self._line(f"{self.ended}/{self.runs}  {line}")

    def _note(self, note: Note) -> None:
        if note.text not in self.notes:
            self._line(f"note: {note.text}")
        self.notes.add(note.text)

    def _start(self, share: float) -> None:
        self.began, self.first = time.monotonic(), share

    def _show(self, share: float, text: str, *, final: bool, short: str = "") -> None:
        """`final`: an epoch has ended; batches are shown a few times per second only."""
        now, self.share = time.monotonic(), share
        if not final and now - self.shown < _SECONDS_BETWEEN:
            return
        self.shown = now
        display = _display()
        if display is not None:
            self._in_notebook(display, share, text)
        elif self._file.isatty():
            line = f"{_bar(share, self._file)}  {short or text}  {self._left(share)}"
            self._write(f"\r\x1b[K{line[: shutil.get_terminal_size().columns - 1]}", is_open=True)
            if final and share >= 1:
                self._write("\n")
        elif final:
            self._line(text)

    def _in_notebook(self, display: Any, share: float, text: str) -> None:
        html = drawn("progress_html", share, 1, f"{text} {self._left(share)}", self.rows, self.best or None)
        content = {"text/html": html, "text/plain": text}
        if self.handle is None:
            self.handle = display(content, raw=True, display_id=True)
        else:
            self.handle.update(content, raw=True)

    def _left(self, share: float) -> str:
        """The time left, by the speed so far."""
        if share <= self.first or share >= 1:
            return ""
        seconds = (time.monotonic() - self.began) / (share - self.first) * (1 - share)
        return f"({seconds / 60:.0f} min left)" if seconds >= 90 else f"({seconds:.0f} s left)"

    def _line(self, text: str) -> None:
        self._write(f"\r\x1b[K{text}\n" if self.is_open else f"{text}\n")

    def _write(self, text: str, *, is_open: bool = False) -> None:
        self._file.write(text)
        self._file.flush()
        self.is_open = is_open

    @property
    def _file(self) -> IO[str]:
        return sys.stderr if self.file is None else self.file


def _bar(share: float, file: IO[str]) -> str:
    done = round(_WIDTH * min(share, 1.0))
    plain = "utf" not in (getattr(file, "encoding", None) or "utf-8").lower()
    return ("#" * done + "-" * (_WIDTH - done)) if plain else ("━" * done + "─" * (_WIDTH - done))


def _display() -> Any:
    """IPython's display function in a notebook; None elsewhere."""
    if "IPython" not in sys.modules:
        return None
    from IPython import get_ipython  # pyrefly: ignore

    shell = get_ipython()
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from IPython.display import display  # pyrefly: ignore

    return display
