"""Sequences from tables: a row per step, per reading or per series."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ..storage import check_grown
from ._arrays import from_numpy
from ._cells import numeric_column
from ._columns import Column, absent, as_columns, codes, first_text, forget, is_row_numbers, numbers, with_index
from ._dates import moments_of
from ._names import counted, known_column, known_columns, listed, one_or_more
from ._rows import DUPLICATES, StepRows, make_plan
from ._sequences import Sequences
from ._table_columns import column_target, column_values, mapped_target, one_per_series, row_groups, split_static
from ._target import cast, look_at_channels, value_type
from ._times import STEPS, Clock, median_gap, to_clock

_MANY_STEPS = 10


def from_long(
    table: Any,
    *,
    id: str | None = None,
    time: str | None = None,
    target: str | Sequence[str] | Mapping[Any, Any] | None = None,
    group: str | None = None,
    columns: Sequence[str] | None = None,
    static: Sequence[str] = (),
    ignore: Iterable[str] = (),
    unit: str | float | None = None,
    time_format: str | None = None,
    duplicates: str = "merge",
    categorical: str = "error",
    categories: Mapping[str, Sequence[str]] | None = None,
    empty: str = "drop",
    kind: str = "auto",
    per_step: bool | None = None,
    classes: Sequence[str] | None = None,
    missing_values: Sequence[Any] = (),
    dtype: DTypeLike = "float32",
) -> Sequences:
    """Creates Sequences from a table with a row per id and time; empty cells are missing values.

    Series are sorted by id and their rows by time, whatever the order of the rows. docs/data.md explains the rules.

    Args:
        table: A pandas or polars frame, a DuckDB relation, an Arrow table or a mapping of columns.
        id: Column that identifies the series; None: the table is a single series.
        time: Column of times: numbers, dates or text; None: the index of a pandas frame if it holds dates, otherwise
            the rows of a series are one step apart.
        target: Target column(s), or a mapping id -> label or number.
        group: Column with the groups that no split may divide, one value per id; None: the id.
        columns: Value columns; None: all others.
        static: Columns with one value per series, such as age or sex; text becomes one 0/1 value per text. They are in
            addition to `columns`.
        ignore: Columns to leave out.
        unit: Unit of time: for dates a name such as "hours", for numbers a size; None: the median gap is about 1.
        time_format: A `strptime` format such as "%d/%m/%Y %H:%M", or "number", "epoch s" (ms, us, ns), "quarter",
            "week"; None: detected from the column, with a note if it is not ISO 8601.
        duplicates: Rows with the same id and time: "merge" (mean of numbers, last label), "keep" (dt = 0) or "error".
        categorical: Text in value columns: "error", "codes" (0, 1, ...) or "onehot" (one channel per text).
        categories: Texts of such columns, known from training; others count as missing.
        empty: Columns without any value: "drop", "keep" or "error".
        kind: Kind of target: "class", "value" or "auto": text, booleans and whole numbers with at most 20 different
            values are classes.
        per_step: Whether there is one target per step or (False) per id; None: per step if it changes within an id.
        classes: Classes known from training; any other class is then an error.
        missing_values: Values and texts that mean a missing value or target, such as -999 or "<0.5".
        dtype: "float32" or "float64".

    Example:
        >>> table = {"who": ["b", "a", "a"], "t": [0, 3, 1], "hr": [60, 80, None], "ill": ["no", "yes", "yes"]}
        >>> s = from_long(table, id="who", time="t", target="ill")
        >>> s.ids.tolist(), s[0].times.tolist(), s[0].values[:, 0].tolist(), s.classes, s.notes[0][:32]
        (['a', 'b'], [1.0, 3.0], [nan, 80.0], ('no', 'yes'), '1 time went back within one id (')
    """
    cells, time = with_index(table, as_columns(table), time, (id, group))
    type_ = value_type(dtype)
    mapped = isinstance(target, Mapping)
    goals = [] if target is None or mapped else known_columns(one_or_more(target), cells, "target")
    named = {role: name for role, name in (("id", id), ("time", time), ("group", group)) if name is not None}
    roles = {*goals, *(known_column(name, list(cells), role) for role, name in named.items())}
    if id is not None and id in (time, *goals):
        other = "time" if id == time else "target"
        raise ValueError(f"id={id!r} and {other}={id!r} are the same column: they need two columns.")
    fixed = known_columns(one_or_more(static), cells, "static")
    inputs, dropped = _inputs(cells, columns, {*roles, *known_columns(ignore, cells, "ignore")})
    inputs += [name for name in fixed if name not in inputs]
    if both := roles & set(fixed):
        raise ValueError(f"a column can have only one role: {listed(both)}.")
    cells |= {name: absent(cells[name], missing_values) for name in (*inputs, *goals)}
    rows = len(next(iter(cells.values())))
    ids, plan, times, clock = _steps(cells, id, time, unit, time_format, duplicates)
    forget(cells, (id, time), {group, *inputs, *goals})
    values, channels, used, notes = column_values(cells, inputs, plan, type_, categorical, categories, fixed)
    values, channels, constant, names = split_static(values, channels, plan.lengths, ids, fixed, used)
    values, channels, more = look_at_channels(values, channels, empty)
    notes = [*dropped, *notes, *more]
    goal = None
    if isinstance(target, Mapping):
        goal = mapped_target(target, ids, kind, classes, type_)
    elif goals:
        settings = {"kind": kind, "per_step": per_step, "classes": classes, "dtype": type_}
        goal, more = column_target(cells, goals, plan, ids, **settings)
        notes += more
    return Sequences(
        base_values=values,
        base_times=times,
        starts=np.cumsum(plan.lengths) - plan.lengths,
        lengths=plan.lengths,
        ids=ids,
        groups=ids.copy() if group is None else row_groups(cells[group], group, plan, ids),
        target=goal,
        channels=channels,
        clock=clock,
        categories=used,
        static=constant,
        static_names=names,
        rows=rows,
        notes=(*plan.notes, *notes, *_hint(plan.lengths, inputs, one_by_one=id is None and time is None)),
    )


def _hint(lengths: NDArray[np.int64], columns: Sequence[str], one_by_one: bool) -> list[str]:
    """Suggests row_per_series if no series has a second step, or if the columns of a single one are numbered."""
    if len(columns) < _MANY_STEPS:
        return []
    use = "are the steps of one channel, use row_per_series=True."
    if len(lengths) > 1 and lengths.max() == 1:
        return [f"every series has a single row: if the columns {use}"]
    ends = [re.fullmatch(r"(.*?)(\d+)", name) for name in columns]
    numbered = [(end[1], int(end[2])) for end in ends if end]
    first = numbered[0] if numbered else ("", 0)
    if one_by_one and numbered == [(first[0], first[1] + i) for i in range(len(columns))]:
        return [f"the table was read as one series with a row per step: if {columns[0]} to {columns[-1]} {use}"]
    return []


def from_wide(table: Any, *, time: str | None = None, **options: Any) -> Sequences:
    """Creates Sequences with a single series from a table with a row per time; the options are those of `from_long`.

    Example:
        >>> s = from_wide({"t": [0.0, 1.0, 2.5], "a": [1, 2, 3], "b": [4, 5, 6]}, time="t")
        >>> len(s), s.channels, s[0].dt.tolist()
        (1, ('a', 'b'), [0.0, 1.0, 1.5])
    """
    if options.get("id") is not None:
        raise ValueError("a wide table is a single series without an id column; use from_long.")
    return from_long(table, time=time, **options)


def _inputs(cells: Mapping[str, Column], columns: Sequence[str] | None, taken: set[str]) -> tuple[list[str], list[str]]:
    """Returns (the value columns, notes on dropped columns)."""
    if columns is None:
        left = [name for name in cells if name not in taken]
        dropped = [name for name in left if is_row_numbers(name, cells[name])]
        inputs = [name for name in left if name not in dropped]
        notes = [f"column {name!r} holds row numbers (an unnamed index): dropped." for name in dropped]
    else:
        columns, notes = one_or_more(columns), []
        gone = [name for name in columns if name not in cells]
        if len(gone) > 1 and not any("," in name for name in cells):
            raise ValueError(f"columns missing from the table: {listed(gone)}; it has {listed(cells)}.")
        inputs = known_columns(columns, cells, "columns")
        both = [name for name in inputs if name in taken]
        if both or len(set(inputs)) < len(inputs):
            raise ValueError(f"a column can have only one role: {listed(both or inputs)}.")
    if not inputs:
        raise ValueError(f"none of the columns {listed(cells)} is left as a value column.")
    return inputs, notes


def _steps(
    cells: Mapping[str, Column],
    id: str | None,
    time: str | None,
    unit: str | float | None,
    time_format: str | None,
    duplicates: str,
) -> tuple[NDArray[Any], StepRows, NDArray[np.float64] | None, Clock]:
    """Returns (ids, plan, times, clock) from the id and the time column."""
    rows = len(next(iter(cells.values())))
    ids, series = np.array([0]), None
    if id is not None:
        series, ids = codes(cells[id], id)
        if (series < 0).any():
            row = int((series < 0).argmax())
            raise ValueError(
                f"{id}: the id of row {row + 1:,} is missing ({counted(int((series < 0).sum()), 'such row')})."
            )
    if time is None:
        plan = StepRows(None, np.array([rows]), None) if series is None else make_plan(series, ids, None, duplicates)
        return ids, plan, None, STEPS
    moments = moments_of(time, cells[time], time_format, unit)
    plan = make_plan(series, ids, moments.ticks, duplicates, "id" if id else "table")
    plan = replace(plan, notes=(*moments.notes, *plan.notes))
    ticks = plan.first(moments.ticks)
    times, clock = to_clock(moments._replace(ticks=ticks), median_gap(ticks, plan.lengths), unit)
    return ids, plan, times, clock


def from_channel_rows(
    table: Any,
    *,
    time: str,
    channel: str,
    value: str,
    id: str | None = None,
    target: str | Sequence[str] | Mapping[Any, Any] | None = None,
    group: str | None = None,
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
    mapped = isinstance(target, Mapping)
    goals = [] if target is None or mapped else known_columns(one_or_more(target), cells, "target")
    named = {"time": time, "channel": channel, "value": value, "id": id, "group": group}
    roles = {*goals, *(known_column(name, list(cells), role) for role, name in named.items() if name is not None)}
    which, channels, notes, own, read = _channels(cells, channel, columns, one_or_more(static), roles)
    cells |= {name: absent(cells[name], missing_values) for name in (value, *goals, *own)}
    notes += _unused(cells, {*roles, *own, *known_columns(ignore, cells, "ignore")})
    readings, later = _readings(cells[value], value, type_), {id, time, group, *own, *goals}
    forget(cells, (channel, value), later)
    series, ids = (None, np.array([0])) if id is None else codes(cells[id], id)
    later -= {id, time} - {group, *own, *goals}
    forget(cells, (id,), {*later, time})
    for name, found in ((channel, which), (id, series)):
        if found is not None and (found == -1).any():
            raise ValueError(f"{name} of row {int((found == -1).argmax()) + 1:,} is missing.")
    moments = moments_of(time, cells[time], time_format, unit)
    plan = make_plan(series, ids, moments.ticks, "merge")
    forget(cells, (time,), later)
    ticks = plan.first(moments.ticks)
    times, clock = to_clock(moments._replace(ticks=ticks), median_gap(ticks, plan.lengths), unit)
    values, more = _grid(plan, which, readings, len(channels), duplicates, channels)
    values, channels, constant, names = split_static(values, channels, plan.lengths, ids, read, ())
    values, channels, seen = look_at_channels(values, channels, empty)
    rows = plan.unmerged(len(which))
    fixed, more_names, used, coded = column_values(cells, own, rows, type_, "onehot", categories, own)
    if own:
        fixed = one_per_series(fixed, more_names, rows.lengths, ids, used)
        constant, names = fixed if constant is None else np.hstack([constant, fixed]), (*names, *more_names)
    notes += [*more, *seen, *coded]
    goal = None
    if isinstance(target, Mapping):
        goal = mapped_target(target, ids, kind, classes, type_)
    elif goals:
        goal, more = column_target(cells, goals, plan, ids, kind=kind, per_step=per_step, classes=classes, dtype=type_)
        notes += more
    sorting = [note for note in plan.notes if "went back" in note]
    return Sequences(
        base_values=values,
        base_times=times,
        starts=np.cumsum(plan.lengths) - plan.lengths,
        lengths=plan.lengths,
        ids=ids,
        groups=ids.copy() if group is None else row_groups(cells[group], group, plan, ids),
        target=goal,
        channels=channels,
        clock=clock,
        categories=used,
        static=constant,
        static_names=names,
        rows=len(which),
        notes=(*moments.notes, *sorting, *notes),
    )


def _readings(column: Column, name: str, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Returns the readings of all rows as numbers."""
    found = numbers(column)
    if found is None:
        row, text = first_text(column)
        raise ValueError(
            f"{name}: the value of row {row:,} is not a number: {text!r}. If it means a missing value, pass "
            f"missing_values=[{text!r}]."
        )
    return cast(found, dtype, lambda row: f"{name}: the value of row {row + 1:,}")


