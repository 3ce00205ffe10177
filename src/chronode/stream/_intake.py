"""Turns raw observations into inputs of the model: parsed, with the model's channels, units and scaling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._schema import parse
from ..data import Clock, Reading

_FOR_ROWS = {"group": None, "ignore": None, "duplicates": "keep"}
"""Options for single rows, which stand for themselves."""
_ROW = " row"
"""Column of row numbers; no channel can have this name, because column names are trimmed."""


class Observations(NamedTuple):
    """Observations in the order of arrival.

    Attributes:
        times: `(N,)` in the model's unit, on one clock for the whole stream; None if there are no times.
        values: `(N, D)` scaled; NaN where missing.
    """

    times: NDArray[np.float64] | None
    values: NDArray[np.float32]


class Intake:
    """Reads observations with the options of `Reading`, but without windows: a stream keeps the states itself.

    Attributes:
        columns: Names of the values of an observation.
        clock: Meaning of the times of the stream; None before the first observation.
    """

    def __init__(self, reading: Reading):
        self.reading = reading
        self.clock: Clock | None = None
        self.timed = reading.unit != "step"
        self.columns: tuple[str, ...] = tuple(reading.options.get("columns", reading.channels))

    def read(self, times: Any, columns: Mapping[str, Any], count: int) -> Observations:
        """Reads `count` observations.

        Args:
            times: One time per observation, as in the training file.
            columns: One value per observation, by name; absent columns are missing values.
            count: Number of observations.

        Raises:
            ValueError: A value or a time cannot be read, or is missing although the model does not allow it.
        """
        table: dict[str, Any] = {_ROW: np.arange(count)}
        table |= {name: columns[name] if name in columns else [None] * count for name in self.columns}
        if self.timed:
            table["time"] = times
        s = self.reading.series(table, id=_ROW, time="time" if self.timed else None, **_FOR_ROWS)
        self._check(s.has_missing, s.values, s.channels)
        scaler = self.reading.scaler
        if scaler is not None:
            s = scaler.transform(s)
        return Observations(self._times(s.base_times, s.clock), s.base_values)

    def gaps(self, dt: Any) -> Any:
        """Returns gaps between times as the model takes them."""
        scaler = self.reading.scaler
        return dt if scaler is None or scaler.gaps is None else scaler.gaps(dt * scaler.dt) / scaler.dt

    def _check(self, has_missing: bool, values: NDArray[Any], channels: tuple[str, ...]) -> None:
        if channels != self.reading.channels:
            raise ValueError(f"the channels are {', '.join(channels)}, which are not those of training.")
        if has_missing and not self.reading.missing:
            column = int(np.isnan(values).any(0).argmax())
            raise ValueError(
                f"{channels[column]} is missing, but the model was trained without missing values: "
                "train with --allow-missing."
            )

    def _times(self, times: NDArray[np.float64] | None, clock: Clock) -> NDArray[np.float64] | None:
        if times is None:
            return None
        if self.clock is None:
            self.clock = clock
        factor, shift = self.clock.offset(clock)
        return times * factor + shift if factor != 1 or shift else times

    def facts(self) -> dict[str, Any]:
        """Returns what must be stored with the states, as JSON data."""
        return {"clock": None if self.clock is None else asdict(self.clock)}

    def restore(self, facts: Any) -> None:
        """Restores what `facts` returned."""
        self.clock = parse(Clock | None, facts, "clock")


def as_columns(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> dict[str, list[Any]]:
    """Turns rows into columns; a name that is absent from a row is a missing value.

    Example:
        >>> as_columns([{"hr": 80}, {"bp": 120, "hr": 81}], ["hr", "bp"])
        {'hr': [80, 81], 'bp': [None, 120]}
    """
    return {name: [row.get(name) for row in rows] for name in names}
