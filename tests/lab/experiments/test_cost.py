"""Estimates of how long runs take."""

import json
from types import SimpleNamespace

import pytest
from commands import run

from chronode.lab.experiments import cost
from chronode.lab.experiments.jobs import TableJob
from chronode.lab.experiments.recipe import find_recipe, recipes
from chronode.lab.experiments.summary import CANDIDATES


def job(budget="laptop", model="mmrnn", column="event"):
    cells = find_recipe("mmrnn/table3").cells(budget)
    return TableJob(next(c for c in cells if (c.model, c.number.column) == (model, column)), 0)


def ran(cell, steps, seconds, **training):
    config = {**cell.config, "training": cell.config["training"] | training}
    return SimpleNamespace(model=cell.model, task=cell.task, config=config, steps=steps, seconds=seconds)


def test_a_run_that_was_made_tells_the_time_of_a_step():
    wanted = job()
    known = [ran(wanted.cell, steps=3, seconds=12.0, learning_rate=0.1)]
    assert cost.seconds(wanted, known) == pytest.approx(15_000 * 4.0)


def test_epochs_are_counted_in_steps():
    wanted = job("paper")
    known = [ran(wanted.cell, steps=10, seconds=1.0)]
    assert cost.seconds(wanted, known) == pytest.approx(500 * -(-100_000 // 256) * 0.1)


def test_pieces_of_a_series_are_steps(monkeypatch):
    monkeypatch.setattr(cost, "_batch_seconds", lambda *_: float(cost.STEPS * cost.SERIES))
    took = {c.model: cost.seconds(TableJob(c, 0), []) for c in find_recipe("unicornn/table7").cells("laptop")}
    assert took["lstm"] == 12_000 * 32 * 100
    assert took["unicornn"] == 12_000 * 4 * 2_000


@pytest.mark.parametrize("other", [job(column="dense"), job(model="lstm-dt"), job(budget="paper")])
def test_other_data_models_and_batches_tell_nothing(other, monkeypatch):
    monkeypatch.setattr(cost, "_batch_seconds", lambda *_: 1.0)
    known = [ran(other.cell, steps=1, seconds=1e9)]
    assert cost.seconds(job(), known) == cost.seconds(job(), []) < 1e8


def test_classifiers_of_summaries_have_no_network_to_time():
    cells = [cell for cell in find_recipe("beyond/physionet2012").cells("laptop") if cell.model in CANDIDATES]
    assert {cell.model for cell in cells} == set(CANDIDATES)
    for cell in cells:
        assert cost.seconds(TableJob(cell, 0), []) == cost.SUMMARY_SECONDS
        assert cost.seconds(TableJob(cell, 0), [ran(cell, steps=0, seconds=7.5)]) == 7.5


def test_every_table_has_a_plan(tmp_path, monkeypatch):
    monkeypatch.setattr(cost, "_batch_seconds", lambda *_: 1.0)
    output = json.loads(run("reproduce", "--all", "--plan", "--json", "--ledger", str(tmp_path / "results")).stdout)
    assert {line["recipe"] for line in output} == set(recipes())
    assert all(line["hours"] > 0 for line in output if line["runs"])


@pytest.mark.parametrize("model", ["mmrnn", "ltc", "lstm"])
def test_a_batch_is_timed(model):
    assert 0 < cost._batch_seconds(model, 3, (("hidden_size", 4),)) < 60


def test_models_are_timed_as_in_a_long_training(monkeypatch):
    planned, used = [], []
    monkeypatch.setattr(cost.compiler, "plan", lambda _, steps: planned.append(steps) or SimpleNamespace(compiled=True))
    monkeypatch.setattr(cost.compiler, "use", lambda _, compiled: used.append(compiled))
    cost._batch_seconds.__wrapped__("gru", 3, (("hidden_size", 4),))
    assert (planned, used) == ([cost.LONG], [True])
