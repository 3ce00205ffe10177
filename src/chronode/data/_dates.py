"""Date formats of text and whole numbers: detection, parsing and writing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

NUMBER = "number"
"""Format of times that are plain numbers."""
QUARTER, WEEK, ELAPSED = "quarter", "week", "elapsed"
EPOCHS = {"epoch s": 1.0, "epoch ms": 1e3, "epoch us": 1e6, "epoch ns": 1e9}
"""Formats of times since 1970, with the number of their units in a second."""
NAMED = (NUMBER, *EPOCHS, QUARTER, WEEK, ELAPSED)
"""Formats besides those of `strptime`: plain numbers, time since 1970, "1970 Q1", "2024-W05", "36:05" (h:mm)."""

# Numbers in this range are read as seconds since 1970: 1990-01-01 to 2100-01-01.
_EPOCH_FROM, _EPOCH_TO = 631_152_000, 4_102_444_800
# Whole numbers that may be dates, by their number of digits.
_DIGITS = {6: "%Y%m", 8: "%Y%m%d", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}
_YEARS = 1000, 2999
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_FULL = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
]
_DAYS = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
_FULL_DAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
_WORDS = ((_MONTHS, "%b"), (_FULL, "%B"), (_DAYS, "%a"), (_FULL_DAYS, "%A"))
_BASIC = re.compile(r"\d{8}T\d{4}(\d\d)?")  # the basic form of ISO 8601
_ZONE = re.compile(rf"(?P<rest>.*:\d.*?|{_BASIC.pattern})(?P<space> ?)(?P<zone>[Zz]|[+-]\d\d:?\d\d|UTC|GMT)")
_CLOCK = re.compile(
    r"(?P<rest>.*\S)(?P<space>T|,? +)(?P<hour>\d{1,2}):\d\d"
    r"(?P<second>:\d\d)?(?P<part>(?:[.,]|(?<=:\d\d):)\d{1,9})?(?P<noon> ?[AaPp][Mm])?"
)
_QUARTER = re.compile(
    r"(?P<year>\d{4})[ -]?Q(?P<quarter>[1-4])|Q(?P<quarter_>[1-4])[ -]?(?P<year_>\d{4})", re.IGNORECASE
)
_ELAPSED = re.compile(r"(?:(\d+) days? )?(\d+):([0-5]\d)(?::([0-5]\d(?:\.\d+)?))?")
_MINUTES = re.compile(r"(\d+):([0-5]\d\.\d+)")
_WEEK = re.compile(r"(\d{4})[ -]?W(\d{2})", re.IGNORECASE)
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
# pandas reads these as the current time.
_NOT_DATES = ("now", "today")


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
    if _QUARTER.fullmatch(text):
        return [QUARTER]
    if _WEEK.fullmatch(text):
        return [WEEK]
    if _ELAPSED.fullmatch(text) or _MINUTES.fullmatch(text):
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


def parse_dates(texts: Sequence[str], text_format: str) -> tuple[NDArray[np.int64], float, bool]:
    """Returns (ticks since 1970, ticks per second, whether they had a zone and are UTC) for texts in one format.

    Args:
        texts: The dates.
        text_format: A `strptime` format, or "quarter" or "week".

    Raises:
        ValueError: A text does not match the format, or the format is invalid.
    """
    import pandas

    if text_format == QUARTER:
        found = [_QUARTER.fullmatch(text) for text in texts]
        if None in found:
            raise ValueError(f"{texts[found.index(None)]!r} is not a quarter")
        parts = [(m["year"] or m["year_"], m["quarter"] or m["quarter_"]) for m in found if m]
        texts, text_format = [f"{year}-{3 * int(quarter) - 2}" for year, quarter in parts], "%Y-%m"
    elif text_format == WEEK:
        found = [_WEEK.fullmatch(text) for text in texts]
        if None in found:
            raise ValueError(f"{texts[found.index(None)]!r} is not a week")
        texts, text_format = [f"{m[1]}-{m[2]}-1" for m in found if m], "%G-%V-%u"
    elif "%" not in text_format:
        raise ValueError(f"{text_format!r} has no directive such as %Y")
    zoned = "%z" in text_format.lower()
    dates = pandas.to_datetime(list(texts), format=text_format, utc=zoned)
    if dates.hasnans or any(text.lower() in _NOT_DATES for text in texts):
        raise ValueError("a text is not a date")
    dates = dates.tz_localize(None) if zoned else dates
    unit, rate = ("ns", 1e9) if dates.unit == "ns" else ("us", 1e6)
    return dates.to_numpy().astype(f"M8[{unit}]").astype(np.int64), rate, zoned


def parse_elapsed(texts: Sequence[str]) -> NDArray[np.int64]:
    """Returns the microseconds of "36:05" (hours and minutes), "36:05:07.5" (with seconds), "1 days 12:05:07" (as
    pandas writes durations), or of texts that are all such as "05:07.5" (minutes and seconds).

    Example:
        >>> parse_elapsed(["36:05", "0:00:07.5", "1 days 12:05:00"]).tolist(), parse_elapsed(["00:07.5"]).tolist()
        ([129900000000, 7500000, 129900000000], [7500000])
    """
    minutes = [_MINUTES.fullmatch(text) for text in texts]
    if None not in minutes:
        seconds = [60 * int(m[1]) + float(m[2]) for m in minutes if m]
    else:
        found = [_ELAPSED.fullmatch(text) for text in texts]
        if None in found:
            raise ValueError(f"{texts[found.index(None)]!r} is not a time such as 36:05 or 36:05:07")
        hours = [(24 * int(m[1] or 0) + int(m[2]), int(m[3]), float(m[4] or 0)) for m in found if m]
        seconds = [3600 * hour + 60 * minute + second for hour, minute, second in hours]
    return np.round(np.array(seconds) * 1e6).astype(np.int64)


def write_elapsed(seconds: NDArray[np.float64]) -> list[str]:
    """Formats seconds as "36:05:07".

    Example:
        >>> write_elapsed(np.array([129907.0, 7.5]))
        ['36:05:07', '0:00:07.5']
    """
    whole = np.round(seconds * 1e6).astype(np.int64)
    parts = [(tick // 3_600_000_000, tick // 60_000_000 % 60, tick % 60_000_000 / 1e6) for tick in whole.tolist()]
    return [f"{hour}:{minute:02d}:{'0' if second < 10 else ''}{second:g}" for hour, minute, second in parts]


def write_dates(instants: NDArray[np.datetime64], text_format: str) -> list[Any]:
    """Formats instants in the format in which they were read; epochs are numbers.

    Example:
        >>> write_dates(np.array(["2024-01-31T12:00:00"], "M8[us]"), "%d.%m.%Y %H:%M")
        ['31.01.2024 12:00']
    """
    import pandas

    if text_format in EPOCHS:
        ticks = instants.astype("M8[us]").astype(np.int64) * (EPOCHS[text_format] / 1e6)
        whole = (ticks == np.round(ticks)).all()
        return ticks.astype(np.int64).tolist() if whole else ticks.tolist()
    dates = pandas.DatetimeIndex(instants)
    if text_format == QUARTER:
        return [f"{date.year}-Q{date.quarter}" for date in dates]
    if text_format == WEEK:
        text_format = "%G-W%V"
    return dates.strftime(text_format).tolist()


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
    found = []
    for orders in _orders(sizes, bool(months)):
        codes = dict(zip(numbers, orders, strict=True))
        parts = [
            codes.get(i) or (named[i][0] if named[i] else tokens[i].replace("%", "%%")) for i in range(len(tokens))
        ]
        found.append("".join(parts))
    if months and named[months[0]] == ["%b", "%B"]:  # May
        found += [each.replace("%b", "%B") for each in found]
    return found


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
