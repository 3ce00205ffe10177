"""The README stays true: its commands run, and its numbers are measured. tests/test_docs.py runs its Python."""

import json
import re
import shlex
from pathlib import Path

import pytest
from commands import chronode

from chronode.lab.cli.demo import LONGEST, TEST, TRAIN, run_demo, simple_models
from chronode.lab.tasks.bitstream import bitstream
from chronode.runs import load, prepared_of

README = Path(__file__).parents[1] / "README.md"


def section(name: str) -> str:
    found = re.search(rf"<!-- {name} -->\n(.*?)<!-- /{name} -->", README.read_text(), re.DOTALL)
    assert found, f"README.md has no section {name}"
    return found[1].strip()


def commands() -> list[list[str]]:
    block = re.search(r"```sh\n(.*?)```", section("run"), re.DOTALL)
    assert block
    return [shlex.split(line, comments=True)[1:] for line in block[1].splitlines()]


def test_commands_run_on_less(tmp_path, monkeypatch):
    """The commands of the README with fewer machines and epochs; as they stand: the slow test."""
    monkeypatch.chdir(tmp_path)
    for words in commands():
        less = [*words, "--series", "60"] if "example" in words else words
        chronode(*[{"24": "1", "30": "2", "10": "1", "2": "1"}.get(word, word) for word in less], plots=True)
    assert (tmp_path / "out.csv").read_text().startswith("machine,")


@pytest.mark.slow
def test_commands_run_as_they_stand(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    row = r"^\| (mmrnn|boosting|linear model)[^|]*(?:epochs|rows) \| ([\d.]+)% \|"
    percents = dict(re.findall(row, README.read_text(), re.MULTILINE))
    for words in commands():
        chronode(*words, plots=True)
        if words[0] == "evaluate":
            summary = json.loads(Path("runs/events/summary.json").read_text())
            parts = prepared_of(load("runs/events")).parts
            measured = {
                "mmrnn": summary["test"]["accuracy"],
                "boosting": simple_models(parts.train, parts.test)["boosting on summaries"],
                "linear model": summary["baselines"]["linear (patterns)"]["accuracy"],
            }
            assert percents.keys() == measured.keys()
            for name, percent in percents.items():  # processors round differently, which the network amplifies
                assert 100 * measured[name] == pytest.approx(float(percent), abs=3), name
            assert measured["mmrnn"] > max(measured["boosting"], measured["linear model"]) + 0.1


def test_it_is_short_and_shows_a_plot():
    text = README.read_text()
    assert len(text.splitlines()) <= 150
    pictures = re.findall(r"!\[.+\]\((\S+\.png)\)", text)
    assert len(pictures) == 1
    assert (README.parent / pictures[0]).exists()


def test_links_lead_somewhere():
    links = re.findall(r"\]\(([^)#:]+)\)", README.read_text())
    assert len(links) > 10
    assert [link for link in links if not (README.parent / link).exists()] == []


def test_commands_exist():
    makefile = (README.parent / "Makefile").read_text()
    for command in ("demo", "test"):
        assert f"make {command}" in README.read_text()
        assert re.search(rf"^{command}:", makefile, re.MULTILINE)


@pytest.mark.slow
def test_demo_gives_the_figures_of_the_readme(tmp_path):
    outcomes = run_demo(["mmrnn", "lstm-dt", "ode-rnn"], epochs=24, seed=0, output=tmp_path)
    rows = re.findall(r"^\| `?([\w-]+)`? \| ([\d.]+)% \| \d", section("demo"), re.MULTILINE)
    assert [name for name, _ in rows] == list(outcomes)
    for name, percent in rows:
        assert 100 * outcomes[name].test_accuracy == pytest.approx(float(percent), abs=5)
    assert outcomes["mmrnn"].test_accuracy > outcomes["lstm-dt"].test_accuracy + 0.05


def test_figures_of_compiled_cells_are_those_of_the_benchmark():
    found = json.loads((README.parent / "benchmarks" / "compiled.json").read_text())
    lstm, packed, leaky = (other["theirs"] / other["ours"] for other in found["others"])
    mean = found["summary"]["geometric mean, loop / compiled"]
    text = " ".join(README.read_text().split())
    assert f"{mean:.1f} times faster than the loop on average, {leaky:.1f} times for a small cell" in text
    assert f"LSTM takes {lstm:.1f} times as long as ours, and {packed:.0f} times on packed sequences" in text


def test_simple_models_give_the_figures_of_the_readme():
    data = [bitstream(count, part, longest=LONGEST) for part, count in ((0, TRAIN), (2, TEST))]
    rows = re.findall(r"^\| (\w+ on summaries) \| ([\d.]+)% ", section("demo"), re.MULTILINE)
    measured = simple_models(*data)
    assert {name for name, _ in rows} == measured.keys()
    for name, percent in rows:
        assert 100 * measured[name] == pytest.approx(float(percent), abs=1), name
