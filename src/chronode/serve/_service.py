"""Service: a stream that many requests share, with batches across requests, a saved state and a model to swap."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..settings import SettingError, named, whole
from ..stream import Events, RangeWatch, Refused, Stream
from ._description import Figures
from ._tails import Row, Tails

_ALARM = re.compile(r"(.+?)(>=|<=)(.+)")


@dataclass(frozen=True)
class Limits:
    """Limits of a service.

    Attributes:
        body_bytes: Largest body of a request.
        ids: Largest number of ids with a state.
        seconds: Longest time of a prediction of whole series.
    """

    body_bytes: int = 16 * 1024 * 1024
    ids: int = 1_000_000
    seconds: float = 30.0

    def __post_init__(self) -> None:
        whole("body_bytes", self.body_bytes, at_least=1)
        whole("ids", self.ids, at_least=1)


class RefusedRequest(ValueError):
    """A request that cannot be answered; it has changed nothing.

    Attributes:
        status: HTTP status.
    """

    def __init__(self, reason: str, status: int = 422):
        super().__init__(reason)
        self.status = status


@dataclass
class _Request:
    """Observations of one request, and where their answer is awaited."""

    rows: Sequence[Row]
    answer: asyncio.Future[list[Row]]


class Service:
    """Answers observations of many requests with one stream, in batches of those that wait.

    All observations of a request are taken, or none. Its methods run in the thread of one event loop.

    Args:
        run: A run folder or packed model; read again by `swap`.
        state: File of the states of all ids: read if it exists, written by `save`.
        late, idle, ahead: As for `Stream`.
        alarms: Conditions on parts of a prediction, such as "p_ill>=0.8".
        tail: Number of last observations kept per id, from which states are built for another model; 0 for none.
        limits: Limits of requests.

    Attributes:
        stream: The stream.
        figures: Counts and times of the service.
        limits: Limits of requests.
        changed: Whether the states have changed since the last save.
    """

    def __init__(
        self,
        run: str | Path,
        *,
        state: str | Path | None = None,
        late: str = "refuse",
        idle: float | None = None,
        ahead: float | None = None,
        alarms: Sequence[str] = (),
        tail: int = 64,
        limits: Limits | None = None,
    ):
        self.run, self.state = Path(run), None if state is None else Path(state)
        self._options: dict[str, Any] = {"late": late, "idle": idle, "ahead": ahead}
        self.limits = limits or Limits()
        self.stream = Stream(run, **self._options)
        self._use(self.stream)
        self._alarms = [_alarm(text, self.stream.decoder.columns) for text in alarms]
        self.figures = Figures(self)
        self._tails = Tails(whole("tail", tail, at_least=0))
        if self.state is not None and self.state.exists():
            self.stream.load(self.state)
            self._tails.load(self.state)
        self.changed = self.state is not None and not self.state.exists()
        self._waiting: list[_Request] = []
        self._saving = threading.Lock()
        self._missed: list[Row] | None = None  # observations that a model being swapped in has not seen
        self._listeners: set[asyncio.Queue[dict[str, Any]]] = set()

    def _use(self, stream: Stream) -> None:
        self.stream, self.events = stream, Events(stream)
        reading = stream.trained.reading
        assert reading is not None
        self._ranges = RangeWatch(reading.channels, reading.ranges, reading.scaler)
        self._names = {self.events.id, self.events.time, *stream.columns, *reading.target}

    # ---- observations -------------------------------------------------------------------------------------

    async def observe(self, rows: Sequence[Row]) -> list[Row]:
        """Takes the observations of a request, together with those of all requests that wait.

        Raises:
            RefusedRequest: One of them cannot be used; none of them is taken.
        """
        loop = asyncio.get_running_loop()
        request = _Request(rows, loop.create_future())
        if not self._waiting:
            loop.call_soon(self._take_waiting)
        self._waiting.append(request)
        return await request.answer

    def _take_waiting(self) -> None:
        requests, self._waiting = self._waiting, []
        try:
            self._take([request for request in requests if not self._refuse(request)])
        except Exception as error:
            for request in requests:
                if not request.answer.done():
                    request.answer.set_exception(error)

    def _refuse(self, request: _Request) -> bool:
        """Refuses a request with names that the model does not have, or with too many new ids."""
        for row in request.rows:
            unknown = [name for name in row if name not in self._names]
            if unknown:
                columns = ", ".join(self.events.required + list(self.stream.columns))
                self._fail(request, f"{unknown[0]!r} is unknown; an observation has {columns}.")
                return True
        new = {str(row.get(self.events.id)) for row in request.rows if row.get(self.events.id) not in self.stream}
        if new and len(self.stream) + len(new) > self.limits.ids:
            self._fail(request, f"there are {len(self.stream):,} ids, and at most {self.limits.ids:,} are kept.", 429)
            return True
        return False

    def _fail(self, request: _Request, reason: str, status: int = 422) -> None:
        self.figures.refused.inc(len(request.rows))
        if not request.answer.done():
            request.answer.set_exception(RefusedRequest(reason, status))

    def _take(self, requests: list[_Request]) -> None:
        """Takes requests as one batch, without those in which an observation is refused."""
        while requests:
            answered = self.events.answer([row for request in requests for row in request.rows])
            answers = iter(answered.rows)
            parts = [[next(answers) for _ in request.rows] for request in requests]
            reasons = [_first_refusal(part) for part in parts]
            for request, reason in zip(requests, reasons, strict=True):
                if reason:
                    self._fail(request, reason)
            if not any(reasons):
                self._finish(requests, parts, answered)
                return
            requests = [request for request, reason in zip(requests, reasons, strict=True) if not reason]

    def _finish(self, requests: list[_Request], parts: list[Any], answered: Any) -> None:
        notes: list[str] = []
        if answered.step is not None:
            self.stream.commit(answered.step)
            self.changed = True
            self.figures.batches.observe(len(answered.step.taken))
            notes = list(self._ranges.see(answered.step.observations.values[answered.step.taken]))
        rows = [row for request in requests for row in request.rows]
        if self._missed is not None:
            self._missed += rows
        self._tails.add(rows, self.events.id)
        for request, part in zip(requests, parts, strict=True):
            if not request.answer.done():
                request.answer.set_result([answer for answer in part if answer is not None])
        self._publish([answer for part in parts for answer in part if answer is not None], notes)

    # ---- what the page shows ------------------------------------------------------------------------------

    def alarms(self, prediction: Mapping[str, Any]) -> list[str]:
        """Returns the alarms that a prediction raises."""
        return [text for text, name, raised in self._alarms if raised(prediction[name])]

    def _publish(self, answers: list[Row], notes: list[str]) -> None:
        raised = [self.alarms(answer) for answer in answers] if self._alarms else [[] for _ in answers]
        self.figures.alarms.inc(sum(map(bool, raised)))
        self.figures.drifted.inc(len(notes))
        if not self._listeners:
            return
        shown = [{**answer, "alarms": alarm} for answer, alarm in zip(answers, raised, strict=True)]
        message = {"answers": shown[-50:], "notes": notes, "ids": len(self.stream)}
        for queue in self._listeners:
            if not queue.full():  # a slow reader misses messages
                queue.put_nowait(message)

    def listen(self) -> asyncio.Queue[dict[str, Any]]:
        """Returns a queue of all later answers; `forget` ends it."""
        queue: asyncio.Queue[dict[str, Any]] = asyncio.Queue(100)
        self._listeners.add(queue)
        return queue

    def forget(self, queue: asyncio.Queue[dict[str, Any]]) -> None:
        """Ends a queue of answers."""
        self._listeners.discard(queue)

    # ---- states and models --------------------------------------------------------------------------------

    def drop(self, id: str) -> None:
        """Drops the state of an id."""
        if id not in self.stream:
            raise RefusedRequest(f"id {id!r} is unknown.", 404)
        self.stream.drop([id])
        self._tails.drop(id)
        self.changed = True

    async def save(self) -> Path:
        """Writes the states of this moment, while observations go on."""
        if self.state is None:
            raise RefusedRequest("the service was started without a file of states: pass --state FILE.", 409)
        snapshot, tails = self.stream.snapshot(), self._tails.copy()
        self.changed = False
        try:
            await asyncio.to_thread(self._write, snapshot, tails)
        except BaseException:
            self.changed = True
            raise
        self.figures.saved.set(time.time())
        return self.state

    def _write(self, snapshot: Callable[[Path], Path], tails: Tails) -> None:
        assert self.state is not None
        with self._saving:
            tails.save(self.state)
            snapshot(self.state)

    async def swap(self, run: str | Path | None = None) -> dict[str, Any]:
        """Loads the model again, or another one, and gives it all ids.

        States are carried over if the weights are the same; otherwise they are built again from the last observations
        of each id, while the old model answers.

        Returns:
            Number of ids that were carried over or rebuilt, and of those without their first observations.
        """
        if self._missed is not None:
            raise RefusedRequest("another model is being loaded.", 409)
        path = self.run if run is None else Path(run)
        self._missed = []
        try:
            new = await asyncio.to_thread(Stream, path, **self._options)
            if new.adopt(self.stream):
                outcome = {"carried_over": len(new)}
            else:
                if not self._tails.length and len(self.stream):
                    raise RefusedRequest(
                        "states of another model need the last observations: start with --tail 64.", 409
                    )
                tails, complete = self._tails.rows(), self._tails.complete()
                await asyncio.to_thread(_replay, new, tails)
                missed, self._missed = self._missed, []
                _replay(new, missed)
                outcome = {"rebuilt": len(new), "without_beginning": len(self.stream) - complete}
            self.run = path
            self._use(new)
            self.changed = True
        except (ValueError, OSError) as error:
            status = error.status if isinstance(error, RefusedRequest) else 409
            raise RefusedRequest(str(error), status) from error
        finally:
            self._missed = None
        self.figures.swaps.inc()
        return {"run": str(path), **outcome}


def _replay(stream: Stream, rows: list[Row]) -> None:
    """Gives observations to a stream; those that its model refuses are left out."""
    events = Events(stream)
    for start in range(0, len(rows), 4_096):
        answered = events.answer(rows[start : start + 4_096])
        if answered.step is not None:
            stream.commit(answered.step)


def _first_refusal(answers: Sequence[Row | Refused | None]) -> str:
    """Returns why a request cannot be taken; "" if it can."""
    for number, answer in enumerate(answers, 1):
        if isinstance(answer, Refused):
            return f"observation {number:,}: {answer.reason}." if len(answers) > 1 else f"{answer.reason}."
    return ""


def _alarm(text: str, columns: Sequence[str]) -> tuple[str, str, Callable[[Any], bool]]:
    """Parses a condition such as "p_ill>=0.8"."""
    fields = _ALARM.fullmatch(text)
    name = fields[1].strip() if fields else ""
    try:
        bound = float(fields[3]) if fields else float("nan")
    except ValueError:
        bound = float("nan")
    if name not in columns or bound != bound:
        raise SettingError(
            f"{named('alarm', text)} must be a condition on {', '.join(columns)}",
            argument="alarm",
            cure=f"such as {columns[-1]}>=0.8",
        )
    above = fields is not None and fields[2] == ">="
    return text, name, lambda value: isinstance(value, float) and (value >= bound if above else value <= bound)
