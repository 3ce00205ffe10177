"""Results of a trained run: its summary, baselines, and predictions for the test part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from ..data import Sequences
from ..judge import ALONE, MeasuredBaselines, entry_of, linear_validation, measured_baselines, verdict
from ..model import SequenceModel
from ..training import Listener, Note, Objective, Predictions, Trained, TrainingStopped
from ._choose import assemble_run, start_of
from ._config import Config
from ._folder import Run
from ._prepare import Prepared, origin_of
from ._tables import columns_of, write_table

BEFORE = "before (--from)"
"""Row of the model that was trained further, as it was before."""
STRONG_BASELINE = "lstm-dt"
"""Model that `--baseline` trains for comparison."""


def summary_of(fitted: Trained, prepared: Prepared, status: str) -> dict[str, Any]:
    """Returns the summary of a training, without the test part."""
    best = fitted.best
    return {
        "status": status,
        "model": fitted.model.title,
        "baseline": fitted.record.baseline,
        "positive": fitted.objective.positive,
        "stopped": fitted.stopped,
        "epochs": len(fitted.history),
        "best_epoch": fitted.best_epoch,
        "metric": fitted.objective.metric,
        "valid": {} if best is None else {"loss": best.valid_loss, **best.metrics},
        "parameters": fitted.model.num_weights,
        "seconds": round(fitted.record.seconds, 2),
        "notes": [*prepared.notes, *fitted.notes],
        "fault": "",
        **_start_summary(fitted),
    }


def finished_summary(
    run: Run, config: Config, prepared: Prepared, fitted: Trained, strong: bool, on_event: Listener | None
) -> dict[str, Any]:
    """Returns the summary of a finished run, with the test metrics of the model and of baselines.

    Args:
        run: The run folder.
        config: Its config.
        prepared: Its series.
        fitted: The trained model.
        strong: Whether to train STRONG_BASELINE in the same way.
        on_event: Called during that training.
    """
    summary = summary_of(fitted, prepared, "finished")
    summary |= _race_summary(run, summary)
    tested = len(prepared.parts.test) > 0
    summary["test"] = fitted.evaluate(prepared.parts.test) if tested else {}
    baselines = _baselines(config, prepared, fitted, strong, on_event) if tested else MeasuredBaselines({}, {})
    tests = fitted.evaluate_targets(prepared.parts.test)
    summary["baselines"] = baselines.overall
    positives = {name: part.objective.positive for name, part in fitted.by_target.items()}
    summary["targets"] = {
        name: {"test": tests[name], "baselines": baselines.targets[name], "positive": positives.get(name)}
        for name in tests
    }
    summary |= _linear_summary(config, prepared, fitted)
    note = verdict(
        summary,
        series=len(prepared.parts.train),
        start="linear" if config.model.origin else start_of(config, prepared),
        forecast=prepared.reading is not None and bool(prepared.reading.horizon),
    )
    summary["notes"] += [note] if note else []
    return summary


def objective_section(trained: Trained) -> dict[str, Any]:
    """Returns the content of objective.json; the scaler is there only if no reading has it."""
    scaler, reading = trained.scaler, trained.reading
    stored = None if scaler is None or (reading is not None and reading.scaler == scaler) else scaler.as_dict()
    return {"objective": {**asdict(trained.objective), "scaler": stored}}


def keep_model(run: Run, fitted: Trained) -> None:
    """Writes the model and its objective to the run folder, whose data.json has the reading."""
    run.save_json("objective.json", objective_section(fitted))
    fitted.model.save(run.path / "model")


def _race_summary(run: Run, summary: Mapping[str, Any]) -> dict[str, Any]:
    """The race that chose the model; of a refit, its metrics are those on held-out series."""
    if not (run.path / "race.json").is_file():
        return {}
    race = run.load_json("race.json", dict[str, Any])
    if not run.config["training"].get("refit"):
        return {"race": race}
    alone = next((entry for entry in race["entries"] if entry["candidate"] in ALONE), None)
    if alone is None or "start" not in summary:
        return {"race": race, "valid": race["chosen"]}
    start = {**summary["start"], "valid": alone[summary["start"]["metric"]]}
    return {"race": race, "valid": race["chosen"], "start": start}


def _start_summary(fitted: Trained) -> dict[str, Any]:
    """Returns the validation metric of the linear start alone; the network adds the rest of "valid"."""
    if fitted.model.start is None or fitted.model.members:
        return {}
    goal, alone, settings = fitted.objective, fitted.record.start, fitted.record.settings
    value = None if alone is None else goal.value_of(alone.valid_loss, alone.metrics)
    facts = {
        "title": fitted.model.start.title,
        "features": fitted.model.start.kind,
        "metric": goal.metric,
        "valid": value,
    }
    if not fitted.history or (settings is not None and settings.refit):
        return {"start": facts}
    best = entry_of("", list(fitted.history), goal)
    return {"start": {**facts, "network": best.value, "epoch": best.epochs, "chance": fitted.record.chance}}


def _linear_summary(config: Config, prepared: Prepared, fitted: Trained) -> dict[str, Any]:
    """Returns the validation metric that a linear start would have reached, for a network without one."""
    windows = prepared.reading is not None and prepared.reading.horizon
    if (
        fitted.model.start is not None
        or fitted.model.members
        or windows
        or config.training.refit
        or config.model.origin
    ):
        return {}
    objective = fitted.objective
    metrics = linear_validation(objective, prepared.sampled.parts)
    metric = objective.metric if objective.metric in metrics else next(iter(metrics), "")
    return {"linear": {"metric": metric, "valid": metrics[metric]}} if metrics else {}


def _baselines(
    config: Config, prepared: Prepared, trained: Trained, strong: bool, on_event: Listener | None
) -> MeasuredBaselines:
    """Returns the metrics of the baselines on the test part."""
    parts, reading = prepared.parts, prepared.reading
    channels = reading.forecast_channels if reading is not None else ()
    objective = prepared.objective.with_settings(config.training.metric, None, parts.train)
    measured = _measured_once(prepared, objective, channels, trained.model)
    if config.model.origin:
        old = replace(trained, model=origin_of(config).model)
        tests = old.evaluate_targets(parts.test)
        targets = {name: {**others, BEFORE: tests[name]} for name, others in measured.targets.items()}
        measured = MeasuredBaselines({BEFORE: old.evaluate(parts.test), **measured.overall}, targets)
    if not strong or config.model.model == STRONG_BASELINE:
        return measured
    on_event = on_event or (lambda event: None)
    on_event(Note(f"training {STRONG_BASELINE} in the same way for comparison."))
    try:
        tests = config.with_values({"training": {"devices": 1}})  # the other processes have ended with the run
        fitted = assemble_run(tests, prepared, STRONG_BASELINE).fit(on_event=on_event)
    except TrainingStopped as error:  # the run itself was successful
        on_event(Note(f"{STRONG_BASELINE}: {error}"))
        return measured
    if fitted.stopped == "interrupted":
        raise KeyboardInterrupt
    tests = fitted.evaluate_targets(parts.test)
    targets = {name: {**others, STRONG_BASELINE: tests[name]} for name, others in measured.targets.items()}
    return MeasuredBaselines({**measured.overall, STRONG_BASELINE: fitted.evaluate(parts.test)}, targets)


def _measured_once(
    prepared: Prepared, objective: Objective, channels: tuple[str, ...], model: SequenceModel
) -> MeasuredBaselines:
    """Returns the metrics of the baselines; a comparison of models on the same parts computes them once."""
    prepared = prepared.sampled
    if model.start is not None:
        return measured_baselines(objective, prepared.parts, channels=channels, model=model)
    key = (objective.metric, objective.metrics)
    if key not in prepared.measured:
        prepared.measured[key] = measured_baselines(objective, prepared.parts, channels=channels)
    return prepared.measured[key]


def write_predictions(run: Run, config: Config, prepared: Prepared, fitted: Trained) -> Predictions | None:
    """Returns the predictions for the test part, also written as predictions.csv; None without a test part."""
    if not len(prepared.parts.test):
        return None
    predictions = fitted.predict(prepared.parts.test)
    names = {"id": config.data.id or "series", "time": config.data.time}
    unscaled = with_given_target(prepared.parts.test)
    ends = prepared.reading is not None and prepared.reading.relative is not None
    write_table(columns_of(predictions, unscaled, **names, truth=True, ends=ends), run.path / "predictions.csv")
    return predictions


def with_given_target(data: Sequences) -> Sequences:
    """Returns the series with unscaled number targets."""
    target = data.target
    if target is None or target.classes is not None:
        return data
    return replace(data, target=replace(target, values=target.given, source=None))
