"""Settings that are chosen by validation: which runs that takes, and which of them counts."""

from dataclasses import replace

import pytest
import torch
from entries import entry

import chronode
from chronode.lab.experiments.jobs import chosen, missing
from chronode.lab.experiments.ledger import Ledger
from chronode.lab.experiments.recipe import Search, current_hashes, find_recipe
from chronode.lab.experiments.rows import row_of


def cell(model="lstm"):
    return next(c for c in find_recipe("ltc/table3-paper").cells("laptop") if (c.task, c.model) == ("gesture", model))


def made(cell, seed, valid, test=0.5):
    about = {"model": cell.model, "task": cell.task, "protocol": cell.protocol, "config": cell.config}
    metrics = {"test": {"accuracy": test}} | ({} if valid is None else {"valid": {"accuracy": valid}})
    return entry(seed, cell.recipe, **about, config_hash=cell.hashes()[seed], metrics=metrics)


def fill(ledger, cell, valid):
    for candidate, value in zip(cell.candidates(), valid, strict=True):
        ledger.append(made(candidate, 0, value, test=1 - (value or 0)))
    return {e.config_hash: e for e in ledger.entries()}


def rates(jobs):
    return [(job.seed, job.cell.config["training"]["learning_rate"]) for job in jobs]


def test_every_candidate_is_run_once_then_the_best_by_validation_with_all_seeds(tmp_path):
    ledger = Ledger(tmp_path)
    assert rates(missing([cell()], ledger)) == [(0, 0.001), (0, 0.005), (0, 0.01)]
    have = fill(ledger, cell(), [0.6, 0.8, 0.7])
    assert rates(missing([cell()], ledger)) == [(1, 0.005), (2, 0.005)]
    # By validation: the test score of this candidate is the lowest.
    found = row_of(cell().number, cell(), have)
    assert round(found.mean, 6) == 20
    assert len(found.entries) == 1
    best = chosen(cell(), have)
    for seed in (1, 2):
        ledger.append(made(best, seed, 0.1))
    assert missing([cell()], ledger) == []


def test_nothing_is_shown_before_all_candidates_were_run(tmp_path):
    ledger = Ledger(tmp_path)
    ledger.append(made(cell().candidates()[0], 0, 0.9))
    have = {e.config_hash: e for e in ledger.entries()}
    assert chosen(cell(), have) is None
    assert row_of(cell().number, cell(), have).verdict == "not run"


def test_a_candidate_that_diverged_at_once_is_never_the_best(tmp_path):
    have = fill(Ledger(tmp_path), cell(), [0.0, None, None])
    assert chosen(cell(), have).config["training"]["learning_rate"] == 0.001


def test_a_lower_error_is_better(tmp_path):
    wanted = next(c for c in find_recipe("ltc/table6").cells("laptop") if c.model == "ltc")
    ledger = Ledger(tmp_path)
    for candidate, error in zip(wanted.candidates(), [3.0, 1.0, 2.0], strict=True):
        run = made(candidate, 0, None)
        run.metrics.update(test={"mse": 1.0}, valid={"mse": error})
        ledger.append(run)
    best = chosen(wanted, {e.config_hash: e for e in ledger.entries()})
    assert best.config["training"]["learning_rate"] == 0.005


def test_settings_of_the_model_are_chosen_too():
    choices = {"weight_decay": (0.01, 0.1), "dropout": (0.0, 0.3)}
    wanted = replace(cell(), search=Search(choices))
    found = [(c.config["training"]["weight_decay"], c.config["model"]["dropout"]) for c in wanted.candidates()]
    assert found == [(0.01, 0.0), (0.01, 0.3), (0.1, 0.0), (0.1, 0.3)]
    size = wanted.config["model"]["hidden_size"]
    assert all(c.config["model"]["hidden_size"] == size for c in wanted.candidates())


