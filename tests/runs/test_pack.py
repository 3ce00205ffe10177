"""A packed model answers as its run folder does, tells what it is, and nothing in a hostile file is run."""

import json
import pickle
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from commands import QUICK, VITALS, chronode, write_vitals
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import chronode as package
from chronode.runs import Trained, load, pack, read_card
from chronode.runs._card import model_card
from chronode.training import Record


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


def test_the_card_has_classes_versions_and_date(home):
    card, about = read_card(home / "vitals.chronode"), json.loads((home / "run/environment.json").read_text())
    assert "- Classes: `ill`, `well`" in card
    assert f" on {about['started'][:10]} with " in card
    assert all(f"{name} {about[name]}" in card for name in ("chronode", "torch", "numpy", "python"))


HOSTILE = "x\n# Title\n| a `b` ``c <img src=x onerror=alert(1)> [link](http://e) **bold** &amp; \\ \u202e\r\n---"


def test_names_of_users_are_never_markdown(home):
    """Whatever a user calls a class, a channel or a file, the card has the same lines and elements."""
    from markdown import markdown

    trained = load(home / "run")
    assert trained.reading is not None
    reading = replace(trained.reading, scaler=None)

    def card(name):
        facts = json.loads(json.dumps(trained.facts))
        facts["config"]["data"]["source"] = name
        facts["summary"] |= {"baselines": {name: {"accuracy": 0.5}}, "positive": name}
        facts["environment"] = {"started": name, "torch": name}
        read = replace(reading, channels=(name, "hr"), target=(name,), unit=name)
        objective = replace(trained.objective, classes=(name, "b"), positive=name)
        record = Record(notes=(f"about {name}",))
        return model_card(replace(trained, facts=facts, record=record, reading=read, objective=objective))

    usual, hostile = card("plain"), card(HOSTILE)
    assert len(usual.splitlines()) == len(hostile.splitlines())
    pages = [markdown(text, extensions=["tables", "fenced_code"]) for text in (usual, hostile)]
    elements = [re.findall(r"<(/?\w+)", page) for page in pages]
    assert elements[0] == elements[1]
    assert "&lt;img src=x onerror=alert(1)&gt;" in pages[1]


def test_a_missing_safetensors_is_named_with_its_cure(home, monkeypatch):
    for name in [own for own in sys.modules if own.split(".")[0] == "safetensors"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "safetensors", None)
    for path in ("run", "vitals.chronode"):
        with pytest.raises(ImportError, match=r"need safetensors: pip install 'chronode\[predict\]'"):
            package.load(home / path)
    assert (
        "pip install 'chronode[predict]'"
        in chronode("predict", home / "vitals.chronode", home / "vitals.csv", code=2).err
    )


ONLY = """
import importlib.metadata as metadata, json, re, sys

def plain(name):
    return re.sub(r"[-_.]+", "-", name).lower()

found, pending = set(), json.loads(sys.argv[1])
while pending:
    own = plain(re.match(r"[A-Za-z0-9_.-]+", pending.pop())[0])
    if own in found:
        continue
    found.add(own)
    try:
        pending += [need for need in metadata.requires(own) or [] if "extra ==" not in need]
    except metadata.PackageNotFoundError:
        pass
homes = metadata.packages_distributions()
absent = {top for top, owners in homes.items() if not found & set(map(plain, owners))} - {"chronode"}
assert {"pandas", "scipy", "typer", "rich", "yaml", "sklearn"} <= absent, "installed here, but not by the extra"

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in absent:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
import chronode
from chronode.stream import Stream

model = chronode.load(sys.argv[2])
predictions = model.predict(model.series(sys.argv[3], labeled=False))
stream = Stream(sys.argv[2])
times = ("2024-01-31 12:00", "2024-01-31 13:30")
answers = [stream.observe("p1", time, {"hr": 80.0, "temp": 36.6}) for time in times]
print(json.dumps([[float(value) for row in predictions.values for value in row], [a["p_ill"] for a in answers]]))
"""


def test_the_extra_for_predictions_is_enough_to_predict_and_to_stream(home, tmp_path):
    """In a process that has only torch, numpy and what chronode[predict] installs."""
    project = Path(__file__).parents[2] / "pyproject.toml"
    needs = re.search(r"^predict = (\[.*?\])", project.read_text(), re.MULTILINE)
    assert needs is not None
    new = write_vitals(tmp_path / "new.csv", patients=5, seed=5, outcome=None)
    wanted = json.dumps(["torch", "numpy", *json.loads(needs[1])])
    command = [sys.executable, "-c", ONLY, wanted, home / "vitals.chronode", new]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    values, answers = json.loads(done.stdout)
    trained = load(home / "run")
    expected = trained.predict(trained.series(str(new), labeled=False)).values
    assert values == pytest.approx([float(value) for row in expected for value in row], abs=1e-6)
    rows = {"patient": ["p1"] * 2, "charted_at": ["2024-01-31 12:00", "2024-01-31 13:30"]}
    both = trained.predict(trained.series({**rows, "hr": [80.0] * 2, "temp": [36.6] * 2}, labeled=False, anyway=True))
    assert answers[1] == pytest.approx(float(both.values[0][0]), abs=1e-5)


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
        ({"version": "3"}, "has version '3', but chronode"),
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
    with pytest.raises(ValueError, match="bad.chronode: .*do not fit the spec"):
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
