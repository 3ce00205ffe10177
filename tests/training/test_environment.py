"""The environment that a run was made in: what is told of it, and what of it counts."""

import getpass
import json
import platform
import subprocess
from pathlib import Path

import torch

import chronode
from chronode.runs._environment import differences, environment


def test_the_environment_tells_versions_and_not_who_or_where():
    told = environment()
    assert told["torch"] == torch.__version__ and told["python"] == platform.python_version()
    assert told["threads"] == torch.get_num_threads() and told["cores"] >= 1
    assert told["started"].endswith("+00:00")
    text = json.dumps(told)
    assert platform.node() not in text and str(Path.home()) + "/" not in text
    assert getpass.getuser() not in text.lower().replace(" ", "").split('"')


def test_the_commit_is_that_of_the_checkout_or_none():
    source = Path(chronode.__file__).parent
    asked = subprocess.run(["git", "-C", source, "log", "-1", "--format=%H"], capture_output=True, text=True)
    told = environment()
    assert told["commit"] == (asked.stdout.strip() or None)
    assert (told["changed"] is None) == (told["commit"] is None)


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
