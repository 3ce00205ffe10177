"""Summary of series, shown before training, and remarks on data that were probably not meant as they are."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..settings import named
from ._names import counted, listed
from ._sequences import Sequences
from ._shaping import bounds
from ._times import SECONDS, Clock

MOSTLY_MISSING = 0.6
MOST_NAMES = 12


@dataclass(frozen=True)
class Facts:
    """Summary made by `describe`; `str` gives it as one line.

    Attributes:
        rows: Number of rows of the table that was read; otherwise the steps of all series.
        series: Number of series.
        shortest: Steps of the shortest series.
        longest: Steps of the longest series.
        gap: Median time between observations, in `unit`; None if there are no times or no gaps.
        unit: Unit of time.
        gap_text: The gap with its unit, such as "47 min".
        channels: Names of the channels.
        missing: Channel -> share of missing values, if any are missing.
        target: Description of the target; "" if there is none.
        classes: Class -> number of series or steps; empty for numbers.
        static: Names of the static values.
    """

    rows: int
    series: int
    shortest: int
    longest: int
    gap: float | None
    unit: str
    gap_text: str
    channels: tuple[str, ...]
    missing: dict[str, float]
    target: str
    classes: dict[str, int]
    static: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Returns the summary as plain data for JSON."""
        return {**asdict(self), "channels": list(self.channels), "static": list(self.static)}

    def __str__(self) -> str:
        length = f"{self.shortest:,}" if self.shortest == self.longest else f"{self.shortest:,}-{self.longest:,}"
        steps = f"{length} observation{'s' if self.longest != 1 else ''}{' each' if self.series > 1 else ''}"
        gap = [f"median gap: {self.gap_text}"] if self.gap_text else []
        parts = [f"{counted(self.rows, 'row')} → {counted(self.series, 'series')}", steps, *gap, self._channels()]
        if self.static:
            parts.append(f"{counted(len(self.static), 'static value')} ({_some(self.static, MOST_NAMES)})")
        return ", ".join([*parts, *([self.target] if self.target else [])])

    @property
    def time(self) -> str:
        """The time unit in words: "time unit: hours (median gap ≈ 0.78)"."""
        return f"time unit: {self.unit}" + ("" if self.gap is None else f" (median gap ≈ {self.gap:.2g})")

    def _channels(self) -> str:
        """Lists the channels, the share of missing values and the channels with the most."""
        text = f"{counted(len(self.channels), 'channel')} ({_some(self.channels, MOST_NAMES)})"
        if not self.missing:
            return text
        mostly = [(share, name) for name, share in self.missing.items() if share > MOSTLY_MISSING]
        most = [f"{name} {percent(share)}" for share, name in sorted(mostly, reverse=True)]
        share = sum(self.missing.values()) / len(self.channels)
        return f"{text}, {percent(share)} of values missing" + (f" ({_some(most, 3)})" if most else "")


def percent(share: float) -> str:
    """Formats a share as "49%", with more digits where rounding would give 0% or 100%.

    Example:
        >>> percent(0.494), percent(0.0004), percent(0.9964), percent(1.0)
        ('49%', '0.04%', '99.6%', '100%')
    """
    text = f"{100 * share:.0f}"
    return f"{100 * share:.3g}%" if text in ("0", "100") else f"{text}%"


def _some(names: Sequence[str], most: int) -> str:
    shown = [f'"{name}"' if "," in name else name for name in names[:most]]
    return ", ".join([*shown, *(["..."] if len(names) > most else [])])


