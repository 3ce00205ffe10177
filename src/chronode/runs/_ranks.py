"""Further processes of a run on several devices, which Lightning starts with the command of the first.

They train along in the folder of the first process, which alone creates it, saves, tests and reports.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_FOLDER = "CHRONODE_RUN_OF_RANK_0"
_LEFT = ("LOCAL_RANK", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT")  # set by Lightning, and not removed


@contextmanager
def leading(folder: Path, devices: int) -> Iterator[None]:
    """Processes that are started in the block belong to the run in `folder`."""
    if devices == 1:
        yield
        return
    before = dict(os.environ)
    os.environ[_FOLDER] = str(folder.resolve())
    try:
        yield
    finally:
        for name in (_FOLDER, *_LEFT):
            if name not in before:
                os.environ.pop(name, None)


def followed() -> Path | None:
    """Returns the run folder of the process that started this one, or None in a first process.

    Example:
        >>> followed() is None
        True
    """
    folder = os.environ.get(_FOLDER)
    return Path(folder) if folder and os.environ.get("LOCAL_RANK", "0") != "0" else None
