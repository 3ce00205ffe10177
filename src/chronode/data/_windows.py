"""Pieces of series: windows, targets from the future, and series put together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._checks import one_of, whole
from ._names import counted, known_column, listed
from ._sequences import Sequences
from ._target import Target


def windows(
    s: Sequences, length: int, stride: int | None = None, *, rest: str = "drop", lead: str = "zero"
) -> Sequences:
    """Windows of `length` steps, every `stride` steps of each series; none crosses into another series.

    They copy nothing, and keep the group of their series, so that a split by group divides no series. Split by time
    before, not after.

    Args:
        s: the series.
        length: steps of a window.
        stride: steps from one window's start to the next; `length` if None.
        rest: what is left at a series' end, or a series that is too short: "drop" (with a note), or "keep" as a
            shorter window.
        lead: dt of a window's first step: "zero" (nothing came before) or "gap" (the time since the step before it).

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
        # The window after the last whole one is kept if it sees a step that no other does.
        count = count + ((covered < s.lengths) & (count * stride < s.lengths))
    if not count.sum():
        raise ValueError(
            f"no series is as long as a window of {length} steps: the longest has {s.lengths.max(initial=0)}."
        )
    parent = np.repeat(np.arange(len(s)), count)
    place = (np.arange(len(parent)) - np.repeat(np.cumsum(count) - count, count)) * stride
    starts = s.starts[parent] + place
    lengths = np.minimum(length, s.lengths[parent] - place)
    notes = []
    if rest == "drop" and (covered < s.lengths).any():
        gone = int((count == 0).sum())
        short = (
            f", {counted(gone, 'series')} too short for one (first: {s.ids[int((count == 0).argmax())]!s})"
            if gone
            else ""
        )
        notes.append(
            f"windows of {length}: {counted(int((s.lengths - covered).clip(0).sum()), 'step')} left over{short}."
        )
    own = s[parent]
    ids = np.char.add(np.char.add(own.ids.astype(str), "["), np.char.add(place.astype(str), ":"))
    ids = np.char.add(np.char.add(ids, (place + lengths).astype(str)), "]")
    return replace(own, starts=starts, lengths=lengths, ids=ids, lead=_lead(own, starts, place, lead)).with_notes(
        *notes
    )


def _lead(own: Sequences, starts: NDArray[np.int64], place: NDArray[np.int64], lead: str) -> NDArray[np.float64] | None:
    """dt of the windows' first steps; a window at its series' start keeps that of the series."""
    if own.base_times is None:
        return None
    first = np.zeros(len(own)) if own.lead is None else own.lead
    before = np.zeros(len(own))
    if lead == "gap":
        before = own.base_times[starts] - own.base_times[np.maximum(starts - 1, 0)]
    return np.where(place == 0, first, before)


def forecast(s: Sequences, horizon: int = 1, channels: Sequence[str] | None = None) -> Sequences:
    """The series with a target per step: the values of the next `horizon` steps.

    The last `horizon` steps of a series have no full future and go; a series that is not longer than that goes too,
    with a note. Targets are named "x+1", "x+2", ...: step by step, channel by channel.

    Args:
        s: the series; a target it has is replaced.
        horizon: how many steps ahead.
        channels: what to forecast; None: all channels.

    Example:
        >>> from chronode.data import from_list
        >>> f = forecast(from_list([[1.0, 2.0, 3.0, 4.0]], channels=["x"]), horizon=2)
        >>> f.target.names, f[0].values[:, 0].tolist(), f[0].target.tolist()
        (('x+1', 'x+2'), [1.0, 2.0], [[2.0, 3.0], [3.0, 4.0]])
    """
    horizon = whole("horizon", horizon, at_least=1)
    if s.base_values.dtype.kind != "f":
        raise ValueError("symbols have no forecast in numbers; give the next symbols as a target per step.")
    chosen = list(s.channels if channels is None else channels)
    at = [s.channels.index(known_column(name, s.channels, "channels")) for name in chosen]
    rows, width = len(s.base_values), len(at)
    future = np.full((rows, horizon * width), np.nan, dtype=s.base_values.dtype)
    for ahead in range(1, min(horizon, rows - 1) + 1):
        future[:-ahead, (ahead - 1) * width : ahead * width] = s.base_values[ahead:, at]
    names = tuple(f"{name}+{ahead}" for ahead in range(1, horizon + 1) for name in chosen)
    enough = s.lengths > horizon
    if not enough.any():
        raise ValueError(f"no series is longer than the horizon of {horizon} steps.")
    own = replace(s, target=Target(future, True, None, names))[enough]
    gone = int((~enough).sum())
    note = f"forecast: {counted(gone, 'series')} not longer than {counted(horizon, 'step')} left out."
    return replace(own, lengths=own.lengths - horizon).with_notes(*([note] if gone else []))


