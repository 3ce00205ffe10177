"""The README stays true: its examples run, its tables are those that the commands print."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from chronode.cli.demo import run_demo
from chronode.cli.models import as_markdown

README = Path(__file__).parents[1] / "README.md"


def section(name: str) -> str:
    found = re.search(rf"<!-- {name} -->\n(.*?)<!-- /{name} -->", README.read_text(), re.DOTALL)
    assert found, f"README.md has no section {name}"
    return found[1].strip()


@pytest.mark.parametrize("number", range(3))
def test_examples_run(number, tmp_path):
    examples = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert len(examples) == 3
    script = tmp_path / "example.py"
    script.write_text(examples[number])
    done = subprocess.run([sys.executable, script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_table_of_models_is_what_the_command_prints():
    assert section("models") == as_markdown(), "run `chronode models --markdown` and put its table into README.md"


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
