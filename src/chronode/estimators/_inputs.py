"""Inputs of estimators: conversion of arrays, lists, frames and Sequences to Sequences and one target per series."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array, check_consistent_length

from ..data import (
    CONSTANT,
    Reading,
    Sequences,
    Series,
    Target,
    as_columns,
    from_list,
    from_long,
    from_numpy,
    ids_of,
    is_frame,
    series_times,
)
from ..settings import SettingError, SettingTypeError, named, one_of

ROLES = ("id", "time")
OTHER_ORDER = {"NDT": "NTD", "NTD": "NDT"}

_PACKAGE = f"{__name__.partition('.')[0]}."

Read = tuple[Sequences, NDArray[Any] | None]


@dataclass(frozen=True)
class Reader:
    """Reader of user input.

    Attributes:
        order: Order of the axes of an array: "NDT" (as in aeon and sktime) or "NTD"; in a list, of each array without
            the N.
        kind: Kind of target: "class" or "value".
        reading: Schema of the training data, to read others in the same way; None before training.
        categorical: Treatment of text in a frame before training: "error", "codes" or "onehot".
        ignore: Columns of a frame to leave out before training.
        static: Columns of a frame with one value per series, before training.
    """

    order: str
    kind: str
    reading: Reading | None = None
    categorical: str = "error"
    ignore: Sequence[str] = ()
    static: Sequence[str] = ()

    def read(
        self,
        X: Any,
        y: Any = None,
        *,
        times: Any = None,
        groups: Any = None,
        id: str | None = None,
        time: str | None = None,
    ) -> Read:
        """Returns the series without a target, and the target of each; None if there is none.

        Series of Sequences or a frame with an unknown target are dropped.
        """
        _refuse_file(X)
        column = y if is_frame(X) and self.roles_of(id, time) else None
        if isinstance(y, str) and column is None:
            raise ValueError(f"y={y!r} is the name of a column of a long frame: {_roles_needed()}")
        s = self.series(X, times=times, groups=groups, id=id, time=time, target=column)
        if y is not None and column is None:
            return replace(s, target=None), y
        s, included = _split_target(s)
        return s, included if included is None or column is None else _typed(included, X, column)

    def series(
        self,
        X: Any,
        *,
        times: Any = None,
        groups: Any = None,
        id: str | None = None,
        time: str | None = None,
        target: Any = None,
    ) -> Sequences:
        """Returns the series with their own target, if any; `target` is the column of a frame."""
        one_of("order", self.order, OTHER_ORDER)
        _refuse_file(X)
        if isinstance(X, Sequences) or _is_series(X):
            self._refuse_roles(id, time)
            if times is not None:
                raise ValueError("these series have their own times: omit times.")
            s = X if isinstance(X, Sequences) else _from_series(X, self.reading)
            return s if groups is None else replace(s, groups=ids_of("groups", groups, len(s)))
        s = self._made(X, times, groups, self.roles_of(id, time), target)
        # Changes to the data are reported at once; constant channels only matter in training.
        for note in s.notes:
            if not (self.reading and note.startswith(CONSTANT)):
                warnings.warn(note, UserWarning, stacklevel=level_of_caller())
        return s

    def roles_of(self, id: str | None, time: str | None) -> dict[str, str]:
        """Returns the id and time columns of a frame: as given, or as in training; empty if there are none."""
        given = {"id": id, "time": time}
        for name, column in given.items():
            if column is not None and not isinstance(column, str):
                raise SettingTypeError(
                    f"{named(name)} must be the name of a column of the frame, got {type(column).__name__}.",
                    argument=name,
                )
        return {**self._known_roles(), **{name: column for name, column in given.items() if column is not None}}

    def _known_roles(self) -> dict[str, str]:
        options = {} if self.reading is None else self.reading.options
        return {name: options[name] for name in ROLES if name in options}

    def _made(self, X: Any, times: Any, groups: Any, roles: dict[str, str], target: Any) -> Sequences:
        """Creates the series of a frame, an array or a list."""
        if is_frame(X) and (roles or series_times(X) is not None):
            if times is not None:
                raise SettingTypeError(
                    f"X is a frame: pass the name of its column of times as {named('time', ...)}, and omit times.",
                    argument="time",
                )
            return self._frame(X, target, groups, roles)
        if isinstance(X, Mapping) and is_frame(X):
            raise ValueError(f"X is a mapping of columns: {_roles_needed()}")
        if not is_frame(X) and roles != self._known_roles():
            self._refuse_roles(*(roles.get(name) for name in ROLES))
        if is_frame(X):
            X = X.to_numpy() if hasattr(X, "to_numpy") else np.asarray(X)
        elif self.ignore or self.static:
            name = "ignore" if self.ignore else "static"
            raise SettingError(f"{name} names columns of a long frame, but X is not one: omit {name}.", argument=name)
        elif _is_one_series(X):
            X, times = [np.asarray(X) if isinstance(X, (list, tuple)) else X], None if times is None else [times]
        like = {} if self.reading is None else self.reading.options
        options = {name: like[name] for name in like.keys() & {"unit", "dtype"}}
        if _is_list(X):
            return self._list(X, times, groups, options)
        return self._array(X, times, {"groups": groups, **(options if times is not None else _without_unit(options))})

    def _refuse_roles(self, id: str | None, time: str | None) -> None:
        if id is not None or time is not None:
            raise ValueError(
                "id and time are columns of a frame; for arrays pass times=[...], and groups=[...] to keep "
                "series together."
            )

    def _array(self, X: Any, times: Any, options: dict[str, Any]) -> Sequences:
        array = _numbers(X, "X", allow_nd=True)
        if array.ndim == 3 and times is not None:
            steps, others = (array.shape[self.order.index(axis)] for axis in "TD")
            given = np.shape(times)[-1]
            if given == others != steps:
                raise ValueError(f"times has {given} steps, but the series have {steps} with {self._ordered()}")
        return from_numpy(array, order=self.order, times=times, **options)

    def _list(self, X: Sequence[Any], times: Any, groups: Any, options: dict[str, Any]) -> Sequences:
        parts = [_numbers(part, f"X[{i}]", ensure_2d=False) for i, part in enumerate(X)]
        if self.order == "NDT":  # a frame always has a row per step
            parts = [part if is_frame(given) else part.T for part, given in zip(parts, X, strict=True)]
        indexed = [series_times(part) for part in X]
        if times is None and all(moments is not None for moments in indexed):
            times = indexed
        widths = {part.shape[1] for part in parts if part.ndim == 2}
        if len(widths) > 1 and len({len(part) for part in parts}) == 1:
            raise ValueError(f"the series have {min(widths)} to {max(widths)} channels with {self._ordered()}")
        options = options if times is not None else _without_unit(options)
        return from_list(parts, times=times, groups=groups, **options)

    def _frame(self, X: Any, target: Any, groups: Any, roles: Mapping[str, str]) -> Sequences:
        for name, column in (("y", target), ("groups", groups)):
            if column is not None and not isinstance(column, str):
                raise TypeError(f"X is a frame: {name} must be the name of a column, got {type(column).__name__}.")
        options: dict[str, Any] = {**roles, "group": groups, "target": target, "kind": self.kind, "per_step": False}
        if self.reading is not None:
            return self.reading.series(X, **options)
        return from_long(X, categorical=self.categorical, ignore=self.ignore, static=self.static, **options)

    def _ordered(self) -> str:
        return f"{named('order', self.order)}. Did you mean {named('order', OTHER_ORDER[self.order])}?"


def _roles_needed() -> str:
    return f"pass {named('id', ...)} and {named('time', ...)} too, the columns that identify series and steps."


def _numbers(given: Any, name: str, **options: Any) -> NDArray[Any]:
    """Returns an array of numbers, NaN where missing."""
    options |= {"ensure_all_finite": "allow-nan", "input_name": name}
    return check_array(given, dtype="numeric", **options)


def series_weights(given: Any, s: Sequences) -> NDArray[np.float32] | None:
    """Returns one weight per series; None for equal weights."""
    if given is None:
        return None
    weights = check_array(given, dtype=np.float32, ensure_2d=False, input_name="sample_weight")
    if weights.ndim != 1:
        raise ValueError(f"Sample weights must be 1D array or scalar: sample_weight has {weights.ndim} axes.")
    check_consistent_length(s, weights)
    if (weights < 0).any():
        raise ValueError("sample_weight has negative weights.")
    if not weights.any():
        raise ValueError("sample_weight: every weight is zero.")
    return weights


def level_of_caller() -> int:
    """Returns the stack level of the code that called chronode, for warnings."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    return level