def facts(s: Sequences) -> Facts:
    """Summarizes `s`.

    Example:
        >>> from chronode.data import from_list
        >>> times = [["2024-01-01 10:00", "2024-01-01 10:47"], ["2024-01-02"]]
        >>> print(from_list([[1.0, 2.0], [3.0]], times=times, target=["n", "y"], channels=["hr"]).describe())
        3 rows → 2 series, 1-2 observations each, median gap: 47 min, 1 channel (hr), target: 2 classes (class "y": 50%)
    """
    whole = s.sample.compact()
    gap = s.median_gap()
    missing = {}
    if whole.has_missing:
        shares = np.isnan(whole.base_values).mean(axis=0)
        missing = {name: float(share) for name, share in zip(s.channels, shares.tolist(), strict=True) if share}
    target, classes = _target(s if s.is_stored else whole)
    return Facts(
        rows=int(s.lengths.sum()) if s.rows is None else s.rows,
        series=len(s),
        shortest=int(s.lengths.min(initial=2**62)) if len(s) else 0,
        longest=int(s.lengths.max(initial=0)),
        gap=gap,
        unit=s.clock.unit_text(),
        gap_text="" if gap is None else _in_words(gap, s.clock),
        channels=s.channels,
        missing=missing,
        target=target,
        classes=classes,
        static=s.static_names,
    )


def _target(s: Sequences) -> tuple[str, dict[str, int]]:
    """Returns (description, class -> count)."""
    target = s.target
    if target is None:
        return "", {}
    if target.levels:
        return "; ".join(_target(part)[0] for part in s.by_target), {}
    name = ", ".join(target.names[:3]) + (", ..." if len(target.names) > 3 else "")
    each = " per step" if target.per_step else ""
    if target.classes is None:
        if not target.known.any():
            return f"{name}: unknown", {}
        values = target.values[target.known].astype(np.float64)
        if len(target.names) > 1:
            return f"{len(target.names)} targets{each}: {name}", {}
        return f"{name}{each}: {values.mean():.3g} ± {values.std():.2g} ({values.min():.3g} to {values.max():.3g})", {}
    counts = np.bincount(target.values[target.known], minlength=len(target.classes))
    share = counts / max(counts.sum(), 1)
    if len(target.classes) == 2:
        balance = f'class "{target.classes[1]}": {percent(float(share[1]))}'
    else:
        balance = f"{percent(float(share.min(initial=1)))} to {percent(float(share.max(initial=0)))} each"
    text = f"{name}{each}: {counted(len(target.classes), 'class')} ({balance})"
    return text, dict(zip(target.classes, counts.tolist(), strict=True))


def _in_words(gap: float, clock: Clock) -> str:
    """Formats a calendar gap such as "47 min", otherwise the number with its unit, if any."""
    if not clock.dates and not clock.format:
        named = clock.unit[0].isalpha() or " " in clock.unit
        return (
            f"{gap:.3g} {clock.unit if f'{gap:.3g}' == '1' else clock.unit_text()}"
            if named
            else f"{gap * clock.scale:.3g}"
        )
    seconds = gap * clock.scale
    short = {"year": "years", "week": "weeks", "day": "days", "hour": "h", "minute": "min", "second": "s"}
    short |= {"millisecond": "ms", "microsecond": "µs", "nanosecond": "ns"}
    name = next((name for name in short if seconds >= SECONDS[name]), "nanosecond")
    count = f"{seconds / SECONDS[name]:.3g}"
    return f"{count} {name if count == '1' and short[name].startswith(name) else short[name]}"


Ranges = tuple[tuple[float, ...], ...]

_LEADING_ZEROS = re.compile(r"(?<![\d.,])0+(?=\d)")
_FEWEST_VALUES = 5
_ROUNDING = 1e-5
_FEWEST_SERIES = 10
_LIKE_AN_ID = 0.8
_MOST_EXAMPLES = 2


def remarks(s: Sequences) -> tuple[str, ...]:
    """Returns notes on ids, labels and columns of the series of training.

    Example:
        >>> from chronode.data import from_list
        >>> s = from_list([[[1.0, 1.0], [2.0, 2.0]]] * 4, target=["ill", "Ill", "well", "well"], channels=["a", "b"])
        >>> for note in remarks(s):
        ...     print(note.partition(":")[0])
        labels of 'target' differ only by case
        equal columns
    """
    return (*_on_ids(s.sample), *_on_labels(s), *_on_columns(s.sample))


