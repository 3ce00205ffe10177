"""Environment of a run: versions, machine and kernels, without personal data."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from .._version import __version__
from ..kernels import chosen, library
from ..system import cpu_model, plugins

# Results may differ in the last bit if one of these differs.
_DECIDES_NUMBERS = (
    "chronode",
    "commit",
    "changed",
    "torch",
    "numpy",
    "cpu",
    "threads",
    "kernels",
    "backend",
)


def environment() -> dict[str, Any]:
    """Returns versions, commit, machine, threads and kernels as plain data.

    Example:
        >>> found = environment()
        >>> found["threads"] == torch.get_num_threads()
        True
    """
    commit, changed = _commit()
    return {
        "started": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "chronode": __version__,
        "commit": commit,
        "changed": changed,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": _version("numpy"),
        "os": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "kernels": _kernels(),
        "backend": chosen(),
        **({"plugins": ", ".join(plugins())} if plugins() else {}),
    }


def differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Lists the changes between two environments that may change the results.

    Example:
        >>> differences({"torch": "2.6.0", "threads": 2}, {"torch": "2.7.0", "threads": 2})
        ['torch was 2.6.0, now 2.7.0']
    """
    return [
        f"{name} was {before.get(name)}, now {now.get(name)}"
        for name in _DECIDES_NUMBERS
        if before.get(name) != now.get(name)
    ]


def _kernels() -> str:
    """Returns the instruction set of the native kernels, or "none"."""
    loaded = library()
    return "none" if loaded is None else loaded.chronode_isa().decode()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _commit() -> tuple[str | None, bool | None]:
    """Returns the commit of the source and whether tracked files differ from it; None outside a checkout."""
    # An installed chronode may be inside the checkout of another project, whose commit is irrelevant.
    if not _git("ls-files", "_version.py"):
        return None, None
    changes = _git("status", "--porcelain", "--untracked-files=no", "--", ".")
    return _git("rev-parse", "HEAD"), None if changes is None else bool(changes)


def _git(*words: str) -> str | None:
    """Runs git in the source folder; None if that fails."""
    # Without optional locks, it does not interfere with a concurrent commit.
    command = ["git", "--no-optional-locks", "-C", str(Path(__file__).parents[1]), *words]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
