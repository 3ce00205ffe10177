"""Settings of readers and splits: their names, defaults and choices; imported before anything large."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from ..settings import SettingError, named, one_of
from ._names import listed

PARTS = (0.7, 0.15, 0.15)
"""Fractions of the training, validation and test part."""
VALIDATION = PARTS[1] / (PARTS[0] + PARTS[1])
"""Share of the series that are not tested on which validates."""

CLIP = ("auto", "on", "off")
"""Whether values are clipped."""

GAPS = ("keep", "cap", "log")
"""Treatment of long gaps."""

KINDS = ("auto", "class", "value")
"""Kinds of a target."""

TEXT_OPTIONS = ("delimiter", "decimal", "thousands", "encoding", "comment", "names")
"""Options for the format of a text table."""
FILE_OPTIONS = (*TEXT_OPTIONS, "sheet", "table", "query_sql", "skip_bad")
"""Options for the format of a file with a table; other files ignore them."""


class LikeOptions(TypedDict, total=False):
    """Result of `options_like`, as stored in JSON."""

    columns: list[str]
    static: list[str]
    empty: str
    dtype: str
    categorical: str
    categories: dict[str, list[str]]
    unit: str | float
    time_format: str
    kind: str
    per_step: bool
    classes: list[str | list[str] | None] | None


class ReadOptions(LikeOptions, total=False):
    """Options of `read` that give other data the meaning of the training data, as stored in JSON."""

    id: str
    time: str
    group: str
    weight: str
    ignore: list[str]
    channel: str
    value: str
    duplicates: str
    order: str
    lengths: str
    missing_values: list[str]
    labels: str
    row_per_series: bool
    sheet: str
    table: str
    query_sql: str
    skip_bad: bool
    delimiter: str
    decimal: str
    thousands: str
    names: list[str]
    encoding: str
    comment: str


def kinds_of(kind: str, names: Sequence[str]) -> list[str]:
    """Returns the kind of each target, from one for all or from a list such as "sick=class,days=value".

    Example:
        >>> kinds_of("value", ["sick", "days"]), kinds_of("days=value", ["sick", "days"])
        (['value', 'value'], ['auto', 'value'])
    """
    if "=" not in kind:
        return [one_of("kind", kind, KINDS)] * len(names)
    pairs = dict(pair.split("=", 1) for pair in kind.split(",") if "=" in pair)
    for name, of in pairs.items():
        if name.strip() not in names:
            raise SettingError(
                f"{named('kind', kind)}: {name.strip()!r} is not a target; they are {listed(names)}.", argument="kind"
            )
        one_of("kind", of.strip(), KINDS)
    pairs = {name.strip(): of.strip() for name, of in pairs.items()}
    return [pairs.get(name, "auto") for name in names]
