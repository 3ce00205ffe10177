"""Comparison of models: each is trained on the same series with several seeds, every run in its own folder."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ..data import is_there
from ..nn import find_model
from ..runs import (
    SECOND_FILES,
    Config,
    Draw,
    Run,
    assemble_run,
    folder_files,
    prepared_for,
    resume_run,
    source_of,
    train_run,
    write_folder,
)
from ..settings import SettingError, named
from ..storage import fingerprint
from ..system import load_plugin, plugins
from ..training import Event, Listener, TrainingStopped, paced
from ._scores import RunResult
from .engine import Engine, carry_out


@dataclass(frozen=True)
class PlannedRun:
    """Run of a comparison: a model and a seed.

    Attributes:
        model: Name of the model.
        seed: Seed of the split, the weights and the batch order.
        config: Complete configuration.
        folder: Run folder; its name contains a hash of the config and the data file.
    """

    model: str
    seed: int
    config: Config
    folder: Path

    def result(self) -> RunResult | None:
        """Returns the result; None if the run is not finished."""
        if not (self.folder / "run.json").is_file():
            return None
        run = Run.open(self.folder)
        return RunResult.of(run, self.model, self.seed) if run.status in ("finished", "failed") else None


def plan(config: Config, models: Sequence[str], seeds: int, folder: str | Path) -> list[PlannedRun]:
    """Returns the runs of a comparison, ordered by seed.

    Args:
        config: Common configuration. A setting named MODEL.NAME only applies to that model.
        models: Names from `chronode models`.
        seeds: Number of runs per model, with the seed of the config and the following ones.
        folder: Folder for the run folders.

    Example:
        >>> [(planned.model, planned.seed) for planned in plan(Config(), ["gru", "ltc"], 2, "runs/compare")]
        [('gru', 0), ('ltc', 0), ('gru', 1), ('ltc', 1)]
    """
    names = list(dict.fromkeys(models))
    if not names:
        raise ValueError("models is empty: pass names from `chronode models`, separated by commas.")
    for name in names:
        find_model(name)
    for name in config.model.settings:
        owner = name.partition(".")[0]
        if "." in name and owner not in names:
            raise ValueError(f"the setting {name} is for {owner}, which is not compared: {', '.join(names)}.")
    if not config.data.test and not config.data.shares[2]:
        raise SettingError(
            f"models are compared on the test part: give {named('split')} a share of test, or {named('test', ...)}.",
            argument="split",
        )
    first, file, runs = config.training.seed, file_of(config), []
    for seed in range(first, first + seeds):
        for name in names:
            asked = _for_model(config, name, seed)
            hashed = fingerprint(identity(asked, file))[:10]
            runs.append(PlannedRun(name, seed, asked, Path(folder) / f"{name}-seed{seed}-{hashed}"))
    return runs


def _for_model(config: Config, model: str, seed: int) -> Config:
    settings = {name: value for name, value in config.model.settings.items() if "." not in name}
    prefix = f"{model}."
    settings |= {n.removeprefix(prefix): value for n, value in config.model.settings.items() if n.startswith(prefix)}
    # Networks are compared; a linear start, the default of forecasts, would make them alike.
    changes = {"model": model, "settings": settings, "start": config.model.start or "none"}
    return config.with_values({"model": changes, "training": {"seed": seed}})


def file_of(config: Config) -> dict[str, Any] | None:
    """Returns name, size and hash of the data file; None for a task."""
    return source_of(config.data.source) if is_there(config.data.source) else None


def identity(config: Config, file: dict[str, Any] | None) -> dict[str, Any]:
    """Returns what determines the result of a run as plain data, independent of the location of the file."""
    description = config.as_dict()
    description["data"]["source"] = file or config.data.source
    for name in SECOND_FILES:
        if path := description["data"].pop(name):
            description["data"][name] = source_of(path) if is_there(path) else path
    del description["training"]["threads"]
    return json.loads(json.dumps(description))


def compare(
    runs: Sequence[PlannedRun],
    *,
    engine: Engine | None = None,
    on_start: Callable[[PlannedRun], None] | None = None,
    on_event: Callable[[PlannedRun, Event], None] | None = None,
    draw: Draw | None = None,
) -> Iterator[RunResult]:
    """Trains the unfinished runs and yields the result of every run, starting with finished ones.

    All models of one seed use the same series. An interrupted run is resumed. A model that cannot continue (its loss is
    not finite, out of memory) is reported as failed, and the others are trained.

    Args:
        runs: Result of `plan`.
        engine: Engine that trains; None for this process.
        on_start: Called before a run that is not finished yet.
        on_event: Called with a run and an event during training.
        draw: As for `chronode.runs.train_run`.

    Raises:
        ValueError: A model does not have a setting; raised before training starts.
        KeyboardInterrupt: Ctrl-C; finished runs are kept.
    """
    results = {planned.folder: planned.result() for planned in runs}
    unfinished = [planned for planned in runs if results[planned.folder] is None]
    for planned in unfinished:
        if planned.seed == unfinished[0].seed:
            try:
                assemble_run(planned.config, prepared_for(planned.config))
            except (ValueError, TypeError) as error:
                raise ValueError(f"{planned.model}: {error}") from error
    yield from (result for planned in runs if (result := results[planned.folder]) is not None)
    jobs = iter([_Training(planned, draw, plugins()) for planned in unfinished])
    for done in carry_out(
        lambda: next(jobs, None),
        engine or Engine(),
        state=None if not runs else runs[0].folder.parent,
        on_start=lambda job: on_start(job.planned) if on_start is not None else None,
        on_report=lambda job, event: on_event(job.planned, event) if on_event is not None else None,
    ):
        planned = done.job.planned
        if done.result is not None:  # the files of a run on another machine
            write_folder(done.result, planned.folder)
        fault = done.fault or "not finished."
        yield planned.result() or RunResult(planned.model, planned.seed, str(planned.folder), fault=fault)


@dataclass(frozen=True)
class _Training:
    """Job of a planned run."""

    planned: PlannedRun
    draw: Draw | None
    plugins: tuple[str, ...]

    @property
    def key(self) -> str:
        return self.planned.folder.name

    def execute(self, state: Path | None, report: Listener) -> dict[str, bytes] | None:
        """Trains in the run folder; on another machine in a temporary folder, whose files are returned."""
        for name in self.plugins:
            load_plugin(name)
        if state is not None:
            self._train(self.planned.folder, paced(report))
            return None
        with TemporaryDirectory() as parent:
            folder = Path(parent) / self.key
            self._train(folder, paced(report))
            return folder_files(folder)

    def _train(self, folder: Path, on_event: Listener) -> None:
        config = self.planned.config
        try:
            if (folder / "run.json").is_file():
                outcome = resume_run(folder, source=config.data.source, on_event=on_event, draw=self.draw)
            else:
                outcome = train_run(config, folder, prepared=prepared_for(config), on_event=on_event, draw=self.draw)
        except TrainingStopped:
            if Run.open(folder).status != "failed":
                raise
            return  # the reason is in the folder
        if outcome.status == "interrupted":
            raise KeyboardInterrupt
