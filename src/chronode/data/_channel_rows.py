"""Sequences from rows of single readings (id, time, channel, value): every channel has its own times."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ..settings import SettingError, named
from ..storage import check_grown
from ._cells import absent, first_text, numbers
from ._columns import Column, as_columns, codes, forget
from ._dates import moments_of
from ._names import counted, known_columns, listed, one_or_more
from ._rows import DUPLICATES, StepRows, make_plan
from ._sequences import Sequences
from ._table import assembled, check_one_role, clocked, roles_of, series_of
from ._table_columns import column_values, one_per_series, split_static
from ._target import cast, look_at_channels, value_type


def from_channel_rows(
    table: Any,
    *,
    time: str,
    channel: str,
    value: str,
    id: str | None = None,
    target: str | Sequence[str] | Mapping[Any, Any] | None = None,
    group: str | None = None,
    weight: str | None = None,
    columns: Sequence[str] | None = None,
    static: Sequence[str] = (),
    ignore: Iterable[str] = (),
    categories: Mapping[str, Sequence[str]] | None = None,
    unit: str | float | None = None,
    time_format: str | None = None,
    duplicates: str = "merge",
    empty: str = "keep",
    kind: str = "auto",
    per_step: bool | None = None,
    classes: Sequence[str] | None = None,
    missing_values: Sequence[Any] = (),
    dtype: DTypeLike = "float32",
) -> Sequences:
    """Creates Sequences from a table with one reading per row; a series has a step wherever a channel was read.

    Args:
        table: A pandas or polars frame, a DuckDB relation, an Arrow table or a mapping of columns.
        time: Column of times.
        channel: Column of channel names.
        value: Column of readings (numbers).
        id: Column that identifies the series; None for a single series.
        target: Target column(s), or a mapping id -> label or number.
        group: As for `from_long`.
        weight: As for `from_long`.
        columns: The channels, known from training, in their order (others are dropped with a note); by default all
            that occur, sorted.
        static: Columns of the table, or channels in addition to `columns`, with one value per series, such as age.
        ignore: Columns of the table that are not used; a note lists any others.
        categories: Texts of static columns, known from training; others count as missing.
        unit: As for `from_long`.
        time_format: As for `from_long`.
        duplicates: Readings of one id, time and channel: "merge" (mean) or "error".
        empty: Channels without any reading: "keep", "drop" or "error".
        kind: As for `from_long`.
        per_step: As for `from_long`.
        classes: As for `from_long`.
        missing_values: As for `from_long`.
        dtype: "float32" or "float64".

    Example:
        >>> table = {"t": [0, 0, 3], "what": ["hr", "temp", "hr"], "x": [60.0, 37.0, 62.0]}
        >>> s = from_channel_rows(table, time="t", channel="what", value="x")
        >>> s.channels, s[0].values.tolist()
        (('hr', 'temp'), [[60.0, 37.0], [62.0, nan]])
    """
    cells = as_columns(table)
    type_ = value_type(dtype)
    others = {"id": id, "group": group, "weight": weight}
    goals, roles = roles_of(cells, target, time=time, channel=channel, value=value, **others)
    which, channels, notes, fixed, read = _channels(cells, channel, columns, one_or_more(static), roles)
    cells |= {name: absent(cells[name], missing_values) for name in (value, *goals, *fixed)}
    unused = [name for name in cells if name not in {*roles, *fixed, *known_columns(ignore, cells, "ignore")}]
    if unused:
        notes.append(
            f"columns ignored: {listed(unused)}. If they have one value per series, {named('static', ...)} uses them."
        )
    readings, later = _readings(cells[value], value, type_), {group, weight, *fixed, *goals}
    forget(cells, (channel, value), {id, time, *later})
    if (which == -1).any():
        raise ValueError(f"{channel} of row {int((which == -1).argmax()) + 1:,} is missing.")
    series, ids = series_of(cells, id, "{name} of row {row:,} is missing.")
    forget(cells, (id,), {time, *later})
    moments = moments_of(time, cells[time], time_format, unit)
    plan = make_plan(series, ids, moments.ticks, "merge")
    forget(cells, (time,), later)
    times, clock = clocked(moments, plan, unit)
    values, merged = _grid(plan, which, readings, duplicates, channels)
    values, channels, constant, names = split_static(values, channels, plan, ids, read, ())
    values, channels, remarks = look_at_channels(values, channels, empty)
    rows = plan.unmerged(len(which))
    columns_, more_names, used, coded = column_values(cells, fixed, rows, type_, "onehot", categories, fixed)
    if fixed:
        columns_ = one_per_series(columns_, more_names, rows, ids, used)
        constant, names = columns_ if constant is None else np.hstack([constant, columns_]), (*names, *more_names)
    sorting = [note for note in plan.notes if "went back" in note]
    targets = target if isinstance(target, Mapping) else goals
    settings = {"kind": kind, "per_step": per_step, "classes": classes, "dtype": type_}
    fields = {"base_values": values, "base_times": times, "clock": clock, "channels": channels, "categories": used}
    fields |= {"static": constant, "static_names": names, "rows": len(which)}
    notes = [*moments.notes, *sorting, *notes, *merged, *remarks, *coded]
    return assembled(cells, plan, ids, targets, settings, group, notes, fields, weight)


def _readings(column: Column, name: str, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Returns the readings of all rows as numbers."""
    rows = numbers(column)
    if rows is None:
        row, text = first_text(column)
        raise ValueError(
            f"{name}: the value of row {row:,} is not a number: {text!r}. If it means a missing value, pass "
            f"missing_values=[{text!r}]."
        )
    return cast(rows, dtype, lambda row: f"{name}: the value of row {row + 1:,}")


