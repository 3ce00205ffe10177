"""PhysioNet/CinC Challenge 2012 (Silva et al. 2012): in-hospital mortality of intensive care patients."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...data import Parts, Sequences, concat, from_list, split
from ..datasets._download import folder
from ._parts import add, located, scaled
from ._text_files import read_table

VARIABLES = (
    *("Albumin", "ALP", "ALT", "AST", "Bilirubin", "BUN", "Cholesterol", "Creatinine", "DiasABP", "FiO2", "GCS"),
    *("Glucose", "HCO3", "HCT", "HR", "K", "Lactate", "Mg", "MAP", "MechVent", "Na", "NIDiasABP", "NIMAP", "NISysABP"),
    *("PaCO2", "PaO2", "pH", "Platelets", "RespRate", "SaO2", "SysABP", "Temp", "TroponinI", "TroponinT", "Urine"),
    *("WBC", "Weight"),
)
DESCRIPTORS = ("Age", "Gender", "Height")
UNITS = ("coronary care", "cardiac surgery recovery", "medical", "surgical")
CHANNELS = (*VARIABLES, *DESCRIPTORS, *(f"ICU: {unit}" for unit in UNITS))
SKEWED = (
    *("ALP", "ALT", "AST", "Bilirubin", "BUN", "Creatinine", "Glucose", "Lactate", "Platelets", "TroponinI"),
    *("TroponinT", "Urine", "WBC"),
)
"""Variables that are used as log(1 + value), because a few patients have a hundred times the typical value."""
CLASSES = ("survived", "died")
HOURS = 48
UNIT = 8.0
_OUTCOMES = ("RecordID", "SAPS-I", "SOFA", "Length_of_stay", "Survival", "In-hospital_death")
_HEADER = b"Time,Parameter,Value"
_TAILS = (0.001, 0.999)


def read(path: Path, name: str) -> Sequences:
    """Reads the 4,000 stays of a set: a step for each minute with a reading, in the order of the outcomes file.

    All 37 variables are channels, and so are the descriptors, which are only observed at the first step. -1 means an
    unknown value in the files; no variable can be negative. Times are in units of 8 hours, so that the time since a
    variable was read, which many networks have as an input, has the scale of their other inputs. (In hours, an LSTM
    with dt reached a validation AUROC of 0.75 instead of 0.83.)

    Args:
        path: Folder with Outcomes-a.txt, set-a and the other sets.
        name: "a", "b" or "c".
    """
    top = located(path, f"Outcomes-{name}.txt").parent
    outcomes = read_table(top / f"Outcomes-{name}.txt", dict.fromkeys(_OUTCOMES, "whole"))
    stays = outcomes["RecordID"]
    files = [top / f"set-{name}" / f"{stay}.txt" for stay in stays.tolist()]
    series, times = _series(files)
    return from_list(
        series,
        times=times,
        unit=UNIT,
        target=outcomes["In-hospital_death"],
        classes=CLASSES,
        target_names=["outcome"],
        ids=stays,
        channels=CHANNELS,
    )


def _series(files: list[Path]) -> tuple[list[NDArray[np.float32]], list[NDArray[np.float64]]]:
    """Returns values `(steps, channels)`, NaN where nothing was read, and hours `(steps,)` of each file."""
    contents = [_content(file) for file in files]
    counts = np.array([content.count(b"\n") for content in contents])
    rows = _rows(b"".join(contents), files, contents)
    stay = np.repeat(np.arange(len(files)), counts)[rows["known"]]
    channel, minute = rows["channel"][rows["known"]], rows["minute"][rows["known"]]
    steps, at = np.unique(stay * (60 * HOURS + 1) + minute, return_inverse=True)
    values = np.full((len(steps), len(CHANNELS)), np.nan, dtype=np.float32)
    values[at, channel] = rows["value"][rows["known"]]  # the last of several readings in the same minute counts
    units = values[:, -len(UNITS) :]
    units[np.isnan(units) & ~np.isnan(units).all(1, keepdims=True)] = (
        0  # the patient is in one of the units, so in no other
    )
    whose, hours = steps // (60 * HOURS + 1), steps % (60 * HOURS + 1) / 60
    cuts = np.searchsorted(whose, np.arange(1, len(files)))
    return np.split(values, cuts), np.split(hours, cuts)


def _content(file: Path) -> bytes:
    """Returns the lines of a stay without the header and empty lines, each with a line break."""
    try:
        header, _, lines = file.read_bytes().replace(b"\r\n", b"\n").partition(b"\n")
    except OSError as error:
        raise ValueError(f"{file}: this file cannot be read: {error}.") from error
    if header.strip() != _HEADER or not lines.strip():
        raise ValueError(f"{file}, line 1: expected {_HEADER.decode()!r} followed by readings.")
    while b"\n\n" in lines:
        lines = lines.replace(b"\n\n", b"\n")
    return lines.strip(b"\n") + b"\n"


def _rows(joined: bytes, files: list[Path], contents: list[bytes]) -> dict[str, NDArray[Any]]:
    """Parses all readings at once, or file by file after an error, so that the message names the file."""
    try:
        return _parsed(joined, files[0])
    except ValueError:
        for file, content in zip(files, contents, strict=True):
            _parsed(_HEADER + b"\n" + content, file, header=True)
        raise


def _parsed(lines: bytes, file: Path, *, header: bool = False) -> dict[str, NDArray[Any]]:
    """Returns channel, minute and value of each reading, and which of them are known."""
    # Some lines have no parameter name; what they measure is unknown.
    parameters = ("", "RecordID", "ICUType", *VARIABLES, *DESCRIPTORS)
    columns = {"Time": "text", "Parameter": parameters, "Value": "number"}
    table = read_table(file, columns, content=lines, header=header)
    what, value = table["Parameter"], table["Value"]
    minute = _minutes(table["Time"], file, header)
    channel = what - 3  # in VARIABLES and DESCRIPTORS; each intensive care unit has a channel of its own
    is_unit = what == 2
    wrong = np.flatnonzero(is_unit & ~np.isin(value, np.arange(1, len(UNITS) + 1)))
    if len(wrong):
        line = int(wrong[0]) + 1 + header
        raise ValueError(f"{file}, line {line:,}: ICUType is {value[wrong[0]]:g}, expected 1 to {len(UNITS)}.")
    channel = np.where(is_unit, len(VARIABLES) + len(DESCRIPTORS) - 1 + value.astype(np.int64), channel)
    value = np.where(is_unit, 1.0, value)
    return {"channel": channel, "minute": minute, "value": value, "known": (channel >= 0) & (value >= 0)}


def _minutes(times: NDArray[Any], file: Path, header: bool) -> NDArray[np.int64]:
    """Converts texts such as 07:30 to minutes since admission."""
    text = times.astype("S6")
    digits = text.view("S1").reshape(len(text), 6)
    codes = digits.view(np.uint8).reshape(len(text), 6).astype(np.int64) - ord("0")
    shaped = (digits[:, 2] == b":") & (digits[:, 5] == b"") & ((codes[:, [0, 1, 3, 4]] // 10) == 0).all(1)
    minutes = codes[:, :5] @ np.array([600, 60, 0, 10, 1])
    wrong = np.flatnonzero(~shaped | (codes[:, 3] > 5) | (minutes > 60 * HOURS))
    if len(wrong):
        line = int(wrong[0]) + 1 + header
        raise ValueError(f"{file}, line {line:,}: {times[wrong[0]][:20]!r} is not a time from 00:00 to {HOURS}:00.")
    return minutes


def bounded(train: Sequences, *others: Sequences) -> list[Sequences]:
    """Takes logarithms of skewed variables, then clips every value to the range of nearly all training readings.

    The bounds are the 0.1% and 99.9% quantiles of the training part: a temperature of -17 degrees or a pH of 735 is
    a typing error.
    """
    skewed = np.isin(CHANNELS, SKEWED)
    parts = [
        replace(part, base_values=np.where(skewed, np.log1p(part.base_values), part.base_values))
        for part in (train, *others)
    ]
    values = parts[0].compact().base_values
    observed = ~np.isnan(values).all(0)
    bounds = np.array([[-np.inf], [np.inf]]).repeat(len(CHANNELS), axis=1)
    bounds[:, observed] = np.nanquantile(values[:, observed], _TAILS, axis=0)
    return [replace(part, base_values=np.clip(part.base_values, *bounds).astype(np.float32)) for part in parts]


def _make(protocol: str, seed: int) -> Parts:
    path = folder("physionet2012")
    first = read(path, "a")
    if protocol == "clean":
        train, valid = split(first, (0.8, 0.2), by="series", seed=seed)
        test = concat(read(path, name) for name in "bc")
    else:
        train, valid, test = split(first, (0.64, 0.16, 0.2), by="series", seed=seed)
    train, valid, test = bounded(train, valid, test)
    return scaled(train, valid, test)


add("physionet-2012", _make)
