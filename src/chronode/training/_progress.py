"""A progress bar for Python: in notebooks, terminals and files."""

from __future__ import annotations

import sys
import time
from typing import Any, TextIO

from ..system import drawn
from ._events import BatchDone, EpochDone, Event, Note

_SECONDS_BETWEEN = 0.2


class ProgressBar:
    """Shows the progress of training: pass it as `on_event` to `fit` or `chronode.runs.train_run`.

    In a notebook, a bar with the time left and the learning curves, which stay in the output; in a terminal, one line
    that is written over; elsewhere, one line per epoch.

    Args:
        epochs: Maximum number of epochs of the training.
        file: Stream to write to outside notebooks; standard error by default.

    Example:
        >>> import io
        >>> from chronode.training import Epoch
        >>> output = io.StringIO()
        >>> show = ProgressBar(epochs=2, file=output)
        >>> show(EpochDone(Epoch(1, 0.5, 0.4, {"accuracy": 0.9}), True))
        >>> print(output.getvalue().strip())
        epoch 1/2  loss 0.5  valid loss 0.4  accuracy 0.9  (best)
    """

    def __init__(self, epochs: int, file: TextIO | None = None):
        self.epochs, self.file = epochs, file
        self.rows: list[dict[str, Any]] = []
        self.best, self.began, self.first = 0, time.monotonic(), 0.0
        self.shown = -_SECONDS_BETWEEN
        self.handle: Any = None
        self.text = ""

    def __call__(self, event: Event) -> None:
        """Shows one event."""
        if isinstance(event, Note):
            self._line(f"note: {event.text}")
        elif isinstance(event, BatchDone):
            self._show(event.epochs_done, f"epoch {event.epoch}/{self.epochs}  loss {event.loss:.4g}", final=False)
        else:
            self._epoch(event)

    def _epoch(self, event: EpochDone) -> None:
        epoch = event.epoch
        self.rows.append(epoch.as_row())
        self.best = epoch.number if event.best else self.best
        self._show(float(epoch.number), event.line(self.epochs), final=True)

    def _show(self, done: float, text: str, *, final: bool) -> None:
        """`final`: an epoch has ended; batches are shown a few times per second only."""
        now = time.monotonic()
        if not self.text:  # a resumed training starts at its position
            self.began, self.first = now, int(done)
        self.text = text
        if not final and now - self.shown < _SECONDS_BETWEEN:
            return
        self.shown = now
        display = _display()
        if display is not None:
            self._in_notebook(display, done, text)
        elif self._file.isatty():
            self._file.write(f"\r\x1b[K{text}  {self._left(done)}" + ("\n" if done >= self.epochs else ""))
            self._file.flush()
        elif final:
            self._line(text)

    def _in_notebook(self, display: Any, done: float, text: str) -> None:
        line = f"{text} {self._left(done)}"
        html = drawn("progress_html", done, self.epochs, line, self.rows, self.best or None)
        shown = {"text/html": html, "text/plain": text}
        if self.handle is None:
            self.handle = display(shown, raw=True, display_id=True)
        else:
            self.handle.update(shown, raw=True)

    def _left(self, done: float) -> str:
        """The time left, by the speed so far."""
        gone, share = time.monotonic() - self.began, done - self.first
        if share <= 0 or done >= self.epochs:
            return ""
        seconds = gone / share * (self.epochs - done)
        return f"({seconds / 60:.0f} min left)" if seconds >= 90 else f"({seconds:.0f} s left)"

    def _line(self, text: str) -> None:
        self._file.write(f"{text}\n")
        self._file.flush()

    @property
    def _file(self) -> TextIO:
        return sys.stderr if self.file is None else self.file


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
