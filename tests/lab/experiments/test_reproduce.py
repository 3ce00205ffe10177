"""`chronode reproduce` from end to end, at the smoke budget."""

import json
import multiprocessing
import os
import re
import signal
from dataclasses import replace

import pytest
from commands import run
from entries import entry

from chronode.lab.experiments.figures import drawings
from chronode.lab.experiments.jobs import Finished, TableJob, make_runs, missing
from chronode.lab.experiments.ledger import Ledger
from chronode.lab.experiments.page import render
from chronode.lab.experiments.recipe import find_recipe
from chronode.lab.experiments.report import as_markdown, differences
from chronode.lab.experiments.rows import compare, named
from chronode.search.engine import Engine
from chronode.training import TrainingStopped
from chronode.training._assembly import Assembly
from chronode.training._events import Diverged


def _jobs(ledger, *models, recipe="mmrnn/table3", column="event"):
    cells = find_recipe(recipe).cells("smoke")
    return missing([c for c in cells if c.model in models and c.number.column == column], ledger)


def test_a_table_is_run_compared_written_and_not_run_again(tmp_path):
    folders = ("--ledger", str(tmp_path / "results"), "--output", str(tmp_path / "tables"))
    options = ("--budget", "smoke", "--models", "mmrnn", "--json")
    output = json.loads(run("reproduce", "mmrnn/table3", *options, *folders).stdout)["mmrnn/table3"]
    ran = [row for row in output if row["ours"]["seeds"]]
    assert {(row["label"], row["column"]) for row in ran} == {("mmRNN", column) for column in ("dense", "event")}
    assert all(row["verdict"] == "not run" for row in output if row not in ran)
    assert all(30 < row["ours"]["mean"] < 80 for row in ran)
    assert "| event | mmRNN | 98.89 ± 0.26 (n = 5) |" in (tmp_path / "tables" / "mmrnn-table3-smoke.md").read_text()
    assert (tmp_path / "tables" / "mmrnn-table3-smoke.png").read_bytes().startswith(b"\x89PNG")
    lines = (tmp_path / "results" / "mmrnn-table3.jsonl").read_text()
    assert len(lines.splitlines()) == 2
    run("reproduce", "mmrnn/table3", *options, *folders)
    assert (tmp_path / "results" / "mmrnn-table3.jsonl").read_text() == lines


def test_what_another_process_made_meanwhile_is_not_made_again(tmp_path, monkeypatch):
    ledger = Ledger(tmp_path)
    (job,) = _jobs(ledger, "mmrnn")
    made = entry(config=job.cell.config, config_hash=job.hash)
    ledger.append(made)
    monkeypatch.setattr(TableJob, "execute", None)
    assert list(make_runs([job], ledger, Engine())) == [Finished(job, made)]


def test_a_run_repeats(tmp_path):
    (job,) = _jobs(Ledger(tmp_path), "mmrnn")
    one, two = job.execute(), job.execute()
    assert one.metrics == two.metrics
    assert one.data_hash == two.data_hash
    assert one.config_hash == job.hash


def test_the_best_epoch_of_the_test_part_is_kept_beside_and_decides_nothing(tmp_path):
    (job,) = _jobs(Ledger(tmp_path), "mmrnn")
    job.cell.config["training"]["epochs"] = 4
    plain = job.execute()
    seen = TableJob(replace(job.cell, best_test=True), job.seed).execute(tmp_path)
    best = seen.metrics.pop("best test epoch")
    assert seen.metrics == plain.metrics
    assert best["accuracy"] >= plain.metrics["test"]["accuracy"]
    assert 1 <= best["epoch"] <= 4
    # A run that resumes keeps what it saw before.
    (path,) = tmp_path.rglob("best_test.json")
    path.write_text(json.dumps({"accuracy": 2.0, "epoch": 1.0}))
    assert TableJob(replace(job.cell, best_test=True), 0).execute(tmp_path).metrics["best test epoch"]["accuracy"] == 2


def test_a_row_may_start_from_a_linear_model(tmp_path, monkeypatch):
    starts, fit = [], Assembly.fit
    monkeypatch.setattr(Assembly, "fit", lambda own, **more: starts.append(own.linear) or fit(own, **more))
    (job,) = _jobs(Ledger(tmp_path), "mmrnn")
    job.execute()
    job.cell.config["model"]["start"] = "linear"
    made = job.execute()
    assert [start is None for start in starts] == [True, False]
    assert made.config_hash == job.hash


