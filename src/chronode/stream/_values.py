"""Values of observations, cell by cell: numbers and categories as in the training file, scaled as in training."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data import Reading, arrow, is_number, numbers, value_type

Errors = dict[int, str]
"""Why observations cannot be used, by their place in the batch."""

_NUMBER = re.compile(r"-?\d{1,300}(\.\d*)?([eE][+-]?\d{1,4})?", re.ASCII)
"""Texts of which `float` and Arrow make the same number; Arrow reads all others."""
_LIKE_A_NUMBER = re.compile(r"[-+.0-9a-fityxpA-FITYXPnN]*", re.ASCII)
"""Letters of numbers, NaN and infinity: other texts are not worth a call of Arrow."""
_PLAIN = (float, int, type(None))
_WIDEST = 60


class Values:
    """Reads the values of observations.

    Attributes:
        columns: Names of the values of an observation.
    """

    def __init__(self, reading: Reading):
        options = reading.options
        self.columns: tuple[str, ...] = tuple(options.get("columns", reading.channels))
        self._reading = reading
        self._dtype = value_type(options.get("dtype", "float32"))
        categories = options.get("categories") or {}
        self._codes = {
            name: {text: code for code, text in enumerate(categories[name])}
            for name in self.columns
            if name in categories
        }
        self._onehot = options.get("categorical") == "onehot"
        markers = options.get("missing_values") or ()
        self._texts = {str(marker) for marker in markers}
        self._sizes = [float(marker) for marker in markers if is_number(str(marker))]
        shapes = reading.scaler.shapes if reading.scaler is not None else ()
        # The largest values without a logarithm, before they are clipped.
        self._no_logarithm = np.array([-np.inf if one.offset is None else -one.offset for one in shapes] or -np.inf)
        if self._channels() != reading.channels:
            raise ValueError(
                f"the columns {', '.join(self.columns)} of an observation are not the channels of the model, "
                f"{', '.join(reading.channels)}."
            )

    def _channels(self) -> tuple[str, ...]:
        made = []
        for name in self.columns:
            texts = self._codes.get(name)
            made += [name] if texts is None or not self._onehot else [f"{name}={text}" for text in texts]
        return tuple(made)

    def read(self, columns: Mapping[str, Any], count: int) -> tuple[NDArray[Any], Errors]:
        """Returns (`(count, D)` scaled values, NaN where missing; the errors).

        Args:
            columns: Values of each observation by name; absent columns are missing.
            count: Number of observations.
        """
        errors: Errors = {}
        found = self._matrix(columns, count, errors)
        if self._sizes:
            own = [place for place, name in enumerate(self.columns) if name not in self._codes]
            found[own] = np.where(np.isin(found[own], self._sizes), np.nan, found[own])
        with np.errstate(over="ignore"):
            raw = self._expanded(found).astype(self._dtype).T
        wrong = np.isinf(raw)
        if wrong.any():
            for place, channel in np.argwhere(wrong).tolist():
                name = self._reading.channels[channel]
                errors.setdefault(place, f"{name}: the value is infinite: leave it empty or correct it")
        if not self._reading.missing:
            self._refuse_missing(raw, errors)
        return self._scaled(raw, errors), errors

    def _matrix(self, columns: Mapping[str, Any], count: int, errors: Errors) -> NDArray[np.float64]:
        """Returns the numbers of all columns `(columns, count)`, or their codes."""
        given = [columns.get(name) for name in self.columns]
        for name, cells in zip(self.columns, given, strict=True):
            if cells is not None and len(cells) != count:
                raise ValueError(f"{name} has {len(cells)} values, expected {count}: one per observation.")
        if not self._codes and all(type(cells) is list for cells in given):
            flat = [cell for cells in given for cell in cells or ()]
            if all(type(cell) in _PLAIN for cell in flat):
                return _plain(flat).reshape(len(given), count)
        found = np.full((len(given), count), np.nan)
        for place, cells in enumerate(given):
            if cells is not None:
                found[place] = self._column(self.columns[place], cells, errors)
        return found

    def _column(self, name: str, cells: Any, errors: Errors) -> NDArray[np.float64]:
        """Returns the numbers of a column, or its codes."""
        codes = self._codes.get(name)
        if codes is None and isinstance(cells, np.ndarray) and cells.dtype.kind in "fiub":
            return cells.astype(np.float64)
        cells = cells.tolist() if isinstance(cells, np.ndarray) else list(cells)
        if codes is None and all(type(cell) in _PLAIN for cell in cells):
            return _plain(cells)
        found = np.full(len(cells), np.nan)
        for place, cell in enumerate(cells):
            try:
                found[place] = _number(cell, self._texts) if codes is None else _code(cell, codes, self._texts)
            except ValueError as error:
                errors.setdefault(place, f"{name}: {error}")
        return found

    def _expanded(self, found: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns the channels `(D, count)` of columns."""
        if not self._codes or not self._onehot:
            return found
        made = []
        for name, row in zip(self.columns, found, strict=True):
            codes = self._codes.get(name)
            made.append(row[None] if codes is None else _onehot(row, len(codes)))
        return np.concatenate(made)

    def _refuse_missing(self, raw: NDArray[Any], errors: Errors) -> None:
        missing = np.isnan(raw)
        for place in np.flatnonzero(missing.any(1)).tolist() if missing.any() else ():
            name = self._reading.channels[int(missing[place].argmax())]
            errors.setdefault(
                place,
                f"{name} is missing, but the model was trained without missing values: train with --allow-missing",
            )

    def _scaled(self, raw: NDArray[Any], errors: Errors) -> NDArray[Any]:
        scaler = self._reading.scaler
        scaled = raw if scaler is None else scaler.scaled(raw)
        wrong = (~np.isfinite(scaled) & ~np.isnan(raw)) | (raw <= self._no_logarithm)
        for place, channel in np.argwhere(wrong).tolist() if wrong.any() else ():
            name, value = self._reading.channels[channel], raw[place, channel]
            errors.setdefault(
                place,
                f"{name}: {value:g} is too large, or has no logarithm; there was no such value when the model was "
                "trained. Leave it empty if it is an error",
            )
        return scaled


