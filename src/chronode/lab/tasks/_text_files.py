"""Fast and strict reading of published text files; errors name the file and the line."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...data import arrow, counted, listed

Kind = str | Sequence[str]
"""Kind of a column: "number", "whole", "date", "text", or its allowed texts."""


def read_table(
    path: Path,
    columns: Mapping[str, Kind],
    *,
    content: bytes | None = None,
    separator: str = ",",
    header: bool = True,
    missing: Collection[str] = (),
    dates: str = "%Y-%m-%d %H:%M:%S",
) -> dict[str, NDArray[Any]]:
    r"""Reads the columns of a text table as arrays, named by `columns` regardless of the header.

    Args:
        path: The file.
        columns: Name -> kind, for all columns from left to right: "number" (float64), "whole" (int64), "date"
            (datetime64), "text", or a list of texts: the column becomes indices into it.
        content: Bytes to read instead of those of the file, which is named in messages.
        separator: Separator between cells.
        header: Whether the first line holds names and is skipped.
        missing: Text that means a missing number, which becomes NaN; nothing else may be missing.
        dates: Format of dates.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "rooms.txt"
        >>> _ = file.write_text("room,warmth\nhall,20.5\nattic,?\n")
        >>> read_table(file, {"room": ("attic", "hall"), "warmth": "number"}, missing="?")
        {'room': array([1, 0]), 'warmth': array([20.5,  nan])}
    """
    content = _bytes(path) if content is None else content
    table = _parse(content, path, columns, separator, header, missing, dates)
    if not table.num_rows:
        raise ValueError(f"{path}: the table has no rows.")
    return {name: _array(table.column(name), kind, name, path, header) for name, kind in columns.items()}


def read_matrix(path: Path, columns: int) -> NDArray[np.float32]:
    r"""Reads rows of `columns` numbers separated by whitespace, as `(rows, columns)`.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "signal.txt"
        >>> _ = file.write_text("  1.0  2e-1\n -3 4\n")
        >>> read_matrix(file, 2).tolist()
        [[1.0, 0.20000000298023224], [-3.0, 4.0]]
    """
    content = _bytes(path)
    try:
        matrix = np.loadtxt(path, dtype=np.float32, ndmin=2, comments=None, encoding="latin-1")
    except (ValueError, OverflowError):
        matrix = np.empty((0, 0), np.float32)
    if matrix.shape[1] == columns and np.isfinite(matrix).all():
        return matrix
    # Something is wrong: a slow second pass finds the line.
    for number, line in enumerate(content.splitlines(), start=1):
        cells = line.decode("latin-1").split()
        if len(cells) != columns and cells:
            raise ValueError(f"{path}, line {number:,}: {counted(len(cells), 'number')} instead of {columns}.")
        for cell in cells:
            if not _is_finite(cell):
                raise ValueError(f"{path}, line {number:,}: {cell[:40]!r} is not a number.")
    raise ValueError(f"{path}: this is not a table with {columns} numbers per line.")


def held(column: NDArray[Any]) -> NDArray[Any]:
    """Replaces each missing number by the previous one (at the beginning by the first number).

    Example:
        >>> held(np.array([1.0, np.nan, np.nan, 4.0])).tolist()
        [1.0, 1.0, 1.0, 4.0]
    """
    there = ~np.isnan(column)
    rows = np.maximum.accumulate(np.where(there, np.arange(len(column)), there.argmax()))
    return column[rows]


def same_length(parts: Mapping[Path, Sequence[Any] | NDArray[Any]]) -> None:
    """Rejects related files with unequal numbers of rows."""
    (first, rows), *others = ((path, len(part)) for path, part in parts.items())
    for path, count in others:
        if count != rows:
            raise ValueError(
                f"{path} has {counted(count, 'row')}, {first.name} has {rows:,}; they must have the same number."
            )


def _bytes(path: Path) -> bytes:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise ValueError(f"{path}: no such file; the data set is incomplete.") from None
    except OSError as error:
        raise ValueError(f"{path}: this file cannot be read: {error}.") from error
    if not content.strip():
        raise ValueError(f"{path}: the file is empty.")
    return content


def _parse(
    content: bytes,
    path: Path,
    columns: Mapping[str, Kind],
    separator: str,
    header: bool,
    missing: Collection[str],
    dates: str,
) -> Any:
    pa = arrow()
    from pyarrow import csv

    types = {"number": pa.float64(), "whole": pa.int64(), "date": pa.timestamp("s")}
    convert = csv.ConvertOptions(
        column_types={n: types.get(k, pa.string()) if isinstance(k, str) else pa.string() for n, k in columns.items()},
        null_values=list(missing),
        timestamp_parsers=[dates],
    )
    read = csv.ReadOptions(column_names=list(columns), skip_rows=int(header))
    parse = csv.ParseOptions(delimiter=separator)
    try:
        return csv.read_csv(pa.BufferReader(content), read, parse, convert)
    except (pa.ArrowException, UnicodeError):
        read.use_threads = False  # line numbers of errors need a single thread
    try:
        return csv.read_csv(pa.BufferReader(content), read, parse, convert)
    except (pa.ArrowException, UnicodeError) as error:
        raise ValueError(_message(path, str(error), list(columns))) from error


def _message(path: Path, error: str, columns: list[str]) -> str:
    """Rewrites the message of Arrow with the line and the name of the column."""
    line = re.search(r"Row #(\d+)", error)
    where = f"{path}, line {int(line[1]):,}" if line else str(path)
    if cells := re.search(r"Expected (\d+) columns, got (\d+)", error):
        return f"{where}: {counted(int(cells[2]), 'cell')} instead of {cells[1]}."
    if cell := re.search(r"column #(\d+).*invalid value '(.*)'", error, re.DOTALL):
        return f"{where}: {cell[2][:40]!r} is not a valid {columns[int(cell[1])]!r}."
    return f"{where}: this is not the expected text table: {error.splitlines()[0][:100]}."


def _array(column: Any, kind: Kind, name: str, path: Path, header: bool) -> NDArray[Any]:
    """Converts one column to an array; the first invalid cell is an error."""
    pa = arrow()

    def refuse(wrong: Any, why: str) -> None:
        if len(at := np.flatnonzero(wrong)):
            cell = column[int(at[0])].as_py()
            raise ValueError(f"{path}, line {int(at[0]) + 1 + header:,}: {'' if cell is None else cell!r} {why}.")

    absent = column.is_null().to_numpy()
    if kind == "number":
        numbers = column.to_numpy()
        # Values beyond float32 cannot be sensor readings.
        refuse(~(np.abs(numbers) < np.finfo(np.float32).max) & ~absent, f"is not a valid {name!r}: it must be finite")
        return numbers
    if kind in ("whole", "date", "text"):
        refuse(absent, f"is not a valid {name!r}")
        return column.to_numpy()
    codes = pa.compute.index_in(column, value_set=pa.array(kind, pa.string()))
    refuse(codes.is_null().to_numpy(), f"is not a valid {name!r}; expected one of {listed(kind)}")
    return codes.to_numpy().astype(np.int64)


def _is_finite(cell: str) -> bool:
    try:
        with np.errstate(over="ignore"):
            return bool(np.isfinite(np.float32(cell)))
    except ValueError:
        return False
