import json
from dataclasses import replace

import pytest
from entries import entry

from chronode.lab.experiments.jobs import missing
from chronode.lab.experiments.ledger import Ledger
from chronode.lab.experiments.recipe import BUDGETS, find_recipe, recipes
from chronode.lab.experiments.report import as_markdown
from chronode.lab.experiments.rows import compare, row_of, verdict
from chronode.lab.experiments.summary import CANDIDATES
from chronode.lab.papers import numbers
from chronode.training import Settings
from chronode.training._metrics import mean_and_std

TABLES = [
    "mmrnn/table3",
    "mmrnn/table4",
    "mmrnn/table4-paper",
    "mmrnn/table5",
    "mmrnn/table6",
    "mmrnn/table6-paper",
    "unicornn/table1",
    "unicornn/table2",
    "unicornn/table2-paper",
    "unicornn/table3",
    "unicornn/table4",
    "unicornn/table4-paper",
    "unicornn/table5",
    "unicornn/table7",
    "unicornn/table8",
    "ltc/table3",
    "ltc/table4",
    "ltc/table5",
    "ltc/table6",
    "ltc/table3-paper",
    "ltc/table4-paper",
    "ltc/table5-paper",
    "irnn/table1",
    "irnn/table2",
    "irnn/table3",
    "irnn/table7",
    "irnn/table8",
    "irnn/table9",
    "irnn/table10",
    "irnn/table11",
    "irnn/figure4-end",
    "ernn/table3",
    "ernn/table4",
    "ernn/table5",
    "beyond/physionet2012",
    "beyond/physionet2012-splits",
    "beyond/one-bit",
    "beyond/spoken-digits",
    "beyond/pixels",
    "beyond/heart-rate",
    "beyond/lem",
]


def test_every_table_has_a_recipe():
    assert set(TABLES) <= set(recipes())


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("name", TABLES)
def test_every_cell_can_be_run(name, budget):
    for cell in find_recipe(name).cells(budget):
        Settings.from_dict(cell.config["training"])
        assert json.loads(json.dumps(cell.config)) == cell.config
        assert cell.model in CANDIDATES or cell.config["training"]["epochs"] >= 1
        assert len(set(cell.hashes())) == cell.seeds


def test_a_row_brings_its_own_settings():
    cells = find_recipe("irnn/table9").cells("laptop")
    of = {cell.number.label: cell for cell in cells if cell.task == "har-2"}
    assert of["iRNN (K=5)"].config["model"]["K"] == 5
    assert of["iRNN (K=5)"].config["model"]["hidden_size"] == 80
    assert "K" not in of["LSTM"].config["model"]


def test_columns_bring_the_options_of_the_task():
    cells = find_recipe("mmrnn/table3").cells("laptop")
    assert {cell.number.column: cell.config["options"]["event"] for cell in cells} == {"dense": False, "event": True}
    assert {cell.config["options"]["valid"] for cell in cells} == {2_000}


def test_columns_may_have_budgets_of_their_own():
    cells = find_recipe("mmrnn/table3").cells("laptop")
    assert {c.number.column: c.config["training"]["steps"] for c in cells} == {"dense": 8_000, "event": 15_000}


def test_models_may_have_settings_of_their_own():
    cells = find_recipe("unicornn/table7").cells("laptop")
    assert {c.model: c.config["training"].get("tbptt") for c in cells} == {"lstm": 100, "cornn": 100, "unicornn": None}


def test_authors_trained_the_other_models_at_another_rate():
    rates = {c.model: c.config["training"]["learning_rate"] for c in find_recipe("ltc/table6").cells("paper")}
    assert rates.pop("ltc") == 0.01
    assert set(rates) == {"lstm", "ct-rnn", "neural-ode", "ct-gru"}
    assert set(rates.values()) == {0.001}


def test_a_curve_of_the_paper_has_no_verdict():
    figure = numbers("irnn", "figure4")[0]
    assert (figure.mean, verdict(figure, 0.1, None)) == (None, "no number")


def test_numbers_from_other_data_are_neither_better_nor_worse(tmp_path):
    recipe = find_recipe("mmrnn/table6")
    cell = recipe.cells("laptop")[0]
    about = {"model": cell.model, "task": cell.task, "config": cell.config, "config_hash": cell.hashes()[0]}
    Ledger(tmp_path).append(entry(0, recipe.name, **about, metrics={"test": {"mse": 0.1}}))
    rows = compare(recipe, "laptop", Ledger(tmp_path))
    assert [row.verdict for row in rows if row.entries] == ["not comparable"]
    assert "Not comparable: these are recordings of policies" in as_markdown(recipe, "laptop", rows)


def test_units_decide_between_two_settings_of_a_paper():
    own = [c.config for c in find_recipe("unicornn/table1").cells("paper") if c.model == "unicornn"]
    assert [(c["model"]["hidden_size"], c["model"]["delta_t"]) for c in own] == [(128, 0.482), (256, 0.19)]
    assert [c["training"]["batch_size"] for c in own] == [64, 32]