# ---- ids and labels --------------------------------------------------------------------------------------


def canonical(text: str) -> str:
    """Returns an id without what people rarely mean as a difference: case, Unicode form, invisible characters,
    leading zeros and spaces.

    Example:
        >>> canonical("Ｐ007\u200b ") == canonical("p7")
        True
    """
    plain = unicodedata.normalize("NFKC", text).casefold()
    plain = plain if plain.isascii() else "".join(c for c in plain if unicodedata.category(c) != "Cf")
    return _LEADING_ZEROS.sub("", plain.strip())


def alike(texts: Iterable[str]) -> list[list[str]]:
    """Returns groups of different texts that are the same to a person.

    Example:
        >>> alike(["p1", "P1", "p01", "p2"])
        [['P1', 'p01', 'p1']]
    """
    groups: dict[str, set[str]] = defaultdict(set)
    for text in texts:
        groups[canonical(text)].add(text)
    return [sorted(group) for group in groups.values() if len(group) > 1]


def _on_ids(s: Sequences) -> list[str]:
    if s.ids.dtype.kind != "U":
        return []
    groups = dict(zip(s.ids.tolist(), s.groups.tolist(), strict=True))
    twins = [same for same in alike(groups) if len({groups[name] for name in same}) > 1]
    if not twins:
        return []
    examples = ", ".join(" and ".join(map(ascii, same[:2])) for same in twins[:_MOST_EXAMPLES])
    return [
        f"{counted(sum(map(len, twins)), 'id')} differ only by case, Unicode form, invisible characters or leading "
        f"zeros ({examples}) and count as different series, which may be in training and in test: correct them, or "
        f"name a column that is the same for both with {named('group', ...)}"
    ]


def _on_labels(s: Sequences) -> list[str]:
    target = s.target
    if target is not None and target.levels:
        return [note for part in s.by_target for note in _on_labels(part)]
    if target is None or target.classes is None:
        return []
    notes, name = [], target.names[0]
    by_case = [same for same in alike(target.classes) if len({text.strip().casefold() for text in same}) == 1]
    if by_case:
        examples = ", ".join(" and ".join(map(repr, same[:2])) for same in by_case[:_MOST_EXAMPLES])
        notes.append(f"labels of {name!r} differ only by case: {examples}. They are different classes: correct them.")
    labeled = int(target.known.sum())
    if not target.per_step and labeled >= _FEWEST_SERIES and len(target.classes) >= _LIKE_AN_ID * labeled:
        notes.append(
            f"the target {name!r} has {len(target.classes):,} classes for {counted(labeled, 'series')}: it looks like "
            f"an id. Pass another {named('target', ...)}, or {named('kind', 'value')} if it is a number."
        )
    return notes


# ---- columns ---------------------------------------------------------------------------------------------


def _on_columns(s: Sequences) -> list[str]:
    if s.base_values.dtype.kind != "f" or not len(s):
        return []
    columns = dict(zip(s.channels, s.values.T, strict=True))
    if s.static is not None:
        columns |= dict(zip(s.static_names, np.repeat(s.static, s.lengths, axis=0).T, strict=True))
    columns = {name: column for name, column in columns.items() if _changes(column)}
    notes, target = [], s.target
    same = [] if target is None else [name for name in columns if _is_target(columns[name], s)]
    if same and target is not None:
        notes.append(
            f"the target {target.names[0]!r} can be read off {listed(same)}, which has one value for each of its "
            f"values: leave it out with {named('ignore', same[0])}, unless it is known before the target."
        )
    twins: dict[bytes, list[str]] = defaultdict(list)
    for name, column in columns.items():
        twins[hashlib.sha256(np.nan_to_num(column, nan=np.inf).data).digest()].append(name)
    pairs = [names for names in twins.values() if len(names) > 1]
    if pairs:
        examples = "; ".join(listed(names, 4) for names in pairs[:_MOST_EXAMPLES])
        notes.append(f"equal columns: {examples}. All but one of them can be left out with {named('ignore', ...)}")
    return notes


