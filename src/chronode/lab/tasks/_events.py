"""Event-based encoding: a series of symbols given by its changes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Events(NamedTuple):
    """Encoded series, padded with zeros.

    Attributes:
        values: `(N, E)` symbols of the events.
        gaps: `(N, E)` positions since the previous event; the gaps of a series add up to its length.
        lengths: `(N,)` number of events.
    """

    values: NDArray[np.generic]
    gaps: NDArray[np.int64]
    lengths: NDArray[np.int64]


def encode(symbols: NDArray[np.generic], lengths: NDArray[np.int64] | None = None, *, close: bool = True) -> Events:
    """Encodes each row of `symbols (N, L)` up to its length as events.

    The first symbol and every change emit (symbol, gap); the last position closes the series, so that the length of
    its last run is encoded too. Without `close` that length is lost.

    Example:
        >>> events = encode(np.array([[1, 1, 1, 0, 1, 1]]))
        >>> events.values.tolist(), events.gaps.tolist()
        ([[1, 0, 1, 1]], [[1, 3, 1, 1]])
    """
    count, places = symbols.shape
    lengths = np.full(count, places) if lengths is None else np.asarray(lengths)
    position = np.arange(places)
    is_event = np.ones((count, places), dtype=bool)
    is_event[:, 1:] = symbols[:, 1:] != symbols[:, :-1]
    if close:
        is_event |= position == lengths[:, None] - 1
    is_event &= position < lengths[:, None]
    totals = is_event.sum(1)
    row, at = np.nonzero(is_event)
    column = np.arange(len(row)) - np.repeat(totals.cumsum() - totals, totals)
    before = np.where(column == 0, -1, np.roll(at, 1))
    width = int(totals.max(initial=0))
    values = np.zeros((count, width), dtype=symbols.dtype)
    gaps = np.zeros((count, width), dtype=np.int64)
    values[row, column] = symbols[row, at]
    gaps[row, column] = at - before
    return Events(values, gaps, totals)
