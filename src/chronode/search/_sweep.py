"""Tuning on Optuna: a search in a folder that goes on where it stopped, and that several processes may share."""

from __future__ import annotations

import fcntl
import json
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

from .._checks import number, one_of, whole
from .._documents import read_json
from .._files import replacing
from .._plugins import plugins
from ..engine import Done, Engine, StopJob, carry_out
from ..runs._config import Config
from ..runs._lock import FolderLock
from ..runs._prepare import prepared_for
from ..runs._train import Draw, Listener, Outcome, assemble_run, resume_run, train_run
from ..training._events import Epoch, EpochDone, Event
from ..training._metrics import LOWER_IS_BETTER
from ._compare import file_of, identity
from ._ranges import Range, applied
from ._study import PRUNERS, Trial, as_trial, importances, open_study, sampler_for, suggest
from ._trial_job import TrialJob, value_of

_ENOUGH_TO_RANK = 8


class Search:
    """A search for good settings by the validation metric; the test part is not looked at before `train_best`.

    The folder holds `study.db` (Optuna's, in SQLite), `search.json` (what is searched) and the runs of the best.
    What a trial draws depends on the seed, its number and the trials before it, so a search that was stopped and went
    on is as good as one that was not.

    Args:
        config: what all trials have in common.
        ranges: by setting; see `chronode.search._ranges`.
        folder: new, or that of the same search.
        pruner: stops trials that look bad by their metric after each epoch: "median", "hyperband" or "none".

    Attributes:
        metric: that trials are judged by, on the validation part.
        lower_is_better: of that metric.
        prepared: the series.

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
        self.config, self.ranges, self.folder = config, dict(ranges), Path(folder)
        self.prepared = prepared_for(config)
        goal = self.prepared.objective.with_settings(config.training.metric, None, self.prepared.parts.train)
        self.metric = goal.metric
        self.lower_is_better = goal.metric in LOWER_IS_BETTER
        self._check_ranges()
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._alone():
            self._check_same()
            told: dict[str, Any] = {"lower_is_better": self.lower_is_better, "epochs": config.training.epochs}
            self.study = open_study(self.folder / "study.db", pruner=pruner, **told)

    def run(
        self,
        trials: int,
        *,
        timeout: float | None = None,
        engine: Engine | None = None,
        on_event: Callable[[int, Event], None] | None = None,
        on_trial: Callable[[Trial], None] | None = None,
    ) -> str:
        """Tries until there are `trials` in all, those from before and of other processes included.

        Args:
            trials: complete and pruned ones together.
            timeout: seconds after which no new trial begins.
            engine: where to train; None is this process.
            on_event: called with the number of a trial and an event of its training.
            on_trial: called with every trial as it begins and as it ends.

        Returns:
            "trials" or "timeout": why it ended.

        Raises:
            KeyboardInterrupt: Ctrl-C; the trials in hand count as failed, the search can go on.
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
            chosen = {name: suggest(trial, name, told) for name, told in self.ranges.items()}
            return TrialJob(trial.number, applied(self.config, chosen), self.metric, plugins())

        def listen(job: TrialJob, event: Event) -> None:
            if on_event is not None:
                on_event(job.number, event)
            # A trial that is done again, because its worker was lost, comes to the same epochs once more.
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
        """All trials, by number."""
        return [as_trial(told) for told in self.study.get_trials(deepcopy=False)]

    def count(self) -> int:
        """Trials that are complete, pruned or running."""
        return sum(trial.state != "fail" for trial in self.trials())

    def shared(self) -> bool:
        """Whether another process is at a trial, or training the best."""
        return any(trial.state == "running" for trial in self.trials()) or self._last_lock.taken()

    def best(self) -> Trial | None:
        """The best complete trial by validation; of equals the first."""
        done = [trial for trial in self.trials() if trial.state == "complete"]
        sign = 1.0 if self.lower_is_better else -1.0
        return min(done, key=lambda trial: sign * (trial.value or 0.0), default=None)

    def best_config(self) -> Config:
        """The config of the best trial."""
        best = self.best()
        if best is None:
            raise ValueError("no trial is complete yet: there is no best one.")
        return applied(self.config, best.settings)

    def importances(self) -> dict[str, float]:
        """How much of the difference between good and bad trials each setting makes; {} of too few trials."""
        done = {trial.value for trial in self.trials() if trial.state == "complete"}
        if len(done) < _ENOUGH_TO_RANK or len(self.ranges) < 2:
            return {}
        return importances(self.study)

    def _repr_html_(self) -> str:
        from ._pictures import search_html

        return search_html(self.trials(), self.metric, self.importances(), self.lower_is_better)

    def train_best(self, *, on_event: Listener | None = None, draw: Draw | None = None) -> Outcome:
        """Trains the best settings once more into a run folder of its own, and tests that model.

        Raises:
            ValueError: no trial is complete, or another process is doing it.
        """
        config, best = self.best_config(), self.best()
        assert best is not None
        folder = self.folder / f"best-{best.number}"
        with self._last_lock.held():
            if (folder / "run.json").is_file():
                return resume_run(folder, on_event=on_event, draw=draw)
            return train_run(config, folder, prepared=self.prepared, on_event=on_event, draw=draw)

    # ---- one trial ---------------------------------------------------------------------------------------

    def _claim(self, trials: int, driver: str) -> optuna.Trial | None:
        """The next trial; None if there are enough. Trials of processes that were killed do not count."""
        with self._alone():
            known = self.study.get_trials(deepcopy=False)
            for trial in known:
                lock = FolderLock(self._lock_of(trial.user_attrs.get("worker", "")))
                if trial.state == TrialState.RUNNING and not lock.taken():
                    self.study.tell(trial.number, state=TrialState.FAIL)
            if self.count() >= trials:
                return None
            self.study.sampler = sampler_for(self.config.training.seed, len(known))
            claimed = self.study.ask()
            claimed.set_user_attr("worker", driver)
            return claimed

    def _judge(self, trial: optuna.Trial, epoch: Epoch) -> None:
        """Tells the study of an epoch and ends trials that look bad."""
        trial.report(value_of(epoch, self.metric), epoch.number)
        if epoch.number < self.config.training.epochs and trial.should_prune():
            raise StopJob

    def _settle(self, trial: optuna.Trial, done: Done[TrialJob]) -> None:
        """Tells the study how a trial ended."""
        if done.how == "fault":
            raise ValueError(f"trial {trial.number}: {done.fault}")
        fault = done.fault or (done.result.fault if done.how == "result" else "")
        if done.how == "result" and not fault:
            self.study.tell(trial, done.result.value)
            return
        # One that diverged, or whose workers are killed, is pruned: the sampler shall know that its settings are bad.
        trial.set_user_attr("fault", fault)
        self.study.tell(trial, state=TrialState.PRUNED)

    def _show(self, trial: optuna.Trial, on_trial: Callable[[Trial], None] | None) -> None:
        if on_trial is not None:
            on_trial(self.trials()[trial.number])

    # ---- the folder --------------------------------------------------------------------------------------

    def _check_ranges(self) -> None:
        """Every end of every range must give a model that can be trained."""
        for name, told in self.ranges.items():
            for value in told.ends:
                try:
                    assemble_run(applied(self.config, {name: value}), self.prepared)
                except (ValueError, TypeError) as error:
                    raise ValueError(f"the range {name}={told}: {error}") from error

    def _check_same(self) -> None:
        """Keeps what is searched with a new search; refuses another one in the folder."""
        file = self.folder / "search.json"
        ranges = {name: str(told) for name, told in self.ranges.items()}
        here = {**identity(self.config, file_of(self.config)), "ranges": ranges}
        if not file.is_file():
            with replacing(file) as draft:
                draft.write_text(json.dumps(here, indent=1) + "\n", encoding="utf-8")
            return
        there = read_json(file, dict[str, dict[str, Any]])
        differing = [
            f"{section} {name}: {there.get(section, {}).get(name)!r} there, {here[section].get(name)!r} here"
            for section in here
            for name in {**there.get(section, {}), **here[section]}
            if there.get(section, {}).get(name) != here[section].get(name)
        ]
        if differing:
            told = "; ".join(differing)
            raise ValueError(
                f"{self.folder} holds another search ({told}): go on with its settings, or name a new folder."
            )

    @property
    def _last_lock(self) -> FolderLock:
        return FolderLock(self.folder / "best.lock")

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Waits until no other process opens the study or claims a trial."""
        with open(self.folder / "study.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    @contextmanager
    def _driver(self) -> Iterator[str]:
        """A name of this process by which others know whether it is alive."""
        name = uuid.uuid4().hex[:12]
        try:
            with FolderLock(self._lock_of(name)).held():
                yield name
        finally:
            self._lock_of(name).unlink(missing_ok=True)

    def _lock_of(self, worker: str) -> Path:
        return self.folder / f"worker-{worker}.lock"
