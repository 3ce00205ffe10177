"""A folder to call the command line in, for the tests of training."""

import shutil
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from commands import QUICK, VITALS, chronode, write_vitals


def work_folder(tmp_path, monkeypatch):
    """An empty folder, which is the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def vitals_file(here):
    """A file of patients in it."""
    return write_vitals(here / "vitals.csv")


def copy_run(folder):
    """A copy of a finished run on that file, for tests that do not continue its training."""
    shutil.copytree(Path(_finished_run().name, "run"), folder)


@cache
def _finished_run():
    folder = TemporaryDirectory(prefix="chronode-run-")  # until the end of the process
    here = Path(folder.name)
    chronode("train", write_vitals(here / "vitals.csv"), *VITALS, *QUICK, "--epochs", 1, "-o", here / "run")
    return folder
