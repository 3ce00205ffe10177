"""`chronode stream`: predictions for live data."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from .plugins import with_plugins
from .predict import RunFolder

if TYPE_CHECKING:
    from ..stream import Stream


def attach(app: typer.Typer) -> None:
    """Adds the command to `app`."""
    app.command()(with_plugins(stream))


def stream(
    run: RunFolder,
    events: Annotated[str, typer.Argument(help="File of events; - for standard input.")] = "-",
    state: Annotated[
        Path | None,
        typer.Option(
            help="File with the states of all ids: read if it exists, written at intervals and at the end. "
            "[example: ward.state]"
        ),
    ] = None,
    save_seconds: Annotated[float, typer.Option(min=0, help="Seconds between two writes of the state file.")] = 10.0,
    late: Annotated[
        str,
        typer.Option(help="What to do with an observation that is not later than the last of its id: refuse, ignore."),
    ] = "refuse",
    idle: Annotated[
        float | None,
        typer.Option(
            help="Drop ids that are this much older than the newest, in the model's unit of time. [example: 48]"
        ),
    ] = None,
) -> None:
    """Predict live data, event by event.

    Reads events from standard input and writes a prediction after each to standard output.

    Events are JSON Lines, or CSV with a header line, with the columns of the training file: id, time, values. For an
    event that cannot be used, an error is written, and the stream continues.

    Example: chronode stream runs/vitals-1 --state ward.state < events.jsonl > predictions.jsonl
    """
    from ..stream import Stream
    from ..stream._lines import Lines, batches
    from .outcome import say

    followed = Stream(run, late=late, idle=idle)
    if state is not None and state.exists():
        followed.load(state)
    saver = _Saver(followed, state, save_seconds)
    lines = Lines(followed, _write)
    before = signal.signal(signal.SIGTERM, _stop)  # a service is stopped by it; the states are written as at the end
    try:
        with _opened(events) as handle:
            for batch in batches(handle):
                lines.process(batch)
                saver.save_if_due()
    except (KeyboardInterrupt, BrokenPipeError):
        pass
    finally:
        signal.signal(signal.SIGTERM, before)
        saver.save()
    counts = followed.counts
    say(
        Console(stderr=True),
        f"{counts.observations:,} observations of {len(followed):,} ids; {counts.late:,} late, "
        f"{lines.errors:,} errors, {counts.dropped:,} idle ids dropped",
    )


class _Saver:
    """Writes the state file when it is due."""

    def __init__(self, stream: Stream, path: Path | None, seconds: float):
        self._stream, self._path, self._seconds = stream, path, seconds
        self._saved = time.monotonic()

    def save_if_due(self) -> None:
        if time.monotonic() - self._saved >= self._seconds:
            self.save()

    def save(self) -> None:
        if self._path is not None:
            self._stream.save(self._path)
        self._saved = time.monotonic()


@contextmanager
def _opened(events: str) -> Iterator[int]:
    """The file descriptor of the events."""
    if events == "-":
        yield sys.stdin.fileno()
    elif not Path(events).is_file():
        raise ValueError(f"{events}: there is no such file.")
    else:
        with Path(events).open("rb", buffering=0) as file:
            yield file.fileno()


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _stop(number: int, frame: Any) -> None:
    raise KeyboardInterrupt
