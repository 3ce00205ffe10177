"""Files of every kind, damaged at random: each is read, or refused by one line that names it, in bounded time."""

import json
import random
import resource
import shutil
import time
import warnings
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from commands import VITALS, chronode, write_vitals
from file_mutations import damage

from chronode.cli.runs import facts
from chronode.cli.train import effective
from chronode.data import from_list
from chronode.data import load as load_series
from chronode.estimators import SequenceClassifier
from chronode.lab.experiments.ledger import Entry, Ledger, run_hash
from chronode.runs import load
from chronode.runs._folder import Run

MOST_SECONDS = 20.0  # for one file, on a machine that is busy
MOST_MEMORY = 600 * 2**10  # KiB more than before, over all cases
FEW = 60
MANY = 400


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    """A folder with whole files of every kind."""
    home = tmp_path_factory.mktemp("originals")
    table = write_vitals(home / "vitals.csv", patients=20)
    quick = ("--model", "mmrnn", "--hidden", 4, "--epochs", 2, "--batch-size", 8, "--threads", 1)
    chronode("train", table, *VITALS, *quick, "--output", home / "run")
    hours = np.arange(60)
    rows = [f"{hour},{np.sin(hour / 3):.3f},{hour % 2}" for hour in hours]
    (home / "waves.csv").write_text("\n".join(["hour,x,y", *rows]) + "\n")
    about = ("--time", "hour", "--forecast", 2, "--log", "y", "--gaps", "cap", "--known", "y", "--intervals", 80)
    chronode("train", home / "waves.csv", *about, *quick, "--output", home / "forecast")
    series = [np.arange(5.0), -np.arange(4.0)] * 4
    estimator = SequenceClassifier("gru", hidden_size=3, epochs=1, random_state=0)
    estimator.fit(series, ["up", "down"] * 4).save(home / "estimator")
    (home / "npz").mkdir()
    times = [[0.0, 1.0, 4.0], [0.0, 2.0]]
    from_list([[1.0, 2.0, 3.0], [4.0, 5.0]], times=times, target=["a", "b"], ids=["p", "q"]).save(home / "npz/a.npz")
    (home / "ledger").mkdir()
    lines = [json.dumps(asdict(_entry(seed))) for seed in range(3)]
    (home / "ledger/mmrnn-table3.jsonl").write_text("\n".join(lines) + "\n")
    (home / "config").mkdir()
    config = chronode("train", table, *VITALS, "--print-config").out
    (home / "config/a.yaml").write_text(config)
    return home


def _entry(seed):
    config = {"training": {"epochs": 1}, "options": {}}
    hashed = run_hash("mmrnn", "bitstream", "clean", seed, config)
    names = {"recipe": "mmrnn/table3", "model": "mmrnn", "task": "bitstream", "protocol": "clean", "budget": "smoke"}
    numbers = {"parameters": 10, "epochs": 1, "steps": 5, "seconds": 1.5, "peak_memory": 100.0}
    facts = {"config": config, "config_hash": hashed, "data_hash": "0", "commit": "0", "versions": {"torch": "2"}}
    options = {"machine": {"cores": 2}, "metrics": {"test": {"accuracy": 0.5}}, "finished": "2026-01-01"}
    return Entry(seed=seed, **names, **numbers, **facts, **options)


def use_run(folder: Path):
    facts(Run.open(folder))
    trained = load(folder)
    return lambda: trained.predict(trained.series(str(folder.parent / "vitals.csv"), labeled=False, anyway=True))


def use_forecast(folder: Path):
    trained = load(folder)
    table = {"hour": np.arange(20.0), "x": np.r_[np.sin(np.arange(18)), [np.nan] * 2], "y": np.arange(20) % 2}
    return lambda: trained.predict(trained.series(table, labeled=False, anyway=True))


def use_estimator(folder: Path):
    estimator = SequenceClassifier.load(folder)
    return lambda: estimator.predict_proba([np.arange(5.0), np.arange(3.0)])


def use_npz(folder: Path):
    series = load_series(folder / "a.npz")
    return lambda: (series.describe(), series.batch(), series.dt)


def use_ledger(folder: Path):
    entries = Ledger(folder).entries()
    return lambda: entries


def use_config(folder: Path):
    config = effective(None, folder / "a.yaml", {})
    return lambda: config.as_dict()


