"""Windows of series, forecasting targets and concatenation."""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..settings import SettingError, named, one_of, whole
from ._future import filled_future, future_names
from ._keys import series_keys
from ._names import counted, known_column, listed
from ._sequences import Sequences
from ._target import Target


def windows(
    s: Sequences, length: int, stride: int | None = None, *, rest: str = "drop", lead: str = "zero"
) -> Sequences:
    """Cuts each series into windows of `length` steps, one every `stride` steps; no window crosses series.

    Windows copy nothing and keep the group of their series, so that a split by group divides no series. Split by time
    before making windows, not after.

    Args:
        s: The series.
        length: Steps of a window.
        stride: Steps between the starts of consecutive windows; `length` if None.
        rest: Handling of leftover steps and of series that are too short: "drop" (with a note), or "keep" as a
            shorter window.
        lead: dt of the first step of a window: "zero" (no earlier observation) or "gap" (the time since the previous
            step).

    Example:
        >>> from chronode.data import from_list
        >>> w = windows(from_list([[0, 1, 2, 3, 4], [5, 6]], ids=["a", "b"]), 2)
        >>> w.ids.tolist(), [series.values[:, 0].tolist() for series in w]
        (['a[0:2]', 'a[2:4]', 'b[0:2]'], [[0.0, 1.0], [2.0, 3.0], [5.0, 6.0]])
    """
    length = whole("length", length, at_least=1)
    stride = length if stride is None else whole("stride", stride, at_least=1)
    one_of("rest", rest, ("drop", "keep"))
    one_of("lead", lead, ("zero", "gap"))
    count = np.where(s.lengths >= length, (s.lengths - length) // stride + 1, 0)
    covered = np.where(count > 0, (count - 1) * stride + length, 0)
    if rest == "keep":
        # The window after the last full one is kept if it has a step that is in no other window.
        count = count + ((covered < s.lengths) & (count * stride < s.lengths))
    if not count.sum():
        raise SettingError(
            f"{named('window', length)} is longer than every series: the longest has "
            f"{counted(s.lengths.max(initial=0), 'step')}.",
            argument="window",
        )
    parent = np.repeat(np.arange(len(s)), count)
    offset = (np.arange(len(parent)) - np.repeat(np.cumsum(count) - count, count)) * stride
    starts = s.starts[parent] + offset
    lengths = np.minimum(length, s.lengths[parent] - offset)
    notes = []
    if rest == "drop" and (covered < s.lengths).any():
        gone = int((count == 0).sum())
        short = f", {counted(gone, 'series')} too short (first: {s.ids[int((count == 0).argmax())]!s})" if gone else ""
        notes.append(
            f"windows of {length}: {counted(int((s.lengths - covered).clip(0).sum()), 'step')} left over{short}."
        )
    parents = s[parent]
    ids = np.char.add(np.char.add(parents.ids.astype(str), "["), np.char.add(offset.astype(str), ":"))
    ids = np.char.add(np.char.add(ids, (offset + lengths).astype(str)), "]")
    return replace(
        parents, starts=starts, lengths=lengths, ids=ids, lead=_lead(parents, starts, offset, lead)
    ).with_notes(*notes)


def _lead(s: Sequences, starts: NDArray[np.int64], offset: NDArray[np.int64], lead: str) -> NDArray[np.float64] | None:
    """Returns dt of the first steps; a window at the start of its series keeps that of the series."""
    if s.base_times is None:
        return None
    first = np.zeros(len(s)) if s.lead is None else s.lead
    before = np.zeros(len(s))
    if lead == "gap":
        before = s.base_times[starts] - s.base_times[np.maximum(starts - 1, 0)]
    return np.where(offset == 0, first, before)


def forecast(s: Sequences, horizon: int = 1, channels: Sequence[str] | None = None) -> Sequences:
    """Returns the series with a target per step: the values of the next `horizon` steps.

    The last `horizon` steps of a series have no complete future and are removed, as are series that are not longer than
    that, with a note. Targets are named "x+1", "x+2", ...: step by step, channel by channel.

    Args:
        s: The series; an existing target is replaced.
        horizon: Number of steps ahead.
        channels: Channels to forecast; None: all channels.

    Example:
        >>> from chronode.data import from_list
        >>> f = forecast(from_list([[1.0, 2.0, 3.0, 4.0]], channels=["x"]), horizon=2)
        >>> f.target.names, f[0].values[:, 0].tolist(), f[0].target.tolist()
        (('x+1', 'x+2'), [1.0, 2.0], [[2.0, 3.0], [3.0, 4.0]])
    """
    horizon, at, names = _ahead(s, horizon, channels)
    rows, width = len(s.base_values), len(at)
    future = np.full((rows, horizon * width), np.nan, dtype=s.base_values.dtype)
    for ahead in range(1, min(horizon, rows - 1) + 1):
        future[:-ahead, (ahead - 1) * width : ahead * width] = s.base_values[ahead:, at]
    enough = s.lengths > horizon
    if not enough.any():
        raise _too_short(s, horizon)
    kept = replace(s, target=Target(future, True, None, names))[enough]
    gone = int((~enough).sum())
    note = f"forecast: {counted(gone, 'series')} not longer than {counted(horizon, 'step')} dropped."
    return replace(kept, lengths=kept.lengths - horizon).with_notes(*([note] if gone else []))


def _ahead(s: Sequences, horizon: int, channels: Sequence[str] | None) -> tuple[int, list[int], tuple[str, ...]]:
    """Returns the checked horizon, the numbers of the channels to forecast, and the names of the targets."""
    horizon = whole("horizon", horizon, at_least=1)
    if s.base_values.dtype.kind != "f":
        raise ValueError("symbols cannot be forecast as numbers; pass the next symbols as a target per step.")
    chosen = list(s.channels if channels is None else channels)
    at = [s.channels.index(known_column(name, s.channels, "channels")) for name in chosen]
    return horizon, at, future_names(chosen, horizon)


def _too_short(s: Sequences, horizon: int) -> SettingError:
    return SettingError(
        f"{named('horizon', horizon)} needs a series of more than {counted(horizon, 'step')}, but the longest has "
        f"{s.lengths.max(initial=0)}: use a shorter horizon or longer series.",
        argument="horizon",
    )


def concat(parts: Iterable[Sequences]) -> Sequences:
    """Concatenates the series of all parts; channels must agree, while units and class numbers are converted.

    Example:
        >>> from chronode.data import from_list
        >>> concat([from_list([[1.0]], ids=["a"]), from_list([[2.0]], ids=["b"])]).ids.tolist()
        ['a', 'b']
    """
    parts = [part.compact() for part in parts]
    if not parts:
        raise ValueError("there is nothing to concatenate.")
    first = parts[0]
    for part in parts[1:]:
        same_channels(first, part)
        if part.static_names != first.static_names:
            raise ValueError(f"the static values differ: {listed(first.static_names)} and {listed(part.static_names)}.")
    rows = np.cumsum([0, *(len(part.base_values) for part in parts)])
    names: dict[str, list[NDArray[Any]]] = {key: [getattr(part, key) for part in parts] for key in ("ids", "groups")}
    joined = {key: np.concatenate(_alike(arrays)) for key, arrays in names.items()}
    times, lead = _times(parts)
    keys = [part.keys for part in parts if part.keys is not None]
    return Sequences(
        base_values=np.concatenate([part.base_values for part in parts]),
        base_times=times,
        starts=np.concatenate([part.starts + row for part, row in zip(parts, rows, strict=False)]),
        lengths=np.concatenate([part.lengths for part in parts]),
        ids=joined["ids"],
        groups=joined["groups"],
        lead=lead,
        target=_targets(parts),
        channels=first.channels,
        clock=first.clock,
        categories=first.categories,
        notes=tuple(dict.fromkeys(note for part in parts for note in part.notes)),
        gaps=first.gaps,
        static=None if first.static is None else np.concatenate([np.asarray(part.static) for part in parts]),
        static_names=first.static_names,
        weights=_weights(parts),
        keys=np.concatenate(keys) if len(keys) == len(parts) else None,
        unnamed=first.unnamed,
    )


def same_channels(one: Sequences, other: Sequences) -> None:
    """Rejects different channels and names the differences."""
    if one.channels == other.channels:
        if dict(one.categories) != dict(other.categories):
            raise ValueError("the categories of text columns differ; read both with the same categories.")
        return
    gone = [name for name in one.channels if name not in other.channels]
    fresh = [name for name in other.channels if name not in one.channels]
    problems = [f"missing: {listed(gone)}"] * bool(gone) + [f"unknown: {listed(fresh)}"] * bool(fresh)
    raise ValueError(f"the channels differ: {'; '.join(problems) or 'their order'}. Expected {listed(one.channels)}.")


def _times(parts: Sequence[Sequences]) -> tuple[NDArray[np.float64] | None, NDArray[np.float64] | None]:
    clock = parts[0].clock
    moved = [clock.offset(part.clock) for part in parts]
    if parts[0].base_times is None:
        return None, None
    pairs = list(zip(parts, moved, strict=True))
    times = [np.asarray(part.base_times) * factor + shift for part, (factor, shift) in pairs]
    leads = [np.zeros(len(part)) if part.lead is None else part.lead * factor for part, (factor, _) in pairs]
    return np.concatenate(times), None if all(part.lead is None for part in parts) else np.concatenate(leads)


def _alike(arrays: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    """Converts ids to a common type: text if any is text."""
    return [array.astype(str) for array in arrays] if any(a.dtype.kind == "U" for a in arrays) else list(arrays)


def _targets(parts: Sequence[Sequences]) -> Target | None:
    targets = [part.target for part in parts if part.target is not None]
    if not targets:
        return None
    first = targets[0]
    if len(targets) < len(parts) or any(
        (t.per_step, t.kind, t.names) != (first.per_step, first.kind, first.names) for t in targets
    ):
        raise ValueError("the parts have targets of different kinds and cannot be concatenated.")
    if first.class_names is not None:
        each = [
            None
            if first_part.classes is None
            else tuple(dict.fromkeys(n for part in parts for n in part.classes or ()))
            for first_part, *parts in zip(first.parts, *(t.parts for t in targets), strict=True)
        ]
        targets = [t.with_classes(each if first.levels else each[0] or ()) for t in targets]
    exact = all(t.source is None for t in targets)
    source = None if exact else np.concatenate([t.given for t in targets])
    return replace(targets[0], values=np.concatenate([t.values for t in targets]), source=source)


def _weights(parts: Sequence[Sequences]) -> NDArray[np.float32] | None:
    if all(part.weights is None for part in parts):
        return None
    return np.concatenate([np.ones(len(part), np.float32) if part.weights is None else part.weights for part in parts])


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
    horizon, at, names = _ahead(s, horizon, channels)
    window, stride = whole("window", window, at_least=1), whole("stride", stride, at_least=1)
    ends = [own for part in _timed(s, between) for own in _ends(part, horizon, window, stride, least, between)]
    parent = np.repeat(np.arange(len(s)), [len(parents) for parents in ends])
    if not len(parent):
        raise _too_short(s, horizon)
    end = np.concatenate(ends)
    start = np.maximum(end - window, 0)
    future = (s.starts[parent] + end)[:, None] + np.arange(horizon)
    values = s.base_values[future][..., at].reshape(len(parent), -1)
    parents = replace(s, target=None)[parent]
    ids = [f"{name}[{low}:{high}]" for name, low, high in zip(parents.ids, start.tolist(), end.tolist(), strict=True)]
    lead = None if parents.lead is None else np.where(start == 0, parents.lead, 0.0)
    keys = series_keys(s)[parent]
    static = None if parents.static is None else filled_future(parents.static, parents.static_names, s, future)
    gone = len(s) - len(np.unique(parent))
    note = f"forecast: {counted(gone, 'series')} too short for {counted(horizon, 'step')} ahead left out."
    return replace(
        parents,
        starts=s.starts[parent] + start,
        lengths=end - start,
        ids=np.array(ids),
        lead=lead,
        static=static,
        keys=keys,
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
    return replace(s, starts=s.starts + cut, lengths=s.lengths - cut, lead=lead, keys=series_keys(s))


def _timed(s: Sequences, between: tuple[float, float] | None) -> Iterable[Sequences]:
    """Returns the series in parts whose times can be read; without times to compare, nothing is read."""
    return s.chunks() if s.is_stored and between is not None else [s]


def _ends(
    s: Sequences, horizon: int, window: int, stride: int, least: int | None, between: tuple[float, float] | None
) -> Iterator[NDArray[np.int64]]:
    """Yields the numbers of steps after which the windows of each series end."""
    for row, length in enumerate(s.lengths.tolist()):
        # At least half of what is known is left for targets: of a part by time, that is what comes before its end.
        times = None if between is None else s[row].times
        before_end = length if between is None or times is None else int((times < between[1]).sum())
        fewest = max(1, min(window, (before_end - horizon) // 2)) if least is None else least
        ends = np.arange(length - horizon, fewest - 1, -stride)[::-1]
        if times is not None and between is not None:
            ends = ends[(times[ends] >= between[0]) & (times[ends + horizon - 1] < between[1])]
        yield ends


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
    if s.is_stored:
        pairs = [_moments(part, channel) for part in s.chunks()] or [(np.zeros(0), np.zeros(0))]
        return np.concatenate([count for count, _ in pairs]), np.concatenate([spread for _, spread in pairs])
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
