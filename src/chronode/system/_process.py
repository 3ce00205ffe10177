"""Start-up shortcuts for processes that only run a command."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

has_frames = True
"""Whether there may be frames of pandas. If not, as in a command, pyarrow need not look for them: it imports pandas,
which takes a quarter of a second, with the first Python value that it converts."""


WAIT_SETTINGS = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")
"""Environment variables that say how threads of OpenMP wait for work."""


def let_threads_sleep() -> None:
    """Lets threads of OpenMP sleep while they wait, in this process and those it starts, unless the user says how.

    OpenMP reads this when torch is imported. By default it waits busily for milliseconds: on a busy machine a training
    step then takes 20 times as much CPU time.
    """
    if "torch" not in sys.modules and not any(name in os.environ for name in WAIT_SETTINGS):
        os.environ["OMP_WAIT_POLICY"] = "passive"


class _Absent:
    """A finder of modules for which one is not installed (without its base class, which takes 14 ms to import)."""

    def __init__(self, name: str) -> None:
        self.name = name

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        if fullname == self.name:
            raise ModuleNotFoundError(f"no module named {fullname!r} is looked for here", name=fullname)


def import_without(name: str, call: Callable[[], object]) -> None:
    """Calls a function for which the module `name` is not installed, unless it is imported already."""
    absent = _Absent(name)
    sys.meta_path.insert(0, absent)  # pyrefly: ignore
    try:
        call()
    finally:
        sys.meta_path.remove(absent)  # pyrefly: ignore
