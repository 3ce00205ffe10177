"""Comparison of models: each is trained on the same series with several seeds, every run in its own folder."""

from __future__ import annotations

import hashlib
import json
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from .._plugins import load_plugin, plugins
from ..engine import Done, Engine, carry_out
from ..nn._registry import find_model
from ..runs._config import Config
from ..runs._folder import Run, Summary
from ..runs._prepare import prepared_for, source_of
from ..runs._train import Draw, Listener, assemble_run, resume_run, train_run
from ..runs._transfer import pack, unpack
from ..training._baselines import best_baseline
from ..training._events import Event, TrainingStopped, paced
from ..training._metrics import LOWER_IS_BETTER, mean_and_std


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
        return RunResult.of(self, run) if run.status in ("finished", "failed") else None


@dataclass(frozen=True)
class RunResult:
    """A finished run.

    Attributes:
        model: Name of the model.
        seed: Seed of the run.
        run: Run folder.
        metric: Metric that selected the best epoch.
        test: Metrics on the test part; {} for a failed run.
        curve: Metric on the validation part after every epoch; None where it is not finite.
        parameters: Number of trained parameters.
        seconds: Seconds per epoch.
        baselines: Test metrics of baselines without training.
        fault: Reason for a failure.
    """

    model: str
    seed: int
    run: str
    metric: str = ""
    test: dict[str, float | None] | None = None
    curve: tuple[float | None, ...] = ()
    parameters: int = 0
    seconds: float = 0.0
    baselines: dict[str, dict[str, float | None]] | None = None
    fault: str = ""

    @classmethod
    def of(cls, planned: PlannedRun, run: Run) -> RunResult:
        """Reads the result from a run folder."""
        summary, rows = run.summary() or Summary("failed"), run.metrics()
        metric, test = summary.metric, summary.test
        key = "valid_loss" if metric == "loss" else metric
        fault = summary.fault
        if not fault and test.get(metric) is None:
            fault = f"{metric} on the test series is NaN."
        return cls(
            *(planned.model, planned.seed, str(planned.folder), metric, test),
            curve=tuple(row.get(key) for row in rows),
            parameters=summary.parameters or 0,
            seconds=statistics.fmean(row.get("seconds") or 0.0 for row in rows) if rows else 0.0,
            baselines=summary.baselines,
            fault=fault,
        )


@dataclass(frozen=True)
class ModelScores:
    """Runs of a model with all seeds.

    Attributes:
        model: Name of the model.
        results: Results of the successful runs.
        failed: Results of the failed runs.
    """

    model: str
    results: tuple[RunResult, ...]
    failed: tuple[RunResult, ...]

    def values(self, metric: str) -> list[float]:
        """Returns a test metric of every run that has it."""
        return [value for one in self.results if (value := (one.test or {}).get(metric)) is not None]

    def score(self, metric: str) -> tuple[float | None, float | None]:
        """Returns mean and sample standard deviation (None for a single run) of a test metric."""
        found = self.values(metric)
        return mean_and_std(found) if found else (None, None)

    @property
    def seconds(self) -> float | None:
        """Seconds per epoch, averaged over the runs."""
        return statistics.fmean(one.seconds for one in self.results) if self.results else None

    @property
    def parameters(self) -> int | None:
        """The number of trained parameters."""
        return next((one.parameters for one in (*self.results, *self.failed) if one.parameters), None)


