"""A run folder for the tests of runs."""

from chronode.runs._folder import Run


def new_run(tmp_path):
    """A run in which nothing has happened yet."""
    return Run.create(tmp_path / "run", {"model": "mmrnn"})