def _plain(cells: Sequence[float | None]) -> NDArray[np.float64]:
    """Returns numbers and None as an array."""
    try:
        return np.array(cells, dtype=np.float64)
    except OverflowError:  # a whole number beyond float64
        return np.array([_number(cell, ()) for cell in cells])


def _number(cell: Any, missing: Any) -> float:
    """Returns the number of a cell; NaN if it is missing."""
    if cell is None:
        return np.nan
    if isinstance(cell, str):
        text = cell.strip()
        if _NUMBER.fullmatch(text) and text not in missing:
            return float(text)
        if not text or text in missing:
            return np.nan
        found = numbers(arrow().array([text])) if _LIKE_A_NUMBER.fullmatch(text) else None
        if found is None:
            raise ValueError(f"{shown(cell)} is not a number")
        return float(found[0])
    if isinstance(cell, (int, float, np.integer, np.floating, np.bool_, Decimal)):
        try:
            return float(cell)
        except OverflowError:
            return np.inf
    raise ValueError(f"{shown(cell)} is not a number")


def _code(cell: Any, codes: dict[str, int], missing: Any) -> float:
    """Returns the code of a text; NaN if it is missing, or did not occur in training."""
    if cell is None or cell != cell:
        return np.nan
    if isinstance(cell, str):
        text = cell.strip() if missing else cell
        return np.nan if text in missing else codes.get(text, np.nan)
    if isinstance(cell, (int, float, np.integer, np.floating, np.bool_)):
        whole = not isinstance(cell, (bool, np.bool_)) and float(cell).is_integer()
        return codes.get(str(int(cell)) if whole else str(cell), np.nan)
    raise ValueError(f"{shown(cell)} is neither text nor a number")


def _onehot(codes: NDArray[np.float64], width: int) -> NDArray[np.float64]:
    return np.where(np.isnan(codes), np.nan, codes == np.arange(width)[:, None])


def shown(cell: Any) -> str:
    """Returns a cell for a message."""
    text = repr(cell)
    return text if len(text) <= _WIDEST else f"{text[:_WIDEST]}..."
