"""Training in a run folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ..judge import Race
from ..model import SequenceModel
from ..settings import one_of
from ..storage import parse
from ..training import (
    MAY_CHANGE,
    Assembly,
    Epoch,
    EpochDone,
    Event,
    Helpers,
    Listener,
    Note,
    Objective,
    Predictions,
    Trained,
    TrainingStopped,
)
from ._again import check_same_file, check_unchanged, prepare_again
from ._choose import assemble_run, choose, not_worse_than_origin
from ._config import Config
from ._environment import differences, environment
from ._folder import REPORT, Run
from ._loggers import Logger, check_loggers, logging_to
from ._prepare import DataFacts, Prepared, prepare
from ._results import finished_summary, keep_model, summary_of, write_predictions
from ._summary import check_registered, config_of

Draw = Callable[[Run, Prepared, SequenceModel, Objective, Predictions | None], object]
"""Function that draws the report of a run."""


@dataclass(frozen=True)
class Outcome:
    """Result of a run.

    Attributes:
        run: The run folder.
        status: One of `chronode.runs._summary.OUTCOMES`.
        summary: Content of summary.json.
        trained: The model; None for a run that was finished before.
    """

    run: Run
    status: str
    summary: dict[str, Any]
    trained: Trained | None = None

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
    helpers: Helpers | None = None,
) -> Outcome:
    """Trains according to the config in a new run folder.

    Args:
        config: Configuration.
        folder: Folder that is empty or does not exist.
        prepared: Result of `prepare(config)`; None: it is called.
        assembly: Result of `assemble_run(config, prepared)` with a config that `choose` completed; None: both are
            called before a folder is created.
        baseline: Whether to train lstm-dt in the same way for comparison.
        command: Command line, for the record.
        on_event: Called during training.
        draw: Called at the end with the run, the series, the model, its objective and its predictions for the test
            part, to write report.html to the folder.
        loggers: Receivers of the metrics of every epoch besides metrics.jsonl: "csv", "tensorboard", "wandb", "mlflow".
        race: The race that chose the model of `assembly`; None if there was none.
        helpers: Starts the processes of other devices; None: on this machine.

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
    if assembly is None:
        config, race = choose(config, prepared)
        assembly = assemble_run(config, prepared, race=race)
    run = Run.create(folder, {**config.as_dict(), "baseline": baseline}, command=command)
    if race is not None:
        run.save_json("race.json", race.as_dict())
    return _train_into(run, config, prepared, assembly, on_event, draw, loggers, helpers)