def test_a_budget_may_have_settings_of_one_model():
    cells = {cell.number.label: cell.config for cell in find_recipe("unicornn/table1").cells("laptop")}
    oscillators, lstm = cells["UnICORNN (L=3)"], cells["LSTM"]
    assert (oscillators["model"]["delta_t"], oscillators["training"]["clip"]) == (0.7, 1.0)
    assert "delta_t" not in lstm["model"] and lstm["training"]["steps"] != oscillators["training"]["steps"]


def test_nothing_of_a_model_is_lent_to_another():
    cells = {cell.number.label: cell for cell in find_recipe("unicornn/table1").cells("paper")}
    assert "delta_t" not in cells["LSTM"].config["model"]


def test_runs_that_two_tables_share_are_made_once(tmp_path):
    one, both = (
        missing([cell for name in names for cell in find_recipe(name).cells("laptop")], Ledger(tmp_path))
        for names in (["irnn/table7"], ["irnn/table1", "irnn/table7"])
    )
    assert len(one) == len(both)


def test_first_seeds_come_first(tmp_path):
    seeds = [job.seed for job in missing(find_recipe("mmrnn/table3").cells("paper"), Ledger(tmp_path))]
    assert seeds == sorted(seeds)
    assert set(seeds) == set(range(5))


def _figure(label="mmRNN", table="3"):
    return next(f for f in numbers("mmrnn", table) if f.label == label and f.column in ("event", "square-error"))


@pytest.mark.parametrize(
    ("mean", "spread", "seeds", "expected"),
    [
        (98.89, None, 1, "reached"),
        (98.63, None, 1, "reached"),  # the printed deviation is 0.26
        (98.62, None, 1, "not reached"),
        (98.50, 4.0, 5, "not reached"),  # ours does not count where one is printed
        (99.50, 9.0, 5, "reached"),
        (float("nan"), None, 1, "not reached"),
    ],
)
def test_a_number_is_reached_within_the_printed_deviation(mean, spread, seeds, expected):
    assert verdict(_figure(), mean, spread, seeds) == expected


@pytest.mark.parametrize(
    ("mean", "spread", "seeds", "expected"),
    [
        (97.73, None, 1, "reached"),
        (97.72, None, 1, "not reached"),
        (96.88, None, 1, "not reached"),  # 37% more errors
        (97.70, 0.1, 3, "reached"),
        (97.70, 0.1, 2, "not reached"),
        (97.66, 0.1, 3, "not reached"),  # the standard error is 0.058
        (97.62, 40.0, 3, "reached"),  # 5% of the error rate, 2.27, are 0.11
        (97.61, 40.0, 3, "not reached"),
    ],
)
def test_without_a_printed_deviation_our_standard_error_counts_a_little(mean, spread, seeds, expected):
    number = next(f for f in numbers("irnn", "1") if (f.column, f.variant) == ("Pixel-MNIST", "K=1"))
    assert (number.mean, number.spread) == (97.73, None)
    assert verdict(number, mean, spread, seeds) == expected


def test_less_error_is_better():
    figure = _figure(table="6")
    assert verdict(figure, 0.5) == verdict(figure, 0.897) == "reached"
    assert verdict(figure, 0.898) == "not reached"


def test_a_measured_quantity_is_reached_from_both_sides():
    number = next(f for f in numbers("ltc", "2") if (f.label, f.column) == ("LTC", "tanh"))
    assert [verdict(number, number.mean + far) for far in (-3, -2.9, 2.9, 3)] == [
        *("not reached", "reached", "reached", "not reached")
    ]


def test_parts_of_the_data_are_not_comparable():
    recipe = find_recipe("unicornn/table2-paper")
    cell = next(c for c in recipe.cells("laptop") if c.model == "unicornn")
    about = {"model": cell.model, "task": cell.task, "protocol": "paper", "config": cell.config}
    run = entry(0, **about, config_hash=cell.hashes()[0], metrics={"test": {"accuracy": 0.99}})
    assert row_of(cell.number, cell, {run.config_hash: run}).verdict == "reached"
    part = replace(run, notes=["partial: 20,000 of 50,000 images"])
    assert row_of(cell.number, cell, {run.config_hash: part}).verdict == "not comparable"


def test_without_runs_there_is_no_number():
    assert row_of(_figure(), None, {}).verdict == "not run"


def test_the_spread_is_the_samples():
    assert mean_and_std([1.0, 2.0, 3.0]) == (2.0, 1.0)
    assert mean_and_std([4.0]) == (4.0, None)


def test_an_unknown_recipe_is_named():
    with pytest.raises(ValueError, match="Did you mean 'mmrnn/table3'"):
        find_recipe("mmrnn/tabel3")
