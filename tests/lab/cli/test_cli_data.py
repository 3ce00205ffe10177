import hashlib
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from chronode.lab.cli.data import data_app
from chronode.lab.datasets import _catalogue as catalogue
from chronode.lab.datasets._catalogue import DataSet, Remote, Variant, data_sets

DOCS = Path(__file__).parents[3] / "docs" / "datasets.md"
URL = "http://127.0.0.1:9/archive.zip"  # nobody listens there


def sha256(content):
    return hashlib.sha256(content).hexdigest()


@pytest.fixture(autouse=True)
def places(tmp_path, monkeypatch):
    monkeypatch.setenv("CHRONODE_DATA", str(tmp_path / "cache"))
    monkeypatch.setenv("CHRONODE_DATA_MIRROR", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


@pytest.fixture
def small(places, monkeypatch):
    """Two data sets: `here` is in the mirror, `away` is nowhere."""
    facts = dict.fromkeys(("title", "publisher", "page", "licence", "cite"), "known")
    variants = (Variant(note="partial: half", files={"a.txt": sha256(b"1")}),)
    made = [
        DataSet(name="here", remote=(Remote("x.zip", (URL,)),), reads=("a.txt",), variants=variants, **facts),
        DataSet(name="away", remote=(Remote("y.zip", (URL,)),), reads=("b.txt",), variants=(), **facts),
        DataSet(name="built", remote=(), reads=("trace_*.npy",), variants=(), simulated=True, **facts),
    ]
    monkeypatch.setattr(catalogue, "_read", lambda: {one.name: one for one in made})
    (places / "here").mkdir()
    (places / "here" / "a.txt").write_bytes(b"1")
    return places


def run(*arguments, code=0):
    done = CliRunner().invoke(data_app, arguments)
    assert done.exit_code == code, (done.output, done.exception)
    return done


@pytest.mark.parametrize("command", ["list", "fetch", "path", "verify", "build"])
def test_every_command_has_help_with_an_example(command):
    assert f"Example: chronode data {command}" in run(command, "--help").output


def test_list_as_json_has_every_data_set_with_its_facts(places):
    (places / "mnist").mkdir()
    rows = {row["name"]: row for row in json.loads(run("list", "--json").stdout)}
    assert list(rows) == list(data_sets())
    assert rows["mnist"]["here"] == "mirror"
    assert rows["imdb"]["here"] is None
    assert rows["imdb"]["size"] == 84_125_825
    assert rows["imdb"]["addresses"] == ["https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz"]


def test_list_as_a_table_names_them():
    output = run("list").stdout
    assert all(name in output for name in data_sets())


def test_the_docs_have_the_table_that_list_prints():
    assert run("list", "--markdown").stdout in DOCS.read_text(encoding="utf-8")


def test_fetch_prints_folder_and_notes_and_continues_after_a_failure(small):
    done = run("fetch", "away", "here", code=1)
    assert done.stdout == f"here: {small / 'here'}\n  partial: half\n"
    for part in ("away was not found", "y.zip", URL, "none is published", str(small / "cache" / "downloads" / "y.zip")):
        assert part in done.stderr


def test_path_downloads_nothing(small):
    assert run("path", "here").stdout.strip() == str(small / "here")
    assert "chronode data fetch away" in run("path", "away", code=1).stderr
    assert "chronode data build built" in run("path", "built", code=1).stderr
    assert not (small / "cache" / "downloads").exists()


def test_verify_hashes_again_and_ends_with_1_if_something_is_wrong(small):
    row = {"name": "here", "state": "ok", "folder": str(small / "here"), "notes": "partial: half"}
    assert json.loads(run("verify", "--json").stdout) == [row]
    assert "partial: half" in run("verify", "here").stdout
    (small / "here" / "a.txt").write_bytes(b"2")
    (output,) = json.loads(run("verify", "--json", code=1).stdout)
    assert output["state"] == "refused"
    assert sha256(b"2") in output["notes"]
    assert run("path", "here", code=1).stdout == ""


def test_verify_of_what_is_not_here_ends_with_1(small):
    assert "not here" in run("verify", "away", code=1).stdout


@pytest.mark.parametrize("arguments", [("fetch", "mnits"), ("path", "mnits"), ("verify", "mnits"), ("build", "mnits")])
def test_an_unknown_name_ends_with_2(arguments):
    assert "Did you mean 'mnist'" in run(*arguments, code=2).stderr


def test_build_hands_its_options_to_the_simulation(small, monkeypatch):
    from chronode.lab.tasks import _simulate as simulate

    calls = []

    def build(name, *, console, **options):
        calls.append((name, options))
        return small / "cache" / name

    monkeypatch.setattr(simulate, "build", build)
    assert run("build", "built", "--seed", "3").stdout.strip() == f"built: {small / 'cache' / 'built'}"
    run("build", "built", "--steps", "9")
    assert calls == [("built", {"seed": 3}), ("built", {"steps": 9, "seed": 0})]
    assert "can be built" in run("build", "here", code=2).stderr
    assert "--steps" in run("build", "built", "--steps", "0", code=2).stderr
