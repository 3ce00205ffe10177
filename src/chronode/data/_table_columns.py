"""Columns of a table as values, static values, groups and targets of series."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..settings import SettingError, named, one_of
from ._cells import first_text, is_numeric, is_text, not_numeric, numbers
from ._columns import Column, codes
from ._names import counted, listed
from ._rows import StepRows
from ._settings import kinds_of
from ._target import (
    FEW,
    UNKNOWN,
    Target,
    array_target,
    cast,
    class_target,
    number_names,
    several,
    value_target,
)

CATEGORICAL = ("error", "codes", "onehot")
MOST_CATEGORIES = 1000


# ---- values ----------------------------------------------------------------------------------------------


def column_values(
    cells: Mapping[str, Column],
    inputs: Sequence[str],
    plan: StepRows,
    dtype: np.dtype[Any],
    categorical: str,
    categories: Mapping[str, Sequence[str]] | None,
    static: Sequence[str],
) -> tuple[NDArray[Any], tuple[str, ...], dict[str, tuple[str, ...]], list[str]]:
    """Returns (values (steps, D), channel names, categories in use, notes); texts of static columns become one 0/1
    value each.
    """
    one_of("categorical", categorical, CATEGORICAL)
    encodings = {name: "onehot" if name in static else categorical for name in inputs}
    used: dict[str, tuple[str, ...]] = {}
    coded: dict[str, NDArray[Any]] = {}
    notes: list[str] = []
    for name in inputs:
        trained = (categories or {}).get(name)
        if trained is None and is_numeric(cells[name]):
            continue
        if encodings[name] == "error":
            raise ValueError(not_numeric(name, cells[name]))
        coded[name], used[name], note = categories_of(name, cells[name], trained)
        notes += note
    width = sum(len(used[name]) if name in used and encodings[name] == "onehot" else 1 for name in inputs)
    # Filled column by column, so that a large table is not copied in memory.
    values, channels = np.empty((int(plan.lengths.sum()), width), dtype), []
    for name in inputs:
        if name in coded:
            columns = _coded(name, plan.last(coded[name]), used[name], encodings[name])
        else:
            columns = [(name, _ordered(name, cells[name], plan, dtype))]
        for channel, column in columns:
            values[:, len(channels)] = column
            channels.append(channel)
    return values, tuple(channels), used, notes


def _ordered(name: str, column: Column, plan: StepRows, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Returns a column of numbers in the order of the steps."""
    rows = numbers(column)
    assert rows is not None  # checked by `is_numeric`
    fit = cast(rows, dtype, lambda row: f"{name}: the value of row {row + 1:,}")
    return plan.ordered(fit) if plan.firsts is None else plan.mean(rows)


def categories_of(
    name: str, column: Column, trained: Sequence[str] | None
) -> tuple[NDArray[Any], tuple[str, ...], list[str]]:
    """Returns (codes, -1 where missing; texts; notes) of a text column."""
    rows, distinct = codes(column, name)
    texts = tuple(str(text) for text in distinct.tolist())
    if len(texts) > MOST_CATEGORIES:
        raise ValueError(
            f"column {name!r} has {len(texts):,} different texts; a category may have at most {MOST_CATEGORIES:,}."
        )
    if trained is None:
        return rows, texts, []
    numbered = {text: i for i, text in enumerate(trained)}
    table = np.array([*(numbered.get(text, -1) for text in texts), -1], dtype=np.int32)
    fresh = [text for text in texts if text not in numbered]
    count = int((table[rows] < 0).sum() - (rows < 0).sum())
    note = f"column {name!r} has texts that did not occur in training ({listed(fresh)}; {counted(count, 'row')})"
    return table[rows], tuple(trained), [f"{note}: treated as missing."] if fresh else []


def _coded(
    name: str, rows: NDArray[Any], texts: Sequence[str], encoding: str
) -> Iterator[tuple[str, NDArray[np.float64]]]:
    """Returns the channels of a text column: its codes, or one 0/1 channel per text."""
    if encoding == "codes":
        yield name, np.where(rows < 0, np.nan, rows)
        return
    for i, text in enumerate(texts):
        yield f"{name}={text}", np.where(rows < 0, np.nan, rows == i)


# ---- one value per series --------------------------------------------------------------------------------


def row_groups(column: Column, name: str, plan: StepRows, ids: NDArray[Any]) -> NDArray[Any]:
    """Returns one group per series."""
    rows, texts = codes(column, name)
    plan = plan.unmerged(len(rows))
    least, most = (each.reduceat(plan.ordered(rows), plan.starts) for each in (np.minimum, np.maximum))
    wrong = (least < most) | (least < 0)
    if wrong.any():
        series = int(wrong.argmax())
        problem = "no group" if least[series] < 0 else "more than one group"
        raise ValueError(f"{name}: id {ids[series]!s} has {problem}; all rows of an id must have the same group.")
    return texts[least]