@pytest.mark.slow  # each worker imports torch; tests/search/engine/test_engine.py kills workers in every `make test`
def test_a_killed_worker_loses_its_run_only(tmp_path):
    ledger = Ledger(tmp_path)
    victim, other = _jobs(ledger, "mmrnn", "lstm-dt")
    victim.cell.config["training"]["epochs"] = 100_000
    killed = []

    def kill(job, progress):
        if job == victim:
            (worker,) = multiprocessing.active_children()
            os.kill(worker.pid, signal.SIGKILL)
            killed.append(worker.pid)

    finished = list(make_runs([victim, other], ledger, Engine(workers=1, retries=1), on_progress=kill))
    assert len(set(killed)) == 2
    assert [item.job for item in finished] == [victim, other]
    assert finished[0].fault == "its process ended with code -9"
    assert [entry.model for entry in ledger.entries()] == [other.cell.model]


def test_a_fault_of_one_run_is_reported_and_the_others_continue(tmp_path):
    ledger = Ledger(tmp_path)
    good, bad = _jobs(ledger, "mmrnn", "lstm-dt")
    bad.cell.config["training"]["learning_rate"] = -1.0
    wrong, right = make_runs([bad, good], ledger, Engine())
    assert (wrong.entry, right.entry) == (None, ledger.find(good.hash))
    assert "learning_rate must be greater than 0" in wrong.fault


@pytest.mark.slow  # tests/search/engine/test_engine.py continues an unfinished job in every `make test`
def test_a_run_that_was_cut_off_continues_where_it_stopped(tmp_path):
    """To the same numbers, in whichever process."""
    ledger = Ledger(tmp_path / "results")
    (job,) = _jobs(ledger, "mmrnn")
    job.cell.config["training"] |= {"epochs": 60, "batch_size": 8}
    whole, reached, continued = job.execute(), [], []

    def cut(job, progress):
        reached.append(progress.done)
        raise InterruptedError("enough")

    with pytest.raises(InterruptedError):
        list(make_runs([job], ledger, Engine(workers=1), state=tmp_path / "state", on_progress=cut))
    assert list((tmp_path / "state" / job.hash).iterdir())
    options = {"state": tmp_path / "state", "on_progress": lambda job, progress: continued.append(progress.done)}
    (finished,) = make_runs([job], ledger, Engine(workers=1), **options)
    assert finished.entry.metrics == whole.metrics
    assert all(done > reached[0] for done in continued)
    assert not (tmp_path / "state" / job.hash).exists()


@pytest.mark.parametrize(("error", "counts"), [(Diverged, True), (TrainingStopped, False)])
def test_a_training_that_diverged_is_a_result_and_one_without_memory_is_not(error, counts, tmp_path, monkeypatch):
    (job,) = _jobs(Ledger(tmp_path), "mmrnn")
    whole = job.execute()

    fit = Assembly.fit

    def stops(assembly, **options):
        fault = error("the loss is not finite at step 7.")
        fault.fitted = fit(assembly, **options)
        raise fault

    monkeypatch.setattr(Assembly, "fit", stops)
    if not counts:
        with pytest.raises(TrainingStopped, match="step 7"):
            job.execute()
        return
    entry = job.execute()
    assert entry.metrics == whole.metrics
    assert entry.notes == ["mmrnn with learning_rate=0.005, seed 0: the loss is not finite at step 7."]


def test_the_plan_tells_runs_and_hours(tmp_path):
    folders = ("--ledger", str(tmp_path / "results"))
    (output,) = json.loads(run("reproduce", "mmrnn/table3", "--plan", "--json", *folders).stdout)
    assert output["runs"] == 5 * 28
    (once,) = json.loads(run("reproduce", "mmrnn/table3", "--plan", "--seeds", "1", "--json", *folders).stdout)
    assert once["runs"] == 28
    assert 0 < output["hours"] < 100
    part = ("--only", "event", "--models", "lstm-dt,mmrnn")
    (some,) = json.loads(run("reproduce", "mmrnn/table3", "--plan", *part, "--json", *folders).stdout)
    assert some["runs"] == 5 * 2


