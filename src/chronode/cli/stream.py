"""`chronode stream`: predictions for live data."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from . import NOT_DONE
from .options import Ahead, Idle, Late, RunFolder, SaveEvery, StateFile, with_plugins

if TYPE_CHECKING:
    from ..stream import Stream


def attach(app: typer.Typer) -> None:
    """Adds the command to `app`."""
    app.command()(with_plugins(stream))


def stream(
    run: RunFolder,
    events: Annotated[str, typer.Argument(help="File of events; - for standard input.")] = "-",
    state: StateFile = None,
    save_every: SaveEvery = "10s",
    late: Late = "refuse",
    idle: Idle = None,
    ahead: Ahead = None,
    drift_every: Annotated[
        str,
        typer.Option(
            help="Time between two comparisons of the newest observations with those of training, such as 10m; what "
            "has changed is noted on standard error. 0: none."
        ),
    ] = "10m",
) -> None:
    """Predict live data, event by event.

    Reads events from standard input and writes a prediction after each to standard output.

    Events are JSON Lines, or CSV with a header line, with the columns of the training file: id, time, values. For an
    event that cannot be used, an error is written, and the stream continues.

    Example: chronode stream runs/vitals-1 --state ward.state < events.jsonl > predictions.jsonl
    """
    from ..runs import FolderLock
    from ..stream import Lines, Stream, batches
    from ..training import seconds_of
    from .outcome import say_note

    if sys.stdout is None:
        raise ValueError("standard output is closed, but the predictions are written to it.")
    followed = Stream(run, late=late, idle=idle, ahead=ahead)
    lines = Lines(followed, _write, lambda text: say_note(Console(stderr=True), text))
    with _opened(events) as handle, nullcontext() if state is None else FolderLock.beside(state).held():
        if state is not None and state.exists():
            followed.load(state)
        saver = _Saver(followed, state, seconds_of(save_every, "save_every", zero=True))
        drift = _DriftNotes(followed, seconds_of(drift_every, "drift_every", zero=True))
        reader_gone = False
        try:
            with _StopRequests() as stop:
                for batch in batches(handle, lambda handle: _wait(handle, stop, saver)):
                    lines.process(batch)
                    saver.changed = True
                    drift.note_if_due()
                lines.end()
                drift.note()
        except BrokenPipeError:
            reader_gone = True
        finally:
            saver.save()
    _end(followed, lines.errors, reader_gone)


def _end(followed: Stream, errors: int, reader_gone: bool) -> None:
    from .outcome import say

    counts, console = followed.counts, Console(stderr=True)
    say(
        console,
        f"{counts.observations:,} observations of {len(followed):,} ids; {counts.late:,} late, {errors:,} errors, "
        f"{counts.dropped:,} idle ids dropped",
    )
    if reader_gone:
        say(
            console,
            "chronode: nothing reads the predictions any more. Observations without a written prediction are not in "
            "the states: send the last ones again, with --late repeat for predictions that may not have been read.",
        )
        raise typer.Exit(NOT_DONE)


class _Saver:
    """Writes the state file when it is due.

    Attributes:
        changed: Whether the states have changed since the last write.
    """

    def __init__(self, stream: Stream, path: Path | None, seconds: float):
        self._stream, self._path, self._seconds = stream, path, seconds
        self._saved = time.monotonic()
        self.changed = path is not None and not path.exists()

    def seconds_left(self) -> float | None:
        """Returns the time until the next write; None if there is nothing to write."""
        if self._path is None or not self.changed:
            return None
        return max(0.0, self._saved + self._seconds - time.monotonic())

    def save(self) -> None:
        if self._path is not None and self.changed:
            self._stream.save(self._path)
            self.changed = False
        self._saved = time.monotonic()


class _DriftNotes:
    """Notes features of the observations that have changed since training, each once."""

    def __init__(self, stream: Stream, seconds: float):
        self._stream, self._seconds, self._last = stream, seconds, time.monotonic()
        self._noted: set[str] = set()

    def note_if_due(self) -> None:
        if self._seconds and time.monotonic() - self._last >= self._seconds:
            self.note()

    def note(self) -> None:
        """Looks now."""
        from .outcome import say_note, shown

        self._last = time.monotonic()
        drift = self._stream.drift() if self._seconds else None
        if drift is None:
            return
        rows = zip(drift.names, drift.before, drift.now, drift.p_values, strict=True)
        for name, before, now, p in rows:
            if p <= drift.level and name not in self._noted:
                self._noted.add(name)
                change = f"median {shown(float(before))} in training, {shown(float(now))} now (p {p:.2g})"
                say_note(Console(stderr=True), f"drift: {name}: {change}.")


def _wait(handle: int, stop: _StopRequests, saver: _Saver) -> bool:
    """Waits until there is something to read, and writes the states when it is time; False after a signal to stop."""
    while not stop.requested:
        left = saver.seconds_left()
        if left == 0:
            saver.save()
            continue
        ready, _, _ = select.select([stop.receiver, handle], [], [], left)
        if stop.receiver in ready:
            os.read(stop.receiver, 1)  # any signal; the handler of this one has run when this returns
        elif handle in ready:
            return True
    return False


class _StopRequests:
    """SIGTERM and Ctrl-C end the waiting for events, and never interrupt a step; only a second signal does.

    Attributes:
        requested: Whether there was a signal.
        receiver: File descriptor that can be read after a signal, whichever thread received it.
    """

    requested = False

    def __enter__(self) -> _StopRequests:
        self.receiver, self._sender = os.pipe()
        os.set_blocking(self._sender, False)
        self._before: dict[int, Any] = {}
        if threading.current_thread() is threading.main_thread():
            self._woken = signal.set_wakeup_fd(self._sender)
            self._before = {number: signal.signal(number, self._stop) for number in (signal.SIGTERM, signal.SIGINT)}
        return self

    def _stop(self, number: int, frame: Any) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if self._before:
            signal.set_wakeup_fd(self._woken)
        os.close(self.receiver)
        os.close(self._sender)


@contextmanager
def _opened(events: str) -> Iterator[int]:
    """The file descriptor of the events."""
    from ..data import check_lines

    if events != "-":
        if not Path(events).exists() or Path(events).is_dir():
            raise ValueError(f"{events}: there is no such file.")
        if Path(events).is_file():  # not a pipe
            check_lines(Path(events))
        with Path(events).open("rb", buffering=0) as file:
            yield file.fileno()
    elif sys.stdin is None:
        raise ValueError("standard input is closed: send events to it, or name a file of events.")
    else:
        yield sys.stdin.fileno()


def _write(text: str) -> None:
    """Writes to standard output in UTF-8, whatever the locale; returns when everything is written."""
    from ..storage import naming_errors

    try:
        handle = sys.stdout.fileno()
    except OSError:  # a stream of Python
        sys.stdout.write(text)
        return
    rest = memoryview(text.encode("utf-8", errors="backslashreplace"))
    with naming_errors(Path("standard output")):
        while rest:
            try:
                rest = rest[os.write(handle, rest) :]
            except BlockingIOError:
                select.select([], [handle], [])
