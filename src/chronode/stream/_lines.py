"""Lines of events in, lines of predictions out, as soon as events arrive: JSON Lines, or CSV with column names."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ..data import Scaler, outside
from ..storage import MIB
from ._events import Events, Refused, Row
from ._stream import Stream

MOST_BYTES = MIB
"""Longest line."""
_READ_BYTES = MIB // 4
"""Bytes read at a time; everything that has arrived by then is one batch."""
_MARK = "\ufeff"  # the byte-order mark that some programs write before the first line
_ENOUGH, _MOST = 50, 1_000  # values of a channel that are judged


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
        self._stream, self._write, self._note = stream, write, note
        reading = stream.trained.reading
        assert reading is not None
        self._ranges = RangeWatch(reading.channels, reading.ranges, reading.scaler)
        self._events = Events(stream)
        late = ["late"] if stream.late == "repeat" else []
        self._format = _Format(self._events.required, [*self._events.columns, *late, "line", "error"])
        self._line = 0
        self.errors = 0

    def process(self, lines: Sequence[str | None]) -> None:
        """Writes the answers to lines; None is a line that was too long."""
        rows: dict[int, Row] = {}
        events: dict[int, Row] = {}
        for number, text in enumerate(lines, self._line + 1):
            try:
                if (event := self._format.parse(text)) is not None:
                    events[number] = event
            except ValueError as error:
                rows[number] = _failed(str(error), number)
        answered = self._events.answer(list(events.values()))
        for number, answer in zip(events, answered.rows, strict=True):
            if isinstance(answer, Refused):
                rows[number] = _failed(answer.reason, number, answer.fields)
            elif answer is not None:
                rows[number] = answer
        if rows:
            self._write(self._format.text([rows[number] for number in sorted(rows)]))
            self._format.written()
        if answered.step is not None:
            self._stream.commit(answered.step)
            self._say(self._ranges.see(answered.step.observations.values[answered.step.taken]))
        self._line += len(lines)
        self.errors += sum("error" in row for row in rows.values())

    def end(self) -> None:
        """Notes what few values show, once no more lines come."""
        self._say(self._ranges.last())

    def _say(self, notes: Iterable[str]) -> None:
        for note in notes:
            self._note(note)


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
        texts: list[str | None] = [_decoded(line) for line in lines]
        if too_long and texts:
            texts[0], too_long = None, False
        if len(rest) > MOST_BYTES:
            rest, too_long = b"", True
        if texts:
            yield texts
    else:
        return
    if too_long:
        yield [None]
    elif rest:
        yield [_decoded(rest)]


class _Format:
    """Reads and writes lines.

    The format is that of the first line that fits: JSON if it is a JSON object, CSV if it has the names of the required
    columns. Until then, errors are written as JSON.
    """

    def __init__(self, required: Sequence[str], columns: Sequence[str]):
        self._required, self._columns = list(required), list(columns)
        self._json = False
        self._names: list[str] | None = None
        self._begun = False

    def parse(self, text: str | None) -> Row | None:
        """Returns the event of a line; None for an empty line and for column names."""
        if text is None:
            raise ValueError(f"the line has more than {MOST_BYTES:,} bytes")
        if any("\udc80" <= letter <= "\udcff" for letter in text if letter > "\ud7ff"):
            raise ValueError("the line is not valid UTF-8")
        text = text.removeprefix(_MARK)
        if not text.strip():
            return None
        if self._json:
            return _object(text)
        if self._names is not None:
            return self._cells(self._names, text)
        return self._first(text)

    def _first(self, text: str) -> Row | None:
        """Decides for the format of a line if it fits one."""
        if text.lstrip().startswith("{"):
            row = _object(text)
            self._json = True
            return row
        names = [name.strip() for name in _split(text)]
        missing = [name for name in self._required if name not in names]
        if missing or len(set(names)) < len(names):
            needed = f" with {', '.join(self._required)}" if self._required else ", each once"
            raise ValueError(f"this is neither a JSON object nor a line of column names{needed}")
        self._names = names
        return None

    def _cells(self, names: list[str], text: str) -> Row:
        cells = _split(text)
        if len(cells) != len(names):
            raise ValueError(f"the line has {len(cells)} cells, the first line has {len(names)}")
        return {name: cell if cell.strip() else None for name, cell in zip(names, cells, strict=True)}

    def text(self, rows: Sequence[Row]) -> str:
        """Returns answers as lines."""
        if self._names is None:
            return "".join(json.dumps(row) + "\n" for row in rows)
        text = io.StringIO()
        writer = csv.DictWriter(text, self._columns, lineterminator="\n")
        if not self._begun:
            writer.writeheader()
        writer.writerows(rows)
        return text.getvalue()

    def written(self) -> None:
        """Notes that the text of answers was written, and with it the names of the columns."""
        self._begun = self._begun or self._names is not None


def _decoded(line: bytes) -> str | None:
    """Returns the text of a line; bytes that are not UTF-8 stay recognizable; None if the line is too long."""
    return None if len(line) > MOST_BYTES else line.decode("utf-8", errors="surrogateescape").removesuffix("\r")


def _split(text: str) -> list[str]:
    try:
        return next(csv.reader([text]))
    except csv.Error as error:
        raise ValueError(f"this is not a line of CSV ({error})") from error


def _object(text: str) -> Row:
    try:
        row = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"this is not valid JSON ({error})") from error
    if not isinstance(row, dict):
        raise ValueError("this is not a JSON object with names and values")
    return row


class RangeWatch:
    """Compares the values of a stream with the range of training, channel by channel.

    A channel is judged whenever 50 more values of it have arrived, by those of the last 1,000 at most, and noted once.

    Args:
        channels: Names of the channels.
        ranges: Range of nearly all values of each channel in training; empty if it is not known.
        scaler: Scaler of the values; None if they are not scaled.

    Example:
        >>> watch = RangeWatch(["pulse"], [(60.0, 80.0)])
        >>> [len(list(watch.see(np.full((20, 1), 1.2)))) for _ in range(6)], len(list(watch.last()))
        ([0, 0, 1, 0, 0, 0], 0)
    """

    def __init__(self, channels: Sequence[str], ranges: Sequence[tuple[float, ...]], scaler: Scaler | None = None):
        self._channels, self._ranges, self._scaler = channels, ranges, scaler
        self._kept: dict[int, list[NDArray[np.float64]]] = {channel: [] for channel, ends in enumerate(ranges) if ends}
        self._new = dict.fromkeys(self._kept, 0)

    def see(self, values: NDArray[np.floating]) -> Iterator[str]:
        """Takes scaled values `(N, D)`, NaN where missing; yields a note on each channel that is due and outside."""
        if not self._kept:
            return
        scaler = self._scaler
        raw = np.asarray(values, dtype=np.float64) if scaler is None else scaler.inverse_values(values)
        for channel in list(self._kept):
            readings = raw[~np.isnan(raw[:, channel]), channel]
            self._kept[channel].append(readings)
            self._new[channel] += len(readings)
            if self._new[channel] >= _ENOUGH:
                yield from self._judge(channel)

    def last(self) -> Iterator[str]:
        """Yields notes on the channels that had too few values until the end."""
        for channel in list(self._kept):
            if self._new[channel]:
                yield from self._judge(channel)

    def _judge(self, channel: int) -> Iterator[str]:
        readings = np.concatenate(self._kept[channel])[-_MOST:]
        self._kept[channel], self._new[channel] = [readings], 0
        notes = outside([self._channels[channel]], [readings], [self._ranges[channel]])
        if notes:
            del self._kept[channel]
        yield from notes
