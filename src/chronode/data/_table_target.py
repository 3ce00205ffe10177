"""Targets from the columns of a table: classes or numbers, one per series or one per step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..settings import one_of
from ._build import cast
from ._columns import Column, codes, first_text, is_text, numbers
from ._names import counted, listed
from ._rows import StepRows
from ._target import FEW, UNKNOWN, Target, array_target, class_target, number_names, value_target


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
