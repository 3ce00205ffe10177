"""Windows, forecasting targets and concatenation of series."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..settings import one_of, whole
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
        raise ValueError(
            f"window={length} is longer than every series: the longest has {counted(s.lengths.max(initial=0), 'step')}."
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


def _lead(own: Sequences, starts: NDArray[np.int64], place: NDArray[np.int64], lead: str) -> NDArray[np.float64] | None:
    """Returns dt of the first steps; a window at the start of its series keeps that of the series."""
    if own.base_times is None:
        return None
    first = np.zeros(len(own)) if own.lead is None else own.lead
    before = np.zeros(len(own))
    if lead == "gap":
        before = own.base_times[starts] - own.base_times[np.maximum(starts - 1, 0)]
    return np.where(place == 0, first, before)


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
    horizon = whole("horizon", horizon, at_least=1)
    if s.base_values.dtype.kind != "f":
        raise ValueError("symbols cannot be forecast as numbers; pass the next symbols as a target per step.")
    chosen = list(s.channels if channels is None else channels)
    at = [s.channels.index(known_column(name, s.channels, "channels")) for name in chosen]
    rows, width = len(s.base_values), len(at)
    future = np.full((rows, horizon * width), np.nan, dtype=s.base_values.dtype)
    for ahead in range(1, min(horizon, rows - 1) + 1):
        future[:-ahead, (ahead - 1) * width : ahead * width] = s.base_values[ahead:, at]
    names = tuple(f"{name}+{ahead}" for ahead in range(1, horizon + 1) for name in chosen)
    enough = s.lengths > horizon
    if not enough.any():
        raise ValueError(
            f"horizon={horizon} needs a series of more than {counted(horizon, 'step')}, but the longest has "
            f"{s.lengths.max(initial=0)}: use a shorter horizon or longer series."
        )
    kept = replace(s, target=Target(future, True, None, names))[enough]
    gone = int((~enough).sum())
    note = f"forecast: {counted(gone, 'series')} not longer than {counted(horizon, 'step')} dropped."
    return replace(kept, lengths=kept.lengths - horizon).with_notes(*([note] if gone else []))


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
    if first.classes is not None:
        classes = tuple(dict.fromkeys(name for t in targets for name in t.classes or ()))
        targets = [t.with_classes(classes) for t in targets]
    exact = all(t.source is None for t in targets)
    source = None if exact else np.concatenate([t.given for t in targets])
    weights = None
    if any(t.weights is not None for t in targets):
        weights = np.concatenate(
            [np.ones(len(t.values), np.float32) if t.weights is None else t.weights for t in targets]
        )
    return replace(targets[0], values=np.concatenate([t.values for t in targets]), source=source, weights=weights)