def _refuse_file(X: Any) -> None:
    if isinstance(X, (str, Path)):
        raise TypeError(f"X={str(X)!r} is a file: pass chronode.data.read(...), which reads it, and omit y.")


def _is_one_series(X: Any) -> bool:
    """Returns whether `X` is one array `(time,)` or list of numbers, or a Series of pandas or polars."""
    if isinstance(X, (list, tuple)):
        return len(X) > 0 and all(isinstance(value, Real) for value in X)
    dtype = getattr(X, "dtype", None)
    return dtype is not None and getattr(X, "shape", None) is not None and len(X.shape) == 1 and str(dtype) != "object"


def _without_unit(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name != "unit"}


def _is_list(X: Any) -> bool:
    """Returns whether `X` is a list or an object array of series."""
    if isinstance(X, np.ndarray):
        return X.dtype == object and X.ndim == 1 and len(X) > 0 and isinstance(X[0], np.ndarray)
    return isinstance(X, (list, tuple)) and len(X) > 0 and not np.isscalar(X[0])


def _is_series(X: Any) -> bool:
    """Returns whether `X` is a list of Series, which scikit-learn's cross-validation makes from Sequences."""
    return isinstance(X, (list, tuple)) and len(X) > 0 and all(isinstance(part, Series) for part in X)


