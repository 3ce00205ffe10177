"""Reads lines of events and writes lines of predictions, as soon as events arrive."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..storage import MIB
from ._formats import MOST_BYTES, Format, Row, decoded
from ._intake import as_columns
from ._ranges import RangeWatch
from ._step import Step
from ._stream import Stream

_READ_BYTES = MIB // 4
"""Bytes read at a time; everything that has arrived by then is one batch."""


class Event(NamedTuple):
    """A parsed line: its number, the id as given, and the row."""

    line: int
    id: str | int
    row: Row


class Lines:
    """Answers lines of events with lines of predictions.

    For a line that cannot be used, an error is written, and the stream continues. Events change the stream after their
    answers are written: what `write` raises leaves the stream as it was before the lines.

    Args:
        stream: The stream.
        write: Called with text to write.
        note: Called with a remark on a channel of which most values are outside the range of training, once for each.

    Attributes:
        errors: Number of lines for which an error was written.
    """

    def __init__(
        self, stream: Stream, write: Callable[[str], object], note: Callable[[str], object] = lambda text: None
    ):
        data = stream.trained.config.data
        self._stream, self._write, self._note = stream, write, note
        reading = stream.trained.reading
        assert reading is not None
        self._ranges = RangeWatch(reading.channels, reading.ranges, reading.scaler)
        named = reading.options.get("id") or data.id
        self._id = named or "id"
        self._only = None if named else 0  # the id of a file that is one series, as `predict` writes it
        self._time = data.time or "time"
        times = [self._time] if stream.timed else []
        late = ["late"] if stream.late == "repeat" else []
        columns = [self._id, *times, *stream.decoder.columns, *late, "line", "error"]
        self._format = Format([*([named] if named else []), *times], columns)
        self._line = 0
        self.errors = 0

    def process(self, lines: Sequence[str | None]) -> None:
        """Writes the answers to lines; None is a line that was too long."""
        rows: dict[int, Row] = {}
        events = []
        for number, text in enumerate(lines, self._line + 1):
            try:
                row = self._format.parse(text)
                if row is not None:
                    events.append(self._event(number, row))
            except ValueError as error:
                rows[number] = _failed(str(error), number)
        answered = self._answer(events, rows)
        if rows:
            self._write(self._format.text([rows[number] for number in sorted(rows)]))
            self._format.written()
        if answered is not None:
            step, values = answered
            self._stream.commit(step)
            self._say(self._ranges.see(values[step.taken]))
        self._line += len(lines)
        self.errors += sum("error" in row for row in rows.values())

    def end(self) -> None:
        """Notes what few values show, once no more lines come."""
        self._say(self._ranges.last())

    def _say(self, notes: Iterable[str]) -> None:
        for note in notes:
            self._note(note)

    def _event(self, number: int, row: Row) -> Event:
        given = row.get(self._id, self._only)
        if isinstance(given, bool) or not isinstance(given, (str, int)) or given == "":
            raise ValueError(f"{self._id}: expected an id (text or a whole number), got {given!r:.80}")
        if self._stream.timed and row.get(self._time) in (None, ""):
            raise ValueError(f"{self._time}: the time is missing")
        return Event(number, given, row)

    def _answer(self, events: list[Event], rows: dict[int, Row]) -> tuple[Step, NDArray[Any]] | None:
        """Adds the answers to events to `rows`; returns what the events change, and their values."""
        if not events:
            return None
        given = [event.row for event in events]
        times = [row.get(self._time) for row in given]
        ids = [str(event.id) for event in events]
        found, errors = self._stream.read(ids, times, as_columns(given, self._stream.columns))
        for place, why in errors.items():
            why = f"{self._time}{why.removeprefix('time')}" if why.startswith("time:") else why
            rows[events[place].line] = _failed(why, events[place].line, {self._id: events[place].id})
        places = [place for place in range(len(events)) if place not in errors]
        if not places:
            return None
        found = found.at(np.array(places))
        step = self._stream.prepare([ids[place] for place in places], found)
        predictions = self._stream.decoder.rows(step.outputs)
        for place, taken, prediction in zip(places, step.taken.tolist(), predictions, strict=True):
            row = self._row(events[place], taken, prediction)
            if row is not None:
                rows[events[place].line] = row
        return step, found.values

    def _row(self, event: Event, taken: bool, prediction: Row) -> Row | None:
        """Returns the answer to an event that could be read; None if there is none."""
        fields: Row = {self._id: event.id}
        if not taken and self._stream.late == "refuse":
            why = f"{self._time}: not later than the last observation of {self._id} {event.id!r}"
            return _failed(why, event.line, fields)
        if not taken and self._stream.late == "ignore":
            return None
        if self._stream.timed:
            fields[self._time] = event.row.get(self._time)
        return {**fields, **prediction, **({} if taken else {"late": True})}


def _failed(why: str, line: int, fields: Row | None = None) -> Row:
    return {**(fields or {}), "line": line, "error": " ".join(why.split()).rstrip(".")}


def batches(handle: int, wait: Callable[[int], bool] = lambda handle: True) -> Iterator[list[str | None]]:
    """Yields lines from a file descriptor as soon as they arrive; None stands for a line that was too long.

    Args:
        handle: The file descriptor.
        wait: Waits until there is something to read; False ends the lines, without the beginning of an unfinished one.
    """
    rest, too_long = b"", False
    while wait(handle):
        content = os.read(handle, _READ_BYTES)
        if not content:
            break
        *lines, rest = (rest + content).split(b"\n")
        found: list[str | None] = [decoded(line) for line in lines]
        if too_long and found:
            found[0], too_long = None, False
        if len(rest) > MOST_BYTES:
            rest, too_long = b"", True
        if found:
            yield found
    else:
        return
    if too_long:
        yield [None]
    elif rest:
        yield [decoded(rest)]
