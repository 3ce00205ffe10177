"""`chronode analyze`: the commands for oscillators and expressivity, as a user calls them."""

import json
import re
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from chronode.cli.analyze_more import COMMANDS, attach

DOCS = Path(__file__).parents[2] / "docs"
app = typer.Typer()
attach(app)

SMALL = {
    "energy": ["--steps", "20"],
    "volume": ["--steps", "3", "--models", "unicornn,gru"],
    "inverse": ["--steps", "10", "--delta-t", "0.1"],
    "state-bounds": ["--steps", "10"],
    "gradient-bounds": ["--lengths", "5,10"],
    "gradient-formula": ["--steps", "10"],
    "trajectory": ["--models", "ltc,lstm", "--width", "8"],
    "expressivity": ["--values", "4,8", "--tries", "1"],
    "depth-table": ["--tries", "1", "--width", "5", "--workers", "1"],
    "time-constants": ["--steps", "5"],
}


@pytest.fixture
def call(tmp_path, monkeypatch):
    """Runs a command in an empty folder; gives what it printed."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
        assert result.exit_code == 0
        return result.stdout

    return run


@pytest.mark.parametrize("command", list(SMALL))
def test_every_command_draws_and_tells(call, tmp_path, command):
    told = call(command, *SMALL[command])
    assert told.splitlines()[-1] == f"plot: runs/analyze/{command}.png"
    drawn = (tmp_path / f"runs/analyze/{command}.png").read_bytes()
    assert drawn.startswith(b"\x89PNG")
    assert len(drawn) < 120_000


def test_json_is_all_that_is_printed(call):
    found = json.loads(call("gradient-bounds", "--lengths", "5,10", "--json", "--output", "a.png"))
    assert found["lengths"] == [5, 10]
    assert len(json.loads(call("volume", *SMALL["volume"], "--json"))) == 2


@pytest.mark.slow
@pytest.mark.parametrize("command", ["time-steps", "weight-norms", "sensitivity", "stacking", "subsampling"])
def test_studies_run_on_a_task(call, command):
    told = call(command, "--epochs", "1", "--hidden-size", "4")
    assert told.splitlines()[-1] == f"plot: runs/analyze/{command}.png"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["inverse", "--delta-t", "fast"], "--delta-t takes numbers separated by commas, got 'fast'"),
        (["volume", "--models", "lstmm"], "there is no model 'lstmm'. Did you mean 'lstm'"),
        (["expressivity", "--over", "solver", "--values", "euler"], "solver='euler' is not known"),
    ],
)
def test_mistakes_are_value_errors(arguments, told):
    # `chronode` itself shows these as one line and exit code 2.
    with pytest.raises(ValueError, match=told):
        CliRunner().invoke(app, arguments, catch_exceptions=False)


def test_every_command_has_an_example():
    for command in COMMANDS.values():
        assert "Example: chronode analyze " in (command.__doc__ or "")


@pytest.mark.parametrize("page", ["analysis_oscillators.md", "analysis_expressivity.md"])
def test_the_docs_name_commands_and_pictures_that_exist(page):
    text = (DOCS / page).read_text()
    pictures = re.findall(r"\]\((pictures/[^)]*)\)", text)
    assert len(pictures) >= 3
    assert all((DOCS / picture).stat().st_size < 120_000 for picture in pictures)
    assert set(re.findall(r"`chronode analyze ([a-z][a-z-]*)", text)) <= COMMANDS.keys()
