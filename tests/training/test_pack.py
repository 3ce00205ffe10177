"""A packed model answers as its run folder does, tells what it is, and nothing in a hostile file is run."""

import json
import pickle

import pytest
import torch
from commands import QUICK, VITALS, chronode, write_vitals
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import chronode as package
from chronode.runs import Trained, pack, read_card


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A run on classes per patient and the same packed, in `home`."""
    home = tmp_path_factory.mktemp("pack")
    write_vitals(home / "vitals.csv")
    chronode("train", home / "vitals.csv", *VITALS, *QUICK, "--epochs", 2, "--output", home / "run")
    chronode("pack", home / "run", "-o", home / "vitals.chronode", "--card", home / "card.md")
    return home


def test_the_file_answers_as_the_folder_does(home, tmp_path):
    new = write_vitals(tmp_path / "new.csv", patients=9, seed=5, outcome=None)
    said = [chronode("predict", home / name, new).out for name in ("run", "vitals.chronode")]
    assert said[0] == said[1] and said[0].count("\n") == 10
    loaded = package.load(home / "vitals.chronode")
    assert isinstance(loaded, Trained) and loaded.objective.classes == ("ill", "well")
    assert package.load(home / "run").reading == loaded.reading
    done = chronode("evaluate", home / "vitals.chronode", home / "vitals.csv", "--json")
    assert (
        json.loads(done.out)["metrics"]
        == json.loads(chronode("evaluate", home / "run", home / "vitals.csv", "--json").out)["metrics"]
    )


def test_the_file_is_plain_safetensors_without_paths(home):
    with safe_open(home / "vitals.chronode", "pt") as file:
        found = file.metadata()
    assert {"format", "version", "spec", "config", "objective", "data", "summary", "card"} <= found.keys()
    assert str(home) not in json.dumps(found)
    assert json.loads(found["config"])["data"]["source"] == "vitals.csv"


def test_files_that_are_there_are_not_overwritten_unless_asked_to(home, tmp_path):
    file, card = tmp_path / "model.chronode", tmp_path / "card.md"
    for taken, option in ((file, "--output"), (card, "--card")):
        taken.write_text("mine")
        done = chronode("pack", home / "run", "-o", file, "--card", card, code=2)
        assert f"{option} {taken} exists already; --force overwrites it." in " ".join(done.err.split())
        assert [path.read_text() for path in tmp_path.iterdir()] == ["mine"]
        taken.unlink()
    file.write_text("mine")
    chronode("pack", home / "run", "-o", file, "--card", card, "--force")
    assert read_card(file) == card.read_text()


def test_the_card_says_what_the_model_is(home):
    card = read_card(home / "vitals.chronode")
    assert (home / "card.md").read_text() == card
    for text in ("# mmrnn trained on vitals.csv", "## Data", "## Metrics on the test part", "## Limits"):
        assert text in card
    summary = json.loads((home / "run/summary.json").read_text())
    assert all(name in card for name in summary["baselines"])
    assert f"{summary['test']['accuracy']:.4g}" in card
    assert "Split: " in card and "SHA-256" in card


def test_a_packed_model_has_no_data(home):
    done = chronode("predict", home / "vitals.chronode", code=2)
    assert "is a packed model without data: pass a file" in done.err


def test_packing_what_cannot_be_packed(home, tmp_path):
    with pytest.raises(ValueError, match="is a folder; give a file name such as model.chronode"):
        pack(home / "run", tmp_path)
    with pytest.raises(ValueError, match="does not exist"):
        pack(home / "nothing", tmp_path / "a.chronode")


# ---- hostile files ---------------------------------------------------------------------------------------------------


def changed(home, path, **fields):
    """A copy of the packed model with other metadata; None leaves a field out."""
    with safe_open(home / "vitals.chronode", "pt") as file:
        metadata = file.metadata() | fields
    save_file(load_file(home / "vitals.chronode"), path, {k: v for k, v in metadata.items() if v is not None})
    return path


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"format": "other"}, "this is not a packed model"),
        ({"version": "2"}, "has version '2', but chronode"),
        ({"spec": None}, "spec is missing from its metadata"),
        ({"spec": "{"}, "spec: this is not valid JSON"),
        ({"spec": "[1]"}, "spec: "),
        ({"spec": '{"model": "os.system", "input_size": 3, "num_outputs": 2}'}, "os.system"),
        ({"config": '{"data": {"source": 3}}'}, "config: data.source must be text"),
        ({"objective": "{}"}, "objective: objective is missing"),
        ({"data": '{"a": 1}'}, "data: a is not a known field"),
        ({"summary": '{"status": "odd"}'}, "summary: status='odd'"),
        ({"card": None}, "card is missing"),
        ({"spec": "[" * 100_000}, "spec: this is not valid JSON"),
    ],
)
def test_damaged_metadata_is_reported_with_file_and_field(home, tmp_path, fields, match):
    path = changed(home, tmp_path / "bad.chronode", **fields)
    with pytest.raises(ValueError, match=match) as error:
        package.load(path)
    assert str(error.value).startswith(str(path))


def test_weights_of_another_model(home, tmp_path):
    spec = json.loads(safe_open(home / "vitals.chronode", "pt").metadata()["spec"])
    path = changed(home, tmp_path / "bad.chronode", spec=json.dumps(spec | {"hidden_size": 3}))
    with pytest.raises(ValueError, match="bad.chronode: .*size mismatch"):
        package.load(path)
    path = changed(home, tmp_path / "huge.chronode", spec=json.dumps(spec | {"hidden_size": 10**6}))
    with pytest.raises(ValueError, match="huge.chronode: "):
        package.load(path)


class Boom:
    def __reduce__(self):
        return (open, ("/tmp/chronode-was-here", "w"))


@pytest.mark.parametrize("kind", ["pickle", "torch", "empty", "text", "long header"])
def test_other_files_are_refused(tmp_path, kind):
    path = tmp_path / "bad.chronode"
    if kind == "pickle":
        path.write_bytes(pickle.dumps(Boom()))
    elif kind == "torch":
        torch.save({"a": torch.ones(2)}, path)
    elif kind == "long header":
        path.write_bytes((2**40).to_bytes(8, "little") + b"{}")
    else:
        path.write_bytes(b"" if kind == "empty" else b"hello, this is not a model\n")
    with pytest.raises(
        ValueError, match="bad.chronode: (this is neither a run folder nor a packed model|its header has more)"
    ):
        package.load(path)


def test_a_file_that_is_cut_anywhere(home, tmp_path):
    content = (home / "vitals.chronode").read_bytes()
    path = tmp_path / "cut.chronode"
    for part in range(0, 20):
        path.write_bytes(content[: part * len(content) // 20])
        with pytest.raises(ValueError, match="cut.chronode"):
            package.load(path)