def _unused(cells: Collection[str], used: Collection[str]) -> list[str]:
    left = [name for name in cells if name not in used]
    if not left:
        return []
    return [f"columns ignored: {listed(left)}. If they have one value per series, static=... uses them."]


def _channels(
    cells: Mapping[str, Column], name: str, wanted: Sequence[str] | None, static: Sequence[str], roles: Collection[str]
) -> tuple[NDArray[np.int32], tuple[str, ...], list[str], list[str], list[str]]:
    """Returns (the channel of each row, -1 if missing, -2 if dropped; the channels; notes; static columns; static
    channels).
    """
    which, texts = codes(cells[name], name)
    found = [str(text) for text in texts.tolist()]
    if wanted is None:
        static = known_columns(static, [*cells, *found], "static")
    if both := set(static) & set(roles):
        raise ValueError(f"a column can have only one role: {listed(both)}.")
    own, read = ([text for text in static if (text in cells) == column] for column in (True, False))
    if wanted is None:
        return which, tuple(found), [], own, read
    wanted = [*wanted, *(text for text in read if text not in wanted)]
    place = {text: i for i, text in enumerate(wanted)}
    if not set(found) & set(place):
        raise ValueError(f"{name}: none of the channels {listed(wanted)} occurs; the channels are {listed(found)}.")
    fresh = [text for text in found if text not in place]
    table = np.array([*(place.get(text, -2) for text in found), -1], dtype=np.int32)
    return table[which], tuple(wanted), [f"channels dropped: {listed(fresh)}."] if fresh else [], own, read


