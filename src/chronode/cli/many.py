"""Shared code of commands with many runs: their folder and their command line."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from ..storage import check_text


def folder_for(command: str, source: str, output: Path | None, *more: str) -> Path:
    """Returns the folder named by the user, or runs/COMMAND-NAME-MORE.

    Example:
        >>> print(folder_for("sweep", "data/vitals.csv.gz", None, "ltc"))
        runs/sweep-vitals-ltc
    """
    if output is not None:
        return check_text(output, "--output")
    return Path("runs") / "-".join([command, Path(source).name.split(".")[0], *more])


def this_command() -> str:
    """Returns the command line of this process, as it can be typed again."""
    return shlex.join(["chronode", *sys.argv[1:]])
