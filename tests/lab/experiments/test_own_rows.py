"""Rows and tables of one's own: `--also`, `--plugin`, `Recipe` with rows, and the statistics of a table."""

import csv
import io
import json

import pytest
from commands import run
from entries import entry

from chronode.lab.experiments import Ledger, Recipe, compare, find_recipe, in_epochs, row
from chronode.lab.experiments.counts import Table, counted
from chronode.lab.experiments.ledger import run_hash
from chronode.lab.experiments.report import as_table

CELLS = '''
import torch
from torch import nn
from chronode.nn import Cell, register

@register("{name}", paper="mine", time="native")
class Mine(Cell):
    """h' = tanh(W x + U h) e^(-dt)."""

    def __init__(self, input_size, hidden_size):
        super().__init__(input_size, hidden_size)
        self.inputs, self.recurrent = nn.Linear(input_size, hidden_size), nn.Linear(hidden_size, hidden_size)

    def forward(self, x, state, dt):
        h = torch.tanh(self.inputs(x) + self.recurrent(state[0])) * torch.exp(-dt)
        return h, (h,)
'''
TABLE = """
from chronode.lab.experiments import Recipe, add_recipe, in_epochs, row

FEW = {"train": 64, "valid": 32, "test": 32}
rows = (row("row-cell", "bitstream", hidden_size=4), row("gru", "bitstream", label="GRU", mean=99.0, hidden_size=4))
budgets = {"smoke": in_epochs(1, options=FEW), "paper": in_epochs(4, options=FEW)}
add_recipe(Recipe("mine/parity", "Parity of bits", rows=rows, budgets=budgets))
"""


def test_a_plugin_is_a_row_of_the_papers_table_and_is_never_counted(tmp_path):
    plugin = tmp_path / "also_cells.py"
    plugin.write_text(CELLS.format(name="also-cell"))
    folders = ("--ledger", str(tmp_path / "results"), "--output", str(tmp_path / "tables"))
    options = ("--plugin", str(plugin), "--also", "also-cell", "--models", "also-cell", "--only", "event")
    done = run("reproduce", "mmrnn/table3", "--budget", "smoke", *options, *folders, "--json")
    rows = json.loads(done.stdout)["mmrnn/table3"]
    (mine,) = (row for row in rows if row["ours"]["seeds"])
    assert (mine["label"], mine["own"], mine["verdict"]) == ("also-cell (own)", True, "own")
    ledger = Ledger(tmp_path / "results")
    (made,) = ledger.entries()
    assert made.config["model"]["hidden_size"] == 64  # the paper's
    assert made.config["training"]["optimizer"] == "rmsprop" and made.config["cell"]["source"]
    recipe = find_recipe("mmrnn/table3")
    assert counted([Table(recipe, "smoke", compare(recipe, "smoke", ledger))]) == {}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("mmrnn/table3", "--also", "mmrnn"), "--models mmrnn"),
        (("mmrnn/table3", "--also", "mmrn"), "Did you mean 'mmrnn'"),
        (("mmrnn/figure1", "--also", "gru"), "adds rows to tables"),
    ],
)
def test_rows_that_cannot_be_added(arguments, expected):
    assert expected in run("reproduce", *arguments, "--budget", "smoke", code=2).stderr


def test_a_changed_cell_is_another_run(tmp_path, monkeypatch):
    from dataclasses import replace

    from chronode.lab.experiments import recipe as module
    from chronode.system import load_plugin

    plugin = tmp_path / "changed_cells.py"
    plugin.write_text(CELLS.format(name="changed-cell"))
    load_plugin(str(plugin))
    table = replace(find_recipe("mmrnn/table3"), also=("changed-cell",))
    before = {key for cell in table.cells("smoke") for key in cell.hashes()}
    plugin.write_text(CELLS.format(name="changed-cell") + "# another\n")
    after = {key for cell in table.cells("smoke") for key in cell.hashes()}
    assert len(before - after) == 2 == len(after - before)  # dense and event
    assert module._source_of("gru") == ""


def test_a_table_of_ones_own_is_run_from_a_plugin(tmp_path):
    plugin = tmp_path / "row_cells.py"
    plugin.write_text(CELLS.format(name="row-cell") + TABLE)
    folders = ("--ledger", str(tmp_path / "results"), "--output", str(tmp_path / "tables"))
    options = ("--plugin", str(plugin), "--budget", "smoke", "--format", "csv", *folders)
    table = list(csv.DictReader(io.StringIO(run("reproduce", "mine/parity", *options).stdout)))
    assert [row["model"] for row in table] == ["row-cell", "GRU"]
    assert table[0]["verdict"] == "own"
    assert table[1]["paper, accuracy %"] == "99.00" and table[1]["verdict"] == "not reached, fewer steps (25%)"


def entries_of(recipe, budget, accuracies):
    """The runs of a table: model -> accuracy of each seed."""
    for cell in recipe.cells(budget):
        for seed, value in enumerate(accuracies[cell.model]):
            key = run_hash(cell.model, cell.task, cell.protocol, seed, cell.config)
            options = {"model": cell.model, "config": cell.config, "config_hash": key}
            yield entry(seed, recipe.name, metrics={"test": {"accuracy": value}}, **options)


def test_differences_are_paired_over_shared_seeds(tmp_path):
    rows = (row("gru", "bitstream"), row("lstm", "bitstream"), row("rnn", "bitstream"))
    recipe = Recipe("mine/three", "Three", rows=rows, budgets={"laptop": in_epochs(2, seeds=4)})
    accuracies = {"gru": (0.9, 0.8, 0.7, 0.95), "lstm": (0.88, 0.79, 0.67), "rnn": (0.5, 0.6)}
    ledger = Ledger(tmp_path)
    for made in entries_of(recipe, "laptop", accuracies):
        ledger.append(made)
    gru, lstm, rnn = compare(recipe, "laptop", ledger)
    assert gru.difference is None and lstm.reference == "gru" and lstm.difference.n == 3
    assert lstm.difference.mean == pytest.approx(-2.0) and lstm.difference.low < -2 < lstm.difference.high
    assert rnn.difference.n == 2
    lines = as_table(recipe, [gru, lstm, rnn]).splitlines()
    assert lines[0].endswith("| minus gru |") and "-2.00 [-4.48, 0.48]" in lines[3]
    assert lines[4].endswith("|  |")  # two seeds are too few for an interval
    assert r"\begin{tabular}" in as_table(recipe, [gru, lstm], "latex")


def test_results_are_printed_in_a_format(tmp_path):
    recipe = find_recipe("mmrnn/table3")
    ledger = Ledger(tmp_path / "results")
    (cell,) = (cell for cell in recipe.cells("laptop") if (cell.model, cell.number.column) == ("mmrnn", "event"))
    ledger.append(entry(0, recipe.name, config=cell.config, config_hash=cell.hashes()[0]))
    options = ("--ledger", str(tmp_path / "results"), "--output", str(tmp_path / "RESULTS.md"))
    text = run("results", *options, "--format", "latex").stdout
    assert (
        text.startswith("% mmrnn/table3, budget laptop") and r"\begin{tabular}" in text and r"98.89 $\pm$ 0.26" in text
    )
    assert not (tmp_path / "RESULTS.md").exists()
