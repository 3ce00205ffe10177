"""Turns raw observations into inputs of the model: parsed, with the model's channels, units and scaling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..data import Reading
from ._times import Times
from ._values import Errors, Values


class Observations(NamedTuple):
    """Observations in the order of arrival.

    Attributes:
        times: `(N,)` in the model's unit, on one clock for the whole stream; None if there are no times.
        values: `(N, D)` scaled; NaN where missing.
    """

    times: NDArray[np.float64] | None
    values: NDArray[Any]

    def at(self, places: NDArray[np.int64]) -> Observations:
        """Returns some of the observations."""
        return Observations(None if self.times is None else self.times[places], self.values[places])


class Intake:
    """Reads observations, each for itself: what it means does not depend on the others of its batch.

    Attributes:
        columns: Names of the values of an observation.
        times: The times; None if the model was trained without times.
    """

    def __init__(self, reading: Reading):
        self._values = Values(reading)
        self._scaler = reading.scaler
        self.times = None if reading.unit == "step" else Times(reading)
        self.columns = self._values.columns

    def read(self, times: Any, columns: Mapping[str, Any], count: int) -> tuple[Observations, Errors]:
        """Reads `count` observations.

        Args:
            times: One time per observation, as in the training file.
            columns: One value per observation, by name; absent columns are missing values.
            count: Number of observations.

        Returns:
            The observations, and why some of them cannot be used.
        """
        values, errors = self._values.read(columns, count)
        if self.times is None:
            return Observations(None, values), errors
        found, wrong = self.times.read(times, count)
        return Observations(found, values), errors | wrong

    def gaps(self, dt: Any) -> Any:
        """Returns gaps between times as the model takes them."""
        scaler = self._scaler
        if scaler is None:
            return dt
        return (dt if scaler.gaps is None else scaler.gaps(dt)) / scaler.dt


def as_columns(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> dict[str, list[Any]]:
    """Turns rows into columns; a name that is absent from a row is a missing value.

    Example:
        >>> as_columns([{"hr": 80}, {"bp": 120, "hr": 81}], ["hr", "bp"])
        {'hr': [80, 81], 'bp': [None, 120]}
    """
    return {name: [row.get(name) for row in rows] for name in names}