def _grid(
    plan: StepRows,
    which: NDArray[np.int32],
    readings: NDArray[Any],
    width: int,
    duplicates: str,
    channels: Sequence[str],
) -> tuple[NDArray[Any], list[str]]:
    """Returns (values (steps, D) with NaN where a channel was not read, notes)."""
    if duplicates not in ("merge", "error"):
        raise ValueError(
            f"duplicates={duplicates!r} must be 'merge' or 'error' for single readings; {DUPLICATES[2]!r} is not "
            f"possible."
        )
    steps = int(plan.lengths.sum())
    rows = len(which)
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
    count = f"{counted(again, 'reading')} of a channel that already has one at that time (first: {first!r})"
    if duplicates == "error":
        raise ValueError(f"{count}: remove them, or use duplicates='merge'.")
    values[cell[firsts]] = StepRows(None, plan.lengths, firsts).mean(readings.astype(np.float64))
    return values.reshape(steps, width), [f"{count}: replaced by their mean."]


def from_series_rows(
    table: Any,
    *,
    id: str | None = None,
    target: str | Sequence[str] | None = None,
    group: str | None = None,
    ignore: Iterable[str] = (),
    kind: str = "auto",
    classes: Sequence[str] | None = None,
    missing_values: Sequence[Any] = (),
    dtype: DTypeLike = "float32",
) -> Sequences:
    """Creates Sequences with one channel from a table with one series per row; empty cells at the end are padding.

    Args:
        table: A pandas or polars frame, an Arrow table, a DuckDB relation or a mapping of columns.
        id: Column with the names of the series; None: 0, 1, ...
        target: Target column(s).
        group: Column with the groups that no split may divide; None: the id.
        ignore: Columns to leave out. All others are the steps, in their order.
        kind: As for `from_long`.
        classes: As for `from_long`.
        missing_values: As for `from_long`.
        dtype: "float32" or "float64".

    Example:
        >>> table = {"label": ["up", "down"], "t0": [1, 5], "t1": [2, 3], "t2": [3, None]}
        >>> s = from_series_rows(table, target="label")
        >>> s.lengths.tolist(), s[0].values[:, 0].tolist(), s.classes
        ([3, 2], [1.0, 2.0, 3.0], ('down', 'up'))
    """
    cells = as_columns(table)
    targets = [] if target is None else known_columns([target] if isinstance(target, str) else target, cells, "target")
    roles = {known_column(name, list(cells), role) for role, name in (("id", id), ("group", group)) if name is not None}
    steps = [name for name in cells if name not in {*roles, *targets, *known_columns(ignore, cells, "ignore")}]
    if not steps:
        raise ValueError(f"none of the columns {listed(cells)} is left as a step.")
    cells |= {name: absent(cells[name], missing_values) for name in (*steps, *targets)}
    values = np.stack([numeric_column(name, cells[name]) for name in steps], axis=1)
    lengths = values.shape[1] - np.argmin(np.isnan(values[:, ::-1]), axis=1)
    empty = np.isnan(values).all(axis=1)
    if empty.any():
        raise ValueError(
            f"row {int(empty.argmax()) + 1:,} has no values: remove it ({counted(int(empty.sum()), 'such row')})."
        )
    names = {role: _names(cells[name], name) for role, name in (("ids", id), ("groups", group)) if name is not None}
    made = from_numpy(values, order="NT", lengths=lengths, channels=["value"], dtype=dtype, **names)
    made = replace(made, rows=len(made))
    if not targets:
        return made
    plan = StepRows(None, np.ones(len(made), dtype=np.int64), None)
    settings = {"kind": kind, "per_step": False, "classes": classes, "dtype": value_type(dtype)}
    goal, notes = column_target(cells, targets, plan, made.ids, **settings)
    return replace(made, target=goal).with_notes(*notes)


def _names(column: Any, name: str) -> Any:
    found, texts = codes(column, name)
    if (found < 0).any():
        raise ValueError(f"{name} of row {int((found < 0).argmax()) + 1:,} is missing.")
    return texts[found]