def resume_run(
    folder: str | Path,
    *,
    changes: dict[str, Any] | None = None,
    source: str | None = None,
    on_event: Listener | None = None,
    draw: Draw | None = None,
    loggers: Sequence[str] = (),
    helpers: Helpers | None = None,
) -> Outcome:
    """Resumes a run after a kill, a crash or Ctrl-C, with the same result as without it; a finished run is unchanged.

    Args:
        folder: The run folder.
        changes: New values for `chronode.training.MAY_CHANGE`, such as {"epochs": 40}.
        source: New location of the data file, if it was moved.
        on_event: Called during training.
        draw: As for `train_run`; also called for a finished run without a report, whose process was killed while it
            was drawn.
        loggers: As for `train_run`.
        helpers: As for `train_run`.
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
        if draw is not None and not (run.path / REPORT).is_file():
            _draw_again(run, draw, on_event)
        stored = {name: value for name, value in asdict(summary).items() if value is not None}
        return Outcome(run, "finished", {**stored, **run.load_json("summary.json")})
    if source is not None:
        config = config.with_values({"data": {"source": source}})
    elif (run.path / "data.json").is_file():
        check_unchanged(config.data, DataFacts.load(run.path).source, run.path)
    prepared = prepare_again(config, run.path) if (run.path / "data.json").is_file() else prepare(config)
    if on_event is not None:
        for line in differences(run.environment, environment()):
            on_event(Note(f"{line}: the numbers may differ in the last digits from a run that was not stopped."))
    assembly = assemble_run(config, prepared)
    run.save_json("config.json", {**config.as_dict(), "baseline": _with_baseline(run)})
    return _train_into(run, config, prepared, assembly, on_event, draw, loggers, helpers)


def _train_into(
    run: Run,
    config: Config,
    prepared: Prepared,
    assembly: Assembly,
    on_event: Listener | None,
    draw: Draw | None,
    loggers: Sequence[str],
    helpers: Helpers | None,
) -> Outcome:
    """Trains or resumes, and writes the results."""
    # The loggers are closed last, with the metrics of the test part.
    with run.lock(), logging_to(loggers, run) as opened:
        try:
            fitted = fit_in(run, prepared, assembly, on_event=on_event, loggers=opened, helpers=helpers)
            if config.model.origin:
                fitted, further = not_worse_than_origin(config, prepared, fitted), fitted
                keep_model(run, fitted)
                if on_event is not None and fitted is not further:
                    on_event(Note(fitted.notes[-1]))
        except TrainingStopped as error:
            if error.fitted is not None:
                run.finish({**summary_of(error.fitted, prepared, "failed"), "fault": str(error)})
                if draw is not None:
                    draw(run, prepared.sampled, error.fitted.model, error.fitted.objective, None)
            raise
        predictions = None
        if fitted.stopped == "interrupted":
            summary = summary_of(fitted, prepared, "interrupted")
        else:
            predictions = write_predictions(run, config, prepared, fitted)
            summary = finished_summary(run, config, prepared, fitted, _with_baseline(run), on_event)
        run.finish(summary)
        if draw is not None:
            shown = prepared.sampled
            if predictions is not None and shown is not prepared:
                predictions = fitted.predict(shown.parts.test)
            draw(run, shown, fitted.model, fitted.objective, predictions)
    return Outcome(run, summary["status"], summary, replace(fitted, reading=prepared.reading))


def fit_in(
    run: Run,
    prepared: Prepared,
    assembly: Assembly,
    *,
    on_event: Listener | None = None,
    loggers: Sequence[Logger] = (),
    helpers: Helpers | None = None,
) -> Trained:
    """Trains in a run folder, or resumes there, and stores the model without testing it.

    Args:
        run: The run folder.
        prepared: Its series.
        assembly: Its training.
        on_event: Called during training.
        loggers: Loggers of the epochs.
        helpers: Starts the processes of other devices; None: on this machine.

    Raises:
        TrainingStopped: As for `train_run`; the best weights, `error.fitted`, are in the folder.
    """

    def listen(event: Event) -> None:
        if isinstance(event, EpochDone):
            row = event.epoch.as_row()
            run.append_metrics(row)
            for logger in loggers:
                logger.log(event.epoch.number, {name: value for name, value in row.items() if name != "epoch"})
        if on_event is not None:
            on_event(event)

    run.save_json("data.json", prepared.as_dict())
    saved = run.store.latest()
    # The process may have been killed between a checkpoint and its line.
    run.replace_metrics(map(Epoch.as_row, parse(list[Epoch], saved[1].get("history"), "history") if saved else []))
    for note in run.store.notes:
        listen(Note(note))
    try:
        fitted = assembly.fit(on_event=listen, store=run.store, resume=True, helpers=helpers)
    except TrainingStopped as error:
        if error.fitted is not None:
            error.fitted = replace(error.fitted, reading=prepared.reading)
            keep_model(run, error.fitted)
        raise
    fitted = replace(fitted, reading=prepared.reading)
    keep_model(run, fitted)
    return fitted


def _draw_again(run: Run, draw: Draw, on_event: Listener | None) -> None:
    """Writes the missing report of a finished run."""
    from ._trained import load, prepared_of

    try:
        trained = load(run.path)
        prepared = prepared_of(trained)
    except (ValueError, OSError) as error:  # the model is as good without its report
        if on_event is not None:
            on_event(Note(f"{run.path / REPORT} could not be written: {error}"))
        return
    prepared = prepared.sampled
    predictions = trained.predict(prepared.parts.test) if len(prepared.parts.test) else None
    draw(run, prepared, trained.model, trained.objective, predictions)


def _with_baseline(run: Run) -> bool:
    return run.config.get("baseline") is True
