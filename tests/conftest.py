"""Fixtures and settings of all tests."""

import os
import tempfile
from pathlib import Path

import torch
from hypothesis import HealthCheck, settings

# Tests run two processes on two cores; more threads in each would only wait for one another.
torch.set_num_threads(1)

# A busy machine may take any time for an example.
settings.register_profile("any-machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any-machine")

# Steps compiled in tests: built with little optimization, once for all processes and runs, in a folder of this user.
os.environ.setdefault("CHRONODE_CACHE", str(Path(tempfile.gettempdir()) / f"chronode-tests-{os.getuid()}"))
os.environ.setdefault("CHRONODE_CXXFLAGS", "-O1")
