"""Drift of live data: the newest stretches of observations beside those of training, by the statistics of a check."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..data import Reading
from ..judge import Drift, feature_names, find_drift, stretch_numbers
from ._times import Observations

LEVEL = 0.01
"""Probability of a false alarm, at each look."""
_MOST_IDS = 512  # followed at a time; the stretches of others begin when one is complete
_PATIENCE = 4  # observations, in units of complete stretches of all, until ids without a complete one are given up
_MOST_STRETCHES, _FEWEST_STRETCHES = 200, 20
_DRAWS = 299
_NEW = 0.05  # share of new stretches after which the drift is computed again


class _Stretch(NamedTuple):
    times: list[float]
    values: list[NDArray[np.floating]]


class DriftWatch:
    """Follows a few hundred ids of a stream, and compares stretches of their observations with those of training.

    A stretch has as many observations as those of the reference. Of series that end soon, the first one of each new id
    counts, as in training; of series that go on, any one of the last of each id, and of a few series every one.

    Args:
        reading: Schema of the training data, with its reference; without one, there is no drift to tell.
    """

    def __init__(self, reading: Reading):
        self._reference, self._scaler = reading.reference, reading.scaler
        self._numbers: dict[str, int] = {}  # of complete stretches
        self._rng = random.Random(0)
        self._changes = reading.relative is not None
        self._names = feature_names(reading.channels, changes=self._changes)
        self._open: dict[str, _Stretch] = {}
        self._complete: dict[str, list[float]] = {}
        self._count = self._judged = self._seen = 0
        self._drift: Drift | None = None

    def see(self, ids: Sequence[str], new: set[str], observations: Observations, taken: NDArray[np.bool_]) -> None:
        """Takes observations of a batch; `new` are ids without earlier ones."""
        if self._reference is None:
            return
        steps, first, times = self._reference.steps, self._reference.first, observations.times
        self._seen += len(ids)
        if len(self._open) >= _MOST_IDS and self._seen > _PATIENCE * _MOST_IDS * steps:
            self._seen = 0
            self.drop(list(self._open)[: _MOST_IDS // 2])  # the oldest: most of them have ended
        for index, name in enumerate(ids):
            stretch = self._open.get(name)
            if stretch is None:
                if len(self._open) >= _MOST_IDS or (first and name not in new):
                    continue
                stretch = self._open[name] = _Stretch([], [])
            if not taken[index]:
                continue
            stretch.values.append(observations.values[index].copy())
            if times is not None:
                stretch.times.append(times[index])
            if len(stretch.values) == steps:
                self._finish(name, self._open.pop(name))

    def drop(self, ids: Sequence[str]) -> None:
        """Forgets ids that the stream has dropped."""
        for name in ids:
            self._open.pop(name, None)
            self._numbers.pop(name, None)

    def _finish(self, name: str, stretch: _Stretch) -> None:
        reference = self._reference
        assert reference is not None
        values = np.array(stretch.values, dtype=np.float64)
        raw = values if self._scaler is None else self._scaler.inverse_values(values)
        self._count += 1
        unit = str(self._count)
        if not reference.few:
            # Stretches of one series are alike, so one of them counts: any of the last ones, as in training.
            unit, number = name, self._numbers.get(name, 0) + 1
            self._numbers[name] = number
            if self._rng.random() >= 1 / min(number, reference.stretches):
                return
        self._complete.pop(unit, None)
        self._complete[unit] = stretch_numbers(raw, np.diff(stretch.times), changes=self._changes)
        if len(self._complete) > _MOST_STRETCHES:
            self._complete.pop(next(iter(self._complete)))

    def drift(self) -> Drift | None:
        """Returns the comparison of the newest 200 stretches with those of training; None while there are fewer than
        20, and for a model without a reference.
        """
        if self._reference is None or len(self._complete) < _FEWEST_STRETCHES:
            return None
        if self._drift is None or self._count - self._judged > _NEW * len(self._complete):
            before = {name: np.array(column, dtype=np.float64) for name, column in self._reference.features.items()}
            table = np.array(list(self._complete.values()))
            now = {name: table[:, place] for place, name in enumerate(self._names) if name in before}
            self._drift, self._judged = find_drift(before, now, level=LEVEL, draws=_DRAWS), self._count
        return self._drift
