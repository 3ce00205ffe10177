"""Values of a table: numbers and texts of its columns in the order of the steps, and the groups of its series."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..settings import one_of
from ._build import cast
from ._columns import Column, codes, is_numeric, numbers
from ._names import counted, listed
from ._not_numeric import not_numeric
from ._rows import StepRows

CATEGORICAL = ("error", "codes", "onehot")
MOST_CATEGORIES = 1000


def column_values(
    cells: Mapping[str, Column],
    inputs: Sequence[str],
    plan: StepRows,
    dtype: np.dtype[Any],
    categorical: str,
    categories: Mapping[str, Sequence[str]] | None,
    static: Sequence[str],
) -> tuple[NDArray[Any], tuple[str, ...], dict[str, tuple[str, ...]], list[str]]:
    """Returns (values (steps, D), channel names, categories in use, notes).

    Args:
        cells: Columns of the table.
        inputs: Names of the value columns.
        plan: Mapping of rows to steps.
        dtype: Type of the values.
        categorical: Text in value columns: "error", "codes" or "onehot".
        categories: Texts of such columns, known from training.
        static: Columns with one value per series, whose texts always become one 0/1 value each.
    """
    one_of("categorical", categorical, CATEGORICAL)
    hows = {name: "onehot" if name in static else categorical for name in inputs}
    used: dict[str, tuple[str, ...]] = {}
    coded: dict[str, NDArray[Any]] = {}
    notes: list[str] = []
    for name in inputs:
        known = (categories or {}).get(name)
        if known is None and is_numeric(cells[name]):
            continue
        if hows[name] == "error":
            raise ValueError(not_numeric(name, cells[name]))
        coded[name], used[name], note = _categories(name, cells[name], known)
        notes += note
    width = sum(len(used[name]) if name in used and hows[name] == "onehot" else 1 for name in inputs)
    # Filled column by column, so that a large table is not copied in memory.
    values, channels = np.empty((int(plan.lengths.sum()), width), dtype), []
    for name in inputs:
        if name in coded:
            made = _coded(name, plan.last(coded[name]), used[name], hows[name], dtype)
        else:
            made = [(name, _ordered(name, cells[name], plan, dtype))]
        for channel, column in made:
            values[:, len(channels)] = column
            channels.append(channel)
    return values, tuple(channels), used, notes


def _ordered(name: str, column: Column, plan: StepRows, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Returns a column of numbers in the order of the steps."""
    found = numbers(column)
    assert found is not None  # checked by `is_numeric`
    fit = cast(found, dtype, lambda row: f"{name}: the value of row {row + 1:,}")
    return plan.ordered(fit) if plan.firsts is None else plan.mean(found).astype(dtype)


def _categories(
    name: str, column: Column, known: Sequence[str] | None
) -> tuple[NDArray[Any], tuple[str, ...], list[str]]:
    """Returns (codes, -1 where missing; texts; notes) of a text column."""
    found, texts = codes(column, name)
    names = tuple(str(text) for text in texts.tolist())
    if len(names) > MOST_CATEGORIES:
        raise ValueError(
            f"column {name!r} has {len(names):,} different texts; a category may have at most {MOST_CATEGORIES:,}."
        )
    if known is None:
        return found, names, []
    place = {text: i for i, text in enumerate(known)}
    table = np.array([*(place.get(text, -1) for text in names), -1], dtype=np.int32)
    fresh = [text for text in names if text not in place]
    rows = int(np.isin(found, [i for i, text in enumerate(names) if text not in place]).sum())
    note = f"column {name!r} has texts that did not occur in training ({listed(fresh)}; {counted(rows, 'row')})"
    note = f"{note}: treated as missing."
    return table[found], tuple(known), [note] if fresh else []


def _coded(
    name: str, found: NDArray[Any], texts: Sequence[str], encoding: str, dtype: np.dtype[Any]
) -> Iterator[tuple[str, NDArray[Any]]]:
    """Returns the channels of a text column: its codes, or one 0/1 channel per text."""
    missing = found < 0
    if encoding == "codes":
        yield name, np.where(missing, np.nan, found).astype(dtype)
        return
    for i, text in enumerate(texts):
        yield f"{name}={text}", np.where(missing, np.nan, found == i).astype(dtype)


def row_groups(column: Column, name: str, plan: StepRows, ids: NDArray[Any]) -> NDArray[Any]:
    """Returns one group per series."""
    found, texts = codes(column, name)
    rows = plan.unmerged(len(found))
    found, starts = rows.ordered(found), np.cumsum(rows.lengths) - rows.lengths
    least, most = np.minimum.reduceat(found, starts), np.maximum.reduceat(found, starts)
    if (least < most).any() or (least < 0).any():
        series = int(((least < most) | (least < 0)).argmax())
        problem = "no group" if least[series] < 0 else "more than one group"
        raise ValueError(f"{name}: id {ids[series]!s} has {problem}; all rows of an id must have the same group.")
    return texts[least]