def _from_series(X: Sequence[Series], reading: Reading | None) -> Sequences:
    gaps = [part.dt for part in X]
    # Without times, dt is 1 everywhere, even at the first step.
    counted = all((gap == 1).all() for gap in gaps)
    s = from_list(
        [part.values for part in X],
        dt=None if counted else gaps,
        ids=[part.id for part in X],
        groups=[part.group for part in X],
        dtype=X[0].values.dtype,
    )
    if reading is not None and not counted:  # gaps have no unit: it is assumed to be that of training
        s = replace(s, clock=reading.clock)
    if X[0].static is not None:
        static = np.stack([np.asarray(part.static) for part in X])
        s = replace(s, static=static, static_names=tuple(f"static{i}" for i in range(static.shape[1])))
    if any(part.target is None for part in X):
        return s
    values = np.stack([np.asarray(part.target) for part in X])
    if values.dtype.kind == "f":
        return replace(s, target=Target(values, names=tuple(f"target{i}" for i in range(values.shape[1]))))
    # A Series contains the number of its class, not the name.
    return replace(s, target=Target(values, classes=tuple(map(str, range(values.max() + 1)))))


def _split_target(s: Sequences) -> Read:
    """Returns the series with a known target, and the targets: class names or numbers."""
    if s.target is None:
        return s, None
    if s.target.per_step:
        raise ValueError(
            "there is a target at every step, but estimators need one per series: use chronode.training.fit."
        )
    s = s.labeled()
    assert s.target is not None
    values = s.target.values
    if s.target.classes is not None:
        values = np.array(s.target.classes)[values]
    return replace(s, target=None), values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values


def _typed(labels: NDArray[Any], X: Any, column: str) -> NDArray[Any]:
    """Converts labels from text to the type that they have in the column of the frame."""
    dtype = np.dtype(as_columns(X)[column].type.to_pandas_dtype())
    if labels.dtype.kind != "U" or dtype.kind not in "biuf":
        return labels
    return labels == "True" if dtype.kind == "b" else labels.astype(np.float64).astype(dtype)