def test_the_list_names_the_recipes():
    names = [row["name"] for row in json.loads(run("reproduce", "--list", "--json").stdout)]
    assert {"unicornn/table1", "mmrnn/table2", "unicornn/figure5"} <= set(names)


def test_a_figure_is_drawn(tmp_path):
    output = run("reproduce", "irnn/figure2", "--budget", "smoke", "--output", str(tmp_path)).stdout
    assert "irnn/figure2" in output
    assert list(tmp_path.rglob("*.png"))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("mmrnn/table33",), "Did you mean 'mmrnn/table3'"),
        ((), "pass a recipe"),
        (("mmrnn/table3", "--budget", "huge"), "--budget huge"),
        (("mmrnn/table3", "--engine", "slurm"), "--engine='slurm'"),
        (("mmrnn/table3", "--only", "evnt"), "Did you mean 'event'"),
        (("mmrnn/table3", "--models", "mmrnn,lstm-d"), "Did you mean 'lstm-dt'"),
    ],
)
def test_a_mistake_is_named(arguments, expected):
    assert expected in run("reproduce", *arguments, code=2).stderr


def test_the_page_of_results_holds_what_the_ledger_holds(tmp_path):
    ledger = Ledger(tmp_path / "results")
    (job,) = _jobs(ledger, "mmrnn")
    entry = job.execute()
    ledger.append(entry)
    recipe = find_recipe("mmrnn/table3")
    table = as_markdown(recipe, "smoke", compare(recipe, "smoke", ledger))
    assert f"{100 * entry.metrics['test']['accuracy']:.2f}" in table
    # Smoke runs only prove that the machinery works: they are no result.
    assert render(ledger, tmp_path / "RESULTS.md", tmp_path / "results") == 0


def test_a_run_that_two_budgets_share_is_shown_once(tmp_path):
    shared = set(find_recipe("mmrnn/table4").cells("laptop")[0].hashes()) & set(
        find_recipe("mmrnn/table4").cells("paper")[0].hashes()
    )
    assert shared  # the laptop's budget is the first of the paper's seeds
    cell = find_recipe("mmrnn/table4").cells("laptop")[0]
    options = {"recipe": cell.recipe, "config": cell.config, "config_hash": shared.pop(), "seed": 0, "budget": "laptop"}
    ledger = Ledger(tmp_path / "results")
    options |= {"epochs": 200, "steps": 200 * cell.epoch_steps()}
    ledger.append(entry(**options, model=cell.model, task=cell.task, machine={"cpu": "one", "cores": 2}))
    assert render(ledger, tmp_path / "RESULTS.md", tmp_path / "results") == 1
    page = (tmp_path / "RESULTS.md").read_text()
    assert "unicornn/figure2" not in page
    assert "| Mixed-memory RNN (mmRNN) | 78 | 1 | 0 | 1 | 0 |" in page
    assert "chronode reproduce mmrnn/table4 --budget laptop" in page
    assert "chronode reproduce mmrnn/table4 --budget paper" not in page
    assert page.count("Not run: CT-RNN, Augmented LSTM, ") == 1
    assert (tmp_path / "results" / "pictures" / "mmrnn.png").read_bytes().startswith(b"\x89PNG")
    index = (tmp_path / "results" / "index.html").read_text()
    assert index.count("<tbody><tr>") == 1
    assert '<table class="sortable">' in index
    (line,) = re.findall(r"<tbody><tr>(.*?)</tr></tbody>", index)
    cells = re.findall(r"<td[^>]*>(.*?)</td>", line)
    assert cells[0] == "mmrnn/table4"
    assert cells[6] == "not reached, the paper&#x27;s steps"
    assert "http" not in index


def test_settings_that_differ_from_the_papers_are_listed(tmp_path):
    recipe, ledger = find_recipe("mmrnn/table5"), Ledger(tmp_path)
    for cell in recipe.cells("laptop")[:2]:
        about = {"model": cell.model, "task": cell.task, "config": cell.config, "config_hash": cell.hashes()[0]}
        ledger.append(entry(recipe=cell.recipe, **about))
    found = differences(recipe, compare(recipe, "laptop", ledger))
    schedule = "schedule cosine, which the paper does not give"
    assert found == ["batch_size 128 instead of 256", "clip 1 instead of 0", schedule]


