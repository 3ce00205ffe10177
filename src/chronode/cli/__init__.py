"""The command line."""

from __future__ import annotations

import os
import sys

from .._version import __version__

CTRL_C = 130
"""What the shell's custom gives; our codes are 0 (done), 1 (not done) and 2 (a mistake of the user's)."""


def main() -> None:
    """Runs `chronode`; a user's mistake ends with one line and exit code 2."""
    if sys.argv[1:] == ["--version"]:
        print(f"chronode {__version__}")
        return
    try:
        from .app import app
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        sys.exit(f"the command line needs {error.name}: pip install 'chronode[train]'")
    try:
        app()
    except SystemExit as end:
        sys.exit(1 if end.code == CTRL_C else end.code)
    except (ValueError, TypeError, ImportError, OSError) as error:
        if os.environ.get("CHRONODE_DEBUG"):
            raise
        print(f"chronode: {error}", file=sys.stderr)
        sys.exit(2)
