"""The command line."""

from __future__ import annotations

# Import nothing else here: until `main` runs, Ctrl-C prints a traceback.
import errno
import os
import signal
import sys
import threading

from .._version import __version__
from ..system import process

NOT_DONE = 1
"""Exit code of commands that started but did not finish: an error, a full disk, no memory, Ctrl-C."""
MISTAKE = 2
"""Exit code of commands that could not start: a wrong option, setting or file."""
_CTRL_C = 130  # used by Typer
_NOT_WRITTEN = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EPIPE, errno.EBADF)


def main() -> None:
    """Runs `chronode`; an error prints one line and sets an exit code (see docs/reliability.md)."""
    if sys.argv[1:] == ["--version"]:
        print(f"chronode {__version__}")
        return
    process.has_frames = "numpy" in sys.modules  # otherwise nothing but this command runs here
    process.let_threads_sleep()
    try:
        code, line = _run()
    except KeyboardInterrupt:
        code, line = NOT_DONE, "stopped"
    # From here on, Ctrl-C would replace the exit code or print a traceback while Python shuts down.
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    if line is not None:
        print(f"chronode: {line}", file=sys.stderr)
    sys.exit(code)


def _run() -> tuple[int | str | None, str | None]:
    """Runs the command; returns the exit code, and the error message if it is not printed yet."""
    try:
        _import_app()
        from ..settings import naming_options
        from .app import command

        try:
            with naming_options():
                command()()
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except SystemExit as end:
        return NOT_DONE if end.code == _CTRL_C else end.code, None
    except (ValueError, TypeError, ImportError, OSError, MemoryError) as error:
        if os.environ.get("CHRONODE_DEBUG"):
            raise
        if isinstance(error, OSError) and error.errno in _NOT_WRITTEN and error.filename is None:
            return NOT_DONE, _lost_output(error)
        return _code(error), str(error) or "out of memory"
    return None, None


def _lost_output(error: OSError) -> str:
    """Returns the message for output that could not be written; what is left of it is dropped, because Python would
    try once more when it ends.
    """
    from contextlib import suppress

    with suppress(AttributeError, OSError, ValueError):  # closed, or not a file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return f"standard output: {error.strerror}: not everything was written"


def _import_app() -> None:
    """Imports torch and the commands. Ctrl-C ends the process at once, because an import may swallow a
    KeyboardInterrupt.
    """

    def end(number: int, frame: object) -> None:
        os.write(2, b"chronode: stopped\n")
        os._exit(NOT_DONE)

    try:
        before = signal.signal(signal.SIGINT, end)
    except ValueError:  # not in the main thread
        before = None
    try:
        from . import app
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        sys.exit(f"the command line needs {error.name}: pip install 'chronode[train]'")
    finally:
        if before is not None:
            signal.signal(signal.SIGINT, before)


def _code(error: Exception) -> int:
    from ..storage import DiskFull

    return NOT_DONE if isinstance(error, (DiskFull, MemoryError)) else MISTAKE