def series_weights(column: Column, name: str, plan: StepRows, ids: NDArray[Any]) -> NDArray[np.float32]:
    """Returns one weight per series; negative, missing and changing ones are errors, and so is no other than 0."""
    values = numbers(column)
    shown = named("weight", name)
    if values is None:
        row, text = first_text(column)
        raise SettingError(f"{shown}: row {row:,} is not a number: {text!r}.", argument="weight")
    wrong = (values < 0) | np.isinf(values)
    if wrong.any():
        row = int(wrong.argmax())
        raise SettingError(
            f"{shown}: the weight of row {row + 1:,} is {values[row]:g} ({counted(int(wrong.sum()), 'such row')})",
            argument="weight",
            cure="weights are 0 or larger; 0 leaves a series out",
        )
    plan = plan.unmerged(len(values))
    low, high = (each.reduceat(plan.ordered(values), plan.starts) for each in (np.fmin, np.fmax))
    for problem, bad in (("no weight", np.isnan(low)), ("more than one weight", low < high)):
        if bad.any():
            raise SettingError(
                f"{shown}: id {ids[int(bad.argmax())]!s} has {problem} ({counted(int(bad.sum()), 'such id')})",
                argument="weight",
                cure="give all rows of an id the same number, 0 to leave it out",
            )
    if not low.any():
        raise SettingError(f"{shown}: every weight is 0: there is nothing to learn from.", argument="weight")
    return low.astype(np.float32)


def split_static(
    values: NDArray[Any],
    channels: Sequence[str],
    plan: StepRows,
    ids: NDArray[Any],
    columns: Sequence[str],
    categories: Collection[str],
) -> tuple[NDArray[Any], tuple[str, ...], NDArray[Any] | None, tuple[str, ...]]:
    """Takes the static `columns` out of the values; returns (values and names of the channels, one value per series
    `(N, S)` and names of the static columns).
    """
    if not columns:
        return values, tuple(channels), None, ()
    is_static = np.array([_column(name, categories) in columns for name in channels])
    if is_static.all():
        raise ValueError("all value columns are static: a series needs at least one that changes over time.")
    left, names = (tuple(np.array(channels, dtype=object)[mask]) for mask in (~is_static, is_static))
    static = one_per_series(values[:, is_static], names, plan, ids, categories)
    return np.ascontiguousarray(values[:, ~is_static]), left, static, names


def one_per_series(
    values: NDArray[Any], names: Sequence[str], plan: StepRows, ids: NDArray[Any], categories: Collection[str]
) -> NDArray[Any]:
    """Returns the only known value of each series `(N, S)`, NaN if it has none, of columns `(steps, S)`."""
    low, high = (each.reduceat(values, plan.starts, axis=0) for each in (np.fmin, np.fmax))
    for index, name in enumerate(names):
        changing = low[:, index] < high[:, index]
        if changing.any():
            series, column = int(changing.argmax()), _column(name, categories)
            both = f"the values {low[series, index]:g} and {high[series, index]:g}"
            both = "more than one text" if column in categories else both
            raise SettingError(
                f"{named('static', column)}: series {ids[series]!s} has {both}, but a static column has one value per "
                "series. Leave it out of static to use it as a channel.",
                argument="static",
            )
    return low


def source_columns(names: Sequence[str], categories: Collection[str]) -> list[str]:
    """Returns the columns that channels or static values come from, each once."""
    return list(dict.fromkeys(_column(name, categories) for name in names))


def _column(name: str, categories: Collection[str]) -> str:
    return next((column for column in categories if name == column or name.startswith(f"{column}=")), name)


# ---- targets ---------------------------------------------------------------------------------------------


