"""Python processes of their own, for what may crash or is limited for the rest of a process's life."""

import os
import subprocess
import sys
from pathlib import Path

UNDER_ASAN = "libasan" in os.environ.get("LD_PRELOAD", "")


def in_child(code, timeout=300, **environment):
    """Runs Python code that may import what is next to this file; its standard output."""
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    environment = {**os.environ, "PYTHONPATH": path, **environment}
    command = [sys.executable, "-X", "faulthandler", "-c", code]
    run = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=timeout)
    assert run.returncode == 0, f"exit code {run.returncode}\n{run.stdout[-2000:]}\n{run.stderr[-4000:]}"
    return run.stdout
