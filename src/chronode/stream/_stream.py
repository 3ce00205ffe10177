"""Stream: a trained model that follows many series of live data."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..judge import Drift
from ..model import LiveModel
from ..runs import load
from ..settings import SettingError, named, number, one_of
from ..storage import parse
from ..training import Predictions, Trained
from ._drift import DriftWatch
from ._states import States, fingerprint, read_states, write_states
from ._step import Step, Stepping
from ._times import Intake, Newest, Observations, as_columns
from ._values import Errors

LATE = ("refuse", "ignore", "repeat")
_SWEEPS_PER_LIMIT = 8
"""Number of searches for idle ids within the idle time."""
_DAY = 86_400.0
"""Largest lead of dates over the machine's clock, in seconds: more than the difference of any two time zones."""


@dataclass(frozen=True)
class Counts:
    """Counts of a stream.

    Attributes:
        observations: Observations that changed a state.
        late: Observations that were not later than the last one of their id.
        dropped: Ids that were dropped because they were idle.
    """

    observations: int = 0
    late: int = 0
    dropped: int = 0


class Stream:
    """Follows many series at a time: each observation updates the state of its id and gives a prediction.

    The predictions are those of `chronode predict` on the same rows. Values and times have the names and units of the
    training file; the scaling is that of the model.

    Args:
        run: A run folder, a file written by `chronode pack`, or the result of `chronode.load`.
        late: Treatment of an observation that is not later than the last one of its id: "refuse" (a ValueError),
            "ignore", or "repeat" (the newest prediction of the id is the answer; as "ignore" in Python, where every
            observation has an answer).
        idle: Ids whose last observation is this much older than the newest of all ids are dropped, in the model's unit
            of time; None keeps all. A time that is more than `idle` ahead counts once three ids have such times.
        ahead: Observations that are this much ahead are refused, in the model's unit of time: dates ahead of the
            machine's clock, numbers ahead of the newest of all ids. None: a day for dates, no limit for numbers;
            `math.inf`: no limit.

    Attributes:
        counts: Numbers of observations, late observations and dropped ids.
        unit: The model's unit of time.
        decoder: Turns outputs of the model into predictions.

    Example:
        >>> stream = Stream("runs/vitals-1")                                            # doctest: +SKIP
        >>> stream.observe("p01", "2024-01-31 12:00", {"pulse": 80})            # doctest: +SKIP
        {'outcome': 'stable', 'p_stable': 0.76, 'p_worse': 0.24}
    """

    def __init__(
        self, run: str | Path | Trained, *, late: str = "refuse", idle: float | None = None, ahead: float | None = None
    ):
        trained = run if isinstance(run, Trained) else load(run)
        self.trained = trained
        trained.check("stream")
        reading = trained.reading
        assert reading is not None
        model = LiveModel(trained.model, reading.window if reading.horizon and not reading.per_step else 0)
        self.late = one_of("late", late, LATE)
        self.idle = None if idle is None else number("idle", idle, above=0)
        self._intake = Intake(reading)
        self._states = States(model.initial_state(), trained.model.head.out_features)
        equal_times = reading.options.get("duplicates") == "keep"
        self._stepping = Stepping(model, self._states, self._intake, trained.model.layer.missing, equal_times)
        self.unit = reading.unit
        self.decoder = Decoder(trained)
        self.counts = Counts()
        self._watch = DriftWatch(reading)
        for name, given in (("idle", idle), ("ahead", ahead)):
            if given is not None and self._intake.times is None:
                raise ValueError(f"{name} requires times, but the model was trained without times.")
        self._ahead = self._limit(ahead)
        reach = min(limit for limit in (self.idle, self._ahead, math.inf) if limit is not None)
        # Times that are no dates are compared with the newest of the stream instead of the machine's clock.
        numbers = self._intake.times is not None and not self._intake.times.dates
        self._newest = Newest(reach) if self.idle is not None or (numbers and self._ahead < math.inf) else None
        self._swept = -np.inf

    def _limit(self, ahead: float | None) -> float:
        """Returns how far times may be ahead."""
        if ahead is None:
            times = self._intake.times
            return times.seconds(_DAY) if times is not None and times.dates else math.inf
        return ahead if ahead == math.inf else number("ahead", ahead, at_least=0)

    @property
    def timed(self) -> bool:
        """Whether observations have times."""
        return self._intake.times is not None

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the values of an observation."""
        return self._intake.columns

    def __len__(self) -> int:
        return len(self._states)

    def __contains__(self, id: object) -> bool:
        return isinstance(id, (str, int)) and str(id) in self._states.rows

    def ids(self) -> list[str]:
        """Returns the ids that have a state."""
        return list(self._states.rows)

    def observe(self, id: str | int, time: Any, values: Mapping[str, Any]) -> dict[str, Any]:
        """Takes one observation and returns the prediction after it.

        Args:
            id: The series; 7 and "7" are the same one.
            time: Time of the observation; None if the model was trained without times.
            values: Values by name; those that are left out are missing.
        """
        unknown = [name for name in values if name not in self._intake.columns]
        if unknown:
            raise ValueError(f"values has {unknown[0]!r}; the model takes {', '.join(self._intake.columns)}.")
        (prediction,) = self.decoder.rows(self._take([str(id)], [time], as_columns([values], self.columns)).outputs)
        return prediction

    def observe_many(self, ids: Sequence[str | int], times: Any, values: Any) -> Predictions:
        """Takes observations of many series in the order given and returns the prediction after each.

        Args:
            ids: `(N,)` ids.
            times: `(N,)` times; None if the model was trained without times.
            values: A mapping of names to `(N,)` values, or an array `(N, D)` in the order of the channels; NaN and
                None are missing.
        """
        if not isinstance(values, Mapping):
            array = np.asarray(values)
            if array.shape != (len(ids), len(self._intake.columns)):
                raise ValueError(
                    f"values has shape {array.shape}, expected ({len(ids)}, {len(self._intake.columns)}): one row per "
                    f"id with {', '.join(self._intake.columns)}."
                )
            values = dict(zip(self._intake.columns, array.T, strict=True))
        if not len(ids):
            return self.decoder.predictions([], self._states.outputs([]))
        return self.decoder.predictions(ids, self._take([str(id) for id in ids], times, values).outputs)

    def _take(self, ids: list[str], times: Any, values: Mapping[str, Any]) -> Step:
        """Takes observations; an error changes nothing."""
        observations, errors = self.read(ids, times, values)
        if errors:
            first = min(errors)
            where = f"observation {first + 1:,}: " if len(ids) > 1 else ""
            raise ValueError(f"{where}{errors[first]}.")
        step = self.prepare(ids, observations)
        if self.late == "refuse" and not step.taken.all():
            late = ids[int(np.flatnonzero(~step.taken)[0])]
            self.counts = replace(self.counts, late=self.counts.late + 1)
            raise ValueError(f"this observation of {late!r} is not later than the last one of that id.")
        self.commit(step)
        return step

    def predict(self, id: str | int, at: Any = None) -> dict[str, Any]:
        """Returns the prediction for an id.

        Args:
            id: The series.
            at: A later time: the prediction as if an observation without any values arrived then. This requires a
                model that allows missing values, and does not change the state. By default, the prediction after the
                last observation.
        """
        name = str(id)
        if name not in self._states.rows:
            raise ValueError(f"id {id!r} is unknown: it has no observations yet, or it was dropped.")
        outputs = self._states.outputs([name]) if at is None else self._outputs_at(name, at)
        (prediction,) = self.decoder.rows(outputs)
        return prediction

    def _outputs_at(self, name: str, at: Any) -> Any:
        if not self.timed or not self._stepping.missing:
            why = "times" if not self.timed else "missing values: train with --allow-missing"
            raise SettingError(f"{named('at', at)} requires a model that was trained with {why}.", argument="at")
        observations, errors = self._intake.read([at], {}, 1)
        if errors:
            raise SettingError(f"{named('at', at)}: {errors[0]}.", argument="at")
        if observations.times is not None and observations.times[0] < self._states.last(name):
            raise SettingError(f"{named('at', at)} is earlier than the last observation of the id.", argument="at")
        return self._stepping.single(name, observations)[0]

    # ---- the step of a batch: read, prepare, commit -------------------------------------------------------

    def read(self, ids: Sequence[str], times: Any, columns: Mapping[str, Any]) -> tuple[Observations, Errors]:
        """Reads observations, in the units and by the names of the training file.

        Returns:
            The observations, and why some of them cannot be used.
        """
        observations, errors = self._intake.read(times, columns, len(ids))
        if observations.times is not None:
            self._refuse_ahead(ids, observations.times, errors)
        return observations, errors

    def _refuse_ahead(self, ids: Sequence[str], times: Any, errors: Errors) -> None:
        timed = np.flatnonzero(~np.isnan(times)) if self._newest is not None else ()
        if self._newest is not None and len(timed):
            names = [ids[index] for index in timed]
            new = {name for name in names if name not in self._states.rows}
            self._newest.see(names, times[timed], len(self._states) + len(new))
        if self._ahead == math.inf or self._intake.times is None:
            return
        now = self._intake.times.now()
        what = "the newest time of the stream" if now is None else "the clock of this machine"
        if now is None:
            now = self._newest.time if self._newest is not None and self._newest.time > -np.inf else math.inf
        for index in np.flatnonzero(times > now + self._ahead).tolist():
            by = f"{times[index] - now:.4g} ahead of {what} (unit: {self.unit})"
            errors.setdefault(index, f"time: {by}, more than ahead={self._ahead:.4g} allows")

    def prepare(self, ids: Sequence[str], observations: Observations) -> Step:
        """Returns what observations change, and the output after each; nothing is changed yet."""
        return self._stepping.prepare(ids, observations)

    def commit(self, step: Step) -> None:
        """Stores what `prepare` returned: states, times and outputs together."""
        new = {name for name in step.names if name not in self._states.rows}
        self._states.put(step.names, step.records)
        self._watch.see(step.ids, new, step.observations, step.taken)
        counts, taken = self.counts, int(step.taken.sum())
        late = counts.late + len(step.taken) - taken
        self.counts = Counts(counts.observations + taken, late, counts.dropped)
        self._drop_idle()

    def _drop_idle(self) -> None:
        if self.idle is None or self._newest is None or self._newest.time == -np.inf:
            return
        if self._newest.time - self._swept < self.idle / _SWEEPS_PER_LIMIT:
            return
        self._swept = self._newest.time
        gone = self._states.idle(self._newest.time - self.idle)
        self._states.drop(gone)
        self._watch.drop(gone)
        self.counts = replace(self.counts, dropped=self.counts.dropped + len(gone))

    def drift(self) -> Drift | None:
        """Compares the newest stretches of observations with those of training, by the statistics of `chronode check`.

        Returns:
            Distances and p-values of level, spread and missing share of every channel, and of the time between
            observations, of up to 200 stretches; None while there are fewer than 20, and for a model of an earlier
            version.
        """
        return self._watch.drift()

    def drop(self, ids: Sequence[str | int]) -> None:
        """Drops the states of ids; an id that returns starts a new series."""
        names = [str(id) for id in ids]
        for name in names:
            if name not in self._states.rows:
                raise ValueError(f"id {name!r} is unknown: it has no observations yet, or it was dropped.")
        self._states.drop(names)
        self._watch.drop(names)

    def adopt(self, other: Stream) -> bool:
        """Takes over the ids of another stream if its states have the same meaning: equal weights and scaling.

        Returns:
            Whether they were taken over; otherwise nothing is changed.
        """
        mine, theirs = self.trained, other.trained
        if fingerprint(mine.model) != fingerprint(theirs.model) or mine.reading != theirs.reading:
            return False
        self._states, self.counts, self._newest, self._swept = other._states, other.counts, other._newest, other._swept
        self._stepping.states, self._watch = self._states, other._watch
        if self._intake.times is not None and other._intake.times is not None:
            self._intake.times.restore(other._intake.times.origin)
        return True

    # ---- files --------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> Path:
        """Writes the states of all ids to a file; an existing file is replaced atomically."""
        write_states(Path(path), self.trained, self._states, self._facts())
        return Path(path)

    def snapshot(self) -> Callable[[Path], Path]:
        """Copies the states of this moment, and returns `save` of the copy, which another thread may call."""
        states, facts = self._states.copy(), self._facts()

        def save(path: Path) -> Path:
            write_states(path, self.trained, states, facts)
            return path

        return save

    def _facts(self) -> dict[str, Any]:
        newest = None if self._newest is None or self._newest.time == -np.inf else self._newest.time
        times = None if self._intake.times is None else self._intake.times.facts()
        return {"times": times, "newest": newest, "counts": asdict(self.counts)}

    def load(self, path: str | Path) -> None:
        """Replaces all ids of this stream by the states that `save` wrote.

        Raises:
            ValueError: The file is damaged, or its states belong to another model.
        """
        path = Path(path)
        rows, records, facts = read_states(path, self.trained, self._states.layout)
        times = self._intake.times
        try:
            counts = parse(Counts, facts.get("counts"), "counts")
            newest = parse(float | None, facts.get("newest"), "newest")
            clock = None if times is None else times.checked(facts.get("times"))
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
        self._states.restore(rows, records)
        self.counts = counts
        if times is not None and clock is not None:
            times.restore(clock)
        if self._newest is not None:
            self._newest = Newest(self._newest.reach)
            self._newest.time = self._swept = -np.inf if newest is None else newest


class Decoder:
    """Turns outputs of a model into predictions.

    Attributes:
        columns: Names of the parts of a prediction, which are those of `chronode predict`.
    """

    def __init__(self, trained: Trained):
        self._objective, self._names = trained.objective, trained.output_names()
        empty = self.predictions((), torch.zeros(0, self._objective.num_outputs))
        parts = zip(empty.by_target, empty.heads, strict=True)
        self._heads = [heads if part.classes is None else (part.names[0], *heads) for part, heads in parts]
        self.columns = [name for heads in self._heads for name in heads]

    def predictions(self, ids: Sequence[Any], outputs: Tensor) -> Predictions:
        """Returns the predictions of many series."""
        values, goal = self._objective.finished(outputs).float().numpy(), self._objective
        return Predictions(np.asarray(ids), list(values), goal.classes, self._names, goal)

    def rows(self, outputs: Tensor) -> list[dict[str, Any]]:
        """Returns predictions by name."""
        values = self._objective.finished(outputs).float().numpy()
        cells: list[list[Any]] = [[] for _ in values]
        for part, span in zip(self._objective.parts, self._objective.spans, strict=True):
            if part.classes is not None:
                for row, index in zip(cells, part.predicted(values[:, span]).tolist(), strict=True):
                    row.append(part.classes[index])
            for row, numbers in zip(cells, values[:, span], strict=True):
                row += [float(str(value)) for value in numbers]  # with the digits of float32
        return [dict(zip(self.columns, row, strict=True)) for row in cells]
