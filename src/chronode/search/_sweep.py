"""Search with Optuna, in a folder that can be resumed and shared by several processes."""

from __future__ import annotations

import fcntl
import math
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import optuna
from optuna.trial import TrialState

from ..runs import (
    Config,
    Draw,
    FolderLock,
    Outcome,
    assemble_run,
    ensemble_runs,
    prepared_for,
    resume_run,
    train_run,
    with_named_model,
)
from ..settings import SettingError, named, number, one_of, whole
from ..storage import read_json, write_json
from ..system import drawn, plugins
from ..training import LOWER_IS_BETTER, Epoch, EpochDone, Event, Listener
from ._compare import file_of, identity
from ._ranges import Range, applied
from ._trials import PRUNERS, Trial, TrialJob, as_trial, importances, open_study, sampler_for, suggest, value_of
from .engine import Done, Engine, StopJob, carry_out

_ENOUGH_TO_RANK = 8


class Search:
    """Search for good settings by the validation metric; the test part is not used before `train_best`.

    The folder contains `study.db` (the SQLite file of Optuna), `search.json` (the search space) and the runs of the
    best trial. Samples depend on the seed, the number of the trial and the previous trials, so a resumed search is as
    good as an uninterrupted one.

    Args:
        config: Common configuration of all trials.
        ranges: Ranges by setting; see `chronode.search._ranges`.
        folder: New folder, or that of the same search.
        pruner: Method that stops bad trials by their metric after each epoch: "median", "hyperband" or "none".

    Attributes:
        metric: Validation metric of the trials.
        lower_is_better: Whether lower values of the metric are better.
        prepared: The series.

    Example:
        >>> import tempfile
        >>> from chronode.search._ranges import Between
        >>> few = {"train": 64, "valid": 16, "test": 16}
        >>> asked = {"data": {"source": "bitstream", "options": few}, "model": {"hidden": 4}, "training": {"epochs": 1}}
        >>> ranges = {"learning_rate": Between(1e-3, 1e-1, log=True)}
        >>> search = Search(Config.from_dict(asked), ranges, tempfile.mkdtemp())
        >>> search.run(trials=2), len(search.trials()), search.metric
        ('trials', 2, 'accuracy')
    """

    def __init__(self, config: Config, ranges: Mapping[str, Range], folder: str | Path, *, pruner: str = "median"):
        if not ranges:
            raise ValueError("there is nothing to search: every setting is fixed.")
        one_of("pruner", pruner, PRUNERS)
        config = with_named_model(config)
        self.config, self.ranges, self.folder = config, dict(ranges), Path(folder)
        self.prepared = prepared_for(config)
        goal = self.prepared.objective.with_settings(config.training.metric, None, self.prepared.parts.train)
        self.metric = goal.metric
        self.lower_is_better = goal.metric in LOWER_IS_BETTER
        self._check_ranges()
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._alone():
            self._check_same()
            values: dict[str, Any] = {"lower_is_better": self.lower_is_better, "epochs": config.training.epochs}
            self.study = open_study(self.folder / "study.db", pruner=pruner, **values)

    def run(
        self,
        trials: int,
        *,
        timeout: float | None = None,
        engine: Engine | None = None,
        on_event: Callable[[int, Event], None] | None = None,
        on_trial: Callable[[Trial], None] | None = None,
    ) -> str:
        """Runs trials until there are `trials` in total, including earlier ones and those of other processes.

        Args:
            trials: Total number of complete and pruned trials.
            timeout: Seconds after which no new trial starts.
            engine: Engine that trains; None for this process.
            on_event: Called with the number of a trial and an event of its training.
            on_trial: Called with every trial when it starts and when it ends.

        Returns:
            "trials" or "timeout", the reason for the end.

        Raises:
            KeyboardInterrupt: Ctrl-C; running trials count as failed, and the search can be resumed.
        """
        whole("trials", trials, at_least=1)
        end = math.inf if timeout is None else time.monotonic() + number("timeout", timeout, at_least=0)
        live: dict[int, optuna.Trial] = {}
        judged: Counter[int] = Counter()

        def take() -> TrialJob | None:
            trial = self._claim(trials, driver) if time.monotonic() < end else None
            if trial is None:
                return None
            live[trial.number] = trial
            self._show(trial, on_trial)
            chosen = {name: suggest(trial, name, values) for name, values in self.ranges.items()}
            return TrialJob(trial.number, applied(self.config, chosen), self.metric, plugins())

        def listen(job: TrialJob, event: Event) -> None:
            if on_event is not None:
                on_event(job.number, event)
            # A trial that is repeated because its worker was lost reports the same epochs again.
            if isinstance(event, EpochDone) and event.epoch.number > judged[job.number]:
                judged[job.number] = event.epoch.number
                self._judge(live[job.number], event.epoch)

        with self._driver() as driver:
            try:
                for done in carry_out(take, engine or Engine(), on_report=listen):
                    self._settle(live[done.job.number], done)
                    self._show(live.pop(done.job.number), on_trial)
            finally:
                for trial in live.values():
                    self.study.tell(trial, state=TrialState.FAIL)
        return "timeout" if self.count() < trials else "trials"

    def trials(self) -> list[Trial]:
        """Returns all trials by number."""
        return [as_trial(values) for values in self.study.get_trials(deepcopy=False)]

    def count(self) -> int:
        """Returns the number of complete, pruned and running trials."""
        return sum(trial.state != "fail" for trial in self.trials())

    def shared(self) -> bool:
        """Returns whether another process is running a trial or training the best settings."""
        return any(trial.state == "running" for trial in self.trials()) or self._last_lock.taken()

    def best(self) -> Trial | None:
        """Returns the best complete trial by validation; the first of equal ones."""
        return next(iter(self.best_trials(1)), None)

    def best_trials(self, count: int) -> list[Trial]:
        """Returns the best complete trials by validation, with different settings, the best one first."""
        done = [trial for trial in self.trials() if trial.state == "complete"]
        sign = 1.0 if self.lower_is_better else -1.0
        ordered = sorted(done, key=lambda trial: sign * (trial.value or 0.0))
        different = {str(sorted(trial.settings.items())): trial for trial in reversed(ordered)}
        return [trial for trial in ordered if trial in different.values()][:count]

    def best_config(self) -> Config:
        """Returns the config of the best trial."""
        best = self.best()
        if best is None:
            raise ValueError("no trial is complete yet.")
        return applied(self.config, best.settings)

    def importances(self) -> dict[str, float]:
        """Returns the importance of each setting for the result; {} with too few trials."""
        done = {trial.value for trial in self.trials() if trial.state == "complete"}
        if len(done) < _ENOUGH_TO_RANK or len(self.ranges) < 2:
            return {}
        return importances(self.study)

    def _repr_html_(self) -> str:
        return drawn("search_html", self.trials(), self.metric, self.importances(), self.lower_is_better)

    def train_best(self, count: int = 1, *, on_event: Listener | None = None, draw: Draw | None = None) -> Outcome:
        """Trains the best settings again in a run folder of their own and tests that model.

        Args:
            count: Number of the best trials; the outputs of several are averaged.
            on_event: Called during training.
            draw: As for `train_run`.

        Raises:
            ValueError: Fewer trials are complete, or another process is training them.
        """
        chosen = self.best_trials(whole("count", count, at_least=1))
        if not chosen:
            raise ValueError("no trial is complete yet.")
        if len(chosen) < count:
            raise SettingError(
                f"{named('best', count)} needs as many complete trials with different settings, there are "
                f"{len(chosen)}",
                argument="best",
                cure="search more trials",
            )
        with self._last_lock.held():
            outcomes = []
            for trial in chosen:
                folder = self.folder / f"best-{trial.number}"
                config = applied(self.config, trial.settings)
                if (folder / "run.json").is_file():
                    outcomes.append(resume_run(folder, on_event=on_event, draw=draw))
                else:
                    outcomes.append(train_run(config, folder, prepared=self.prepared, on_event=on_event, draw=draw))
                if outcomes[-1].status == "interrupted" or count == 1:
                    return outcomes[-1]
            together = self.folder / "-".join(["ensemble", *(str(trial.number) for trial in chosen)])
            if (together / "run.json").is_file():
                return resume_run(together, draw=draw)
            return ensemble_runs([outcome.run.path for outcome in outcomes], together, draw=draw)

    # ---- one trial ---------------------------------------------------------------------------------------

    def _claim(self, trials: int, driver: str) -> optuna.Trial | None:
        """Returns the next trial; None if there are enough. Trials of killed processes do not count."""
        with self._alone():
            earlier = self.study.get_trials(deepcopy=False)
            for trial in earlier:
                lock = FolderLock(self._lock_of(trial.user_attrs.get("worker", "")))
                if trial.state == TrialState.RUNNING and not lock.taken():
                    self.study.tell(trial.number, state=TrialState.FAIL)
            if self.count() >= trials:
                return None
            self.study.sampler = sampler_for(self.config.training.seed, len(earlier))
            claimed = self.study.ask()
            claimed.set_user_attr("worker", driver)
            return claimed

    def _judge(self, trial: optuna.Trial, epoch: Epoch) -> None:
        """Reports an epoch to the study and stops bad trials."""
        trial.report(value_of(epoch, self.metric), epoch.number)
        if epoch.number < self.config.training.epochs and trial.should_prune():
            raise StopJob

    def _settle(self, trial: optuna.Trial, done: Done[TrialJob]) -> None:
        """Reports the result of a trial to the study."""
        if done.how == "fault":
            raise ValueError(f"trial {trial.number}: {done.fault}")
        value, fault = done.result if done.how == "result" else (None, done.fault)
        if done.how == "result" and not fault:
            self.study.tell(trial, value)
            return
        # A trial that diverged or whose workers were killed is pruned, so that the sampler avoids its settings.
        trial.set_user_attr("fault", fault)
        self.study.tell(trial, state=TrialState.PRUNED)

    def _show(self, trial: optuna.Trial, on_trial: Callable[[Trial], None] | None) -> None:
        if on_trial is not None:
            on_trial(self.trials()[trial.number])

    # ---- the folder --------------------------------------------------------------------------------------

    def _check_ranges(self) -> None:
        """Checks that the limits of every range give a valid model."""
        for name, values in self.ranges.items():
            for value in values.ends:
                try:
                    assemble_run(applied(self.config, {name: value}), self.prepared)
                except (ValueError, TypeError) as error:
                    problem = getattr(error, "problem", error)  # without its place: nobody passed --set
                    raise ValueError(f"the range {name}={values}: {problem}") from error

    def _check_same(self) -> None:
        """Stores the search space of a new search; rejects a different search in the folder."""
        file = self.folder / "search.json"
        ranges = {name: str(values) for name, values in self.ranges.items()}
        here = {**identity(self.config, file_of(self.config)), "ranges": ranges}
        if not file.is_file():
            write_json(file, here)
            return
        saved, usual = read_json(file, dict[str, dict[str, Any]]), identity(Config(), None)
        # A setting that did not exist when the search was started had the effect of its default.
        there = {section: {**usual.get(section, {}), **saved.get(section, {})} for section in here}
        differing = [
            f"{section} {name}: {there[section].get(name)!r} in the folder, {here[section].get(name)!r} now"
            for section in here
            for name in {**there[section], **here[section]}
            if there[section].get(name) != here[section].get(name)
        ]
        if differing:
            changes = "; ".join(differing)
            raise ValueError(
                f"{self.folder} contains a different search ({changes}): use its settings, or choose a new folder."
            )

    @property
    def _last_lock(self) -> FolderLock:
        return FolderLock(self.folder / "best.lock")

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Waits until no other process is opening the study or claiming a trial."""
        with open(self.folder / "study.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    @contextmanager
    def _driver(self) -> Iterator[str]:
        """Yields a name by which other processes can check whether this one is alive."""
        name = uuid.uuid4().hex[:12]
        try:
            with FolderLock(self._lock_of(name)).held():
                yield name
        finally:
            self._lock_of(name).unlink(missing_ok=True)

    def _lock_of(self, worker: str) -> Path:
        return self.folder / f"worker-{worker}.lock"
