"""The command line."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .._version import __version__

NOT_DONE = 1
"""Exit code of what was begun and did not end: a fault, a full disk, no memory, Ctrl-C."""
MISTAKE = 2
"""Exit code of what could not be begun: a wrong option, setting or file."""
_CTRL_C = 130  # what Typer gives


def main() -> None:
    """Runs `chronode`; an error ends with one line and an exit code of docs/reliability.md."""
    if sys.argv[1:] == ["--version"]:
        print(f"chronode {__version__}")
        return
    try:
        with _ending_at_ctrl_c():
            app = _app()
        app()
    except SystemExit as end:
        sys.exit(NOT_DONE if end.code == _CTRL_C else end.code)
    except KeyboardInterrupt:
        _end("stopped", NOT_DONE)
    except (ValueError, TypeError, ImportError, OSError, MemoryError) as error:
        if os.environ.get("CHRONODE_DEBUG"):
            raise
        _end(str(error) or "out of memory", _code(error))


def _app() -> Any:
    """The commands; torch and much else is imported here."""
    try:
        from .app import app
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        sys.exit(f"the command line needs {error.name}: pip install 'chronode[train]'")
    return app


def _code(error: Exception) -> int:
    from .._files import DiskFull

    return NOT_DONE if isinstance(error, (DiskFull, MemoryError)) else MISTAKE


def _end(line: str, code: int) -> None:
    print(f"chronode: {line}", file=sys.stderr)
    sys.exit(code)


@contextmanager
def _ending_at_ctrl_c() -> Iterator[None]:
    """While modules are imported, Ctrl-C ends the process at once: an import may swallow a KeyboardInterrupt."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, frame: object) -> None:
        os.write(2, b"chronode: stopped\n")
        os._exit(NOT_DONE)

    before = signal.signal(signal.SIGINT, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
