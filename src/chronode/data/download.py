"""Placeholder until the downloader is written: the mirror folder only."""

from __future__ import annotations

import os
from pathlib import Path


def folder(name: str) -> Path:
    """The folder with the publisher's own files of the data set `name`."""
    return Path(os.environ["CHRONODE_DATA_MIRROR"]) / name