def concat(parts: Iterable[Sequences]) -> Sequences:
    """All series of the parts, one after the other; channels must agree, units and class numbers are brought together.

    Example:
        >>> from chronode.data import from_list
        >>> concat([from_list([[1.0]], ids=["a"]), from_list([[2.0]], ids=["b"])]).ids.tolist()
        ['a', 'b']
    """
    parts = [part.compact() for part in parts]
    if not parts:
        raise ValueError("there is nothing to put together.")
    first = parts[0]
    for part in parts[1:]:
        same_channels(first, part)
    rows = np.cumsum([0, *(len(part.base_values) for part in parts)])
    names: dict[str, list[NDArray[Any]]] = {key: [getattr(part, key) for part in parts] for key in ("ids", "groups")}
    told = {key: np.concatenate(_alike(arrays)) for key, arrays in names.items()}
    times, lead = _times(parts)
    return Sequences(
        base_values=np.concatenate([part.base_values for part in parts]),
        base_times=times,
        starts=np.concatenate([part.starts + row for part, row in zip(parts, rows, strict=False)]),
        lengths=np.concatenate([part.lengths for part in parts]),
        ids=told["ids"],
        groups=told["groups"],
        lead=lead,
        target=_targets(parts),
        channels=first.channels,
        clock=first.clock,
        categories=first.categories,
        notes=tuple(dict.fromkeys(note for part in parts for note in part.notes)),
    )


def same_channels(one: Sequences, other: Sequences) -> None:
    """Refuses other channels, with what differs."""
    if one.channels == other.channels:
        if dict(one.categories) != dict(other.categories):
            raise ValueError("text columns have other categories here; read both with the same categories.")
        return
    gone = [name for name in one.channels if name not in other.channels]
    fresh = [name for name in other.channels if name not in one.channels]
    told = [f"missing: {listed(gone)}"] * bool(gone) + [f"not known: {listed(fresh)}"] * bool(fresh)
    raise ValueError(f"the channels differ: {'; '.join(told) or 'their order'}. Expected {listed(one.channels)}.")


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
    """Ids of one kind: text where any is."""
    return [array.astype(str) for array in arrays] if any(a.dtype.kind == "U" for a in arrays) else list(arrays)


def _targets(parts: Sequence[Sequences]) -> Target | None:
    targets = [part.target for part in parts if part.target is not None]
    if not targets:
        return None
    first = targets[0]
    if len(targets) < len(parts) or any(
        (t.per_step, t.kind, t.names) != (first.per_step, first.kind, first.names) for t in targets
    ):
        raise ValueError("the parts have targets of different kinds; they cannot be put together.")
    if first.classes is not None:
        classes = tuple(dict.fromkeys(name for t in targets for name in t.classes or ()))
        targets = [t.with_classes(classes) for t in targets]
    exact = all(t.source is None for t in targets)
    source = None if exact else np.concatenate([t.given for t in targets])
    return replace(targets[0], values=np.concatenate([t.values for t in targets]), source=source)
