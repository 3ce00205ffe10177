"""Hourly traffic on a highway between Minneapolis and St Paul, from weather and calendar: a task of the LTC paper."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...data import Parts, Scaler, Sequences, from_list
from ..datasets._download import folder
from ._parts import add, blocks, located, range_windows, scaled, shuffled
from ._text_files import Kind, held, read_table

FILE = "Metro_Interstate_Traffic_Volume.csv"
COLUMNS: dict[str, Kind] = {
    "holiday": "text",
    "temp": "number",
    "rain_1h": "number",
    "snow_1h": "number",
    "clouds_all": "number",
    "weather_main": "text",
    "weather_description": "text",
    "date_time": "date",
    "traffic_volume": "number",
}
FEATURES = ("holiday", "temp", "rain", "snow", "clouds", "weekday", "noon")
LENGTH, STRIDE = 32, 4
LONGEST_GAP = 24
"""Hours without a row after which a new series begins; there is a gap of ten months in the data."""
MOST_RAIN = 1000
"""Millimeters per hour, three times the record: more is an error of the gauge (one row has 9831.3)."""


def read(path: Path) -> Sequences:
    """Reads the hours as series without long gaps, with times in hours.

    Impossible readings (0 kelvin, extreme rain) are replaced by those of the previous row.
    """
    file = located(path, FILE)
    table = read_table(file, COLUMNS)
    table["temp"] = held(np.where(table["temp"] == 0, np.nan, table["temp"]))
    table["rain_1h"] = held(np.where(table["rain_1h"] > MOST_RAIN, np.nan, table["rain_1h"]))
    hours = table["date_time"]
    if (np.diff(hours) < np.timedelta64(0)).any():
        row = int(np.flatnonzero(np.diff(hours) < np.timedelta64(0))[0])
        raise ValueError(f"{file}, line {row + 3:,}: {hours[row + 1]} is before the previous row.")
    cuts = np.flatnonzero(np.diff(hours) > np.timedelta64(LONGEST_GAP, "h")) + 1
    pieces = np.split(np.arange(len(hours)), cuts)
    features, volume = _features(table, table["holiday"] != "None"), table["traffic_volume"]
    return from_list(
        [features[piece] for piece in pieces],
        times=[hours[piece] for piece in pieces],
        unit="hours",
        target=[volume[piece] for piece in pieces],
        per_step=True,
        target_names=["traffic_volume"],
        channels=FEATURES,
        ids=[f"from {hours[piece[0]]}" for piece in pieces],
    )


def read_as_authors(path: Path) -> Sequences:
    """Reads all rows as one series without times; `holiday` is always 0, because the authors' code compares it with
    None.
    """
    table = read_table(located(path, FILE), COLUMNS)
    features = _features(table, np.zeros(len(table["holiday"])))
    options = {"target_names": ["traffic_volume"], "channels": FEATURES, "ids": ["traffic"]}
    return from_list([features], target=[table["traffic_volume"]], **options)


def _features(table: dict[str, NDArray[Any]], holiday: NDArray[Any]) -> NDArray[np.float64]:
    hours = table["date_time"].astype("datetime64[h]").astype(np.int64)
    weekday = (hours // 24 + 3) % 7  # 1970-01-01 was a Thursday; Monday is 0
    noon = np.sin(np.pi * (hours % 24) / 24)
    weather = [table[name] for name in ("temp", "rain_1h", "snow_1h", "clouds_all")]
    return np.stack([holiday, *weather, weekday, noon], axis=1).astype(np.float64)


def _make(protocol: str, seed: int) -> Parts:
    path = folder("traffic")
    if protocol == "clean":
        train, valid, test = blocks(read(path), LENGTH, (STRIDE,) * 3)
        return scaled(train, valid, test)
    hours = read_as_authors(path)
    centered = Scaler.fit(hours, skip=set(FEATURES) - {"temp"})
    scaler = replace(centered, std=(1.0,) * len(FEATURES))
    return scaled(*shuffled(range_windows(hours, LENGTH, STRIDE), 23489), scaler)


add("traffic", _make)
