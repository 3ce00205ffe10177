"""Counts of the page of results: each printed number once, by rules that no score decides."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from entries import entry

from chronode.lab.analysis import gradient_table
from chronode.lab.experiments.counts import NOT_EXAMINED, Reasons, Table, counted, printed, tally
from chronode.lab.experiments.ledger import Ledger
from chronode.lab.experiments.page import render
from chronode.lab.experiments.recipe import find_recipe, recipes
from chronode.lab.experiments.rows import compare, row_of
from chronode.lab.experiments.run import BEST_TEST, make_run

ROOT = Path(__file__).parents[3]


def table(name, budget, accuracy, notes=(), **parts):
    """A table with one run of LTC on occupancy."""
    recipe = find_recipe(name)
    (cell,) = (c for c in recipe.cells(budget) if (c.model, c.task) == ("ltc", "occupancy"))
    found = {}
    for own in (*cell.trials(), *cell.candidates()):
        about = {"model": own.model, "task": own.task, "protocol": own.protocol, "config": own.config}
        metrics = {"test": {"accuracy": accuracy}, "valid": {"accuracy": 0.5}, **parts}
        found[own.hashes()[0]] = entry(0, **about, config_hash=own.hashes()[0], metrics=metrics, notes=list(notes))
    return Table(recipe, budget, [row_of(cell.number, cell, found)])


def test_the_printed_cells():
    assert len(set(printed())) == len(printed()) == 403
    own = [number.model for number in printed(own=True)]
    assert {name: own.count(name) for name in own} == {"mmrnn": 9, "unicornn": 13, "ltc": 14, "irnn": 35, "ernn": 28}


def test_a_printed_cell_counts_once_in_the_copy_nearest_to_the_authors():
    ways = [
        table("ltc/table3", "laptop", 0.99),
        table("ltc/table3", "long", 0.98),
        table("ltc/table3-paper", "laptop", 0.97),
        table("ltc/table3-paper", "long", 0.10),
    ]
    for order in (ways, ways[::-1]):
        for kept, mean in ((4, 10), (3, 97), (2, 98), (1, 99)):
            some = [way for way in order if way in ways[:kept]]
            assert [round(found.mean) for found in counted(some).values()] == [mean]
    (number,) = counted(ways)
    assert tally([number, *printed()[:3]], counted(ways)) == {"printed": 4, "filled": 1, "not reached": 1}


def test_the_best_test_epoch_is_a_column_of_its_own_and_does_not_count():
    (found,) = table("ltc/table3-paper", "laptop", 0.5, **{BEST_TEST: {"accuracy": 0.99, "epoch": 3.0}}).rows
    assert (found.mean, found.best_test, found.verdict) == (50, 99, "not reached")


def test_a_table_of_random_networks_is_measured_into_the_ledger():
    cell = next(
        c for c in find_recipe("mmrnn/table2").cells("smoke") if (c.model, c.number.column) == ("mmrnn", "T=25")
    )
    made = make_run(cell, 0)
    expected = gradient_table(["mmrnn"], hidden_size=8, seeds=1).means[0, 2]
    assert made.metrics["test"]["gradient norm"] == pytest.approx(expected)
    found = row_of(cell.number, cell, {made.config_hash: made})
    assert found.mean == pytest.approx(expected)
    assert found.spread == made.metrics["test"]["spread"] > 0


def test_the_page_has_the_two_lines(tmp_path):
    folder = tmp_path / "results"
    run = replace(table("ltc/table3-paper", "laptop", 0.99).rows[0].entries[0], machine={"cpu": "A", "cores": 2})
    Ledger(folder).append(run)
    others = [c for c in find_recipe("ltc/table3-paper").cells("laptop") if (c.model, c.task) == ("ltc", "occupancy")]
    for own in others[0].candidates():
        Ledger(folder).append(replace(run, config=own.config, config_hash=own.hashes()[0]))
    assert render(Ledger(folder), tmp_path / "RESULTS.md", folder) == 1
    text = (tmp_path / "RESULTS.md").read_text()
    assert "\nOwn models: 99 printed cells, 1 filled, 1 reached.\n" in text
    assert "\n1 of the 403 printed cells are filled." in text


def test_the_readme_has_the_counts_of_the_page():
    page, readme = ((ROOT / name).read_text(encoding="utf-8") for name in ("RESULTS.md", "README.md"))
    own = re.search(r"Own models: (\d+) printed cells, (\d+) filled, (\d+) reached\.", page).groups()
    every = re.search(r"(\d+) of the (\d+) printed cells are filled\. (\d+) are reached", page).groups()
    stated = re.search(
        r"of the (\d+) printed cells of their own\s+models, (\d+) are filled and (\d+) reached; "
        r"of all (\d+), (\d+) and (\d+)",
        re.sub(r"\s+", " ", readme),
    ).groups()
    assert stated == (*own, every[1], every[0], every[2])


@pytest.mark.slow
def test_every_cell_of_an_own_model_that_is_not_reached_has_a_reason():
    ledger = Ledger(ROOT / "results")
    tables = [
        Table(recipe, budget, compare(recipe, budget, ledger))
        for recipe in recipes().values()
        for budget in ("laptop", "long", "paper")
        if recipe.paper != "beyond"
    ]
    rows = counted(tables)
    cells = Reasons(ROOT / "results" / "reasons.csv").of_own_models(rows)
    assert NOT_EXAMINED not in cells
    assert sum(map(len, cells.values())) == 99 - tally(printed(own=True), rows)["reached"]


def test_the_reason_of_a_number_is_that_of_the_first_line_that_names_its_recipe(tmp_path):
    path = tmp_path / "reasons.csv"
    path.write_text("recipe,column,model,reason\nltc/table4 ltc/table3,Ozone,,few days.\nltc/table3,,,few epochs.\n")
    reasons, recipe = Reasons(path), find_recipe("ltc/table3")
    by_column = {number.column: reasons.find(recipe, number) for number in recipe.numbers()}
    assert by_column.pop("Ozone") == "few days." and set(by_column.values()) == {"few epochs."}
    assert reasons.find(find_recipe("ltc/table5"), recipe.numbers()[0]) is None
