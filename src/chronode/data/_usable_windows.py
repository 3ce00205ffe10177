"""Windows of a forecast that nothing can be learned from: they have too few values, or an outage inside."""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ._names import counted
from ._sequences import Sequences

_ENOUGH_VALUES = 8
_SPARSE, _FLAT, _TORN = 0.25, 0.1, 5.0
"""Limits: share of the usual number of values in a window, and smallest and largest multiple of the usual spread."""
_MOST_LEFT_OUT = 0.5


def usable_windows(parts: Sequence[Sequences], channels: Sequence[int]) -> list[Sequences]:
    """Returns windows without those that have too few values in a channel to forecast, or an outage inside.

    Errors are measured in units of the spread of a window. A window with three values, or one within an outage, would
    have errors that are hundreds of times as large as those of the others, and decide everything; with the edge of an
    outage inside, errors would look small that are large. A window is flat if its spread is less than a tenth of the
    median spread of the windows of the same series that end no later, and torn if it is more than five times that
    median and the median of those that end no earlier. If that concerned most windows of a part, all of them would be
    kept.

    Args:
        parts: Windows in the order of time; later parts may continue the series of earlier ones.
        channels: Numbers of the channels to forecast.

    Example:
        >>> from chronode.data import forecast_windows, from_list
        >>> values = np.sin(np.arange(60.0))
        >>> values[20:40] = 0.0
        >>> w = forecast_windows(from_list([values]), 2, window=10, least=10)
        >>> len(w), len(usable_windows([w], [0])[0])
        (49, 37)
    """
    sizes = [len(part) for part in parts]
    bad = np.zeros(sum(sizes), dtype=bool)
    groups = np.concatenate([part.groups for part in parts])
    ends = np.concatenate([part.starts + part.lengths for part in parts])
    lengths = np.concatenate([part.lengths for part in parts])
    for channel in channels:
        counts, spreads = (
            np.concatenate(moments) for moments in zip(*(_moments(part, channel) for part in parts), strict=True)
        )
        shares = counts / lengths
        usual = np.median(shares) if len(shares) else 0.0
        bad |= (counts < _ENOUGH_VALUES) & (shares < _SPARSE * usual)
        before, after = _medians_so_far(spreads, groups, ends), _medians_so_far(spreads, groups, -ends)
        bad |= (spreads < _FLAT * before) | (spreads > _TORN * np.maximum(before, after))
    usable = []
    for part, bad_rows in zip(parts, np.split(bad, np.cumsum(sizes)[:-1]), strict=True):
        gone = int(bad_rows.sum())
        note = f"forecast: {counted(gone, 'window')} with too few values or an outage inside not used in training."
        used = gone and gone <= _MOST_LEFT_OUT * len(part)
        usable.append(part[~bad_rows].with_notes(note) if used else part)
    return usable


def _moments(s: Sequences, channel: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns the number of values in each window and their standard deviation."""
    values = s.base_values[:, channel].astype(np.float64)
    is_known = ~np.isnan(values)
    values = np.where(is_known, values - (values[is_known].mean() if is_known.any() else 0.0), 0.0)
    sums = [np.concatenate([[0.0], np.cumsum(column)]) for column in (is_known, values, values**2)]
    count, total, square = (column[s.starts + s.lengths] - column[s.starts] for column in sums)
    many = np.maximum(count, 1)
    variance = square / many - (total / many) ** 2
    # Differences of large sums leave no more than rounding of what was constant.
    return count, np.sqrt(np.where(variance > 1e-12 * max(float(values @ values) / len(values), 0.0), variance, 0.0))


def _medians_so_far(
    spreads: NDArray[np.float64], groups: NDArray[np.int64], ends: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Returns the median spread of the windows of the same group that end no later than each window."""
    medians = np.empty_like(spreads)
    before: list[float] = []
    last = None
    for row in np.lexsort((ends, groups)).tolist():
        if groups[row] != last:
            before, last = [], groups[row]
        insort(before, float(spreads[row]))
        medians[row] = before[len(before) // 2]
    return medians