def _changes(column: NDArray[Any]) -> bool:
    return bool(np.fmin.reduce(column) < np.fmax.reduce(column))


def _is_target(column: NDArray[Any], s: Sequences) -> bool:
    """Returns whether a column has the values of the target, or a value of its own for each class."""
    target = s.target
    assert target is not None
    if len(target.names) > 1:
        return False
    targets = target.values if target.classes is not None else target.given[:, 0]
    has_target = target.known[s.steps] if target.per_step else np.repeat(target.known, s.lengths)
    rows = targets[s.steps] if target.per_step else np.repeat(targets, s.lengths)
    has_both = has_target & ~np.isnan(column)
    column, rows = column[has_both], rows[has_both]
    if int(target.known.sum()) < _FEWEST_SERIES or not len(column):
        return False
    if target.classes is None:
        return bool(np.array_equal(column, rows.astype(column.dtype)) and _changes(column))
    classes, first = np.unique(rows, return_index=True)
    if len(classes) < 2 or int(target.known.sum()) < 3 * len(classes):
        return False
    values = column[first]
    return len(np.unique(values)) == len(classes) and bool((values[np.searchsorted(classes, rows)] == column).all())


# ---- ranges ----------------------------------------------------------------------------------------------


def ranges_of(train: Sequences) -> Ranges:
    """Returns the range of nearly all values (0.5 to 99.5%) of each channel; () for a channel without values.

    Example:
        >>> from chronode.data import from_list
        >>> ranges_of(from_list([[60.0, 70.0, 80.0]]))
        ((60.0, 80.0),)
    """
    if train.base_values.dtype.kind != "f":
        return ()
    ranges = []
    for column in train.sample.compact().base_values.T:
        low, high = bounds(column) or (float(np.fmin.reduce(column)), float(np.fmax.reduce(column)))
        ranges.append(() if np.isnan(low) else (low, high))
    return tuple(ranges)


def notes_on_ranges(s: Sequences, ranges: Ranges) -> list[str]:
    """Returns a note on the channels of which most values lie outside the range of training.

    Example:
        >>> from chronode.data import from_list
        >>> notes_on_ranges(from_list([[1.1, 1.2, 1.3, 1.1, 1.2]], channels=["pulse"]), ((60.0, 80.0),))[0][:52]
        'most values are outside the range of training: pulse'
    """
    if not ranges or s.base_values.dtype.kind != "f":
        return []
    return outside(s.channels, [column[~np.isnan(column)] for column in s.sample.values.T], ranges)


def outside(channels: Sequence[str], columns: Sequence[NDArray[Any]], ranges: Sequence[tuple[float, ...]]) -> list[str]:
    """Returns a note on the columns (of known values) of which most lie outside their range."""
    remarks = []
    for name, values, ends in zip(channels, columns, ranges, strict=True):
        if len(values) < _FEWEST_VALUES or not ends:
            continue
        slack = _ROUNDING * max(map(abs, ends))  # of values that were scaled and scaled back in float32
        beyond = float(((values < ends[0] - slack) | (values > ends[1] + slack)).mean())
        if beyond > 0.5:
            here = f"{np.quantile(values, 0.05):.3g} to {np.quantile(values, 0.95):.3g}"
            remarks.append(f"{name} ({100 * beyond:.0f}%: {here} here, {ends[0]:.3g} to {ends[1]:.3g} in training)")
    if not remarks:
        return []
    more = f"; ... ({len(remarks)} channels)" if len(remarks) > 5 else ""
    return [f"most values are outside the range of training: {'; '.join(remarks[:5])}{more}. Another unit?"]
