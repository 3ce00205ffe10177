"""Comparison of models: each is trained on the same series with several seeds, every run in its own folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ..runs import Draw, Run, assemble_run, folder_files, prepared_for, resume_run, train_run, write_folder
from ..system import load_plugin, plugins
from ..training import Event, Listener, TrainingStopped, paced
from ._plan import PlannedRun
from ._scores import RunResult
from .engine import Done, Engine, carry_out


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
    known = {planned.folder: planned.result() for planned in runs}
    wanted = [planned for planned in runs if known[planned.folder] is None]
    for planned in wanted:
        if planned.seed == wanted[0].seed:
            _check_model(planned)
    yield from (result for planned in runs if (result := known[planned.folder]) is not None)
    jobs = iter([_Training(planned, draw, plugins()) for planned in wanted])
    begin, report = on_start or _ignore, on_event or _ignore
    for done in carry_out(
        lambda: next(jobs, None),
        engine or Engine(),
        state=None if not runs else runs[0].folder.parent,
        on_start=lambda job: begin(job.planned),
        on_report=lambda job, event: report(job.planned, event),
    ):
        yield _result(done)


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
        with TemporaryDirectory() as place:
            folder = Path(place) / self.key
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


def _result(done: Done[_Training]) -> RunResult:
    """Returns the result of a job; files from another machine are written to the run folder."""
    planned = done.job.planned
    if done.result is not None:
        write_folder(done.result, planned.folder)
    result = planned.result()
    return result or RunResult(planned.model, planned.seed, str(planned.folder), fault=done.fault or "not finished.")


def _check_model(planned: PlannedRun) -> None:
    try:
        assemble_run(planned.config, prepared_for(planned.config))
    except (ValueError, TypeError) as error:
        raise ValueError(f"{planned.model}: {error}") from error


def _ignore(*about: Any) -> None:
    pass
