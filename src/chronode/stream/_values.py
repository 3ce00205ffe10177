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
        self._sizes = {float(marker) for marker in markers if is_number(str(marker))}
        shapes = reading.scaler.shapes if reading.scaler is not None else ()
        self._shaped = bool(shapes)
        # The largest values without a logarithm, before they are clipped.
        self._no_logarithm = np.array([-np.inf if one.offset is None else -one.offset for one in shapes] or -np.inf)
        onehot = self._codes if self._onehot else {}
        channels = [
            channel
            for name in self.columns
            for channel in ([f"{name}={text}" for text in onehot[name]] if name in onehot else [name])
        ]
        if tuple(channels) != reading.channels:
            raise ValueError(
                f"the columns {', '.join(self.columns)} of an observation are not the channels of the model, "
                f"{', '.join(reading.channels)}."
            )

    def read(self, columns: Mapping[str, Any], count: int) -> tuple[NDArray[Any], Errors]:
        """Returns (`(count, D)` scaled values, NaN where missing; the errors).

        Args:
            columns: Values of each observation by name; absent columns are missing.
            count: Number of observations.
        """
        errors: Errors = {}
        with np.errstate(over="ignore"):
            raw = self._expanded(self._matrix(columns, count, errors)).astype(self._dtype).T
        scaler = self._reading.scaler
        scaled = raw if scaler is None else scaler.scaled(raw)
        wrong = ~np.isfinite(scaled)
        if self._shaped:  # which may make a number of what is none
            wrong |= ~np.isfinite(raw) | (raw <= self._no_logarithm)
        if wrong.any():
            self._explain(raw, wrong, errors)
        return scaled, errors

    def _explain(self, raw: NDArray[Any], wrong: NDArray[np.bool_], errors: Errors) -> None:
        """Adds an error for each observation with a value that cannot be used; missing values are wrong as well."""
        missing = np.isnan(raw)
        if self._reading.missing:
            wrong = wrong & ~missing
        for row, channel in np.argwhere(wrong).tolist():
            name, value = self._reading.channels[channel], raw[row, channel]
            if missing[row, channel]:
                why = f"{name} is missing, but the model was trained without missing values: train with --allow-missing"
            elif np.isinf(value):
                why = f"{name}: the value is infinite: leave it empty or correct it"
            else:
                why = (
                    f"{name}: {value:g} is too large, or has no logarithm; there was no such value when the model was "
                    "trained. Leave it empty if it is an error"
                )
            errors.setdefault(row, why)

    def _matrix(self, columns: Mapping[str, Any], count: int, errors: Errors) -> NDArray[np.float64]:
        """Returns the numbers of all columns `(columns, count)`, or their codes."""
        given = [columns.get(name) for name in self.columns]
        for name, cells in zip(self.columns, given, strict=True):
            if cells is not None and len(cells) != count:
                raise ValueError(f"{name} has {len(cells)} values, expected {count}: one per observation.")
        if not self._codes and all(type(cells) is list for cells in given):
            flat = [cell for cells in given for cell in cells or ()]
            if all(type(cell) in _PLAIN for cell in flat):
                return self._marked(_plain(flat)).reshape(len(given), count)
        matrix = np.full((len(given), count), np.nan)
        for index, cells in enumerate(given):
            if cells is not None:
                matrix[index] = self._column(self.columns[index], cells, errors)
        return matrix

    def _column(self, name: str, cells: Any, errors: Errors) -> NDArray[np.float64]:
        """Returns the numbers of a column, or its codes."""
        codes = self._codes.get(name)
        if codes is None and isinstance(cells, np.ndarray) and cells.dtype.kind in "fiub":
            return self._marked(cells.astype(np.float64))
        cells = cells.tolist() if isinstance(cells, np.ndarray) else list(cells)
        if codes is None and all(type(cell) in _PLAIN for cell in cells):
            return self._marked(_plain(cells))
        column = np.full(len(cells), np.nan)
        for index, cell in enumerate(cells):
            try:
                column[index] = self._number(cell) if codes is None else _code(cell, codes, self._texts)
            except ValueError as error:
                errors.setdefault(index, f"{name}: {error}")
        return column

    def _marked(self, column: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns numbers with NaN in place of markers of missing values."""
        return np.where(np.isin(column, [*self._sizes]), np.nan, column) if self._sizes else column

    def _number(self, cell: Any) -> float:
        """Returns the number of a cell; NaN if it is missing. A text is compared with markers as text."""
        value = _number(cell, self._texts)
        return np.nan if value in self._sizes and not isinstance(cell, str) else value

    def _expanded(self, matrix: NDArray[np.float64]) -> NDArray[np.float64]:
        """Returns the channels `(D, count)` of columns."""
        if not self._codes or not self._onehot:
            return matrix
        rows = []
        for name, row in zip(self.columns, matrix, strict=True):
            codes = self._codes.get(name)
            onehot = None if codes is None else row == np.arange(len(codes))[:, None]
            rows.append(row[None] if onehot is None else np.where(np.isnan(row), np.nan, onehot))
        return np.concatenate(rows)


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
        parsed = numbers(arrow().array([text])) if _LIKE_A_NUMBER.fullmatch(text) else None
        if parsed is None:
            raise ValueError(f"{shown(cell)} is not a number")
        return float(parsed[0])
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


def shown(cell: Any) -> str:
    """Returns a cell for a message."""
    text = repr(cell)
    return text if len(text) <= _WIDEST else f"{text[:_WIDEST]}..."
