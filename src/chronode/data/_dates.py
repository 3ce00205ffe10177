"""Times of columns: numbers, dates, durations, or text in one given or detected format; errors name the row."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..settings import SettingError, named
from ._cells import converted, first_text, is_text, trimmed
from ._columns import RATES, Column, arrow, to_arrow
from ._names import counted, listed
from ._times import (
    ELAPSED,
    ELAPSED_TEXT,
    EPOCHS,
    MINUTES_TEXT,
    NAMED,
    NUMBER,
    QUARTER,
    QUARTER_TEXT,
    WEEK,
    WEEK_TEXT,
    Moments,
    is_number,
    parse_dates,
    parse_elapsed,
)

# Numbers in this range are read as seconds since 1970: 1990-01-01 to 2100-01-01.
_EPOCH_FROM, _EPOCH_TO = 631_152_000, 4_102_444_800
# Whole numbers that may be dates, by their number of digits.
_DIGITS = {6: "%Y%m", 8: "%Y%m%d", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}
_YEARS = 1000, 2999
_MONTHS = [
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
]
_DAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
_WORDS = (([month[:3] for month in _MONTHS], "%b"), (_MONTHS, "%B"), ([day[:3] for day in _DAYS], "%a"), (_DAYS, "%A"))
_BASIC = re.compile(r"\d{8}T\d{4}(\d\d)?")  # the basic form of ISO 8601
_ZONE = re.compile(rf"(?P<rest>.*:\d.*?|{_BASIC.pattern})(?P<space> ?)(?P<zone>[Zz]|[+-]\d\d:?\d\d|UTC|GMT)")
_CLOCK = re.compile(
    r"(?P<rest>.*\S)(?P<space>T|,? +)(?P<hour>\d{1,2}):\d\d"
    r"(?P<second>:\d\d)?(?P<part>(?:[.,]|(?<=:\d\d):)\d{1,9})?(?P<noon> ?[AaPp][Mm])?"
)
# Meanings of the numbers of a date, by which of them have four digits, with and without a month name.
_Orders = dict[tuple[bool, ...], list[tuple[str, ...]]]
_WITH_NAME: _Orders = {
    (True,): [("%Y",)],
    (False,): [("%y",)],
    (True, False): [("%Y", "%d")],
    (False, True): [("%d", "%Y")],
    (False, False): [("%d", "%y")],
}
_WITHOUT_NAME: _Orders = {
    (True, False): [("%Y", "%m")],
    (False, True): [("%m", "%Y")],
    (True, False, False): [("%Y", "%m", "%d")],
    (False, False, True): [("%d", "%m", "%Y"), ("%m", "%d", "%Y")],
    (False, False, False): [("%d", "%m", "%y"), ("%m", "%d", "%y"), ("%y", "%m", "%d")],
}
# A time of day followed by Z, +hh, +hhmm or +hh:mm.
_ZONED = r"[Tt ]\d{1,2}[\d:.,]*\s*([Zz]|[+-]\d{2}(:?\d{2})?)$"
_SAMPLE = 1000  # number of values used to test formats before the whole column is parsed
_READ_AS = {NUMBER: "numbers", QUARTER: "quarters", WEEK: "ISO weeks (their Mondays)"}
_READ_AS |= {ELAPSED: "elapsed hours, minutes and seconds"}
_READ_AS |= dict(zip(EPOCHS, (f"{unit} since 1970" for unit in ("seconds", "ms", "µs", "ns")), strict=True))


def format_of_numbers(values: NDArray[Any]) -> str | None:
    """Returns the format of numbers that are dates: all within the range of an epoch, or all valid digits of a date.

    Example:
        >>> format_of_numbers(np.array([19580329, 19580405])), format_of_numbers(np.array([1.7e9, 1.7e9 + 60]))
        ('%Y%m%d', 'epoch s')
    """
    if not len(values):
        return None
    low, high = values.min(), values.max()
    for name, rate in EPOCHS.items():
        if _EPOCH_FROM * rate <= low and high < _EPOCH_TO * rate:
            return name
    if (values != np.floor(values)).any():
        return None
    for digits, text_format in _DIGITS.items():
        unit = 10 ** (digits - 4)
        if not (_YEARS[0] * unit <= low and high < (_YEARS[1] + 1) * unit):
            continue
        # Counters contain impossible months, unless they are short and stay within one year.
        if digits == 6 and low // unit == high // unit:
            return None
        distinct = np.unique(values.astype(np.int64))
        months = distinct // (unit // 100) % 100
        if (months < 1).any() or (months > 12).any():
            return None
        try:
            parse_dates([str(value) for value in distinct.tolist()], text_format)
        except ValueError:
            return None
        return text_format
    return None


def formats_of_text(text: str) -> list[str]:
    """Returns the possible formats of `text`, most likely first; empty if it does not look like a date.

    Example:
        >>> formats_of_text("01/02/2024 10:30"), formats_of_text("Jan 1, 2000"), formats_of_text("1970 Q1")
        (['%d/%m/%Y %H:%M', '%m/%d/%Y %H:%M'], ['%b %d, %Y'], ['quarter'])
    """
    if QUARTER_TEXT.fullmatch(text):
        return [QUARTER]
    if WEEK_TEXT.fullmatch(text):
        return [WEEK]
    if ELAPSED_TEXT.fullmatch(text) or MINUTES_TEXT.fullmatch(text):
        return [ELAPSED]
    tail = ""
    if zoned := _ZONE.fullmatch(text):
        tail = zoned["space"] + ("%Z" if zoned["zone"] in ("UTC", "GMT") else "%z")
        text = zoned["rest"]
    if clock := _CLOCK.fullmatch(text):
        hour, noon = ("%I", clock["noon"][:-2] + "%p") if clock["noon"] else ("%H", "")
        part = f"{clock['part'][0]}%f" if clock["part"] else ""
        tail = f"{clock['space']}{hour}:%M{':%S' if clock['second'] else ''}{part}{noon}{tail}"
        text = clock["rest"]
    elif tail and not _BASIC.fullmatch(text):
        return []
    return [date + tail for date in _dates(text)]


def _dates(text: str) -> list[str]:
    """Returns the formats of a date without its time of day."""
    if week := re.fullmatch(r"\d{4}(-?)W\d{2}(-?)[1-7]", text):
        return [f"%G{week[1]}W%V{week[2]}%u"]
    tokens = re.findall(r"\d+|[A-Za-z]+|[^A-Za-z\d]+", text)
    named = [[code for names, code in _WORDS if token.lower() in names] for token in tokens]
    numbers = [i for i, token in enumerate(tokens) if token.isdigit()]
    months = [i for i, codes in enumerate(named) if codes and codes[0] in ("%b", "%B")]
    unknown = [token for token, codes in zip(tokens, named, strict=True) if token.isalpha() and not codes]
    if unknown not in ([], ["T"], ["M"]) or len(months) > 1 or ":" in text:
        return []
    sizes = tuple(len(tokens[i]) for i in numbers)
    formats = []
    for orders in _orders(sizes, bool(months)):
        codes = dict(zip(numbers, orders, strict=True))
        parts = [
            codes.get(i) or (named[i][0] if named[i] else tokens[i].replace("%", "%%")) for i in range(len(tokens))
        ]
        formats.append("".join(parts))
    if months and named[months[0]] == ["%b", "%B"]:  # May
        formats += [each.replace("%b", "%B") for each in formats]
    return formats


def _orders(sizes: tuple[int, ...], month_is_named: bool) -> list[tuple[str, ...]]:
    """Returns the possible meanings of numbers with the given digits, in their order."""
    if not month_is_named and sizes in ((8,), (12,), (14,)):
        return [(_DIGITS[sizes[0]],)]
    if not month_is_named and sizes in ((8, 6), (8, 4)):
        return [("%Y%m%d", "%H%M%S" if sizes[1] == 6 else "%H%M")]
    if not all(size in (1, 2, 4) for size in sizes):
        return []
    years = tuple(size == 4 for size in sizes)
    return (_WITH_NAME if month_is_named else _WITHOUT_NAME).get(years, [])


# ---- columns of times ------------------------------------------------------------------------------------


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
        raise SettingError(
            f"{named('time_format', time_format)} is not supported; use e.g. '%d/%m/%Y %H:%M' or {listed(NAMED)}.",
            argument="time_format",
        )
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
    text_format = time_format or format_of_numbers(numbers)
    if text_format is None or text_format == NUMBER:
        return moments
    notes = () if time_format else (_note(name, text_format, f"{numbers[0]:.15g}"),)
    if text_format in EPOCHS:
        ticks, rate = numbers, EPOCHS[text_format]
        if numbers.dtype.kind == "f":
            ticks, rate = np.round(numbers * (1e6 / rate)).astype(np.int64), 1e6
        return Moments(ticks, rate, instants=True, zoned=True, format=text_format, notes=notes)
    return _dated(name, _digits(name, numbers, text_format), text_format)._replace(notes=notes)


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
            raise SettingError(
                f"{name}: the time of row {row:,} is not a number: {text!r} ({named('time_format', time_format)}).",
                argument="time_format",
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
        if (instants := converted(column, pa.timestamp(unit, zone))) is not None:
            return Moments(_ticks(instants), RATES[unit], True, zone is not None)
    is_iso = converted(column.slice(0, 1), pa.timestamp("us", zone)) is not None
    text_format = None if is_iso else _detected(name, column)
    if text_format is None:
        raise ValueError(_not_understood(name, column, lambda part: part.cast(pa.timestamp("us", zone))))
    moments = _dated(name, column, text_format)
    note = _note(name, text_format, str(column[0]))
    if text_format == ELAPSED and moments.ticks.max() < 86_400_000_000:  # microseconds of a day
        note = f"{note[:-1]}; times of day that pass midnight need a date."
    return moments._replace(notes=(note,))


def _detected(name: str, column: Column) -> str | None:
    """Returns the format of the column; None if its first text is not a date; an error if ambiguous."""
    formats = formats_of_text(str(column[0]))
    sample = column.slice(0, _SAMPLE).unique().to_pylist()
    fitting = {each: parsed for each in formats if (parsed := _attempt(sample, each)) is not None}
    if len(fitting) > 1:
        whole = column.unique().to_pylist()
        fitting = {each: parsed for each in fitting if (parsed := _attempt(whole, each)) is not None}
    readings = {tuple(ticks.tolist()[:_SAMPLE]): each for each, ticks in reversed(fitting.items())}
    if len(readings) > 1:
        choices = " or ".join(f"{named('time_format', each)}" for each in fitting)
        raise ValueError(
            f"{name}: dates such as {str(column[0])!r} can be read in more than one order of day, month and year: "
            f"pass {choices}."
        )
    return next(iter(fitting or formats), None)


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
            raise SettingError(
                f"{named('time_format', text_format)} is not a date format: {error}.", argument="time_format"
            ) from None

        def parse(part: Column) -> None:
            _parsed(part.unique().to_pylist(), text_format)

        row, text = first_text(column, parse)
        raise ValueError(f"{name}: the time of row {row:,} does not have the form {text_format}: {text!r}.") from None
    places = encoded.indices.to_numpy(zero_copy_only=False)
    return Moments(ticks[places], rate, instants=text_format != ELAPSED, zoned=zoned, format=text_format)


def _not_understood(name: str, column: Column, parse: Callable[[Column], Any]) -> str:
    if is_number(str(column[0])):  # such as a line with totals below a column of numbers
        row, text = first_text(column)
        return f"{name}: the time of row {row:,} is not a number: {text!r}. Correct or remove the row."
    row, text = first_text(column, parse)
    return (
        f"{name}: the time of row {row:,} cannot be read: {text!r}. Times may be numbers, ISO 8601 dates (2024-01-31 "
        f"12:00:00, with or without a zone), or in a format given by {named('time_format')} (such as %d/%m/%Y %H:%M)."
    )


def _note(name: str, text_format: str, example: str) -> str:
    keep = f"; {named('time_format', 'number')} keeps plain numbers"
    if text_format in _READ_AS:
        return f"{name}: read as {_READ_AS[text_format]}{f' ({example}){keep}' if text_format in EPOCHS else ''}."
    return f"{name}: dates such as {example!r} read as {text_format}{keep if example.isdigit() else ''}."


def _as_numbers(column: Column) -> NDArray[Any] | None:
    """Reads text as whole numbers, otherwise as floats; None if it is neither."""
    for kind in (arrow().int64(), arrow().float64()):
        if (numbers := converted(column, kind)) is not None:
            return numbers.to_numpy(zero_copy_only=False)
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
