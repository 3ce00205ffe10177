"""The command line, as tests run it."""

import contextlib
import io
import os
import subprocess
import sys
from unittest import mock

from chronode.cli import main


def run(*arguments, code=0, **environment):
    """The command line in this process, or in one of its own if it needs another environment."""
    done = _in_a_process(arguments, environment) if environment else _here(arguments)
    assert done.returncode == code, done.stderr or done.stdout
    return done


def _here(arguments):
    out, err, code = io.StringIO(), io.StringIO(), 0
    with (
        mock.patch.object(sys, "argv", ["chronode", *arguments]),
        mock.patch.dict(os.environ, {"COLUMNS": "120"}),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


def _in_a_process(arguments, environment):
    command = [sys.executable, "-c", "from chronode.cli import main; main()", *arguments]
    environment = {**os.environ, "COLUMNS": "120", "OMP_NUM_THREADS": "1", **environment}
    return subprocess.run(command, capture_output=True, text=True, env=environment)
