"""Windows of series with what follows them as the target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..settings import whole
from ._future import filled_future
from ._names import counted, known_column
from ._sequences import Sequences
from ._target import Target


def forecast_windows(
    s: Sequences,
    horizon: int = 1,
    channels: Sequence[str] | None = None,
    *,
    window: int = 100,
    stride: int = 1,
    least: int | None = None,
    between: tuple[float, float] | None = None,
) -> Sequences:
    """Windows of up to `window` steps of each series, with the values of the next `horizon` steps as target.

    A window at the start of a series is shorter. Windows copy nothing and keep the group of their series. Targets are
    named "x+1", "x+2", ...: step by step, channel by channel.

    Args:
        s: the series; a target it has is replaced.
        horizon: how many steps ahead.
        channels: what to forecast; None: all channels.
        window: most steps of a window.
        stride: steps from the end of one window to the end of the next, counted back from the last one.
        least: fewest steps of a window; None: as many as leave at least half of the series for targets.
        between: first time of a target, and the time that all targets are earlier than; None: any. The inputs of a
            window may lie before.

    Example:
        >>> from chronode.data import from_list
        >>> w = forecast_windows(from_list([[1.0, 2.0, 3.0, 4.0, 5.0]], channels=["x"]), 2, window=2)
        >>> [series.values[:, 0].tolist() for series in w], w.target.values.tolist()
        ([[1.0], [1.0, 2.0], [2.0, 3.0]], [[2.0, 3.0], [3.0, 4.0], [4.0, 5.0]])
    """
    horizon, window = whole("horizon", horizon, at_least=1), whole("window", window, at_least=1)
    if s.base_values.dtype.kind != "f":
        raise ValueError("symbols have no forecast in numbers; give the next symbols as a target per step.")
    chosen = list(s.channels if channels is None else channels)
    at = [s.channels.index(known_column(name, s.channels, "channels")) for name in chosen]
    ends = [
        _ends(s, row, horizon, window, whole("stride", stride, at_least=1), least, between) for row in range(len(s))
    ]
    parent = np.repeat(np.arange(len(s)), [len(own) for own in ends])
    if not len(parent):
        raise ValueError(
            f"horizon={horizon} needs a series of more than {counted(horizon, 'step')}, but the longest has "
            f"{s.lengths.max(initial=0)}: use a shorter horizon or longer series."
        )
    end = np.concatenate(ends)
    start = np.maximum(end - window, 0)
    future = (s.starts[parent] + end)[:, None] + np.arange(horizon)
    values = s.base_values[future][..., at].reshape(len(parent), -1)
    names = tuple(f"{name}+{ahead}" for ahead in range(1, horizon + 1) for name in chosen)
    own = replace(s, target=None)[parent]
    ids = [f"{name}[{low}:{high}]" for name, low, high in zip(own.ids, start.tolist(), end.tolist(), strict=True)]
    lead = None if own.lead is None else np.where(start == 0, own.lead, 0.0)
    static = None if own.static is None else filled_future(own.static, own.static_names, s, future)
    gone = len(s) - len(np.unique(parent))
    note = f"forecast: {counted(gone, 'series')} too short for {counted(horizon, 'step')} ahead left out."
    return replace(
        own,
        starts=s.starts[parent] + start,
        lengths=end - start,
        ids=np.array(ids),
        lead=lead,
        static=static,
        target=Target(values, False, None, names),
    ).with_notes(*([note] if gone and between is None else []))


def recent(s: Sequences, window: int) -> Sequences:
    """The last `window` steps of each series.

    Example:
        >>> from chronode.data import from_list
        >>> recent(from_list([[1.0, 2.0, 3.0]]), 2)[0].values[:, 0].tolist()
        [2.0, 3.0]
    """
    cut = np.maximum(s.lengths - window, 0)
    lead = None if s.lead is None else np.where(cut > 0, 0.0, s.lead)
    return replace(s, starts=s.starts + cut, lengths=s.lengths - cut, lead=lead)


def _ends(
    s: Sequences,
    row: int,
    horizon: int,
    window: int,
    stride: int,
    least: int | None,
    between: tuple[float, float] | None,
) -> NDArray[np.int64]:
    """Numbers of steps after which the windows of a series end."""
    length = int(s.lengths[row])
    own = s[row].times
    # At least half of what is known is left for targets: of a part by time, that is what comes before its end.
    known = length if between is None else int((own < between[1]).sum())
    fewest = max(1, min(window, (known - horizon) // 2)) if least is None else least
    ends = np.arange(length - horizon, fewest - 1, -stride)[::-1]
    if between is None:
        return ends
    inside = (own[ends] >= between[0]) & (own[ends + horizon - 1] < between[1])
    return ends[inside]
