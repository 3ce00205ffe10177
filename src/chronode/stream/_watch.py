"""What a stream as a whole shows: its newest time, and channels outside the range of training."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ..data import Scaler, outside

_WITNESSES = 3
_ENOUGH, _MOST = 50, 1_000


class Newest:
    """The newest time that the ids of a stream agree on.

    A time that is at most `reach` ahead counts at once. Times further ahead count when three ids (all, if there are
    fewer; twice the only one) have sent such times one after another, without an observation of the present in between.

    Args:
        reach: Largest lead of a time that counts at once.

    Attributes:
        time: The newest time; -inf before there are enough observations.

    Example:
        >>> newest = Newest(reach=10)
        >>> for name, time in [("a", 1), ("b", 2), ("c", 2), ("a", 900), ("a", 901), ("b", 3)]:
        ...     newest.see([name], np.array([float(time)]), num_ids=3)
        >>> newest.time
        3.0
        >>> newest.see(["a", "b", "c"], np.array([902.0, 903.0, 905.0]), num_ids=3)
        >>> newest.time
        902.0
    """

    def __init__(self, reach: float):
        self.reach = reach
        self.time = -np.inf
        self._ahead: dict[Hashable, float] = {}  # times of the ids that are ahead

    def see(self, ids: Sequence[str], times: NDArray[np.float64], num_ids: int) -> None:
        """Takes the times of observations in the order of arrival, of a stream with `num_ids` ids."""
        latest = float(times.max())
        if latest <= self.time + self.reach:
            self.time = max(self.time, latest)
            self._ahead.clear()
            return
        needed = min(max(num_ids, 2), _WITNESSES)
        for name, time in zip(ids, times.tolist(), strict=True):
            if time <= self.time + self.reach:
                self.time = max(self.time, time)
                self._ahead.clear()
                continue
            self._ahead[name if num_ids > 1 else len(self._ahead)] = time
            if len(self._ahead) == needed:
                self.time = min(self._ahead.values())
                self._ahead.clear()


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
        self._kept: dict[int, list[NDArray[np.float64]]] = {channel: [] for channel, ends in enumerate(ranges) if ends}
        self._new = dict.fromkeys(self._kept, 0)

    def see(self, values: NDArray[np.floating]) -> Iterator[str]:
        """Takes scaled values `(N, D)`, NaN where missing; yields a note on each channel that is due and outside."""
        if not self._kept:
            return
        scaler = self._scaler
        raw = np.asarray(values, dtype=np.float64) if scaler is None else scaler.inverse_values(values)
        for channel in list(self._kept):
            readings = raw[~np.isnan(raw[:, channel]), channel]
            self._kept[channel].append(readings)
            self._new[channel] += len(readings)
            if self._new[channel] >= _ENOUGH:
                yield from self._judge(channel)

    def last(self) -> Iterator[str]:
        """Yields notes on the channels that had too few values until the end."""
        for channel in list(self._kept):
            if self._new[channel]:
                yield from self._judge(channel)

    def _judge(self, channel: int) -> Iterator[str]:
        readings = np.concatenate(self._kept[channel])[-_MOST:]
        self._kept[channel], self._new[channel] = [readings], 0
        notes = outside([self._channels[channel]], [readings], [self._ranges[channel]])
        if notes:
            del self._kept[channel]
        yield from notes
