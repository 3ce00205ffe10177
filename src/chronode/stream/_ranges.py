"""Remarks on channels of a stream of which most values lie outside the range of training."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ..data import Scaler, outside

_ENOUGH, _MOST = 50, 1_000


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
        self._kept: dict[int, list[NDArray[np.float64]]] = {place: [] for place, ends in enumerate(ranges) if ends}
        self._new = dict.fromkeys(self._kept, 0)

    def see(self, values: NDArray[np.floating]) -> Iterator[str]:
        """Takes scaled values `(N, D)`, NaN where missing; yields a note on each channel that is due and outside."""
        if not self._kept:
            return
        scaler = self._scaler
        own = np.asarray(values, dtype=np.float64) if scaler is None else scaler.inverse_values(values)
        for place in list(self._kept):
            known = own[~np.isnan(own[:, place]), place]
            self._kept[place].append(known)
            self._new[place] += len(known)
            if self._new[place] >= _ENOUGH:
                yield from self._judge(place)

    def last(self) -> Iterator[str]:
        """Yields notes on the channels that had too few values until the end."""
        for place in list(self._kept):
            if self._new[place]:
                yield from self._judge(place)

    def _judge(self, place: int) -> Iterator[str]:
        seen = np.concatenate(self._kept[place])[-_MOST:]
        self._kept[place], self._new[place] = [seen], 0
        notes = outside([self._channels[place]], [seen], [self._ranges[place]])
        if notes:
            del self._kept[place]
        yield from notes
