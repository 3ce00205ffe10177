"""The README stays true: its examples run, its tables are those that the commands print."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from commands import chronode, run

from chronode.cli.demo import run_demo

README = Path(__file__).parents[1] / "README.md"


def section(name: str) -> str:
    found = re.search(rf"<!-- {name} -->\n(.*?)<!-- /{name} -->", README.read_text(), re.DOTALL)
    assert found, f"README.md has no section {name}"
    return found[1].strip()


@pytest.mark.parametrize("number", range(4))
def test_examples_run(number, tmp_path):
    examples = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert len(examples) == 4
    script = tmp_path / "example.py"
    script.write_text(examples[number])
    done = subprocess.run([sys.executable, script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def commands() -> list[list[str]]:
    block = re.search(r"```sh\n(.*?)```", section("run"), re.DOTALL)
    assert block
    return [shlex.split(line, comments=True)[1:] for line in block[1].splitlines()]


def test_commands_run_on_less(tmp_path, monkeypatch):
    """The commands of the README with fewer patients and epochs; as they stand: the slow test."""
    monkeypatch.chdir(tmp_path)
    for words in commands():
        less = [*words, "--patients", "60"] if "example" in words else words
        chronode(*[{"20": "1", "25": "2", "10": "1", "2": "1"}.get(word, word) for word in less], plots=True)
    assert (tmp_path / "out.csv").read_text().startswith("patient,")


@pytest.mark.slow
def test_commands_run_as_they_stand(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for words in commands():
        told = chronode(*words, plots=True)
        if words[0] == "evaluate":
            accuracy = float(re.search(r"test part.*?│.*?│\s*([\d.]+)", told.out)[1])
            assert accuracy > 0.8


def test_table_of_models_is_what_the_command_prints():
    # In a process of its own: other tests register models too.
    printed = run("models", "--markdown", OMP_NUM_THREADS="1").stdout.strip()
    assert section("models") == printed, "run `chronode models --markdown` and put its table into README.md"


def test_table_of_speeds_is_the_last_measured():
    measured = (README.parent / "benchmarks" / "bench.md").read_text().strip()
    assert section("bench") == measured, "put benchmarks/bench.md, written by `make bench`, into README.md"


def test_commands_exist():
    makefile = (README.parent / "Makefile").read_text()
    for command in ("demo", "test"):
        assert f"make {command}" in README.read_text()
        assert re.search(rf"^{command}:", makefile, re.MULTILINE)


@pytest.mark.slow
def test_demo_gives_the_figures_of_the_readme(tmp_path):
    outcomes = run_demo(["mmrnn", "lstm-dt", "ode-rnn"], epochs=24, seed=0, output=tmp_path)
    rows = re.findall(r"^\| `?([\w-]+)`? \| ([\d.]+) % ", section("demo"), re.MULTILINE)
    assert [name for name, _ in rows] == list(outcomes)
    for name, percent in rows:
        assert 100 * outcomes[name].test_accuracy == pytest.approx(float(percent), abs=5)
    assert outcomes["mmrnn"].test_accuracy > outcomes["lstm-dt"].test_accuracy + 0.05
