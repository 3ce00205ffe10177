"""Reads lines of events and writes lines of predictions, as JSON or CSV, as soon as events arrive."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from .._limits import MIB
from ._intake import Observations, as_columns
from ._stream import Stream

_READ_BYTES = MIB // 4
"""Bytes read at a time; everything that has arrived by then is one batch."""
MOST_BYTES = MIB
"""Longest line."""


class Event(NamedTuple):
    """A parsed line: its number, the id as given, and the row."""

    line: int
    id: str | int
    row: dict[str, Any]


class Lines:
    """Answers lines of events with lines of predictions.

    The format is that of the first line: JSON if it begins with a brace, else CSV with a line of column names.
    For a line that cannot be used, an error is written, and the stream continues.

    Args:
        stream: The stream.
        write: Called with text to write.

    Attributes:
        errors: Number of lines for which an error was written.
    """

    def __init__(self, stream: Stream, write: Callable[[str], object]):
        data = stream.trained.config.data
        self._stream, self._write = stream, write
        named = stream.trained.reading.options.get("id") or data.id  # pyrefly: ignore[missing-attribute]
        self._id = named or "id"
        self._only = None if named else 0  # the id of a file that is one series, as `predict` writes it
        self._time = data.time or "time"
        self._line = 0
        self._names: list[str] | None = None
        self._csv: bool | None = None
        self.errors = 0

    def process(self, lines: Sequence[str | None]) -> None:
        """Writes the predictions for lines; None is a line that was too long."""
        rows: dict[int, dict[str, Any]] = {}
        events = []
        for text in lines:
            self._line += 1
            try:
                event = self._parse(text)
                if event is not None:
                    events.append(event)
            except ValueError as error:
                rows[self._line] = self._failed(error)
        for event, prediction in self._observe(events):
            rows[event.line] = prediction
        self._send([rows[line] for line in sorted(rows)])

    # ---- from text ----------------------------------------------------------------------------------------

    def _parse(self, text: str | None) -> Event | None:
        if text is None:
            raise ValueError(f"the line has more than {MOST_BYTES:,} bytes")
        if not text.strip():
            return None
        if self._csv is None:
            self._csv = not text.lstrip().startswith("{")
        row = self._cells(text) if self._csv else _object(text)
        if row is None:
            return None
        given = row.get(self._id, self._only)
        if isinstance(given, bool) or not isinstance(given, (str, int)) or given == "":
            raise ValueError(f"{self._id}: expected an id (text or a whole number), got {given!r}")
        if self._stream.timed and row.get(self._time) in (None, ""):
            raise ValueError(f"{self._time}: the time is missing")
        return Event(self._line, given, row)

    def _cells(self, text: str) -> dict[str, Any] | None:
        cells = next(csv.reader([text]))
        if self._names is None:
            self._names = [name.strip() for name in cells]
            return None
        if len(cells) != len(self._names):
            raise ValueError(f"the line has {len(cells)} cells, the first line has {len(self._names)}")
        return {name: cell if cell.strip() else None for name, cell in zip(self._names, cells, strict=True)}

    # ---- to the stream --------------------------------------------------------------------------------------

    def _observe(self, events: list[Event]) -> Iterator[tuple[Event, dict[str, Any]]]:
        """Processes events; for those that cannot be processed, the result is an error."""
        if not events:
            return
        try:
            found = self._read(events)
        except (ValueError, OverflowError) as error:
            if len(events) == 1:
                yield events[0], self._failed(error, events[0])
                return
            # One line is invalid: bisection finds it in few calls.
            middle = len(events) // 2
            yield from self._observe(events[:middle])
            yield from self._observe(events[middle:])
            return
        yield from self._take(events, found)

    def _read(self, events: list[Event]) -> Observations:
        rows = [event.row for event in events]
        times = [row.get(self._time) for row in rows]
        return self._stream.read(times, as_columns(rows, self._stream.columns), len(rows))

    def _take(self, events: list[Event], found: Observations) -> Iterator[tuple[Event, dict[str, Any]]]:
        taken, outputs = self._stream.take([str(event.id) for event in events], found, refuse=False)
        for event, was_taken, prediction in zip(events, taken, self._stream.decoder.rows(outputs), strict=True):
            if was_taken:
                time = {self._time: event.row.get(self._time)} if self._stream.timed else {}
                yield event, {self._id: event.id, **time, **prediction}
            elif self._stream.late == "refuse":
                late = ValueError(f"{self._time}: not later than the last observation of {self._id} {event.id!r}")
                yield event, self._failed(late, event)

    def _failed(self, error: Exception, event: Event | None = None) -> dict[str, Any]:
        self.errors += 1
        fields = {} if event is None else {self._id: event.id}
        line = self._line if event is None else event.line
        return {**fields, "line": line, "error": " ".join(str(error).split()).rstrip(".")}

    # ---- to text ------------------------------------------------------------------------------------------

    def _send(self, rows: list[dict[str, Any]]) -> None:
        if not rows:
            return
        if not self._csv:
            self._write("".join(json.dumps(row) + "\n" for row in rows))
            return
        text = io.StringIO()
        writer = csv.DictWriter(text, self._columns(), lineterminator="\n")
        if not self._begun:
            writer.writeheader()
            self._begun = True
        writer.writerows(rows)
        self._write(text.getvalue())

    _begun = False

    def _columns(self) -> list[str]:
        time = [self._time] if self._stream.timed else []
        return [self._id, *time, *self._stream.decoder.columns, "line", "error"]


def _object(text: str) -> dict[str, Any]:
    try:
        row = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"this is not valid JSON ({error})") from error
    if not isinstance(row, dict):
        raise ValueError("this is not a JSON object with names and values")
    return row


def batches(handle: int, on_idle: Callable[[], object] = lambda: None) -> Iterator[list[str | None]]:
    """Yields lines from a file descriptor as soon as they arrive; None stands for a line that was too long.

    Args:
        handle: The file descriptor.
        on_idle: Called before each wait for more.
    """
    rest, too_long = b"", False
    while True:
        on_idle()
        content = os.read(handle, _READ_BYTES)
        if not content:
            break
        *lines, rest = (rest + content).split(b"\n")
        found: list[str | None] = [_decoded(line) for line in lines]
        if too_long and found:
            found[0], too_long = None, False
        if len(rest) > MOST_BYTES:
            rest, too_long = b"", True
        if found:
            yield found
    if too_long:
        yield [None]
    elif rest:
        yield [_decoded(rest)]


def _decoded(line: bytes) -> str | None:
    return None if len(line) > MOST_BYTES else line.decode("utf-8", errors="replace").rstrip("\r")
