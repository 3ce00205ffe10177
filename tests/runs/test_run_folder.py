"""Run folders: created, opened again, numbered and listed; what is no run is refused."""

import json
import math
import os
from pathlib import Path

import pytest
from run_folders import new_run

import chronode
from chronode.runs._folder import Run, next_folder, run_folders

run = pytest.fixture(new_run)


def test_what_was_created_is_opened(tmp_path):
    config = {"model": "mmrnn", "lr": 0.1, "sizes": [1, 2], "deep": {"none": None}}
    run = Run.create(tmp_path / "run", config, command=["chronode", "train"])
    for one in (run, Run.open(str(run.path))):
        assert one.config == config and one.command == ["chronode", "train"]
        assert one.environment["chronode"] == chronode.__version__
        assert one.status == "new" and one.metrics() == [] and one.store.latest() is None
    names = {path.name for path in run.path.iterdir()}
    assert names == {"run.json", "config.json", "environment.json", "run.lock"}


def test_the_config_is_the_same_before_and_after(tmp_path):
    """JSON has no tuples: the run that was just made must not differ from the one opened later."""
    run = Run.create(tmp_path / "run", {"betas": (0.9, 0.999)})
    assert run.config == Run.open(run.path).config == {"betas": [0.9, 0.999]}


@pytest.mark.parametrize("config", [{"a": {1, 2}}, {"a": math.nan}])
def test_a_config_json_cannot_hold_makes_no_folder(tmp_path, config):
    with pytest.raises(ValueError, match="config cannot be written as JSON"):
        Run.create(tmp_path / "run", config)
    assert not (tmp_path / "run").exists()


def test_a_used_folder_is_refused_and_left_as_it_is(run, tmp_path):
    with pytest.raises(ValueError, match=r"already contains a run: resume it with --resume"):
        Run.create(run.path, {})
    other = tmp_path / "photos"
    other.mkdir()
    (other / "a.jpg").write_bytes(b"")
    with pytest.raises(ValueError, match=r"not empty \(it contains a.jpg\)"):
        Run.create(other, {})
    assert os.listdir(other) == ["a.jpg"]
    with pytest.raises(ValueError, match="is a file"):
        Run.create(other / "a.jpg", {})


def test_a_creation_that_was_cut_short_can_be_made_again(run, tmp_path):
    """run.json comes last: without it nothing was trained."""
    (run.path / "run.json").unlink()
    (run.path / ".run-x1y2.json").write_text("{")
    with pytest.raises(ValueError, match=r"is not a run folder: it has no run.json"):
        Run.open(run.path)
    assert Run.create(run.path, {"model": "ltc"}).config == {"model": "ltc"}


def test_runs_of_other_versions_are_refused(run, tmp_path):
    with pytest.raises(ValueError, match="does not exist"):
        Run.open(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="is not a run folder"):
        Run.open(tmp_path)
    marker = run.path / "run.json"
    content = json.loads(marker.read_text())
    for version in (2, 0, "1", None):
        marker.write_text(json.dumps({**content, "version": version}))
        with pytest.raises(ValueError, match=f"of version {version!r}, but this chronode reads version 1: use the"):
            Run.open(run.path)
    for text in ("[]", '{"format": "other", "version": 1}'):
        marker.write_text(text)
        with pytest.raises(ValueError, match="does not have the format 'chronode-run'"):
            Run.open(run.path)
    marker.write_text('{"format": ')
    with pytest.raises(ValueError, match="run.json: this is not valid JSON"):
        Run.open(run.path)
    marker.write_text(json.dumps(content))
    (run.path / "config.json").unlink()
    with pytest.raises(ValueError, match="config.json: no such file"):
        Run.open(run.path)


def test_the_status_follows_the_run(run):
    with run.lock():
        assert run.status == Run.open(run.path).status == "running"
    assert run.status == "new"
    run.append_metrics({"epoch": 1})
    assert run.status == "interrupted"
    for outcome in ("finished", "stopped", "interrupted", "failed"):
        run.finish({"status": outcome, "score": math.nan})
        assert Run.open(run.path).status == outcome
    assert run.load_json("summary.json") == {"status": "failed", "score": None}
    with run.lock():
        pass
    assert run.status == "interrupted", "it went on after its summary"
    with pytest.raises(ValueError, match=r"summary\['status'\]='done' is not supported"):
        run.finish({"status": "done"})


def test_a_checkpoint_alone_is_a_begun_run(run):
    run.store.save({}, {"epoch": 1})
    assert run.status == "interrupted"
    assert Run.open(run.path).store.latest()[1] == {"epoch": 1}


def test_json_files(run):
    run.save_json("scores.json", {"a": (1, 2.5)})
    assert run.load_json("scores.json") == {"a": [1, 2.5]}
    with pytest.raises(ValueError, match="nothing.json: no such file"):
        run.load_json("nothing.json")


def test_folders_are_numbered_on(tmp_path):
    parent = tmp_path / "runs"
    assert [next_folder(parent, "a.b").name for _ in range(11)][-1] == "a.b-11"
    (parent / "a.b-4").rmdir()
    (parent / "axb-50").mkdir()
    (parent / "a.b-best").mkdir()
    assert next_folder(parent, "a.b").name == "a.b-12"
    Run.create(next_folder(parent, "a.b"), {})


def test_two_that_ask_at_once_get_two_folders(tmp_path, monkeypatch):
    """Another process makes the folder between the look and the making."""
    real = Path.mkdir

    def late(path, *args, **settings):
        monkeypatch.setattr(Path, "mkdir", real)
        if path.name == "a-1":
            real(path)
        real(path, *args, **settings)

    tmp_path.joinpath("x").mkdir()
    monkeypatch.setattr(Path, "mkdir", lambda path, *a, **k: real(path, *a, **k) if path.name == "x" else late(path))
    assert next_folder(tmp_path / "x", "a").name == "a-2"


def test_run_folders_are_found_damaged_ones_too(tmp_path):
    for name in ("z", "b", "a"):
        Run.create(tmp_path / name, {})
    (tmp_path / "b" / "run.json").write_text("{")
    (tmp_path / "no run").mkdir()
    assert [path.name for path in run_folders(tmp_path)] == ["a", "b", "z"]
    assert run_folders(tmp_path / "nowhere") == []


def test_a_command_that_is_not_a_list_of_words_is_refused(run):
    content = json.loads((run.path / "run.json").read_text())
    for wrong, field in [("chronode train", "command"), ([1], r"command\[0\]")]:
        (run.path / "run.json").write_text(json.dumps({**content, "command": wrong}))
        with pytest.raises(ValueError, match=f"run.json: {field} must be"):
            Run.open(run.path)