def test_models_concerned_are_named_by_column_or_by_model():
    rows = compare(find_recipe("ltc/table3"), "laptop", Ledger("nowhere"))
    gesture = [row for row in rows if row.number.column == "Gesture"]
    lstm = [row for row in rows if row.number.label == "LSTM"]
    assert named(gesture, rows) == "Gesture"
    assert named(lstm, rows) == "LSTM"
    assert named([gesture[-1], *lstm[1:2]], rows) == "Gesture LTC; Occupancy LSTM"
    assert named(gesture[1:3], gesture) == "CT-RNN, Neural ODE"


def test_a_setting_selected_by_validation_is_in_the_table(tmp_path):
    recipe, ledger = find_recipe("ltc/table6"), Ledger(tmp_path)
    lstm = next(cell for cell in recipe.cells("laptop") if cell.model == "lstm")
    for cell, error in zip(lstm.candidates(), [3.0, 1.0, 2.0], strict=True):
        about = {"model": cell.model, "task": cell.task, "config": cell.config, "config_hash": cell.hashes()[0]}
        ledger.append(entry(recipe=cell.recipe, **about, metrics={"test": {"mse": 2.5}, "valid": {"mse": error}}))
    rows = compare(recipe, "laptop", ledger)
    assert not any("learning_rate" in line for line in differences(recipe, rows))
    header, _, line = [line for line in as_markdown(recipe, "laptop", rows).splitlines() if line.startswith("|")]
    cells = dict(zip(header.split(" | "), line.split(" | "), strict=True))
    assert cells["selected learning_rate |"] == "0.005 (paper: 0.001) |"


def test_worse_numbers_have_a_reason_or_are_listed_as_not_examined(tmp_path):
    recipe, ledger, reasons = (
        find_recipe("mmrnn/table4"),
        Ledger(tmp_path / "results"),
        tmp_path / "results/reasons.csv",
    )
    for cell in recipe.cells("laptop")[:3]:
        about = {"model": cell.model, "task": cell.task, "config": cell.config, "config_hash": cell.hashes()[0]}
        ledger.append(entry(recipe=cell.recipe, **about, machine={"cpu": "one", "cores": 2}))
    first, second, third = (cell.number.label for cell in recipe.cells("laptop")[:3])
    reasons.write_text(f"recipe,column,model,reason\nmmrnn/table4,,{second},half of the steps. See there.\n")
    render(ledger, tmp_path / "RESULTS.md", tmp_path / "results")
    page = (tmp_path / "RESULTS.md").read_text()
    assert f"- {second}: half of the steps. See there.\n- {first}, {third}: not examined." in page
    reasons.write_text("recipe,column,model,reason\nmmrnn/table4,,,the split.\n")
    render(ledger, tmp_path / "RESULTS.md", tmp_path / "results")
    assert f"- {first}, {second}, {third}: the split." in (tmp_path / "RESULTS.md").read_text()
    reasons.write_text("recipe,column,model,reason\nmmrnn/table4,,,\n")
    with pytest.raises(ValueError, match=r"reasons.csv, line 2: needs the columns recipe, column, model, reason"):
        render(ledger, tmp_path / "RESULTS.md", tmp_path / "results")


def test_findings_stand_between_the_counts_and_the_tables(tmp_path):
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "findings.md").write_text("## What we found\n\nNothing.\n")
    render(Ledger(tmp_path / "results"), tmp_path / "RESULTS.md", tmp_path / "results")
    assert "| all | 403 | 0 | 0 |" in (tmp_path / "RESULTS.md").read_text().partition("## What we found")[0]


def test_figures_that_were_drawn_are_shown(tmp_path):
    figures = tmp_path / "results" / "figures"
    drawings()["mmrnn/table2"].draw(figures, "smoke")
    render(Ledger(tmp_path / "results"), tmp_path / "RESULTS.md", tmp_path / "results")
    page = (tmp_path / "RESULTS.md").read_text()
    assert "![mmrnn/table2](results/figures/mmrnn-table2-smoke.png)" in page
    assert "`chronode reproduce mmrnn/table2 --output results/figures`" in page


def test_a_job_is_described_in_words(tmp_path):
    (job,) = _jobs(Ledger(tmp_path), "mmrnn")
    assert str(job) == "mmrnn/table3 event mmRNN, seed 0"
    assert isinstance(job, TableJob)
