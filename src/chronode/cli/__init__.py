"""The command line."""

from __future__ import annotations

# Nothing else up here: until `main` runs, Ctrl-C prints a traceback.
import os
import signal
import sys

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
        _import_app()
        from .app import app

        app()
    except SystemExit as end:
        sys.exit(NOT_DONE if end.code == _CTRL_C else end.code)
    except KeyboardInterrupt:
        _end("stopped", NOT_DONE)
    except (ValueError, TypeError, ImportError, OSError, MemoryError) as error:
        if os.environ.get("CHRONODE_DEBUG"):
            raise
        _end(str(error) or "out of memory", _code(error))


def _import_app() -> None:
    """Imports torch and much else. Ctrl-C ends the process at once: an import may swallow a KeyboardInterrupt."""

    def end(number: int, frame: object) -> None:
        os.write(2, b"chronode: stopped\n")
        os._exit(NOT_DONE)

    try:
        before = signal.signal(signal.SIGINT, end)
    except ValueError:  # not in the main thread
        before = None
    try:
        from . import app  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        sys.exit(f"the command line needs {error.name}: pip install 'chronode[train]'")
    finally:
        if before is not None:
            signal.signal(signal.SIGINT, before)


def _code(error: Exception) -> int:
    from .._files import DiskFull

    return NOT_DONE if isinstance(error, (DiskFull, MemoryError)) else MISTAKE


def _end(line: str, code: int) -> None:
    print(f"chronode: {line}", file=sys.stderr)
    sys.exit(code)
