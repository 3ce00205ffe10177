"""The environment that a run was made in: what is reported of it, and what of it counts."""

import getpass
import json
import platform
import subprocess
from pathlib import Path

import torch

import chronode
from chronode.runs._environment import differences, environment


def test_the_environment_tells_versions_and_not_who_or_where():
    found = environment()
    assert found["torch"] == torch.__version__ and found["python"] == platform.python_version()
    assert found["threads"] == torch.get_num_threads() and found["cores"] >= 1
    assert found["started"].endswith("+00:00")
    text = json.dumps(found)
    assert platform.node() not in text and str(Path.home()) + "/" not in text
    assert getpass.getuser() not in text.lower().replace(" ", "").split('"')


def test_the_commit_is_that_of_the_checkout_or_none():
    source = Path(chronode.__file__).parent
    asked = subprocess.run(["git", "-C", source, "log", "-1", "--format=%H"], capture_output=True, text=True)
    found = environment()
    assert found["commit"] == (asked.stdout.strip() or None)
    assert (found["changed"] is None) == (found["commit"] is None)


def test_a_chronode_inside_another_checkout_has_no_commit(tmp_path, monkeypatch):
    """As in a virtual environment within a user's own repository."""
    package = tmp_path / ".venv" / "chronode"
    (package / "training").mkdir(parents=True)
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    monkeypatch.setattr("chronode.runs._environment.__file__", str(package / "training" / "environment.py"))
    assert environment()["commit"] is None


def test_only_what_may_change_numbers_counts_as_a_difference():
    before = environment()
    now = {**before, "started": "later", "os": "other", "threads": before["threads"] + 1}
    assert differences(before, now) == [f"threads was {before['threads']}, now {before['threads'] + 1}"]
