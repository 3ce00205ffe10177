"""Events, each a row with the names of the training file, and the answers to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._step import Step
from ._stream import Stream
from ._times import as_columns

Row = dict[str, Any]


@dataclass(frozen=True)
class Refused:
    """An event that cannot be used.

    Attributes:
        reason: Cause, as a clause without a full stop.
        fields: The id of the event, if it could be read.
    """

    reason: str
    fields: Row


@dataclass(frozen=True)
class Answered:
    """Answers to events, which change the stream only when `step` is committed.

    Attributes:
        rows: The answer to each event: a prediction, why it was refused, or None for a late event that is ignored.
        step: Changes to pass to `Stream.commit`; None if there are none.
    """

    rows: list[Row | Refused | None]
    step: Step | None


class Events:
    """Reads events by the names of the training file and answers them.

    Args:
        stream: The stream.

    Attributes:
        id: Name of the id.
        time: Name of the time.
        required: Names that every event has.
        columns: Names of an answer.
    """

    def __init__(self, stream: Stream):
        self._stream = stream
        reading = stream.trained.reading
        assert reading is not None
        named = reading.options.get("id")
        self.id, self.time = named or "id", reading.options.get("time") or "time"
        self._only = None if named else 0  # the id of a file that is one series, as `predict` writes it
        times = [self.time] if stream.timed else []
        self.required = [*([named] if named else []), *times]
        self.columns = [self.id, *times, *stream.decoder.columns]

    def answer(self, events: Sequence[Row]) -> Answered:
        """Returns the answers to events, in their order."""
        answers: list[Row | Refused | None] = [self._unusable(event) for event in events]
        places = [index for index, answer in enumerate(answers) if answer is None]
        rows = [events[index] for index in places]
        ids = [self._id_of(row) for row in rows]
        nothing = Answered(answers, None)
        if not rows:
            return nothing
        times = [row.get(self.time) for row in rows]
        observations, errors = self._stream.read(list(map(str, ids)), times, as_columns(rows, self._stream.columns))
        for index, why in errors.items():
            reason = f"{self.time}{why.removeprefix('time')}" if why.startswith("time:") else why
            answers[places[index]] = Refused(reason, {self.id: ids[index]})
        usable = [index for index in range(len(rows)) if index not in errors]
        if not usable:
            return nothing
        observations = observations.at(np.array(usable))
        step = self._stream.prepare([str(ids[index]) for index in usable], observations)
        predictions = self._stream.decoder.rows(step.outputs)
        for index, taken, prediction in zip(usable, step.taken.tolist(), predictions, strict=True):
            answers[places[index]] = self._answer(ids[index], rows[index], taken, prediction)
        return Answered(answers, step)

    def _id_of(self, event: Row) -> Any:
        return event.get(self.id, self._only)

    def _unusable(self, event: Row) -> Refused | None:
        """Returns why an event has no usable id or no time."""
        given = self._id_of(event)
        if isinstance(given, bool) or not isinstance(given, (str, int)) or given == "":
            return Refused(f"{self.id}: expected an id (text or a whole number), got {given!r:.80}", {})
        if self._stream.timed and event.get(self.time) in (None, ""):
            return Refused(f"{self.time}: the time is missing", {})
        return None

    def _answer(self, id: str | int, event: Row, taken: bool, prediction: Row) -> Row | Refused | None:
        """Returns the answer to an event that could be read."""
        fields: Row = {self.id: id}
        if not taken and self._stream.late == "refuse":
            return Refused(f"{self.time}: not later than the last observation of {self.id} {id!r}", fields)
        if not taken and self._stream.late == "ignore":
            return None
        if self._stream.timed:
            fields[self.time] = event.get(self.time)
        return {**fields, **prediction, **({} if taken else {"late": True})}
