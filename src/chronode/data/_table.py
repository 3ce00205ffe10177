"""Sequences from tables: a row per step, per reading or per series."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ..settings import SettingError, named
from ._arrays import from_numpy
from ._cells import absent, not_numeric, numbers
from ._columns import Column, arrow, as_columns, codes, forget, with_index
from ._dates import moments_of
from ._names import counted, known_column, known_columns, listed, one_or_more
from ._rows import StepRows, make_plan
from ._sequences import Sequences
from ._table_columns import column_target, column_values, mapped_target, row_groups, series_weights, split_static
from ._target import look_at_channels, value_type
from ._times import STEPS, Moments, median_gap, to_clock

_MANY_STEPS = 10
# Names that pandas gives to an unnamed index in CSV and Parquet files.
UNNAMED = re.compile(r"|Unnamed: \d+(\.\d+)?|__index_level_\d+__")


def from_long(
    table: Any,
    *,
    id: str | None = None,
    time: str | None = None,
    target: str | Sequence[str] | Mapping[Any, Any] | None = None,
    group: str | None = None,
    weight: str | None = None,
    columns: Sequence[str] | None = None,
    static: Sequence[str] = (),
    ignore: Iterable[str] = (),
    unit: str | float | None = None,
    origin: str | float | None = None,
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
        weight: Column with the weight of each series in losses and metrics, one number per id; None: equal weights.
        columns: Value columns; None: all others.
        static: Columns with one value per series, such as age or sex; text becomes one 0/1 value per text. They are in
            addition to `columns`.
        ignore: Columns to leave out.
        unit: Unit of time: for dates a name such as "hours", for numbers a size; None: the median gap is about 1.
        origin: Time that counts as 0, such as that of the clock of other series; None: the first date, or 0.
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
    goals, roles = roles_of(cells, target, id=id, time=time, group=group, weight=weight)
    if id is not None and id in (time, *goals):
        other = "time" if id == time else "target"
        raise SettingError(
            f"{named('id', id)} and {named(other, id)} are the same column: they need two columns.", argument="id"
        )
    fixed = known_columns(one_or_more(static), cells, "static")
    inputs, dropped = _inputs(cells, columns, {*roles, *known_columns(ignore, cells, "ignore")})
    inputs += [name for name in fixed if name not in inputs]
    check_one_role(roles & set(fixed))
    cells |= {name: absent(cells[name], missing_values) for name in (*inputs, *goals)}
    rows = len(next(iter(cells.values())))
    series, ids = series_of(cells, id, "{name}: the id of row {row:,} is missing ({count}).")
    if time is None:
        plan = StepRows(None, np.array([rows]), None) if series is None else make_plan(series, ids, None, duplicates)
        times, clock = None, STEPS
    else:
        moments = moments_of(time, cells[time], time_format, unit)
        plan = make_plan(series, ids, moments.ticks, duplicates, "id" if id else "table")
        plan = replace(plan, notes=(*moments.notes, *plan.notes))
        times, clock = clocked(moments, plan, unit, origin)
    forget(cells, (id, time), {group, weight, *inputs, *goals})
    values, channels, used, notes = column_values(cells, inputs, plan, type_, categorical, categories, fixed)
    values, channels, constant, names = split_static(values, channels, plan, ids, fixed, used)
    values, channels, remarks = look_at_channels(values, channels, empty)
    targets = target if isinstance(target, Mapping) else goals
    settings = {"kind": kind, "per_step": per_step, "classes": classes, "dtype": type_}
    fields = {"base_values": values, "base_times": times, "clock": clock, "channels": channels, "categories": used}
    fields |= {"static": constant, "static_names": names, "rows": rows}
    notes = [*plan.notes, *dropped, *notes, *remarks]
    s = assembled(cells, plan, ids, targets, settings, group, notes, fields, weight)
    return s.with_notes(*_hint(plan.lengths, inputs, one_by_one=id is None and time is None))


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


def from_series_rows(
    table: Any,
    *,
    id: str | None = None,
    target: str | Sequence[str] | None = None,
    group: str | None = None,
    weight: str | None = None,
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
        weight: As for `from_long`.
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
    goals, roles = roles_of(cells, target, id=id, group=group, weight=weight)
    steps = [name for name in cells if name not in {*roles, *known_columns(ignore, cells, "ignore")}]
    if not steps:
        raise ValueError(f"none of the columns {listed(cells)} is left as a step.")
    cells |= {name: absent(cells[name], missing_values) for name in (*steps, *goals)}
    columns = []
    for name in steps:
        if (column := numbers(cells[name])) is None:
            raise ValueError(not_numeric(name, cells[name]))
        columns.append(column)
    values = np.stack(columns, axis=1)
    lengths = values.shape[1] - np.argmin(np.isnan(values[:, ::-1]), axis=1)
    empty = np.isnan(values).all(axis=1)
    if empty.any():
        raise ValueError(
            f"row {int(empty.argmax()) + 1:,} has no values: remove it ({counted(int(empty.sum()), 'such row')})."
        )
    names: dict[str, Any] = {}
    for role, name in (("ids", id), ("groups", group)):
        rows, texts = series_of(cells, name, "{name} of row {row:,} is missing.")
        names[role] = None if rows is None else texts[rows]
    s = from_numpy(values, order="NT", lengths=lengths, channels=["value"], dtype=dtype, **names)
    plan = StepRows(None, np.ones(len(s), dtype=np.int64), None)
    weights = None if weight is None else series_weights(cells[weight], weight, plan, s.ids)
    s = replace(s, rows=len(s), weights=weights)
    if not goals:
        return s
    settings = {"kind": kind, "per_step": False, "classes": classes, "dtype": value_type(dtype)}
    goal, notes = column_target(cells, goals, plan, s.ids, **settings)
    return replace(s, target=goal).with_notes(*notes)


# ---- shared by the layouts -------------------------------------------------------------------------------


def roles_of(cells: Mapping[str, Column], target: Any, **roles: str | None) -> tuple[list[str], set[str]]:
    """Returns (the target columns, all columns with a role); rejects names that are not columns."""
    goals = [] if target is None or isinstance(target, Mapping) else one_or_more(target)
    goals = known_columns(goals, cells, "target")
    named = {known_column(name, list(cells), role) for role, name in roles.items() if name is not None}
    return goals, {*goals, *named}


def check_one_role(columns: Collection[str]) -> None:
    if columns:
        raise ValueError(f"a column can have only one role: {listed(columns)}.")


def series_of(cells: Mapping[str, Column], name: str | None, problem: str) -> tuple[NDArray[Any] | None, NDArray[Any]]:
    """Returns (the number of the series of each row, the ids); (None, [0]) without a column of ids."""
    if name is None:
        return None, np.array([0])
    series, ids = codes(cells[name], name)
    missing = series < 0
    if missing.any():
        count = counted(int(missing.sum()), "such row")
        raise ValueError(problem.format(name=name, row=int(missing.argmax()) + 1, count=count))
    return series, ids


def clocked(
    moments: Moments, plan: StepRows, unit: str | float | None, origin: str | float | None = None
) -> tuple[NDArray[np.float64], Any]:
    """Returns (times of the steps, clock)."""
    ticks = plan.first(moments.ticks)
    return to_clock(moments._replace(ticks=ticks), median_gap(ticks, plan.lengths), unit, origin)


def assembled(
    cells: Mapping[str, Column],
    plan: StepRows,
    ids: NDArray[Any],
    targets: Sequence[str] | Mapping[Any, Any],
    settings: Mapping[str, Any],
    group: str | None,
    notes: Sequence[str],
    fields: Mapping[str, Any],
    weight: str | None,
) -> Sequences:
    """Creates Sequences from `fields`, with the target (`settings` are its options), groups and weights of a plan's
    steps.
    """
    target, more = None, []
    if isinstance(targets, Mapping):
        target = mapped_target(targets, ids, settings["kind"], settings["classes"], settings["dtype"])
    elif targets:
        target, more = column_target(cells, targets, plan, ids, **settings)
    return Sequences(
        starts=plan.starts,
        lengths=plan.lengths,
        ids=ids,
        groups=ids.copy() if group is None else row_groups(cells[group], group, plan, ids),
        target=target,
        weights=None if weight is None else series_weights(cells[weight], weight, plan, ids),
        notes=(*notes, *more),
        **fields,
    )


# ---- a row per step --------------------------------------------------------------------------------------


def _inputs(cells: Mapping[str, Column], columns: Sequence[str] | None, taken: set[str]) -> tuple[list[str], list[str]]:
    """Returns (the value columns, notes on dropped columns)."""
    if columns is None:
        left = [name for name in cells if name not in taken]
        dropped = [name for name in left if _is_row_numbers(name, cells[name])]
        inputs = [name for name in left if name not in dropped]
        notes = [f"column {name!r} holds row numbers (an unnamed index): dropped." for name in dropped]
    else:
        columns, notes = one_or_more(columns), []
        gone = [name for name in columns if name not in cells]
        if len(gone) > 1 and not any("," in name for name in cells):
            raise ValueError(f"columns missing from the table: {listed(gone)}; it has {listed(cells)}.")
        inputs = known_columns(columns, cells, "columns")
        both = [name for name in inputs if name in taken]
        check_one_role(both or (inputs if len(set(inputs)) < len(inputs) else ()))
    if not inputs:
        raise ValueError(f"none of the columns {listed(cells)} is left as a value column.")
    return inputs, notes


def _is_row_numbers(name: str, column: Column) -> bool:
    """Returns whether a column is an unnamed index: distinct whole numbers."""
    if not UNNAMED.fullmatch(name) or arrow().types.is_boolean(column.type):
        return False
    rows = numbers(column)
    if rows is None or np.isnan(rows).any() or (rows != np.floor(rows)).any():
        return False
    return len(np.unique(rows)) == len(rows)


def _hint(lengths: NDArray[np.int64], columns: Sequence[str], one_by_one: bool) -> list[str]:
    """Suggests row_per_series if no series has a second step, or if the columns of a single one are numbered."""
    if len(columns) < _MANY_STEPS:
        return []
    use = f"are the steps of one channel, use {named('row_per_series', True)}."
    if len(lengths) > 1 and lengths.max() == 1:
        return [f"every series has a single row: if the columns {use}"]
    ends = [re.fullmatch(r"(.*?)(\d+)", name) for name in columns]
    numbered = [(end[1], int(end[2])) for end in ends if end]
    first = numbered[0] if numbered else ("", 0)
    if one_by_one and numbered == [(first[0], first[1] + i) for i in range(len(columns))]:
        return [f"the table was read as one series with a row per step: if {columns[0]} to {columns[-1]} {use}"]
    return []
