"""Times of a column: numbers, dates, durations, or text in one given or detected format; errors name the row."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._columns import RATES, Column, arrow, first_text, is_text, to_arrow, trimmed
from ._dates import (
    ELAPSED,
    EPOCHS,
    NAMED,
    NUMBER,
    QUARTER,
    WEEK,
    format_of_numbers,
    formats_of_text,
    parse_dates,
    parse_elapsed,
)
from ._names import counted, listed
from ._times import Moments, is_number

# A time of day followed by Z, +hh, +hhmm or +hh:mm.
_ZONED = r"[Tt ]\d{1,2}[\d:.,]*\s*([Zz]|[+-]\d{2}(:?\d{2})?)$"
_DAY = 86_400_000_000  # microseconds
_SAMPLE = 1000  # number of values used to test formats before the whole column is parsed
_WORDS = {NUMBER: "numbers", QUARTER: "quarters", WEEK: "ISO weeks (their Mondays)"}
_WORDS |= {ELAPSED: "elapsed hours, minutes and seconds"}
_WORDS |= dict(zip(EPOCHS, (f"{unit} since 1970" for unit in ("seconds", "ms", "µs", "ns")), strict=True))


def moments_of(name: str, given: Any, time_format: str | None = None, unit: str | float | None = None) -> Moments:
    """Reads times from numbers, dates, durations or text.

    Args:
        name: Name of the column, for messages.
        given: The times.
        time_format: A `strptime` format, or one of "number", "epoch s", "epoch ms", "epoch us", "epoch ns",
            "quarter", "week", "elapsed"; None: detected from the values. Times stored as dates need none.
        unit: Unit of time; a size, which only numbers have, means that numbers are not dates.
    """
    if isinstance(given, np.ndarray) and given.dtype.kind in "fiu" and time_format is None:
        return _counted(name, given)
    if time_format is not None and time_format not in NAMED and "%" not in time_format:
        raise ValueError(f"time_format={time_format!r} is not supported; use e.g. '%d/%m/%Y %H:%M' or {listed(NAMED)}.")
    pa = arrow()
    column = to_arrow(name, given)
    is_size = unit is not None and (not isinstance(unit, str) or is_number(unit))
    number_format = NUMBER if is_size and time_format is None else time_format
    if column.null_count:
        row = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0]) + 1
        raise ValueError(f"{name}: the time of row {row:,} is missing ({counted(column.null_count, 'such row')}).")
    kind = column.type
    if is_text(column):
        return _from_text(name, trimmed(column, nulls=False), time_format, number_format)
    if pa.types.is_date(kind):
        column, kind = column.cast(pa.timestamp("s")), pa.timestamp("s")
    if pa.types.is_timestamp(kind):
        return Moments(_ticks(column), RATES[kind.unit], instants=True, zoned=kind.tz is not None)
    if pa.types.is_duration(kind) or pa.types.is_time(kind):
        column = column.cast(pa.int32()) if pa.types.is_time32(kind) else column
        return Moments(_ticks(column), RATES[kind.unit])
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        column = column.cast(pa.float64()) if pa.types.is_decimal(kind) else column
        return _from_numbers(name, _counted(name, column.to_numpy(zero_copy_only=False)), number_format)
    raise ValueError(f"{name}: times must be numbers, dates or text, not {kind}.")


def _from_numbers(name: str, moments: Moments, time_format: str | None) -> Moments:
    """Returns plain numbers, or the dates that they represent."""
    numbers = moments.ticks
    found = time_format or format_of_numbers(numbers)
    if found is None or found == NUMBER:
        return moments
    notes = () if time_format else (_note(name, found, f"{numbers[0]:.15g}"),)
    if found in EPOCHS:
        ticks, rate = numbers, EPOCHS[found]
        if numbers.dtype.kind == "f":
            ticks, rate = np.round(numbers * (1e6 / rate)).astype(np.int64), 1e6
        return Moments(ticks, rate, instants=True, zoned=True, format=found, notes=notes)
    return _dated(name, _digits(name, numbers, found), found)._replace(notes=notes)


def _digits(name: str, numbers: NDArray[Any], text_format: str) -> Column:
    """Formats whole numbers as text, with the leading zeros that numbers lose."""
    pa = arrow()
    wrong = numbers != np.floor(numbers)
    if wrong.any():
        row = int(wrong.argmax())
        raise ValueError(
            f"{name}: the time of row {row + 1:,} is {numbers[row]:.15g}, which does not have the form {text_format}."
        )
    text = pa.array(numbers.astype(np.int64)).cast(pa.string())
    example = datetime(2024, 12, 31, 23, 59, 59).strftime(text_format)
    return pa.compute.utf8_lpad(text, width=len(example), padding="0") if example.isdigit() else text


def _from_text(name: str, column: Column, time_format: str | None, number_format: str | None) -> Moments:
    """Reads times given as text: numbers, ISO 8601, or one other format."""
    numbers = None if time_format is not None and "%" in time_format else _as_numbers(column)
    if numbers is not None and time_format not in (QUARTER, WEEK, ELAPSED):
        return _from_numbers(name, _counted(name, numbers), number_format)
    if time_format is not None:
        if time_format == NUMBER or time_format in EPOCHS:
            row, text = first_text(column)
            raise ValueError(
                f"{name}: the time of row {row:,} is not a number: {text!r} (time_format={time_format!r})."
            )
        return _dated(name, column, time_format)
    pa = arrow()
    zoned = pa.compute.match_substring_regex(column, _ZONED).to_numpy(zero_copy_only=False).astype(bool)
    if zoned.any() and not zoned.all():
        with_zone, without = int(zoned.argmax()), int(zoned.argmin())
        raise ValueError(
            f"{name}: some times have a time zone and others none (row {with_zone + 1:,}: {column[with_zone]}; row "
            f"{without + 1:,}: {column[without]}): use a zone for all of them or for none."
        )
    zone = "UTC" if zoned.any() else None
    for unit in ("ns", "us"):  # nanoseconds do not cover all years
        try:
            return Moments(_ticks(column.cast(pa.timestamp(unit, zone))), RATES[unit], True, zone is not None)
        except pa.ArrowInvalid:
            pass
    found = _found(name, column, zone)
    if found is None:
        raise _not_understood(name, column, lambda part: part.cast(pa.timestamp("us", zone)))
    moments = _dated(name, column, found)
    note = _note(name, found, str(column[0]))
    if found == ELAPSED and moments.ticks.max() < _DAY:
        note = f"{note[:-1]}; times of day that pass midnight need a date."
    return moments._replace(notes=(note,))


def _found(name: str, column: Column, zone: str | None) -> str | None:
    """Returns the format of the column; None if its first text is ISO 8601 or not a date; an error if ambiguous."""
    if _casts(column.slice(0, 1), zone):
        return None
    formats = formats_of_text(str(column[0]))
    sample = column.slice(0, _SAMPLE).unique().to_pylist()
    fitting = {each: parsed for each in formats if (parsed := _attempt(sample, each)) is not None}
    if len(fitting) > 1:
        whole = column.unique().to_pylist()
        fitting = {each: parsed for each in fitting if (parsed := _attempt(whole, each)) is not None}
    readings = {tuple(ticks.tolist()[:_SAMPLE]): each for each, ticks in reversed(fitting.items())}
    if len(readings) > 1:
        choices = " or ".join(f"time_format={each!r}" for each in fitting)
        raise ValueError(
            f"{name}: dates such as {str(column[0])!r} can be read in more than one order of day, month and year: "
            f"pass {choices}."
        )
    return next(iter(fitting or formats), None)


def _casts(column: Column, zone: str | None) -> bool:
    pa = arrow()
    try:
        column.cast(pa.timestamp("us", zone))
    except pa.ArrowInvalid:
        return False
    return True


def _parsed(texts: list[str], text_format: str) -> tuple[NDArray[np.int64], float, bool]:
    return (parse_elapsed(texts), 1e6, False) if text_format == ELAPSED else parse_dates(texts, text_format)


def _attempt(texts: list[str], text_format: str) -> NDArray[np.int64] | None:
    try:
        return _parsed(texts, text_format)[0]
    except ValueError:
        return None


def _dated(name: str, column: Column, text_format: str) -> Moments:
    """Reads dates in one format; every distinct text is parsed once."""
    pa = arrow()
    encoded = pa.compute.dictionary_encode(column)
    encoded = encoded.combine_chunks() if isinstance(encoded, pa.ChunkedArray) else encoded
    texts = encoded.dictionary.to_pylist()
    try:
        ticks, rate, zoned = _parsed(texts, text_format)
    except ValueError as error:
        if "directive" in str(error):
            raise ValueError(f"time_format={text_format!r} is not a date format: {error}.") from None

        def parse(part: Column) -> None:
            _parsed(part.unique().to_pylist(), text_format)

        row, text = first_text(column, parse)
        raise ValueError(f"{name}: the time of row {row:,} does not have the form {text_format}: {text!r}.") from None
    places = encoded.indices.to_numpy(zero_copy_only=False)
    return Moments(ticks[places], rate, instants=text_format != ELAPSED, zoned=zoned, format=text_format)


def _not_understood(name: str, column: Column, parse: Callable[[Column], Any]) -> ValueError:
    if is_number(str(column[0])):  # such as a line with totals below a column of numbers
        row, text = first_text(column)
        return ValueError(f"{name}: the time of row {row:,} is not a number: {text!r}. Correct or remove the row.")
    row, text = first_text(column, parse)
    return ValueError(
        f"{name}: the time of row {row:,} cannot be read: {text!r}. Times may be numbers, ISO 8601 dates "
        "(2024-01-31 12:00:00, with or without a zone), or in a format given by time_format (such as %d/%m/%Y %H:%M)."
    )


def _note(name: str, found: str, example: str) -> str:
    if found in _WORDS:
        what = (
            f"{_WORDS[found]} ({example}); time_format='number' keeps plain numbers"
            if found in EPOCHS
            else _WORDS[found]
        )
        return f"{name}: read as {what}."
    keep = "; time_format='number' keeps plain numbers" if example.isdigit() else ""
    return f"{name}: dates such as {example!r} read as {found}{keep}."


def _as_numbers(column: Column) -> NDArray[Any] | None:
    """Reads text as whole numbers, otherwise as floats; None if it is neither."""
    pa = arrow()
    for kind in (pa.int64(), pa.float64()):
        try:
            return column.cast(kind).to_numpy(zero_copy_only=False)
        except pa.ArrowInvalid:
            pass
    return None


def _counted(name: str, array: NDArray[Any]) -> Moments:
    """Returns the Moments of plain numbers."""
    if array.dtype.kind == "f":
        wrong = ~np.isfinite(array)
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            problem = "missing" if np.isnan(array[row]) else "infinite"
            raise ValueError(
                f"{name}: the time of row {row + 1:,} is {problem} ({counted(int(wrong.sum()), 'such row')})."
            )
        return Moments(array.astype(np.float64, copy=False))
    if array.dtype == np.uint64 and array.size and array.max() >= 2**63:
        return Moments(array.astype(np.float64))
    return Moments(array.astype(np.int64, copy=False))


def _ticks(column: Column) -> NDArray[np.int64]:
    return column.cast(arrow().int64()).to_numpy(zero_copy_only=False)
