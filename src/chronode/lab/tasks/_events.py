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
    its last run is encoded too. Without `close` that length is lost, and `decode` cannot restore it.

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


def decode(events: Events) -> tuple[NDArray[np.generic], NDArray[np.int64]]:
    """Returns the symbols `(N, L)`, padded with zeros, and their lengths: the inverse of `encode`.

    Example:
        >>> decode(encode(np.array([[1, 1, 1, 0, 1, 1]])))[0].tolist()
        [[1, 1, 1, 0, 1, 1]]
    """
    lengths = events.gaps.sum(1)
    count, width = len(lengths), int(lengths.max(initial=0))
    # Each event is valid from its position until the next one; the last only for its own position.
    column = np.arange(events.values.shape[1])
    is_last = column == events.lengths[:, None] - 1
    following = np.concatenate([events.gaps[:, 1:], np.zeros((count, 1), dtype=np.int64)], axis=1)
    runs = np.where(is_last, 1, following)
    runs[column >= events.lengths[:, None]] = 0
    symbols = np.zeros((count, width), dtype=events.values.dtype)
    symbols[np.arange(width) < lengths[:, None]] = np.repeat(events.values.ravel(), runs.ravel())
    return symbols, lengths
