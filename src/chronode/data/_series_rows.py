"""Sequences from a table with one series per row, whose columns are the steps, as in the UCR archive."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from ._arrays import from_numpy
from ._build import value_type
from ._columns import absent, as_columns, codes
from ._names import counted, known_column, known_columns, listed
from ._not_numeric import numeric_column
from ._rows import StepRows
from ._sequences import Sequences
from ._table_target import column_target


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
