"""The newest time of a stream, which no single wrong time can move."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

_WITNESSES = 3


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
        """Takes the times of observations in the order of arrival.

        Args:
            ids: Ids of the observations.
            times: Their times.
            num_ids: Number of ids of the stream.
        """
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
