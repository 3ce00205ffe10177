"""Stream: a trained model that follows many series of live data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from .._checks import number, one_of
from .._schema import parse
from ..runs import Trained
from ..training import Predictions
from ._decoder import Decoder
from ._followed import follow
from ._grouping import by_count, groups, repeat
from ._intake import Intake, Observations, as_columns
from ._state_file import read_states, write_states
from ._states import States

_SWEEPS_PER_LIMIT = 8
"""How often idle ids are searched for within the idle time."""


@dataclass
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
        late: What to do with an observation that is not later than the last one of its id: "refuse" (a ValueError) or
            "ignore".
        idle: Ids whose last observation is this much older than the newest of all ids are dropped, in the model's unit
            of time; None keeps all.

    Attributes:
        counts: Numbers of observations, late observations and dropped ids.
        unit: The model's unit of time.
        decoder: Turns outputs of the model into predictions.

    Example:
        >>> stream = Stream("runs/vitals-1")                                            # doctest: +SKIP
        >>> stream.observe("p01", "2024-01-31 12:00", {"pulse": 80})            # doctest: +SKIP
        {'outcome': 'stable', 'p_stable': 0.76, 'p_worse': 0.24}
    """

    def __init__(self, run: str | Path | Trained, *, late: str = "refuse", idle: float | None = None):
        trained = run if isinstance(run, Trained) else Trained.load(run)
        self.trained = trained
        reading, self._model = follow(trained)
        self.late = one_of("late", late, ("refuse", "ignore"))
        self.idle = None if idle is None else number("idle", idle, above=0)
        self._intake = Intake(reading)
        self._missing = trained.model.layer.missing
        self._states = States(self._model.initial_state(), trained.model.head.out_features)
        self._equal_times = reading.options.get("duplicates") == "keep"
        self._newest = self._swept = -np.inf
        self.unit = reading.unit
        self.decoder = Decoder(trained)
        self.counts = Counts()
        if self.idle is not None and not self._intake.timed:
            raise ValueError("idle requires times, but the model was trained without times.")

    @property
    def timed(self) -> bool:
        """Whether observations have times."""
        return self._intake.timed

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the values of an observation."""
        return self._intake.columns

    def __len__(self) -> int:
        return len(self._states)

    def __contains__(self, id: object) -> bool:
        return isinstance(id, (str, int)) and str(id) in self._states.rows

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
        found = self._intake.read([time], as_columns([values], self._intake.columns), 1)
        self.take([str(id)], found)
        return self.predict(id)

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
        names = [str(id) for id in ids]
        if not names:
            return self.decoder.predictions([], self._states.outputs[:0])
        _, outputs = self.take(names, self._intake.read(times, values, len(names)))
        return self.decoder.predictions(ids, outputs)

    def predict(self, id: str | int, at: Any = None) -> dict[str, Any]:
        """Returns the prediction for an id.

        Args:
            id: The series.
            at: A later time: the prediction as if an observation without any values arrived then. This requires a
                model that allows missing values, and does not change the state. By default, the prediction after the
                last observation.
        """
        row = self._states.rows.get(str(id))
        if row is None:
            raise ValueError(f"id {id!r} is unknown: it has no observations yet, or it was dropped.")
        output = self._states.outputs[row] if at is None else self._ahead(row, at)
        (prediction,) = self.decoder.rows(output[None])
        return prediction

    def _ahead(self, row: int, at: Any) -> torch.Tensor:
        if not self._intake.timed or not self._missing:
            why = "times" if not self._intake.timed else "missing values: train with --allow-missing"
            raise ValueError(f"at={at!r} requires a model that was trained with {why}.")
        (time,) = self._intake.read([at], {}, 1).times  # pyrefly: ignore[not-iterable]
        gap = time - self._states.last[row]
        if gap < 0:
            raise ValueError(f"at={at!r} is earlier than the last observation of the id.")
        gap = float(self._intake.gaps(gap))
        place = np.array([row])
        like = self._states.outputs
        nothing = like.new_zeros(1, 1, len(self.trained.reading.channels))  # pyrefly: ignore[missing-attribute]
        arguments = {"dt": like.new_full((1, 1), gap), "observed": nothing.bool(), "lengths": torch.tensor([1])}
        output, _ = self._model.run(nothing, self._states.get(place), **arguments)
        return output[0, 0]

    # ---- the step of a batch ------------------------------------------------------------------------------

    def read(self, times: Any, columns: Mapping[str, Any], count: int) -> Observations:
        """Reads `count` observations, in the units and by the names of the training file."""
        return self._intake.read(times, columns, count)

    def take(
        self, ids: Sequence[str], found: Observations, *, refuse: bool | None = None
    ) -> tuple[NDArray[np.bool_], torch.Tensor]:
        """Updates the states; returns (which observations were not late, the output after each).

        Args:
            ids: Ids of the observations.
            found: The observations.
            refuse: Whether a late observation raises a ValueError, before any change; by default as `late` says.
        """
        known = np.array([self._states.rows.get(name, -1) for name in ids])
        group = groups(ids)
        taken = self._in_order(known, group, found.times)
        if (self.late == "refuse" if refuse is None else refuse) and not taken.all():
            late = ids[int(np.flatnonzero(~taken)[0])]
            self.counts.late += 1
            raise ValueError(f"this observation of {late!r} is not later than the last one of that id.")
        places = np.flatnonzero(taken)
        # For a late observation, the previous output is returned.
        outputs = self._states.outputs.new_zeros(len(ids), self._states.outputs.shape[1])
        outputs[torch.from_numpy(known >= 0)] = self._states.outputs[torch.from_numpy(known[known >= 0])]
        rows, _ = self._states.find([ids[place] for place in places])
        for part in by_count(group[places]):
            self._run(places, rows, part, found, outputs)
        self.counts.observations += len(places)
        self.counts.late += len(ids) - len(places)
        if len(places) < len(ids):
            repeat(outputs, taken, group)
        self._drop_idle()
        return taken, outputs

    def _in_order(
        self, known: NDArray[np.int64], group: NDArray[np.int64], times: NDArray[np.float64] | None
    ) -> NDArray[np.bool_]:
        """Returns which observations come after all earlier ones of their id."""
        taken = np.ones(len(group), dtype=bool)
        if times is None:
            return taken
        newest = np.where(known >= 0, self._states.last[known] if len(self._states.last) else -np.inf, -np.inf)
        after = newest[np.unique(group, return_index=True)[1]]  # by group
        for place, (of, time) in enumerate(zip(group.tolist(), times.tolist(), strict=True)):
            if time > after[of] or (self._equal_times and time == after[of]):
                after[of] = time
            else:
                taken[place] = False
        return taken

    def _run(
        self,
        places: NDArray[np.int64],
        rows: NDArray[np.int64],
        part: NDArray[np.int64],
        found: Observations,
        outputs: torch.Tensor,
    ) -> None:
        """Runs series of similar length as one padded batch.

        Args:
            places: Positions in the batch of the observations to process.
            rows: Rows of their states.
            part: `(B, T)` indices into `places` of the steps; -1 at padding.
            found: The observations.
            outputs: Receives the output of each observation.
        """
        valid = part >= 0
        at, own = places[part], rows[part[:, 0]]
        values = found.values[at]
        known = ~np.isnan(values)
        x = torch.from_numpy(np.where(known & valid[..., None], values, 0))
        arguments: dict[str, Any] = {"lengths": torch.from_numpy(valid.sum(1))}
        if self._missing:
            arguments["observed"] = torch.from_numpy(known & valid[..., None])
        if found.times is not None:
            times = found.times[at]
            before = self._states.last[own]
            before = np.where(np.isfinite(before), before, times[:, 0])
            gaps = self._intake.gaps(np.diff(times, axis=1, prepend=before[:, None]))
            arguments["dt"] = torch.from_numpy(np.where(valid, gaps, 0).astype(x.numpy().dtype))
            last = times[np.arange(len(part)), valid.sum(1) - 1]
            self._states.last[own] = last
            self._newest = max(self._newest, float(last.max()))
        output, state = self._model.run(x, self._states.get(own), **arguments)
        self._states.put(own, state)
        self._states.outputs[torch.from_numpy(own)] = output[torch.arange(len(part)), arguments["lengths"] - 1]
        outputs[torch.from_numpy(at[valid])] = output[torch.from_numpy(valid)]

    def _drop_idle(self) -> None:
        if self.idle is None or self._newest - self._swept < self.idle / _SWEEPS_PER_LIMIT:
            return
        self._swept = self._newest
        gone = self._states.idle(self._newest - self.idle)
        self._states.drop(gone)
        self.counts.dropped += len(gone)

    # ---- files --------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> Path:
        """Writes the states of all ids to a file; an existing file is replaced atomically."""
        path = Path(path)
        facts = {**self._intake.facts(), "newest": _finite(self._newest), "counts": asdict(self.counts)}
        write_states(path, self.trained, *self._states.tensors(), facts)
        return path

    def load(self, path: str | Path) -> None:
        """Replaces all ids of this stream by the states that `save` wrote.

        Raises:
            ValueError: The file is damaged, or its states belong to another model.
        """
        path = Path(path)
        ids, tensors, facts = read_states(path, self.trained)
        try:
            counts = parse(Counts, facts.get("counts"), "counts")
            newest = parse(float | None, facts.get("newest"), "newest")
            self._intake.restore(facts.get("clock"))
            self._states.restore(ids, tensors)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
        self.counts = counts
        self._newest = self._swept = -np.inf if newest is None else newest


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None
