"""Compiled kernels of the tests: built without optimisation, once for all processes and runs."""

import os
import tempfile
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def shared_cache(monkeypatch):
    """A cache that only this user can write to; what a test builds, the next finds."""
    monkeypatch.setenv("CHRONODE_CACHE", str(Path(tempfile.gettempdir()) / f"chronode-tests-{os.getuid()}"))
    monkeypatch.setenv("CHRONODE_CXXFLAGS", "-O1")
