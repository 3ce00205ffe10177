"""Every table of the command line is readable at 80 columns and in a pipe: no name and no number is cut."""

import ast
from pathlib import Path

import pytest
from commands import QUICK, VITALS, chronode, write_vitals
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from chronode import models
from chronode.cli.tables import Table
from chronode.lab.datasets._catalogue import data_sets
from chronode.lab.tasks import tasks

CLI = Path(__file__).parents[2] / "src" / "chronode" / "cli"
LONG = ("unicornn", "antisymmetric-gated", "lipschitz-rnn-with-a-long-name")


def check(text, names, width=80):
    """Names and numbers are whole and on one line; nothing is wider than the terminal."""
    lines = text.splitlines()
    for name in names:
        assert any(name in line for line in lines), (name, text)
    for line in lines:
        if line[:1] in "┃│┏┡├└╭":
            assert len(line) <= width, line
            assert "…" not in line, line


def rendered(table, width=80):
    console = Console(width=width, color_system=None)
    with console.capture() as capture:
        console.print(table)
    return capture.get()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    data = write_vitals(folder / "vitals.csv")
    chronode("train", data, *VITALS, *QUICK, "--epochs", 1, "-o", folder / "runs" / "a-run-with-a-rather-long-name-1")
    return folder / "runs" / "a-run-with-a-rather-long-name-1"


@pytest.mark.parametrize("columns", [80, 0], ids=["80 columns", "no terminal"])
@pytest.mark.parametrize("command", ["models", "tasks", "data list", "reproduce --list"])
def test_lists(command, columns, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    names = {"models": models(), "tasks": tasks(), "data list": data_sets()}.get(command)
    if names is None:
        from chronode.lab.experiments.recipe import recipes

        names = recipes()
    check(chronode(*command.split(), columns=columns).out, names)


@pytest.mark.parametrize("columns", [80, 0], ids=["80 columns", "no terminal"])
def test_runs(run, columns, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    names = ("accuracy", "auroc", "mmrnn")
    check(chronode("runs", run.parent, columns=columns).out, (run.name, "mmrnn", "finished"))
    check(chronode("show", run, columns=columns).out, ("validation", "majority", "valid_loss", *names[:2]))
    check(chronode("evaluate", run, columns=columns).out, names[:2])


@pytest.mark.parametrize("width", [60, 80, 100])
def test_comparisons(width):
    from chronode.cli.compare import _table
    from chronode.search._scores import Comparison, RunResult

    scores = {"accuracy": 0.91234, "loss": 0.2345, "f1": 0.87654, "auroc": 0.98765, "cross_entropy": 0.23456}
    results = [
        RunResult(name, seed, "", "accuracy", {key: value + 0.01 * seed for key, value in scores.items()},
               parameters=1_234_567, seconds=12.5, baselines={"most frequent class": {"accuracy": 0.5}})
        for name in LONG for seed in range(3)
    ]  # fmt: skip
    text = rendered(_table(Comparison.of(results), "a file with a long name.csv"), width)
    check(text, (*LONG, *scores, "baseline: most frequent class", "0.9223 ± 0.01", "1,234,567", "s/epoch"), width)


def test_searches():
    from types import SimpleNamespace

    from chronode.cli.sweep import _table
    from chronode.search._trials import Trial

    names = ("learning_rate", "hidden", "layers", "dropout", "weight_decay", "delta_t", "batch_size")
    search = SimpleNamespace(metric="accuracy", ranges=dict.fromkeys(names), lower_is_better=False)
    trials = [Trial(n, "complete", 0.9 - n / 100, dict.fromkeys(names, 0.001234), 5, 12.5) for n in range(7)]
    check(rendered(_table(search, trials)), (*names, "0.00123", "0.89"))


def test_reproduced_tables():
    from chronode.lab.cli.reproduce import _table
    from chronode.lab.experiments.ledger import Ledger
    from chronode.lab.experiments.recipe import find_recipe
    from chronode.lab.experiments.rows import compare

    for name in ("mmrnn/table3", "unicornn/table1"):
        recipe = find_recipe(name)
        rows = compare(recipe, "laptop", Ledger("nowhere"))
        check(rendered(_table(recipe, "laptop", rows)), {row.number.label for row in rows})


def test_demo():
    from chronode.lab.cli.demo import DemoResult, _table
    from chronode.training import Epoch

    found = {name: DemoResult(1_234_567, 0.98765, 12345.6, (Epoch(1, 0.5, 0.4),)) for name in LONG}
    check(rendered(_table(found, {"boosting": 0.795})), (*LONG, "98.8%", "1,234,567", "12345.60", "79.5%"))


def test_no_command_makes_a_table_that_does_not_fit():
    for path in sorted(CLI.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and path.name != "tables.py":
                assert node.module != "rich.table", path


CELL = st.text(alphabet="abc 123±", min_size=1, max_size=30).map(str.strip).filter(bool)


@settings(max_examples=60, deadline=None)
@given(st.integers(70, 160), st.lists(st.lists(CELL, min_size=4, max_size=4), min_size=1, max_size=5), st.booleans())
def test_any_table_keeps_names_and_numbers_whole(width, rows, right):
    table = Table("name", "text")
    for name in ("first", "second"):
        table.add_column(name, justify="right" if right else "left")
    for row in rows:
        table.add_row(*row)
    text = rendered(table, width)
    for row in rows:
        for word in (row[0], *(row[2:] if right else ())):
            assert word in text
        assert all(word in text for word in " ".join(row).split())
    assert all(len(line) <= width for line in text.splitlines())
