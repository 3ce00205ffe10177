"""Ensembles of runs: several trained models on the same series, whose outputs are averaged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ..data import counted
from ..model import SequenceModel
from ..settings import SettingError
from ..training import LOWER_IS_BETTER, Epoch, Record, Trained, calibrate, evaluate
from ._folder import Run, run_folders
from ._prepare import Prepared
from ._results import finished_summary, keep_model, write_predictions
from ._summary import config_of
from ._train import Draw, Outcome
from ._trained import load, prepared_of

MEMBERS = "ensemble.json"
"""File of a run folder with the runs of an ensemble."""


def best_runs(folders: Sequence[str | Path], count: int | None = None) -> list[Path]:
    """Returns the finished runs in these folders, the best by their validation metric first.

    Args:
        folders: Run folders, or folders of runs.
        count: Number of runs; None for all.
    """
    paths = [path for folder in folders for path in (run_folders(folder) or [Path(folder)])]
    found = []
    for path in dict.fromkeys(paths):
        summary = Run.open(path).summary()
        if summary is None or summary.status != "finished":
            continue
        value = summary.valid.get(summary.metric)
        found.append((path, summary.metric, float("nan") if value is None else value))
    metrics = {metric for _, metric, _ in found}
    if count is not None and len(metrics) > 1:
        raise SettingError(
            f"the runs were chosen by different metrics: {', '.join(sorted(metrics))}",
            argument="best",
            cure="name the runs of the ensemble",
        )
    sign = 1 if metrics & LOWER_IS_BETTER else -1
    if count is not None:
        found.sort(key=lambda row: (row[2] != row[2], sign * row[2]))
    return [path for path, *_ in found[:count]]


def combined(runs: Sequence[Trained], prepared: Prepared) -> Trained:
    """Returns one model whose output is the mean of those of all runs.

    Args:
        runs: Trained models of runs on the same series.
        prepared: These series.
    """
    first = runs[0]
    for other in runs:
        _check_alike(first, other)
    specs = [run.model.spec for run in runs]
    assert specs[0] is not None
    members = tuple(spec for spec in specs[1:] if spec is not None)
    model = SequenceModel.build(replace(specs[0], members=members))
    weights = dict(first.model.state_dict())
    for place, run in enumerate(runs[1:]):
        weights |= {f"members.{place}.{name}": tensor for name, tensor in run.model.state_dict().items()}
    model.load_state_dict(weights)
    model.eval()
    if model.margins is not None and len(prepared.parts.valid):
        calibrate(model, prepared.parts)
    objective = replace(first.objective, threshold=None)
    scores = evaluate(model, objective, prepared.parts.valid)
    start = Epoch(0, float("nan"), scores.pop("loss"), scores, 0.0, 0.0)
    seconds = sum(run.record.seconds for run in runs)
    return replace(
        first, model=model, objective=objective, record=Record(start=start, seconds=seconds, stopped="combined")
    )


def ensemble_runs(
    folders: Sequence[str | Path],
    output: str | Path,
    *,
    command: Sequence[str] | None = None,
    draw: Draw | None = None,
) -> Outcome:
    """Writes the ensemble of runs to a new run folder, tests it and draws its report.

    Args:
        folders: The run folders.
        output: Folder that is empty or does not exist.
        command: Command line, for the record.
        draw: As for `train_run`.
    """
    if len(folders) < 2:
        raise SettingError(
            f"an ensemble needs at least two finished runs, there is {counted(len(folders), 'run')}.", argument="runs"
        )
    runs = [load(folder) for folder in folders]
    prepared = prepared_of(runs[0])
    fitted = combined(runs, prepared)
    config = config_of(Run.open(folders[0]))
    run = Run.create(output, {**config.as_dict(), "baseline": False}, command=command)
    with run.lock():
        run.save_json("data.json", prepared.as_dict())
        run.save_json(MEMBERS, {"runs": [str(folder) for folder in folders]})
        fitted = replace(fitted, reading=prepared.reading)
        keep_model(run, fitted)
        predictions = write_predictions(run, config, prepared, fitted)
        summary = finished_summary(run, config, prepared, fitted, False, None)
        alone = {path.name: trained.evaluate(prepared.parts.test) for path, trained in _named(folders, runs, prepared)}
        summary["baselines"] = {**alone, **summary["baselines"]}
        run.finish(summary)
        if draw is not None:
            draw(run, prepared.sampled, fitted.model, fitted.objective, predictions)
    return Outcome(run, "finished", summary, fitted)


def _named(folders: Sequence[str | Path], runs: Sequence[Trained], prepared: Prepared) -> list[tuple[Path, Trained]]:
    """Returns the runs with their folders; none without a test part."""
    return [(Path(folder), run) for folder, run in zip(folders, runs, strict=True)] if len(prepared.parts.test) else []


def _check_alike(one: Trained, other: Trained) -> None:
    """Rejects runs whose outputs cannot be averaged, or that were not trained on the same part."""
    for run in (one, other):
        if run.model.spec is None or run.model.members:
            raise SettingError(f"{run.path} is an ensemble already: name its runs.", argument="runs")
    pair = [run.facts.get("config", {}) for run in (one, other)]
    same = [
        {**config["data"], "seed": config["training"]["seed"], "refit": config["training"]["refit"]} for config in pair
    ]
    different = [name for name in same[0] if same[0][name] != same[1].get(name)]
    if different or one.reading != other.reading or one.objective.classes != other.objective.classes:
        what = f" ({', '.join(different)} differs)" if different else ""
        raise SettingError(
            f"{one.path} and {other.path} were trained on different series{what}, so that one may have seen the test "
            "part of the other",
            argument="runs",
            cure="train all of them with the same data, options of the data and seed",
        )
