"""Targets of series or steps, and checks that all constructors share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ..settings import SettingError, named, one_of
from ._names import counted, distinct, listed
from ._settings import KINDS, kinds_of

UNKNOWN = -100
"""Class number of unknown labels and of padding, ignored by the cross entropy of torch."""

FEW = 20
"""Whole numbers in a table with at most this many different values are classes."""


ClassNames = tuple[str, ...] | tuple[tuple[str, ...] | None, ...] | None
"""Names of classes; of several targets with classes among them, those of each, None for a number."""


@dataclass(frozen=True, eq=False)
class Target:
    """Targets of series or steps.

    Attributes:
        values: Classes: `(rows,)` int32, UNKNOWN where there is no label; numbers: `(rows, targets)`, NaN where none;
            several targets with classes among them: `(rows, targets)` too, classes by their numbers.
        per_step: Whether a row is a step; otherwise it is a series.
        classes: Names of the classes by number; None for numbers.
        names: Names of the target columns.
        source: Original numbers, if `values` are rounded or scaled; otherwise None.
        levels: Classes of each of several targets, None for a number; empty for a single target or numbers only.
    """

    values: NDArray[Any]
    per_step: bool = False
    classes: tuple[str, ...] | None = None
    names: tuple[str, ...] = ("target",)
    source: NDArray[Any] | None = None
    levels: tuple[tuple[str, ...] | None, ...] = ()

    @property
    def kind(self) -> str:
        """One of "class", "value" and "several"."""
        return "several" if self.levels else "value" if self.classes is None else "class"

    @property
    def class_names(self) -> ClassNames:
        """Names of the classes; of several targets with classes among them, those of each."""
        return self.levels or self.classes

    @property
    def num_outputs(self) -> int:
        """Number of logits and values of a model of this target."""
        if self.levels:
            return sum(len(names or ("",)) for names in self.levels)
        return self.values.shape[1] if self.classes is None else len(self.classes)

    @property
    def parts(self) -> tuple[Target, ...]:
        """The targets that have a loss and metrics of their own: each of several with classes among them, otherwise
        the target itself.

        Example:
            >>> both = array_target({"sick": ["no", "yes"], "days": [2.5, 4.0]})
            >>> both.values.tolist(), [part.values.tolist() for part in both.parts]
            ([[0.0, 2.5], [1.0, 4.0]], [[0, 1], [[2.5], [4.0]]])
        """
        if not self.levels:
            return (self,)
        parts = []
        for at, (name, classes) in enumerate(zip(self.names, self.levels, strict=True)):
            columns = [None if array is None else array[:, at : at + 1] for array in (self.values, self.source)]
            values = columns[0]
            if classes is not None and values is not None:
                values, columns[1] = np.where(np.isnan(values), UNKNOWN, values)[:, 0].astype(np.int32), None
            assert values is not None
            parts.append(replace(self, values=values, classes=classes, names=(name,), source=columns[1], levels=()))
        return tuple(parts)

    @property
    def known(self) -> NDArray[np.bool_]:
        """`(rows,)` whether the target is known; for several numbers, all of them; with classes among them, any."""
        if self.levels:
            return np.asarray(~np.isnan(self.values).all(axis=1))
        if self.classes is not None:
            return np.asarray(self.values != UNKNOWN)
        return np.asarray(~np.isnan(self.values).any(axis=1))

    @property
    def given(self) -> NDArray[Any]:
        """Numbers as they were given, neither rounded nor scaled."""
        return self.values if self.source is None else self.source

    def take(self, rows: NDArray[Any] | slice) -> Target:
        """Returns the targets of these rows."""
        return replace(self, values=self.values[rows], source=None if self.source is None else self.source[rows])

    def with_classes(self, classes: Sequence[Any]) -> Target:
        """Returns the labels numbered as in `classes`, or as in those of each target; any other label is an error."""
        if self.levels:
            if tuple(classes) == self.levels:
                return self
            pairs = zip(self.parts, classes, strict=True)
            return several([part if names is None else part.with_classes(names) for part, names in pairs])
        if self.classes is None:
            raise ValueError(f"the target {self.names[0]!r} is a number, so it has no classes.")
        if tuple(classes) == self.classes:
            return self
        numbers = {name: i for i, name in enumerate(classes)}
        table = np.array([numbers.get(name, UNKNOWN - 1) for name in self.classes] + [UNKNOWN], dtype=np.int32)
        values = table[np.where(self.values == UNKNOWN, len(self.classes), self.values)]
        if (values == UNKNOWN - 1).any():
            fresh = sorted({self.classes[i] for i in self.values[values == UNKNOWN - 1].tolist()})
            raise ValueError(
                f"the target {self.names[0]!r} has classes that did not occur in training: {listed(fresh)}; training "
                f"had {listed(classes)}. Add examples of them to the training part, or remove these series."
            )
        return replace(self, values=values, classes=tuple(classes))


def several(parts: Sequence[Target]) -> Target:
    """Returns one target of these parts: the part itself, numbers side by side, or numbers and classes."""
    if len(parts) == 1:
        return parts[0]
    columns, sources = [], []
    for part in parts:
        is_class = part.classes is not None
        values = part.values[:, None] if is_class else part.values
        columns.append(np.where(values == UNKNOWN, np.nan, values) if is_class else values)
        sources.append(columns[-1] if is_class else part.given)
    dtype = np.result_type(np.float32, *(part.values.dtype for part in parts if part.classes is None))
    exact = all(part.source is None for part in parts)
    names = tuple(name for part in parts for name in part.names)
    levels = tuple(part.classes for part in parts)
    return Target(
        np.concatenate(columns, axis=1).astype(dtype),
        parts[0].per_step,
        None,
        names,
        None if exact else np.concatenate(sources, axis=1),
        levels if any(classes is not None for classes in levels) else (),
    )


def class_target(
    codes: NDArray[Any], names: Sequence[str], *, per_step: bool, classes: Sequence[str] | None = None, name: str
) -> Target:
    """Creates a target from labels given as indices into `names` (negative: unknown), numbered as in `classes` if
    given.

    Without `classes`, a single class is an error: there is nothing to learn.
    """
    values = np.where(codes < 0, UNKNOWN, codes).astype(np.int32)
    target = Target(values, per_step, tuple(names), (name,))
    if classes is not None:
        return target.with_classes(distinct("classes", classes))
    if len(names) == 0:
        raise ValueError(f"the target {name!r} is missing everywhere.")
    if len(names) == 1:
        raise SettingError(
            f"the target {name!r} has only one class ({names[0]!r}): there is nothing to learn. "
            f"Pass classes=[...] if these are data to predict, or {named('kind', 'value')} if the target is a number.",
            argument="kind",
        )
    return target


def value_target(
    columns: NDArray[Any], *, per_step: bool, names: Sequence[str], dtype: Any = np.float32, finite: bool = True
) -> Target:
    """Creates a target from numbers `(rows,)` or `(rows, targets)`, NaN where unknown."""
    values = np.asarray(columns, dtype=dtype)
    values = values[:, None] if values.ndim == 1 else values
    if values.shape[1] != len(names):
        raise ValueError(f"{values.shape[1]} targets need as many target names, got {len(names)}: {listed(names)}.")
    if finite and np.isinf(values).any():
        row, column = (int(i) for i in np.argwhere(np.isinf(values))[0])
        raise ValueError(f"the target {names[column]!r} is infinite or too large at row {row + 1}.")
    source = np.asarray(columns, dtype=np.float64).reshape(values.shape)
    exact = np.array_equal(source, values, equal_nan=True)
    return Target(values, per_step, None, tuple(names), None if exact else source)


def array_target(
    given: ArrayLike | Mapping[str, ArrayLike],
    *,
    kind: str = "auto",
    per_step: bool = False,
    classes: Sequence[str] | None = None,
    names: Sequence[str] | None = None,
    dtype: Any = np.float32,
) -> Target:
    """Creates a target from an array: whole numbers, text and booleans are classes, other numbers are values.

    Args:
        given: One row per series, or per step of all series one after the other; of several targets, by their names.
        kind: "class", "value" or "auto".
        per_step: Whether the rows are steps.
        classes: Names of the classes; whole numbers are then indices into it.
        names: Names of the targets.
        dtype: Type of values.

    Example:
        >>> array_target(["walk", "sit", "walk"]).values.tolist(), array_target([0.5, 1.5]).values.tolist()
        ([1, 0, 1], [[0.5], [1.5]])
    """
    if isinstance(given, Mapping):
        pairs = zip(given.items(), kinds_of(kind, list(given)), _levels_of(classes, len(given)), strict=True)
        options: dict[str, Any] = {"per_step": per_step, "dtype": dtype}
        return several(
            [array_target(rows, kind=of, classes=each, names=[name], **options) for (name, rows), of, each in pairs]
        )
    array = np.asarray(given)
    kind = one_of("kind", kind, KINDS)
    if kind == "value" or (kind == "auto" and array.dtype.kind == "f"):
        if array.dtype.kind not in "fiub":
            raise ValueError(f"a target of kind 'value' must be numbers, got {array.dtype}.")
        width = 1 if array.ndim == 1 else array.shape[1]
        names = names or (["target"] if width == 1 else [f"target{i}" for i in range(width)])
        return value_target(array, per_step=per_step, names=names, dtype=dtype)
    name = names[0] if names else "target"
    if array.ndim != 1:
        raise ValueError(f"there must be one class per row, got shape {array.shape}; several targets must be numbers.")
    if classes is not None and array.dtype.kind in "iu":
        return _numbered(array, distinct("classes", classes), per_step, name)
    codes, label_names = labels(array)
    return class_target(codes, label_names, per_step=per_step, classes=classes, name=name)


def _levels_of(classes: Sequence[Any] | None, count: int) -> Sequence[Any]:
    """Returns the classes of each of several targets."""
    return [None] * count if classes is None else classes


def labels(array: NDArray[Any]) -> tuple[NDArray[Any], list[str]]:
    """Returns (codes, sorted names); None, NaN, "" and UNKNOWN are unknown (-1)."""
    unknown = np.zeros(len(array), dtype=bool)
    if array.dtype.kind == "f":
        unknown = np.isnan(array)
    elif array.dtype.kind in "iu":
        unknown = array == UNKNOWN
    elif array.dtype.kind in "OU":
        unknown = np.array([v is None or v != v or v == "" for v in array.tolist()], dtype=bool)
        array = np.array([str(v) for v in array.tolist()], dtype=str)
    distinct_values, codes = np.unique(array[~unknown], return_inverse=True)
    every = np.full(len(array), -1, dtype=np.int64)
    every[~unknown] = codes
    return every, number_names(distinct_values)


def number_names(values: NDArray[Any]) -> list[str]:
    """Returns names of distinct values; whole numbers have no decimal point."""
    if values.dtype.kind == "f" and np.isfinite(values).all() and (values == np.floor(values)).all():
        return [str(int(v)) for v in values.tolist()]
    return [str(v) for v in values.tolist()]


def _numbered(array: NDArray[Any], classes: tuple[str, ...], per_step: bool, name: str) -> Target:
    wrong = (array >= len(classes)) | ((array < 0) & (array != UNKNOWN))
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise ValueError(f"the target {name!r} is {array[row]} at row {row + 1}; {len(classes)} classes were given.")
    return Target(array.astype(np.int32), per_step, classes, (name,))


CONSTANT = "constant, kept"
"""Remark on a channel with a single value."""
EMPTY = ("drop", "error", "keep")


def value_type(dtype: DTypeLike, *, symbols: bool = False) -> np.dtype[Any]:
    """Checks a dtype: float32 or float64; int32 or int64 if values may be symbols."""
    names = ("float32", "float64", "int32", "int64") if symbols else ("float32", "float64")
    try:
        name = np.dtype(dtype).name
    except TypeError:
        name = str(dtype)
    return np.dtype(one_of("dtype", name, names))


def cast(values: NDArray[Any], dtype: np.dtype[Any], where: Callable[[int], str]) -> NDArray[Any]:
    """Converts the values of one channel to `dtype`; infinite or too large values are errors that name the place."""
    with np.errstate(over="ignore"):
        fit = values.astype(dtype, copy=False)
    wrong = np.isinf(fit)
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        if np.isinf(values[at]):
            raise ValueError(
                f"{where(at)} is infinite ({counted(int(wrong.sum()), 'such value')}): leave it empty or correct it."
            )
        raise ValueError(f"{where(at)} is {values[at]:g}, too large for {dtype}: use dtype='float64' or rescale it.")
    return fit


def look_at_channels(
    values: NDArray[Any], channels: Sequence[str], empty: str
) -> tuple[NDArray[Any], tuple[str, ...], list[str]]:
    """Returns (values, channels, notes): constant channels are noted; empty ones are dropped, kept or rejected."""
    one_of("empty", empty, EMPTY)
    if values.dtype.kind != "f":
        return values, tuple(channels), []
    gone, constant = [], []
    for i, name in enumerate(channels):
        column = values[:, i]
        low, high = np.fmin.reduce(column), np.fmax.reduce(column)
        if np.isnan(low):
            gone.append(i)
        elif low == high and int((~np.isnan(column)).sum()) > 1:
            constant.append(f"{name} = {low:g}")
    notes = [f"{CONSTANT}: {', '.join(constant[:12])}{', ...' if len(constant) > 12 else ''}."] if constant else []
    if not gone:
        return values, tuple(channels), notes
    names = listed(channels[i] for i in gone)
    if empty == "error":
        raise SettingError(
            f"no values in {names}: leave these columns out, or use {named('empty', 'drop')} or 'keep'.",
            argument="empty",
        )
    if empty == "keep":
        return values, tuple(channels), [*notes, f"no values in {names}: kept, missing everywhere."]
    if len(gone) == len(channels):
        raise ValueError(f"no values in {names}: there is nothing to learn from.")
    left = [i for i in range(len(channels)) if i not in set(gone)]
    notes.append(f"no values in {names}: dropped.")
    return np.ascontiguousarray(values[:, left]), tuple(channels[i] for i in left), notes


def names_of(channels: Sequence[str] | None, count: int) -> tuple[str, ...]:
    """Returns the names of the channels; x0, x1, ... by default."""
    if channels is None:
        return tuple(f"x{i}" for i in range(count))
    names = distinct("channels", channels)
    if len(names) != count:
        raise ValueError(f"channels has {len(names)} names for {count} channels.")
    return names


def ids_of(argument: str, given: ArrayLike | None, count: int) -> NDArray[Any]:
    """Returns `(N,)` ids or groups as int64 or text; 0, 1, ... by default."""
    if given is None:
        return np.arange(count)
    array = np.asarray(given)
    if array.shape != (count,):
        raise ValueError(f"{argument} must have one entry per series ({count}), got shape {array.shape}.")
    return plain(array)


def plain(array: NDArray[Any]) -> NDArray[Any]:
    """Converts ids to int64 if they are whole numbers, otherwise to text."""
    if array.dtype.kind in "iu" and (array.dtype != np.uint64 or not array.size or array.max() < 2**63):
        return array.astype(np.int64)
    if array.dtype.kind == "U":
        return array.copy()
    return np.array([str(v) for v in array.tolist()], dtype=str)