def column_target(
    columns: Mapping[str, Column],
    names: Sequence[str],
    plan: StepRows,
    ids: NDArray[Any],
    *,
    kind: str,
    per_step: bool | None,
    classes: Sequence[Any] | None,
    dtype: Any,
) -> tuple[Target, list[str]]:
    """Returns (the target, notes) from columns of the table; the options are those of `from_long`."""
    levels = [classes] if len(names) == 1 else classes or [None] * len(names)
    kinds = kinds_of(kind, names)
    if classes and len(names) > 1:
        kinds = ["value" if each is None else "class" for each in levels]
    kinds = [kind_of(columns[name]) if of == "auto" else of for name, of in zip(names, kinds, strict=True)]
    texts: list[list[str]] = []
    steps: list[NDArray[np.float64]] = []
    for name, of in zip(names, kinds, strict=True):
        if of == "class":
            codes_of_rows, labels = labels_of(columns[name], name)
            chosen = plan.last(codes_of_rows)
            steps.append(np.where(chosen < 0, np.nan, chosen))
        else:
            labels = []
            steps.append(plan.mean(_numbers(name, columns[name])))
        texts.append(labels)
    rows, by_step, notes = _per_series(np.stack(steps, axis=1), plan, per_step, names, ids)
    if "class" not in kinds:
        target = value_target(rows, per_step=by_step, names=names, dtype=dtype)
    else:
        parts = []
        for name, of, labels, each, column in zip(names, kinds, texts, levels, rows.T, strict=True):
            if of == "class":
                numbered = np.where(np.isnan(column), -1, column).astype(np.int64)
                parts.append(class_target(numbered, labels, per_step=by_step, classes=each, name=name))
                notes += _rare_classes(parts[-1], ids, plan.lengths)
            else:
                parts.append(value_target(column, per_step=by_step, names=[name], dtype=dtype))
        target = several(parts)
    for part in target.parts:
        if missing := int((~part.known).sum()):
            what = counted(missing, "step" if by_step else "series")
            notes.append(f"{what} without target {listed(part.names)}: kept.")
    return target, notes


def mapped_target(
    given: Mapping[Any, Any], ids: NDArray[Any], kind: str, classes: Sequence[str] | None, dtype: Any
) -> Target:
    """Returns the target of each series from a mapping id -> label or number; both must have the same ids."""
    series, targets = dict.fromkeys(map(str, ids.tolist())), {str(i): value for i, value in given.items()}
    for problem, fewer, more in (("has no rows", series, targets), ("has no target", targets, series)):
        gone = [name for name in more if name not in fewer]
        if gone:
            raise ValueError(f"id {gone[0]!r} {problem} ({len(gone)} such ids): {listed(gone)}.")
    return array_target(np.array([targets[name] for name in series]), kind=kind, classes=classes, dtype=dtype)


def kind_of(column: Column) -> str:
    """Returns the kind of a target: "class" for text, booleans and few whole numbers, otherwise "value"."""
    values = None if is_text(column) else numbers(column)
    if values is None or str(column.type) == "bool":
        return "class"
    values = values[~np.isnan(values)]
    for part in (values[:100_000], values):  # the beginning is enough for most number columns
        distinct = np.unique(part)
        if len(distinct) > FEW or not np.isfinite(distinct).all() or (distinct != np.floor(distinct)).any():
            return "value"
    return "class"


def labels_of(column: Column, name: str) -> tuple[NDArray[Any], list[str]]:
    """Returns (codes, -1 where missing; names of the classes) of a target."""
    values = None if is_text(column) or str(column.type) == "bool" else numbers(column)
    if values is None:
        rows, texts = codes(column, name)
        return rows, [str(text) for text in texts.tolist()]
    found = numbers(column.unique())  # by hashing: sorting all of them would take longer
    assert found is not None
    distinct = np.unique(found[~np.isnan(found)])
    return np.where(np.isnan(values), -1, np.searchsorted(distinct, values)), number_names(distinct)


def _numbers(name: str, column: Column) -> NDArray[np.float64]:
    values = numbers(column)
    if values is None:
        row, text = first_text(column)
        raise SettingError(
            f"the target {name!r} at row {row:,} is not a number: {text!r}; use {named('kind', 'class')}.",
            argument="kind",
        )
    return cast(values, np.dtype(np.float64), lambda row: f"the target {name!r} at row {row + 1:,}")


def _per_series(
    steps: NDArray[Any], plan: StepRows, per_step: bool | None, names: Sequence[str], ids: NDArray[Any]
) -> tuple[NDArray[Any], bool, list[str]]:
    """Returns (rows per series or step, whether per step, notes) from a row per step."""
    if per_step or (per_step is None and len(plan.lengths) == 1):
        return steps, True, []
    highest = np.fmax.reduceat(steps, plan.starts, axis=0)
    changing = (np.fmin.reduceat(steps, plan.starts, axis=0) < highest).any(axis=1)
    if not changing.any():
        return highest, False, []
    first = ids[int(changing.argmax())]
    change = f"the target {listed(names)} changes within {counted(int(changing.sum()), 'id')} (first: {first!s})"
    if per_step is False:
        raise SettingError(f"{change}: {named('per_step', False)} needs one target per id.", argument="per_step")
    return steps, True, [f"{change}: used as a target per step."]


def _rare_classes(target: Target, ids: NDArray[Any], lengths: NDArray[np.int64]) -> list[str]:
    """Returns a note on classes that occur once."""
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
        "training."
    ]
