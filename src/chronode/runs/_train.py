"""Training in a run folder."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from .._checks import one_of
from .._model import SequenceModel
from .._schema import parse
from .._spec import ModelSpec
from ..data import Scaler, Sequences
from ..nn._registry import models
from ..training._assembly import Assembly, assemble
from ..training._auto import Race
from ..training._baselines import baselines, linear_validation
from ..training._events import Epoch, EpochDone, Event, Note, TrainingStopped
from ..training._fitted import Fitted
from ..training._inputs import spec_for
from ..training._objective import Objective
from ..training._predict import Predictions
from ._choose import choose, leaves_choice
from ._config import Config
from ._environment import differences, environment
from ._folder import Run
from ._loggers import check_loggers, logging_to
from ._prepare import DataFacts, Prepared, check_same_file, check_unchanged, prepare
from ._tables import columns_of, write_table
from ._verdict import verdict

MAY_CHANGE = ("epochs", "steps", "early_stop", "threads")
"""Training settings that a resumed run may change."""
STRONG_BASELINE = "lstm-dt"

_measured: dict[Any, dict[str, dict[str, float]]] = {}  # the baselines of the last data

Listener = Callable[[Event], None]
Draw = Callable[[Run, Prepared, Fitted, Predictions | None], None]


@dataclass(frozen=True)
class Outcome:
    """Result of a run.

    Attributes:
        run: The run folder.
        status: One of `chronode.runs._folder.OUTCOMES`.
        summary: Content of summary.json.
    """

    run: Run
    status: str
    summary: dict[str, Any]

    def _repr_html_(self) -> str:
        return self.run._repr_html_()


def train_run(
    config: Config,
    folder: str | Path,
    *,
    prepared: Prepared | None = None,
    assembly: Assembly | None = None,
    baseline: bool = False,
    command: Sequence[str] | None = None,
    on_event: Listener | None = None,
    draw: Draw | None = None,
    loggers: Sequence[str] = (),
    race: Race | None = None,
) -> Outcome:
    """Trains according to the config in a new run folder.

    Args:
        config: Configuration.
        folder: Folder that is empty or does not exist.
        prepared: Result of `prepare(config)`; None: it is called.
        assembly: Result of `assemble_run(config, prepared)`; None: it is called before a folder is created.
        baseline: Whether to train lstm-dt in the same way for comparison.
        command: Command line, for the record.
        on_event: Called during training.
        draw: Called at the end with the run, the series, the model and its predictions for the test part, to write a
            report to the folder.
        loggers: Where the numbers of every epoch go besides metrics.jsonl: "csv", "tensorboard", "wandb", "mlflow".
        race: Result of `choose(config, prepared)`, which completed the config; None: it is called if needed.

    Raises:
        TrainingStopped: The loss is not finite or has exploded, or memory is exhausted; the best weights are in the
            folder.

    Example:
        >>> import tempfile
        >>> few = {"train": 64, "valid": 16, "test": 16}
        >>> asked = {"data": {"source": "bitstream", "options": few}, "model": {"hidden": 4}, "training": {"epochs": 1}}
        >>> outcome = train_run(Config.from_dict(asked), Path(tempfile.mkdtemp()) / "first")
        >>> outcome.status, sorted(outcome.summary["test"])
        ('finished', ['accuracy', 'loss'])
    """
    check_loggers(loggers)
    prepared = prepared or prepare(config)
    if race is None and assembly is None and leaves_choice(config):
        config, race = choose(config, prepared)
    assembly = assembly or assemble_run(config, prepared, race=race)
    run = Run.create(folder, {**config.as_dict(), "baseline": baseline}, command=command)
    if race is not None:
        run.save_json("race.json", race.as_dict())
    return _go(run, config, prepared, assembly, on_event, draw, loggers)


def resume_run(
    folder: str | Path,
    *,
    changes: dict[str, Any] | None = None,
    source: str | None = None,
    on_event: Listener | None = None,
    draw: Draw | None = None,
    loggers: Sequence[str] = (),
) -> Outcome:
    """Resumes a run after a kill, a crash or Ctrl-C, with the same result as without it; a finished run is unchanged.

    Args:
        folder: The run folder.
        changes: New values for MAY_CHANGE, such as {"epochs": 40}.
        source: New location of the data file, if it was moved.
        on_event: Called during training.
        draw: As for `train_run`.
        loggers: As for `train_run`.
    """
    check_loggers(loggers)
    run = Run.open(folder)
    for name in changes or {}:
        one_of("a setting to change", name, MAY_CHANGE)
    before = config_of(run)
    check_registered(run, before.model.model)
    config = before.with_values({"training": changes or {}})
    if run.status == "running":
        raise ValueError(f"{run.path} is in use: another process is training in it.")
    if source is not None and (run.path / "data.json").is_file():
        check_same_file(source, DataFacts.load(run.path).source, run.path)
    if (summary := run.summary()) is not None and summary.status == "finished" and config == before:
        return Outcome(run, "finished", {**asdict(summary), **run.load_json("summary.json")})
    if source is not None:
        config = config.with_values({"data": {"source": source}})
    elif (run.path / "data.json").is_file():
        check_unchanged(config.data.source, DataFacts.load(run.path).source, run.path)
    prepared = prepare(config)
    if on_event is not None:
        for line in differences(run.environment, environment()):
            on_event(Note(f"{line}: the numbers may differ in the last digits from a run that was not stopped."))
    assembly = assemble_run(config, prepared)
    run.save_json("config.json", {**config.as_dict(), "baseline": _with_baseline(run)})
    return _go(run, config, prepared, assembly, on_event, draw, loggers)


def config_of(run: Run) -> Config:
    """Returns the config of a run."""
    try:
        return Config.from_dict({name: section for name, section in run.config.items() if name != "baseline"})
    except (ValueError, TypeError) as error:
        raise ValueError(f"{run.path / 'config.json'}: {error}") from error


def check_registered(run: Run, model: str) -> None:
    """Refuses a run whose model is of a plugin that is not loaded; nothing is imported because a run folder says so."""
    if model not in models():
        known = str(run.environment.get("plugins") or "FILE.py")
        options = " ".join(f"--plugin {name}" for name in known.split(", "))
        raise ValueError(
            f"{run.path} has the model {model!r}, which is not registered: import the module that registers it, "
            f"or name it on the command line: {options}"
        )


def _go(
    run: Run,
    config: Config,
    prepared: Prepared,
    assembly: Assembly,
    on_event: Listener | None,
    draw: Draw | None,
    loggers: Sequence[str],
) -> Outcome:
    """Trains or resumes, and writes the results."""

    def listen(event: Event) -> None:
        if isinstance(event, EpochDone):
            row = event.epoch.as_row()
            run.append_metrics(row)
            for logger in opened:
                logger.log(event.epoch.number, {name: value for name, value in row.items() if name != "epoch"})
        if on_event is not None:
            on_event(event)

    with run.lock(), logging_to(loggers, run) as opened:
        run.save_json("data.json", prepared.as_dict())
        saved = run.store.latest()
        # The process may have been killed between a checkpoint and its line.
        run.replace_metrics(map(Epoch.as_row, parse(list[Epoch], saved[1].get("history"), "history") if saved else []))
        for note in run.store.notes:
            listen(Note(note))
        try:
            fitted = assembly.fit(on_event=listen, store=run.store, resume=True)
        except TrainingStopped as error:
            if error.fitted is not None:
                summary = _summary(error.fitted, prepared, "failed")
                _keep_model(run, error.fitted)
                run.finish({**summary, "fault": str(error)})
                if draw is not None:
                    draw(run, prepared, error.fitted, None)
            raise
        _keep_model(run, fitted)
        answers = None
        if fitted.stopped == "interrupted":
            summary = _summary(fitted, prepared, "interrupted")
        else:
            answers = _predictions(run, config, prepared, fitted)
            summary = {**_summary(fitted, prepared, "finished"), **_race_summary(run)}
            summary["test"] = fitted.evaluate(prepared.parts.test)
            summary["baselines"] = _baselines(config, prepared, fitted.model, _with_baseline(run), on_event)
            summary |= _linear_summary(config, prepared, fitted)
            note = verdict(
                summary,
                series=len(prepared.parts.train),
                start=start_of(config, prepared),
                forecast=prepared.reading is not None and bool(prepared.reading.horizon),
            )
            summary["notes"] += [note] if note else []
        run.finish(summary)
        if draw is not None:
            draw(run, prepared, fitted, answers)
    return Outcome(run, summary["status"], summary)


def spec_of(config: Config, prepared: Prepared, model: str) -> ModelSpec:
    """Returns the spec of the configured model, or of another model (a baseline) of the same size."""
    own = config.model
    fields: dict[str, Any] = {"hidden_size": own.hidden, "num_layers": own.layers}
    if model == own.model:
        fields |= own.settings
    missing = own.missing if prepared.reading is None else prepared.reading.missing
    if missing is not None:
        fields["missing"] = missing
    if prepared.reading is not None and prepared.reading.relative is not None:
        fields["relative"] = prepared.reading.relative
    return spec_for(prepared.parts, model, **fields)


def start_of(config: Config, prepared: Prepared) -> str:
    """Returns the start of the network: the configured one, or a linear model for forecasts from windows."""
    if config.model.start is not None:
        return config.model.start
    windows = prepared.reading is not None and prepared.reading.relative is not None
    return "linear" if windows and not config.training.tbptt else "none"


def assemble_run(config: Config, prepared: Prepared, model: str | None = None, *, race: Race | None = None) -> Assembly:
    """Assembles the training of the config, or that of another model; rejects an invalid configuration.

    The linear start of a race is not fitted again.
    """
    spec = spec_of(config, prepared, model or config.model.model)
    start = race.linear if race is not None and race.linear is not None else start_of(config, prepared)
    return assemble(prepared.parts, spec, config.training, start=start, objective=prepared.objective)


def _with_baseline(run: Run) -> bool:
    return run.config.get("baseline") is True


def _keep_model(run: Run, fitted: Fitted) -> None:
    objective = {**asdict(fitted.objective), "scaler": _plain(fitted.objective.scaler)}
    run.save_json("objective.json", {"objective": objective, "scaler": _plain(fitted.scaler)})
    fitted.model.save(run.path / "model")


def _plain(scaler: Scaler | None) -> dict[str, Any] | None:
    return None if scaler is None else scaler.as_dict()


def _summary(fitted: Fitted, prepared: Prepared, status: str) -> dict[str, Any]:
    best = fitted.best
    return {
        "status": status,
        "stopped": fitted.stopped,
        "epochs": len(fitted.history),
        "best_epoch": fitted.best_epoch,
        "metric": fitted.objective.metric,
        "valid": {} if best is None else {"loss": best.valid_loss, **best.metrics},
        "parameters": sum(p.numel() for p in fitted.model.parameters()),
        "seconds": round(fitted.seconds, 2),
        "notes": [*prepared.notes, *fitted.notes],
        "fault": "",
        **_start_summary(fitted),
    }


def _race_summary(run: Run) -> dict[str, Any]:
    """The race that chose the model; of a refit, its metrics are those on held-out series."""
    if not (run.path / "race.json").is_file():
        return {}
    found = run.load_json("race.json", dict[str, Any])
    return {"race": found} | ({"valid": found["chosen"]} if run.config["training"].get("refit") else {})


def _start_summary(fitted: Fitted) -> dict[str, Any]:
    """What the linear start does alone on the validation part; its share of the result is the rest of "valid"."""
    if fitted.start is None or fitted.model.start is None:
        return {}
    metric, alone = fitted.objective.metric, fitted.start
    value = alone.valid_loss if metric == "loss" else alone.metrics[metric]
    return {"start": {"features": fitted.model.start.features.kind, "metric": metric, "valid": value}}


def _linear_summary(config: Config, prepared: Prepared, fitted: Fitted) -> dict[str, Any]:
    """What a linear start would have validated at, for a network that has none."""
    windows = prepared.reading is not None and prepared.reading.horizon
    if fitted.model.start is not None or windows or config.training.refit:
        return {}
    objective = fitted.objective
    found = linear_validation(objective, prepared.parts)
    metric = objective.metric if objective.metric in found else next(iter(found), "")
    return {"linear": {"metric": metric, "valid": found[metric]}} if found else {}


def _baselines(
    config: Config, prepared: Prepared, model: SequenceModel, strong: bool, tell: Listener | None
) -> dict[str, dict[str, float]]:
    """Returns the metrics of the baselines on the test part."""
    parts, reading = prepared.parts, prepared.reading
    channels = reading.forecast_channels if reading is not None else ()
    objective = prepared.objective.with_settings(config.training.metric, None, parts.train)
    found = _measured_once(config, prepared, objective, channels, model)
    if not strong or config.model.model == STRONG_BASELINE:
        return found
    tell = tell or (lambda event: None)
    tell(Note(f"training {STRONG_BASELINE} in the same way for comparison."))
    try:
        fitted = assemble_run(config, prepared, STRONG_BASELINE).fit(on_event=tell)
    except TrainingStopped as error:  # the run itself was successful
        tell(Note(f"{STRONG_BASELINE}: {error}"))
        return found
    if fitted.stopped == "interrupted":
        raise KeyboardInterrupt
    return {**found, STRONG_BASELINE: fitted.evaluate(parts.test)}


def _measured_once(
    config: Config, prepared: Prepared, objective: Objective, channels: tuple[str, ...], model: SequenceModel
) -> dict[str, dict[str, float]]:
    """Returns the metrics of the baselines; a comparison of models on the same parts computes them once."""
    if model.start is not None:
        return baselines(objective, prepared.parts, channels=channels, model=model)
    data = json.dumps([asdict(config.data), prepared.as_dict(), config.training.seed], sort_keys=True, default=str)
    key = (data, objective.metric, objective.metrics)
    if key not in _measured:
        _measured.clear()
        _measured[key] = baselines(objective, prepared.parts, channels=channels)
    return dict(_measured[key])


def _predictions(run: Run, config: Config, prepared: Prepared, fitted: Fitted) -> Predictions:
    """Returns the predictions for the test part, also written as predictions.csv."""
    answers = fitted.predict(prepared.parts.test)
    names = {"id": config.data.id or "series", "time": config.data.time}
    unscaled = _with_given_target(prepared.parts.test)
    ends = prepared.reading is not None and prepared.reading.relative is not None
    write_table(columns_of(answers, unscaled, **names, truth=True, ends=ends), run.path / "predictions.csv")
    return answers


def _with_given_target(data: Sequences) -> Sequences:
    """Returns the series with unscaled number targets."""
    target = data.target
    if target is None or target.classes is not None:
        return data
    return replace(data, target=replace(target, values=target.given, source=None))