def _channels(
    cells: Mapping[str, Column], name: str, wanted: Sequence[str] | None, static: Sequence[str], roles: Collection[str]
) -> tuple[NDArray[np.int32], tuple[str, ...], list[str], list[str], list[str]]:
    """Returns (the channel of each row, -1 if missing, -2 if dropped; the channels; notes; static columns; static
    channels).
    """
    which, distinct = codes(cells[name], name)
    texts = [str(text) for text in distinct.tolist()]
    if wanted is None:
        static = known_columns(static, [*cells, *texts], "static")
    check_one_role(set(static) & set(roles))
    fixed, read = ([text for text in static if (text in cells) == column] for column in (True, False))
    if wanted is None:
        return which, tuple(texts), [], fixed, read
    wanted = [*wanted, *(text for text in read if text not in wanted)]
    numbered = {text: i for i, text in enumerate(wanted)}
    if not set(texts) & set(numbered):
        raise ValueError(f"{name}: none of the channels {listed(wanted)} occurs; the channels are {listed(texts)}.")
    fresh = [text for text in texts if text not in numbered]
    table = np.array([*(numbered.get(text, -2) for text in texts), -1], dtype=np.int32)
    return table[which], tuple(wanted), [f"channels dropped: {listed(fresh)}."] if fresh else [], fixed, read


def _grid(
    plan: StepRows, which: NDArray[np.int32], readings: NDArray[Any], duplicates: str, channels: Sequence[str]
) -> tuple[NDArray[Any], list[str]]:
    """Returns (values (steps, D) with NaN where a channel was not read, notes)."""
    if duplicates not in ("merge", "error"):
        raise SettingError(
            f"{named('duplicates', duplicates)} must be 'merge' or 'error' for single readings; {DUPLICATES[2]!r} is "
            "not possible.",
            argument="duplicates",
        )
    rows, steps, width = len(which), int(plan.lengths.sum()), len(channels)
    check_grown(steps * width * readings.itemsize, readings.nbytes, f"{steps:,} steps of {width:,} channels")
    sizes = np.ones(rows, np.int64) if plan.firsts is None else np.diff(plan.firsts, append=rows)
    which, readings = plan.ordered(which), plan.ordered(readings)
    narrow = np.int32 if steps * width < 2**31 else np.int64
    cell = np.repeat(np.arange(steps, dtype=narrow) * narrow(width), sizes)
    cell += which
    inside = (which >= 0) & ~np.isnan(readings)
    if not inside.all():
        cell, readings = cell[inside], readings[inside]
    values = np.full(steps * width, np.nan, dtype=readings.dtype)
    values[cell] = readings
    again = len(cell) - int((~np.isnan(values)).sum())
    if not again:
        return values.reshape(steps, width), []
    order = np.argsort(cell, kind="stable")
    cell, readings = cell[order], readings[order]
    firsts = np.flatnonzero(np.diff(cell, prepend=-1))
    first = channels[int(cell[int(np.flatnonzero(np.diff(cell) == 0)[0])]) % width]
    problem = f"{counted(again, 'reading')} of a channel that already has one at that time (first: {first!r})"
    if duplicates == "error":
        raise SettingError(f"{problem}: remove them, or use {named('duplicates', 'merge')}.", argument="duplicates")
    values[cell[firsts]] = StepRows(None, plan.lengths, firsts).mean(readings.astype(np.float64))
    return values.reshape(steps, width), [f"{problem}: replaced by their mean."]