@dataclass(frozen=True)
class Comparison:
    """Comparison of models, best first.

    Attributes:
        metric: Metric of the order.
        metrics: All metrics, with that one first.
        rows: One row per model; models without a result last.
        baseline: Name and mean test metric of the best baseline.
    """

    metric: str
    metrics: tuple[str, ...]
    rows: tuple[ModelScores, ...]
    baseline: tuple[str, float] | None

    @classmethod
    def of(cls, results: Sequence[RunResult]) -> Comparison:
        """Sorts results into a comparison.

        Example:
            >>> found = [("gru", 0, 0.25), ("gru", 1, 0.75), ("ltc", 0, 0.875)]
            >>> results = [RunResult(m, seed, "", "accuracy", {"accuracy": score}) for m, seed, score in found]
            >>> comparison = Comparison.of(results)
            >>> [(row.model, row.score("accuracy")) for row in comparison.rows]
            [('ltc', (0.875, None)), ('gru', (0.5, 0.3535533905932738))]
        """
        metric = next((one.metric for one in results if one.metric), "")
        sign = 1.0 if metric in LOWER_IS_BETTER else -1.0
        rows = []
        for model in dict.fromkeys(one.model for one in results):
            own = [one for one in results if one.model == model]
            rows.append(ModelScores(model, tuple(o for o in own if not o.fault), tuple(o for o in own if o.fault)))
        rows.sort(key=lambda row: float("inf") if (mean := row.score(metric)[0]) is None else sign * mean)
        measured = dict.fromkeys(name for one in results for name in one.test or {})
        return cls(metric, tuple(dict.fromkeys([metric, *measured])), tuple(rows), _baseline(results, metric))

    def _repr_html_(self) -> str:
        from ._pictures import comparison_html

        return comparison_html(self)

    @property
    def failed(self) -> list[RunResult]:
        """The failed runs."""
        return [one for row in self.rows for one in row.failed]

    def as_dict(self) -> dict[str, Any]:
        """Returns the comparison as plain data for JSON."""
        return {
            "metric": self.metric,
            "baseline": None if self.baseline is None else dict([self.baseline]),
            "models": [self._row_as_dict(row) for row in self.rows],
        }

    def _row_as_dict(self, row: ModelScores) -> dict[str, Any]:
        mean, spread = row.score(self.metric)
        scores = {name: dict(zip(("mean", "spread"), row.score(name), strict=True)) for name in self.metrics}
        about = {"parameters": row.parameters, "seconds_per_epoch": row.seconds, "test": scores}
        runs = [asdict(one) for one in (*row.results, *row.failed)]
        return {"model": row.model, "mean": mean, "spread": spread, **about, "runs": runs}


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
    first = config.training.seed
    file = file_of(config)
    return [_planned(config, name, seed, Path(folder), file) for seed in range(first, first + seeds) for name in names]


def file_of(config: Config) -> dict[str, Any] | None:
    """Returns name, size and hash of the data file; None for a task."""
    return source_of(config.data.source) if Path(config.data.source).is_file() else None


def identity(config: Config, file: dict[str, Any] | None) -> dict[str, Any]:
    """Returns everything that determines the result of a run as plain data, independent of the location of the
    file.
    """
    description = config.as_dict()
    description["data"]["source"] = file or config.data.source
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
        runs: RunResult of `plan`.
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
    begin, tell = on_start or _ignore, on_event or _ignore
    for done in carry_out(
        lambda: next(jobs, None),
        engine or Engine(),
        state=None if not runs else runs[0].folder.parent,
        on_start=lambda job: begin(job.planned),
        on_report=lambda job, event: tell(job.planned, event),
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
            return pack(folder)

    def _train(self, folder: Path, tell: Listener) -> None:
        config = self.planned.config
        try:
            if (folder / "run.json").is_file():
                outcome = resume_run(folder, source=config.data.source, on_event=tell, draw=self.draw)
            else:
                outcome = train_run(config, folder, prepared=prepared_for(config), on_event=tell, draw=self.draw)
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
        unpack(done.result, planned.folder)
    result = planned.result()
    return result or RunResult(planned.model, planned.seed, str(planned.folder), fault=done.fault or "not finished.")


def _planned(config: Config, model: str, seed: int, folder: Path, file: dict[str, Any] | None) -> PlannedRun:
    shared = {name: value for name, value in config.model.settings.items() if "." not in name}
    prefix = f"{model}."
    own = {name[len(prefix) :]: v for name, v in config.model.settings.items() if name.startswith(prefix)}
    asked = config.with_values({"model": {"model": model, "settings": {**shared, **own}}, "training": {"seed": seed}})
    text = json.dumps(identity(asked, file), sort_keys=True)
    hashed = hashlib.sha256(text.encode()).hexdigest()[:10]
    return PlannedRun(model, seed, asked, folder / f"{model}-seed{seed}-{hashed}")


def _check_model(planned: PlannedRun) -> None:
    try:
        assemble_run(planned.config, prepared_for(planned.config))
    except (ValueError, TypeError) as error:
        raise ValueError(f"{planned.model}: {error}") from error


def _ignore(*about: Any) -> None:
    pass


def _baseline(results: Sequence[RunResult], metric: str) -> tuple[str, float] | None:
    """Returns the best baseline by its mean over the runs."""
    found: dict[str, list[float]] = {}
    for one in results:
        for name, scores in (one.baselines or {}).items():
            if (value := scores.get(metric)) is not None:
                found.setdefault(name, []).append(value)
    return best_baseline(metric, {name: {metric: statistics.fmean(values)} for name, values in found.items()})