KINDS = {
    "run": (
        use_run,
        *("run.json", "config.json", "environment.json", "summary.json", "data.json", "objective.json", "model.json"),
        *("metrics.jsonl", "model.safetensors"),
    ),
    "forecast": (use_forecast, "config.json", "data.json", "objective.json", "model.json"),
    "estimator": (use_estimator, "estimator.json", "model.json", "model.safetensors"),
    "npz": (use_npz, "a.npz"),
    "ledger": (use_ledger, "mmrnn-table3.jsonl"),
    "config": (use_config, "a.yaml"),
}


def check_outcome(kind: str, folder: Path, note: str) -> str:
    """ "read", "refused" by a line with the folder's name, or "unusable" by an error of what is done with it."""
    use = KINDS[kind][0]
    begun = time.monotonic()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                work = use(folder)
            except ValueError as error:
                line = str(error)
                assert str(folder) in line, (note, line)
                assert len(line.splitlines()) == 1 and len(line) < 1500, (note, line)
                return "refused"
            try:
                work()
            except ValueError:
                return "unusable"
            return "read"
    finally:
        assert time.monotonic() - begun < MOST_SECONDS, note


def fuzz(kind: str, originals: Path, tmp_path: Path, cases: int, seed: int) -> dict[str, int]:
    _, *names = KINDS[kind]
    folder, outcomes = tmp_path / kind, {"read": 0, "refused": 0, "unusable": 0}
    shutil.copytree(originals / kind, folder)
    if kind == "run":
        shutil.copy(originals / "vitals.csv", tmp_path)
    assert check_outcome(kind, folder, "whole") == "read"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for case in range(cases):
        rng = random.Random(f"{kind} {seed} {case}")
        name = names[case % len(names)]
        damage(folder / name, rng)
        try:
            outcomes[check_outcome(kind, folder, f"{kind}/{name}, seed {seed}, case {case}")] += 1
        finally:
            shutil.copy(originals / kind / name, folder / name)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < MOST_MEMORY, grown
    return outcomes


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_files_are_read_or_refused(kind, originals, tmp_path):
    outcomes = fuzz(kind, originals, tmp_path, FEW * (len(KINDS[kind]) - 1) // 2 + FEW, seed=0)
    assert outcomes["refused"] > 10, outcomes


def fields(value, path=()):
    """The paths to all numbers within."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        if isinstance(item, int | float) and not isinstance(item, bool):
            yield (*path, key)
        yield from fields(item, (*path, key))


SLOW = [pytest.param(number, marks=pytest.mark.slow) for number in (-1, 2**31, 10**30, 1e-320, 1e308)]


@pytest.mark.parametrize("number", [0, 2**63, *SLOW])
@pytest.mark.parametrize(("kind", "name"), [("forecast", "data.json"), ("run", "data.json")])
def test_no_number_of_a_run_ends_in_another_error(kind, name, number, originals, tmp_path):
    """A window of 2^63 steps, a clock with the unit 0: each number in turn."""
    folder = tmp_path / kind
    shutil.copytree(originals / kind, folder)
    shutil.copy(originals / "vitals.csv", tmp_path)
    whole = (folder / name).read_text()
    refused = set()
    for path in fields(json.loads(whole)):
        changed = json.loads(whole)
        holder = changed
        for key in path[:-1]:
            holder = holder[key]
        holder[path[-1]] = number
        (folder / name).write_text(json.dumps(changed))
        if check_outcome(kind, folder, f"{name}: {path} = {number}") == "refused":
            refused.add(path)
    if (kind, name) == ("forecast", "data.json") and number in (2**63, 10**30):
        assert {("reading", field) for field in ("window", "stride", "horizon")} <= refused
    if number == 0 and name == "data.json":
        assert ("reading", "unit_size") in refused


@pytest.mark.parametrize("unit", [0, -1, float("nan"), 10**400])
def test_a_clock_without_a_unit_is_refused(unit, originals, tmp_path):
    arrays = dict(np.load(originals / "npz/a.npz"))
    content = json.loads(bytes(arrays["json"]))
    content["clock"]["scale"] = unit
    arrays["json"] = np.frombuffer(json.dumps(content).encode(), dtype=np.uint8)
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(ValueError, match=r"a\.npz: .*clock"):
        load_series(tmp_path / "a.npz")


@pytest.mark.slow  # minutes: the same with other seeds
@pytest.mark.parametrize("seed", range(1, 5))
@pytest.mark.parametrize("kind", KINDS)
def test_many_damaged_files_are_read_or_refused(kind, seed, originals, tmp_path):
    fuzz(kind, originals, tmp_path, MANY, seed)
