"""Sequences from tables: long (a row per id and time) and wide (a row per time, a single series)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ._build import look_at_channels, value_type
from ._columns import Column, absent, as_columns, codes, forget
from ._frame_index import is_row_numbers, with_index
from ._moments import moments_of
from ._names import counted, known_column, known_columns, listed, one_or_more
from ._rows import StepRows, make_plan
from ._sequences import Sequences
from ._static import split_static
from ._table_target import column_target, mapped_target
from ._table_values import column_values, row_groups
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
