"""Columns of a table as values, static values, groups and targets of series."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..settings import one_of
from ._cells import not_numeric
from ._columns import Column, codes, first_text, is_numeric, is_text, numbers
from ._names import counted, known_columns, listed
from ._rows import StepRows
from ._target import FEW, UNKNOWN, Target, array_target, cast, class_target, number_names, value_target

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


def split_static(
    values: NDArray[Any],
    channels: Sequence[str],
    lengths: NDArray[np.int64],
    ids: NDArray[Any],
    columns: Sequence[str],
    categories: Collection[str],
) -> tuple[NDArray[Any], tuple[str, ...], NDArray[Any] | None, tuple[str, ...]]:
    """Returns (values and names of the channels, one value per series `(N, S)` and names of the static columns).

    A static value is unknown (NaN) if a series has none. Missing values beside a known one do not matter.

    Args:
        values: `(steps, D)` values of all series, one after the other.
        channels: Names of all D columns.
        lengths: Number of steps of each series.
        ids: Ids of the series, for messages.
        columns: Names of the static columns; a text column has a channel "name=text" for each of its texts.
        categories: Text columns.

    Example:
        >>> values = np.array([[1.0, 60.0], [2.0, np.nan], [3.0, 70.0]])
        >>> split_static(values, ["x", "age"], np.array([2, 1]), np.array(["a", "b"]), ["age"], [])[2].tolist()
        [[60.0], [70.0]]
    """
    if not columns:
        return values, tuple(channels), None, ()
    known_columns(columns, list(dict.fromkeys(_column(name, categories) for name in channels)), "static")
    chosen = [i for i, name in enumerate(channels) if _column(name, categories) in columns]
    left = [i for i in range(len(channels)) if i not in set(chosen)]
    if not left:
        raise ValueError("all value columns are static: a series needs at least one that changes over time.")
    static_values = one_per_series(values[:, chosen], [channels[i] for i in chosen], lengths, ids, categories)
    names = tuple(channels[i] for i in chosen)
    return np.ascontiguousarray(values[:, left]), tuple(channels[i] for i in left), static_values, names


def one_per_series(
    values: NDArray[Any],
    names: Sequence[str],
    lengths: NDArray[np.int64],
    ids: NDArray[Any],
    categories: Collection[str],
) -> NDArray[Any]:
    """Returns the only known value of each series `(N, S)`, NaN if it has none, of columns `(steps, S)`."""
    starts = np.cumsum(lengths) - lengths
    result = np.empty((len(lengths), len(names)), dtype=values.dtype)
    for index, name in enumerate(names):
        low, high = np.fmin.reduceat(values[:, index], starts), np.fmax.reduceat(values[:, index], starts)
        if (low < high).any():
            series, column = int((low < high).argmax()), _column(name, categories)
            both = "more than one text" if column in categories else f"the values {low[series]:g} and {high[series]:g}"
            raise ValueError(
                f"static={column!r}: series {ids[series]!s} has {both}, but a static column has one value per series. "
                "Leave it out of static to use it as a channel."
            )
        result[:, index] = low
    return result


def source_columns(names: Sequence[str], categories: Collection[str]) -> list[str]:
    """Returns the columns that channels or static values come from, each once."""
    return list(dict.fromkeys(_column(name, categories) for name in names))


def _column(name: str, categories: Collection[str]) -> str:
    return next((column for column in categories if name == column or name.startswith(f"{column}=")), name)


def column_target(
    columns: Mapping[str, Column],
    names: Sequence[str],
    plan: StepRows,
    ids: NDArray[Any],
    *,
    kind: str = "auto",
    per_step: bool | None = None,
    classes: Sequence[str] | None = None,
    dtype: Any = np.float32,
) -> tuple[Target, list[str]]:
    """Returns (the target, notes) from columns of the table.

    Args:
        columns: Columns of the table.
        names: Names of the target columns; several must be numbers.
        plan: Mapping of rows to steps.
        ids: Ids of the series.
        kind: "class", "value" or "auto": text, booleans and whole numbers with at most 20 different values are
            classes.
        per_step: Whether there is a target per step or (False) per series; None: per step if it changes within a
            series or if there is only one series.
        classes: Names known from training; None: those that occur.
        dtype: Type of numbers.
    """
    one_of("kind", kind, ("auto", "class", "value"))
    if kind == "class" and len(names) > 1:
        raise ValueError(f"classes need a single target column, got {listed(names)}.")
    wanted = kind if kind != "auto" else "value" if len(names) > 1 else _kind(columns[names[0]])
    if wanted == "class":
        found, labels = _labels(columns[names[0]], names[0])
        steps: NDArray[Any] = plan.last(found)[:, None]
    else:
        labels = []
        steps = np.stack([plan.mean(_values(name, columns[name])) for name in names], axis=1)
    rows, by_step, notes = _per_series(steps, plan.lengths, per_step, names, ids)
    if wanted == "class":
        target = class_target(rows[:, 0], labels, per_step=by_step, classes=classes, name=names[0])
        notes += _seen_once(target, ids, plan.lengths)
    else:
        target = value_target(rows, per_step=by_step, names=names, dtype=dtype)
    missing = int((~target.known).sum())
    if missing:
        notes.append(f"{counted(missing, 'step' if by_step else 'series')} without target {listed(names)}: kept.")
    return target, notes


def mapped_target(
    given: Mapping[Any, Any], ids: NDArray[Any], kind: str, classes: Sequence[str] | None, dtype: Any
) -> Target:
    """Returns the target of each series from a mapping id -> label or number; both must have the same ids."""
    own, theirs = {str(i): i for i in ids.tolist()}, {str(i): value for i, value in given.items()}
    for problem, fewer, more in (("has no rows", own, theirs), ("has no target", theirs, own)):
        gone = [name for name in more if name not in fewer]
        if gone:
            raise ValueError(f"id {gone[0]!r} {problem} ({len(gone)} such ids): {listed(gone)}.")
    values = np.array([theirs[name] for name in own])
    return array_target(values, kind=kind, classes=classes, dtype=dtype)


def _kind(column: Column) -> str:
    values = None if is_text(column) else numbers(column)
    if values is None or str(column.type) == "bool":
        return "class"
    seen = values[~np.isnan(values)]
    for part in (seen[:100_000], seen):  # the beginning is enough for most number columns
        found = np.unique(part)
        if len(found) > FEW or not np.isfinite(found).all() or (found != np.floor(found)).any():
            return "value"
    return "class"


def _labels(column: Column, name: str) -> tuple[NDArray[Any], list[str]]:
    values = None if is_text(column) or str(column.type) == "bool" else numbers(column)
    if values is None:
        found, texts = codes(column, name)
        return found, [str(text) for text in texts.tolist()]
    missing = np.isnan(values)
    known = np.unique(values[~missing])
    return np.where(missing, -1, np.searchsorted(known, values)), number_names(known)


def _values(name: str, column: Column) -> NDArray[np.float64]:
    values = numbers(column)
    if values is None:
        row, text = first_text(column)
        raise ValueError(f"the target {name!r} at row {row:,} is not a number: {text!r}; use kind='class'.")
    return cast(values, np.dtype(np.float64), lambda row: f"the target {name!r} at row {row + 1:,}")


def _per_series(
    steps: NDArray[Any],
    lengths: NDArray[np.int64],
    per_step: bool | None,
    names: Sequence[str],
    ids: NDArray[Any],
) -> tuple[NDArray[Any], bool, list[str]]:
    """Returns (rows per series or step, whether per step, notes) from a row per step; unknown codes are -1."""
    if per_step or (per_step is None and len(lengths) == 1):
        return steps, True, []
    starts = np.cumsum(lengths) - lengths
    number = steps.dtype.kind == "f"
    highest = (np.fmax if number else np.maximum).reduceat(steps, starts, axis=0)
    # Unknown codes are -1; for the minimum they must be the largest.
    least = np.fmin.reduceat(steps if number else np.where(steps < 0, np.iinfo(steps.dtype).max, steps), starts, axis=0)
    changing = (least < highest).any(axis=1)
    if not changing.any():
        return highest, False, []
    first = ids[int(changing.argmax())]
    change = f"the target {listed(names)} changes within {counted(int(changing.sum()), 'id')} (first: {first!s})"
    if per_step is False:
        raise ValueError(f"{change}: per_step=False needs one target per id.")
    return steps, True, [f"{change}: used as a target per step."]


def _seen_once(target: Target, ids: NDArray[Any], lengths: NDArray[np.int64]) -> list[str]:
    classes = target.classes or ()
    counts = np.bincount(target.values[target.values != UNKNOWN], minlength=len(classes))
    once = np.flatnonzero(counts == 1).tolist()
    examples = []
    for code in once[:5]:
        row = int(np.flatnonzero(target.values == code)[0])
        series = int(np.searchsorted(np.cumsum(lengths), row, side="right")) if target.per_step else row
        examples.append(f"{classes[code]!r} (id {ids[series]!s})")
    if not examples:
        return []
    more = f", ... ({len(once):,} in all)" if len(once) > len(examples) else ""
    return [
        f"classes of {target.names[0]!r} that occur once: {', '.join(examples)}{more}: kept; a split puts them into "
        f"training."
    ]
