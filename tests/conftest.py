"""Fixtures and settings of all tests."""

import importlib.util
import os
import sys
import tempfile
from pathlib import Path

import torch
from hypothesis import HealthCheck, settings

# Tests are of the checkout that they are in, and so are the processes that they start, also if another checkout is
# installed as editable (a worktree that uses the environment of another one).
_SOURCE, _CUSTOM = Path(__file__).parents[1] / "src", Path(__file__).parent / "this_checkout"
_INSTALLED = importlib.util.find_spec("chronode")
if _INSTALLED is None or not Path(_INSTALLED.origin or "").is_relative_to(_SOURCE):
    sys.path[:0] = [str(_CUSTOM), str(_SOURCE)]
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path[:2])
    importlib.import_module("sitecustomize")

# Tests run two processes on two cores; more threads in each would only wait for one another.
torch.set_num_threads(1)

# A busy machine may take any time for an example.
settings.register_profile("any-machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any-machine")

# Steps compiled in tests: built with little optimization, once for all processes and runs, in a folder of this user.
os.environ.setdefault("CHRONODE_CACHE", str(Path(tempfile.gettempdir()) / f"chronode-tests-{os.getuid()}"))
os.environ.setdefault("CHRONODE_CXXFLAGS", "-O1")
os.environ.setdefault("CHRONODE_COMPILE", "off")  # tests compare paths: none may change by itself
