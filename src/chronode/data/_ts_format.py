"""The .ts files of the UEA, UCR and TSER archives: a header of @ lines, then a line per series."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..storage import replacing
from ._arrays import from_list
from ._channel_rows import from_channel_rows
from ._names import listed
from ._sequences import Sequences
from ._target import UNKNOWN, names_of

_BETWEEN = re.compile(r":(?![^()]*\))")  # a colon outside brackets, because times contain colons too
_READING = re.compile(r"\(([^(),]+),([^(),]+)\)")


@dataclass
class _Content:
    """Content of a .ts file; `where` holds the line number of each series."""

    timestamps: bool = False
    dimensions: int | None = None
    label: str = ""
    classes: list[str] = field(default_factory=list)
    cases: list[list[str]] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    where: list[str] = field(default_factory=list)


def read_ts(
    path: str | Path, *, classes: Sequence[str] | None = None, channels: Sequence[str] | None = None, **options: Any
) -> Sequences:
    r"""Reads a .ts file as Sequences: equal or unequal lengths, '?' for missing values, with or without timestamps.

    With timestamps, a series has a step wherever one of its dimensions has a reading.

    Args:
        path: The file.
        classes: Names known from training; None: those of the header, or those that occur.
        channels: Names of the dimensions; x0, x1, ... by default.
        options: Unit, duplicates and dtype, as for `from_list`.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "a.ts"
        >>> _ = path.write_text("@univariate false\n@classLabel true up down\n@data\n1,2:5,?:up\n3:4:down\n")
        >>> s = read_ts(path)
        >>> s.lengths.tolist(), s.classes, s[0].values.tolist()
        ([2, 1], ('up', 'down'), [[1.0, 5.0], [2.0, nan]])
    """
    content = _parse(Path(path))
    names = names_of(channels, content.dimensions or 0)
    settings: dict[str, Any] = {"kind": "class" if content.label == "class" else "value"}
    if content.label == "class":
        settings["classes"] = classes or content.classes or None
    try:
        target = _target(content)
        if not content.timestamps:
            arrays = [_values(content, i) for i in range(len(content.cases))]
            return from_list(arrays, target=target, channels=names, **(settings if content.label else {}), **options)
        return _timed(content, names, target, settings | options)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _parse(path: Path) -> _Content:
    """Parses the header and the lines of the series, split at their colons."""
    content, begun = _Content(), False
    with path.open(encoding="utf-8", errors="replace") as file:
        for number, line in _content_lines(file):
            where = f"line {number:,}"
            if not begun:
                if not line.startswith("@"):
                    raise ValueError(f"{path}, {where}: a .ts file begins with @ lines, not {line[:40]!r}.")
                begun = _header(content, line.split(), f"{path}, {where}")
                continue
            parts = [part.strip() for part in (_BETWEEN.split(line) if content.timestamps else line.split(":"))]
            if content.label:
                content.labels.append(parts.pop())
            content.dimensions = content.dimensions or len(parts)
            if len(parts) != content.dimensions or not parts:
                content_text = f"{len(parts)} dimensions{' and a label' if content.label else ''}"
                raise ValueError(f"{path}, {where}: found {content_text}; expected {content.dimensions or 'some'}.")
            content.cases.append(parts)
            content.where.append(where)
    if not content.cases:
        raise ValueError(f"{path}: no series found{' after @data' if begun else ': the file has no @data line'}.")
    return content


def _content_lines(file: Any) -> Iterator[tuple[int, str]]:
    """Yields (line number, line) without comments and empty lines."""
    for number, line in enumerate(file, start=1):
        line = line.strip().lstrip("\ufeff")
        if line and not line.startswith(("#", "%")):
            yield number, line


def _header(content: _Content, words: list[str], where: str) -> bool:
    """Processes one @ line; returns True at @data."""
    tag, values = words[0].lower(), [word.strip() for word in words[1:]]
    yes = bool(values) and values[0].lower() == "true"
    if tag == "@data":
        return True
    if tag in ("@timestamps", "@classlabel", "@targetlabel") and (
        not values or values[0].lower() not in ("true", "false")
    ):
        raise ValueError(f"{where}: {words[0]} needs true or false.")
    if tag == "@timestamps":
        content.timestamps = yes
    elif tag == "@univariate" and yes:
        content.dimensions = 1
    elif tag in ("@dimensions", "@dimension"):
        if not values or not values[0].isdecimal() or not 1 <= len(values[0]) <= 6 or int(values[0]) < 1:
            raise ValueError(f"{where}: {words[0]} needs a number.")
        content.dimensions = int(values[0])
    elif tag == "@classlabel" and yes:
        content.label, content.classes = "class", values[1:]
    elif tag == "@targetlabel" and yes:
        content.label = "value"
    return False


def _target(content: _Content) -> NDArray[Any] | None:
    """Returns the labels or numbers of all series."""
    if not content.label:
        return None
    if content.label == "class":
        classes = set(content.classes)
        for where, label in zip(content.where, content.labels, strict=True):
            if classes and label not in classes and label != "?":
                raise ValueError(f"{where}: class {label!r} is not in the header: {listed(content.classes)}.")
        return np.array([None if label == "?" else label for label in content.labels], dtype=object)
    numbers = np.empty(len(content.labels))
    for i, (where, label) in enumerate(zip(content.where, content.labels, strict=True)):
        try:
            numbers[i] = np.nan if label == "?" else float(label)
        except ValueError:
            raise ValueError(f"{where}: the target {label[:40]!r} is not a number.") from None
    return numbers


def _values(content: _Content, i: int) -> NDArray[np.float64]:
    """Returns `(T, D)` of one series and releases its text."""
    parts, content.cases[i] = content.cases[i], []
    columns = [_numbers(part, f"{content.where[i]}, dimension {d + 1}") for d, part in enumerate(parts)]
    lengths = {len(column) for column in columns}
    if len(lengths) > 1:
        raise ValueError(f"{content.where[i]}: the dimensions have unequal lengths: {sorted(lengths)}.")
    return np.stack(columns, axis=1)


def _numbers(text: str, where: str) -> NDArray[np.float64]:
    """Parses comma-separated numbers; '?' is missing."""
    expected = text.count(",") + 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # older NumPy warns and stops at text that it cannot read
        try:
            numbers = np.fromstring(text.replace("?", "nan"), sep=",")
        except ValueError:
            numbers = np.empty(0)
    if len(numbers) == expected:
        return numbers
    for position, word in enumerate(text.split(","), start=1):
        try:
            float("nan" if word.strip() == "?" else word)
        except ValueError:
            raise ValueError(f"{where}, value {position:,}: {word[:40]!r} is not a number.") from None
    raise ValueError(f"{where}: expected {expected:,} comma-separated numbers.")


def _timed(content: _Content, names: Sequence[str], target: NDArray[Any] | None, options: dict[str, Any]) -> Sequences:
    """Creates series whose dimensions are lists of (time, value)."""
    columns: dict[str, list[Any]] = {"id": [], "time": [], "channel": [], "value": []}
    for i, (parts, where) in enumerate(zip(content.cases, content.where, strict=True)):
        matches = [_READING.findall(part) for part in parts]
        for d, (part, readings) in enumerate(zip(parts, matches, strict=True)):
            if _READING.sub("", part).replace(" ", "").strip(","):
                raise ValueError(f"{where}, dimension {d + 1}: expected (time,value),(time,value),... .")
            columns["id"] += [i] * len(readings)
            columns["time"] += [time.strip() for time, _ in readings]
            columns["channel"] += [names[d]] * len(readings)
            columns["value"] += [None if value.strip() == "?" else value.strip() for _, value in readings]
        if not any(matches):
            raise ValueError(f"{where}: the series has no observation.")
    roles = {"id": "id", "time": "time", "channel": "channel", "value": "value", "columns": names}
    goal = None if target is None else dict(enumerate(target.tolist()))
    return from_channel_rows(columns, target=goal, **roles, **(options if goal else {"kind": "auto", **options}))


def write_ts(s: Sequences, path: str | Path, *, name: str = "chronode") -> Path:
    """Writes series with at most one target each as a .ts file; times, if any, become timestamps."""
    path, target = Path(path), s.target
    if target is not None and (target.per_step or len(target.names) > 1):
        raise ValueError("a .ts file can only hold one target per series.")
    for label in s.classes or ():
        if re.search(r"[\s:,()?#@%]", label) or not label:
            raise ValueError(
                f"class {label!r} cannot be written to a .ts file: spaces, colons, commas and brackets are not allowed."
            )
    header = {"problemName": re.sub(r"\s+", "-", name), "timestamps": str(s.base_times is not None).lower()}
    header |= {"missing": str(s.has_missing).lower(), "univariate": str(s.num_channels == 1).lower()}
    header |= {"dimensions": str(s.num_channels), "equalLength": str(len(set(s.lengths.tolist())) <= 1).lower()}
    if target is not None and target.classes is not None:
        header["classLabel"] = " ".join(["true", *target.classes])
    else:
        header["targetlabel" if target is not None else "classLabel"] = str(target is not None).lower()
    with replacing(path) as draft, draft.open("w", encoding="utf-8") as file:
        file.writelines(f"@{tag} {value}\n" for tag, value in header.items())
        file.write("@data\n")
        for series in s:
            cells = np.where(np.isnan(series.values), "?", series.values.astype(str)).T
            if s.base_times is not None:
                stamps = series.times.astype(str)
                cells = [[f"({t},{v})" for t, v in zip(stamps, column, strict=True)] for column in cells]
            parts = [",".join(column) for column in cells]
            file.write(":".join(parts + ([] if target is None else [_label(series.target, s.classes)])) + "\n")
    return path


def _label(value: Any, classes: tuple[str, ...] | None) -> str:
    if classes is None:
        return "?" if np.isnan(value[0]) else str(value[0])
    return "?" if value == UNKNOWN else classes[int(value)]
