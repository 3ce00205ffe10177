"""Sequences from arrays: one padded or regular array, or a list of unequal ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ..settings import SettingError, named, one_of
from ._rows import StepRows, make_plan
from ._sequences import Sequences
from ._target import Target, array_target, cast, ids_of, look_at_channels, names_of, several, value_type
from ._times import STEPS, Clock, Moments, median_gap, to_clock


def from_numpy(
    values: ArrayLike,
    *,
    order: str | None = None,
    times: ArrayLike | None = None,
    dt: ArrayLike | None = None,
    lengths: ArrayLike | None = None,
    target: ArrayLike | None = None,
    per_step: bool = False,
    **options: Any,
) -> Sequences:
    """Creates Sequences from one array; NaN means missing. The options are those of `from_list`.

    Args:
        values: Array with the axes given by `order`; `(T,)` is one series with one channel.
        order: Order of the axes, required because a wrong guess would go unnoticed: "NTD" or "NDT" (as in aeon and
            sktime), for two axes "NT" (series with one channel), "TD" or "DT" (one series). "NTD" and "NDT" also accept
            `(N, T)`.
        times: `(T,)` for all series or `(N, T)`: numbers, datetime64 or ISO text; if None, the steps are counted.
        dt: `(N, T)` time since the previous observation, instead of times; the first column is kept as it is.
        lengths: `(N,)` steps of each series; the rest is padding.
        target: `(N,)` or `(N, K)`; with `per_step` `(N, T)` or `(N, T, K)`.
        per_step: Whether the target has a row per step.
        options: Options of `from_list`.

    Example:
        >>> s = from_numpy(np.zeros((4, 3, 50)), order="NDT", target=[0, 1, 1, 0])
        >>> len(s), s.num_channels, s.lengths.tolist()
        (4, 3, [50, 50, 50, 50])
    """
    array = numeric("values", values)
    array = _with_axes(array, order)
    count, steps, width = array.shape
    if 0 in array.shape:
        raise ValueError(f"values is empty: (series, steps, channels) = {array.shape}.")
    sizes, inside = inside_of(lengths, count, steps)

    def flat(name: str, given: ArrayLike) -> NDArray[Any]:
        each = np.asarray(given)
        if each.shape[:2] != (count, steps):
            raise ValueError(f"{name} must have shape ({count}, {steps}), got {each.shape}.")
        return (each.reshape(count * steps, *each.shape[2:])) if inside is None else each[inside]

    when = None
    if times is not None:
        each = np.asarray(times)
        when = flat("times", np.broadcast_to(each, (count, steps)) if each.ndim == 1 and len(each) == steps else each)
    gaps = None
    if dt is not None:
        gaps = numeric("dt", dt).astype(np.float64)
        gaps = (flat("dt", gaps), flat("dt", np.cumsum(gaps, axis=1)))
    if target is not None and per_step:
        target = flat("target", target)
    flat_values = array.reshape(-1, width) if inside is None else array[inside]
    return _assemble(flat_values, sizes, when, gaps, target, per_step, **options)


def _with_axes(array: NDArray[Any], order: str | None) -> NDArray[Any]:
    """Returns the array with the axes (N, T, D)."""
    if order is None and array.ndim == 1:
        order = "T"
    if order is None:
        raise ValueError(
            f"order is required: 'NTD' or 'NDT', or 'NT', 'TD', 'DT' for two axes; values have shape {array.shape}."
        )
    one_of("order", order, ("NTD", "NDT", "NT", "TD", "DT", "T"))
    axes = "NT" if array.ndim == 2 and len(order) == 3 else order
    if array.ndim != len(axes):
        raise ValueError(f"values must have the axes {order}, or (N, T) for one channel; got shape {array.shape}.")
    array = array.transpose([axes.index(axis) for axis in "NTD" if axis in axes])
    for at, axis in enumerate("NTD"):
        array = array if axis in axes else np.expand_dims(array, at)
    return array


def from_list(
    series: Sequence[ArrayLike],
    *,
    times: Sequence[ArrayLike] | None = None,
    dt: Sequence[ArrayLike] | None = None,
    target: Sequence[Any] | NDArray[Any] | Mapping[str, Any] | None = None,
    per_step: bool | None = None,
    kind: str = "auto",
    classes: Sequence[str] | None = None,
    target_names: Sequence[str] | None = None,
    ids: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    channels: Sequence[str] | None = None,
    unit: str | float | None = None,
    duplicates: str = "keep",
    empty: str = "keep",
    dtype: DTypeLike = "float32",
) -> Sequences:
    """Creates Sequences from arrays of unequal length; NaN means missing. Unsorted times are sorted, with a note.

    Args:
        series: Arrays `(T_i, D)`, or `(T_i,)` for one channel.
        times: For each series, `(T_i,)` numbers, datetime64 or ISO text; if None, the steps are counted.
        dt: For each series, `(T_i,)` time since the previous observation, instead of times; the first is kept as it is.
        target: One row per series: `(N,)` classes or numbers, `(N, K)` numbers; or for each series an array with a
            row per step. Several targets with classes among them are given by their names, `{"sick": [...], ...}`.
        per_step: Whether the target has a row per step; by default it has if its arrays are as long as the series.
        kind: Kind of target: "class", "value", or "auto": whole numbers, text and booleans are classes.
        classes: Names of the classes in the order of their numbers; whole-number targets are indices into it.
        target_names: Names of the targets.
        ids: `(N,)` names of the series; 0, 1, ... by default.
        groups: `(N,)` groups that no split may divide; the ids by default.
        channels: The D channel names; x0, x1, ... by default.
        unit: Unit of time: for dates a name such as "hours" or "100 ms", for numbers a size; by default a unit in
            which the median gap is about 1 (dt is kept as it is).
        duplicates: Steps of one series at the same time: "keep" (dt = 0), "merge" (mean) or "error".
        empty: Channels without any value: "keep", "drop" or "error".
        dtype: "float32", "float64"; "int32" or "int64" for symbols (words), which cannot be missing.

    Example:
        >>> s = from_list([[1.0, 2.0, 3.0], [4.0]], times=[["2024-01-01", "2024-01-03", "2024-01-04"], ["2024-01-09"]])
        >>> s.clock.unit, s[0].dt.tolist(), s[1].values.tolist()
        ('day', [0.0, 2.0, 1.0], [[4.0]])
    """
    if isinstance(series, np.ndarray) and series.ndim != 1 and series.dtype != object:
        raise SettingError(
            f"series is a single array: use from_numpy with {named('order', ...)}, or pass a list of arrays.",
            argument="order",
        )
    parts = [two_axes(i, part) for i, part in enumerate(series)]
    if not parts:
        raise ValueError("series is empty: pass at least one series.")
    width = parts[0].shape[1]
    for i, part in enumerate(parts):
        if part.shape[1] != width:
            raise ValueError(
                f"series[{i}] has {part.shape[1]} channels, but series[0] has {width}; all must have the same number."
            )
    sizes = np.array([len(part) for part in parts], dtype=np.int64)
    when = None if times is None else np.concatenate(matching("times", times, sizes))
    gaps = None
    if dt is not None:
        pieces = [numeric("dt", piece).astype(np.float64) for piece in matching("dt", dt, sizes)]
        gaps = np.concatenate(pieces), np.concatenate([np.cumsum(piece) for piece in pieces])
    targets = target if isinstance(target, Mapping) else {"target": target}
    if target is not None and per_step is not False and (per_step or is_per_step(next(iter(targets.values())), sizes)):
        joined = {name: np.concatenate(matching(name, rows, sizes)) for name, rows in targets.items()}
        target, per_step = joined if isinstance(target, Mapping) else joined["target"], True
    return _assemble(
        np.concatenate(parts),
        sizes,
        when,
        gaps,
        target,
        bool(per_step),
        kind=kind,
        classes=classes,
        target_names=target_names,
        ids=ids,
        groups=groups,
        channels=channels,
        unit=unit,
        duplicates=duplicates,
        empty=empty,
        dtype=dtype,
    )


def _assemble(
    values: NDArray[Any],
    lengths: NDArray[np.int64],
    times: NDArray[Any] | None,
    gaps: tuple[NDArray[np.float64], NDArray[np.float64]] | None,
    target: ArrayLike | Mapping[str, ArrayLike] | None,
    per_step: bool,
    *,
    kind: str = "auto",
    classes: Sequence[str] | None = None,
    target_names: Sequence[str] | None = None,
    ids: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    channels: Sequence[str] | None = None,
    unit: str | float | None = None,
    duplicates: str = "keep",
    empty: str = "keep",
    dtype: DTypeLike = "float32",
) -> Sequences:
    """Creates Sequences from flat arrays that hold one series after the other."""
    if times is not None and gaps is not None:
        raise ValueError(
            "times and dt were both given; dt is the time since the previous observation: pass only one of them."
        )
    names = names_of(channels, values.shape[1])
    ids_ = ids_of("ids", ids, len(lengths))
    goal = None
    if target is not None:
        goal = array_target(target, kind=kind, per_step=per_step, classes=classes, names=target_names)
        rows, what = (len(values), "step") if per_step else (len(lengths), "series")
        if len(goal.values) != rows:
            raise ValueError(f"target has {len(goal.values)} rows; there must be one per {what}: {rows}.")
    values = _checked(values, lengths, names, value_type(dtype, symbols=True))
    plan, when, clock, lead = StepRows(None, lengths, None), None, STEPS, None
    if times is not None:
        plan, when, clock = _timed(times, lengths, ids_, unit, duplicates)
        values, goal = _follow(plan, values, goal)
    elif gaps is not None:
        when, clock, lead = _from_gaps(gaps, lengths, unit)
    values, names, notes = look_at_channels(values, names, empty)
    starts = np.cumsum(plan.lengths) - plan.lengths
    return Sequences(
        base_values=values,
        base_times=when,
        starts=starts,
        lengths=plan.lengths,
        ids=ids_,
        groups=ids_.copy() if groups is None else ids_of("groups", groups, len(lengths)),
        lead=lead,
        target=goal,
        channels=names,
        clock=clock,
        notes=(*plan.notes, *notes),
        unnamed=ids is None,
    )


def _timed(
    times: NDArray[Any], lengths: NDArray[np.int64], ids: NDArray[Any], unit: str | float | None, duplicates: str
) -> tuple[StepRows, NDArray[np.float64], Clock]:
    from ._dates import moments_of

    moments = moments_of("times", times)
    plan = make_plan(np.repeat(np.arange(len(lengths)), lengths), ids, moments.ticks, duplicates, "series")
    ticks = plan.first(moments.ticks)
    when, clock = to_clock(moments._replace(ticks=ticks), median_gap(ticks, plan.lengths), unit)
    return plan, when, clock


def _follow(plan: StepRows, values: NDArray[Any], goal: Target | None) -> tuple[NDArray[Any], Target | None]:
    """Returns values and targets per step in the order of the plan."""
    if plan.order is None and plan.firsts is None:
        return values, goal
    if values.dtype.kind == "f":
        values = np.stack([plan.mean(column).astype(values.dtype) for column in values.T], axis=1)
    else:
        values = plan.first(values)
    if goal is not None and goal.per_step:
        goal = several([_moved(plan, part) for part in goal.parts])
    return values, goal


def _moved(plan: StepRows, goal: Target) -> Target:
    """Returns a target per step in the order of the plan."""
    if goal.classes is None:
        moved = np.stack([plan.mean(column).astype(goal.values.dtype) for column in goal.values.T], axis=1)
    else:
        moved = np.where((codes := plan.last(goal.values)) < 0, -100, codes).astype(np.int32)
    return Target(moved, True, goal.classes, goal.names)


def _from_gaps(
    gaps: tuple[NDArray[np.float64], NDArray[np.float64]], lengths: NDArray[np.int64], unit: str | float | None
) -> tuple[NDArray[np.float64], Clock, NDArray[np.float64]]:
    """Returns (times, clock, lead) from (dt, its sums within each series)."""
    dt, sums = gaps
    wrong = ~((dt >= 0) & np.isfinite(dt))
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        raise ValueError(f"dt of {place(at, lengths)} is {dt[at]}: it must be 0 or more.")
    when, clock = to_clock(Moments(sums), None, 1.0 if unit is None else unit)
    return when, clock, dt[np.cumsum(lengths) - lengths] / clock.scale


def _checked(
    values: NDArray[Any], lengths: NDArray[np.int64], names: Sequence[str], dtype: np.dtype[Any]
) -> NDArray[Any]:
    """Returns a checked copy of the values in `dtype`."""
    if dtype.kind == "i":
        with np.errstate(invalid="ignore"):
            whole = values.astype(dtype)
        if (whole != values).any():
            step, channel = (int(i) for i in np.argwhere(whole != values)[0])
            where = f"{place(step, lengths)}, channel {names[channel]!r}"
            raise ValueError(
                f"{where}: {values[step, channel]} is not a symbol; dtype={dtype.name!r} needs whole numbers."
            )
        return whole
    out = np.empty(values.shape, dtype)
    for i, name in enumerate(names):
        out[:, i] = cast(values[:, i], dtype, lambda at, name=name: f"{place(at, lengths)}, channel {name!r}")
    return out


def place(step: int, lengths: NDArray[np.int64]) -> str:
    """Returns the position of a step of the flat arrays, such as "series[2], step 5"."""
    ends = np.cumsum(lengths)
    series = int(np.searchsorted(ends, step, side="right"))
    return f"series[{series}], step {step - int(ends[series] - lengths[series])}"


def numeric(name: str, given: ArrayLike) -> NDArray[Any]:
    """Converts `given` to an array of numbers."""
    try:
        array = np.asarray(given)
        array = array.astype(np.float64) if array.dtype == object else array
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} is not an array of numbers: {error}.") from None
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{name} must hold numbers, got {array.dtype}.")
    return array


def two_axes(index: int, given: ArrayLike) -> NDArray[Any]:
    """Returns one series as `(steps, channels)`."""
    part = numeric(f"series[{index}]", given)
    part = part[:, None] if part.ndim == 1 else part
    if part.ndim != 2 or part.shape[1] == 0:
        raise ValueError(f"series[{index}] must have shape (steps, channels), got {part.shape}.")
    if not len(part):
        raise ValueError(f"series[{index}] has no observations: remove it.")
    return part


def matching(name: str, given: Sequence[Any] | NDArray[Any], lengths: NDArray[np.int64]) -> list[NDArray[Any]]:
    """Returns one array per series, each with a row per step."""
    if len(given) != len(lengths):
        raise ValueError(f"{name} has {len(given)} parts for {len(lengths)} series.")
    pieces = [np.asarray(piece) for piece in given]
    for i, (piece, length) in enumerate(zip(pieces, lengths.tolist(), strict=True)):
        if piece.ndim == 0 or len(piece) != length:
            raise ValueError(f"{name}[{i}] must have a row for each of the {length} steps, got shape {piece.shape}.")
    return pieces


def is_per_step(target: Sequence[Any] | NDArray[Any], lengths: NDArray[np.int64]) -> bool:
    """Returns whether the target has, for each series, as many rows as steps."""
    sizes = [-1 if isinstance(row, str) or np.ndim(row) == 0 else len(row) for row in target]
    return sizes == lengths.tolist()


def inside_of(lengths: ArrayLike | None, count: int, steps: int) -> tuple[NDArray[np.int64], NDArray[np.bool_] | None]:
    """Returns (lengths, mask of the steps that are not padding, or None for all)."""
    if lengths is None:
        return np.full(count, steps, dtype=np.int64), None
    sizes = np.asarray(lengths)
    if sizes.shape != (count,) or sizes.dtype.kind not in "iu":
        raise SettingError(
            f"{named('lengths')} must be {count} whole numbers, one per series; got {sizes.dtype} {sizes.shape}.",
            argument="lengths",
        )
    if sizes.min() < 1 or sizes.max() > steps:
        row = int(np.flatnonzero((sizes < 1) | (sizes > steps))[0])
        raise ValueError(f"lengths[{row}] is {sizes[row]}; each must be from 1 to {steps}.")
    return sizes.astype(np.int64), np.arange(steps) < sizes[:, None]
