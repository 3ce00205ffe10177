"""A folder to call the command line in, for the tests of training."""

from commands import write_vitals


def work_folder(tmp_path, monkeypatch):
    """An empty folder, which is the current one."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def vitals_file(here):
    """A file of patients in it."""
    return write_vitals(here / "vitals.csv")