def test_with_a_refit_the_selected_settings_are_trained_once_more_on_all_training_series(tmp_path):
    wanted, ledger = replace(cell(), refit=True), Ledger(tmp_path)
    assert not any(job.cell.config["training"].get("refit") for job in missing([wanted], ledger))
    have = fill(ledger, wanted, [0.6, 0.8, 0.7])
    assert row_of(wanted.number, wanted, have).verdict == "not run"
    jobs = missing([wanted], ledger, seeds=2)
    assert [(job.seed, job.cell.config["training"]["refit"]) for job in jobs] == [(0, True), (1, True)]
    assert {job.cell.config["training"]["learning_rate"] for job in jobs} == {0.005}
    assert {job.hash for job in jobs} <= wanted.every_hash()
    ledger.append(made(jobs[0].cell, 0, 0.0, test=0.9))
    found = row_of(wanted.number, wanted, {e.config_hash: e for e in ledger.entries()})
    assert (round(found.mean, 6), len(found.entries)) == (90, 1)


def test_a_refit_without_choices_is_the_only_training(tmp_path):
    wanted = next(c for c in find_recipe("irnn/table9").cells("laptop") if (c.task, c.model) == ("har-2", "fastrnn"))
    jobs = missing([wanted], Ledger(tmp_path), seeds=1)
    assert [job.cell.config["training"]["refit"] for job in jobs] == [True]


def test_without_choices_there_is_one_candidate():
    wanted = find_recipe("mmrnn/table3").cells("laptop")[0]
    assert [c.config for c in wanted.candidates()] == [wanted.config]


def test_runs_that_no_recipe_asks_for_are_archived(tmp_path):
    ledger, current = Ledger(tmp_path), current_hashes()
    kept, orphan = made(cell().candidates()[2], 0, 0.5), entry(7)
    assert kept.config_hash in current
    ledger.append(kept), ledger.append(orphan)
    assert ledger.archive(lambda e: e.config_hash in current) == 1
    assert ledger.entries() == [kept]
    assert Ledger(tmp_path / "archive").entries() == [orphan]
    assert ledger.archive(lambda e: False) == 1  # the rest
    assert ledger.entries() == []
    assert len(Ledger(tmp_path / "archive").entries()) == 2


def test_trials_may_be_shorter_than_the_run_that_counts(tmp_path):
    rates_tried = Search({"learning_rate": (0.001, 0.01)}, {"steps": 10})
    wanted, ledger = replace(cell(), search=rates_tried, seeds=2), Ledger(tmp_path)
    jobs = missing([wanted], ledger)
    assert [(job.seed, job.cell.config["training"]["steps"]) for job in jobs] == [(0, 10), (0, 10)]
    for job, valid in zip(jobs, (0.8, 0.6), strict=True):
        ledger.append(made(job.cell, 0, valid))
    full = wanted.config["training"]["steps"]
    jobs = missing([wanted], ledger)
    assert rates(jobs) == [(0, 0.001), (1, 0.001)]
    assert {job.cell.config["training"]["steps"] for job in jobs} == {full}
    assert {job.hash for job in jobs} | {e.config_hash for e in ledger.entries()} <= wanted.every_hash()


@pytest.mark.parametrize("budget", ["laptop", "long", "paper"])
def test_ernn_shares_the_runs_of_irnn_where_both_compute_the_same(budget):
    runs = {}
    for name in ("irnn/table11", "ernn/table5", "irnn/table9", "ernn/table3"):
        cells = [c for c in find_recipe(name).cells(budget) if c.task == "har-2" and c.number.model in ("irnn", "ernn")]
        runs[name] = {(c.config["model"]["K"], c.config["model"].get("activation", "relu")): c.hashes() for c in cells}
    assert runs["irnn/table11"] == runs["ernn/table5"]
    assert runs["irnn/table9"] == runs["ernn/table3"]
    assert runs["irnn/table9"].items() <= runs["irnn/table11"].items()


def test_the_cells_of_ernn_and_irnn_are_the_same_computation():
    x, outputs = torch.linspace(-1, 1, 60).reshape(2, 10, 3), []
    for name in ("ernn", "irnn"):
        torch.manual_seed(0)
        outputs.append(chronode.create(name, 3, 8, K=3, eta_steps=10, eta=0.5)(x)[0])
    assert outputs[0].equal(outputs[1])
    assert outputs[0].std() > 0.01
