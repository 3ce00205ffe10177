"""Automatic choice of a model: a short race of a few candidates on series that they were not trained on."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..data import Parts, Sequences, folds_of
from ..model.start import StartFit
from ..training import (
    Epoch,
    EpochDone,
    Event,
    Note,
    Objective,
    Settings,
    Trained,
    TrainingStopped,
    assemble,
    check_share,
    completed,
    fit_named,
    mean_and_std,
    outputs_in_order,
    row_losses,
    seconds_of,
    spec_for,
    together,
    weighted_rows,
)
from ._baselines import constant_outputs
from ._candidates import FOLDS, Candidate, Plan, affordable, many_updates
from ._race import Race, RaceEntry, beats, best_of, decide, entry_of

SMALL = 500
"""With fewer series, candidates are cross-validated, and the winner is trained on all of them."""
AUTO_START = "stacked"
"""Start of a model that is chosen automatically."""
_ERRORS_OF_VARIANTS = 2.0
_LITTLE = 0.5  # share of the loss of a constant prediction that a start has to explain, or networks get more time
_NOTHING = 0.05
# Shares of the loss of the start below which other candidates are not tried, and a candidate is not trained on.
_CLEAR_WIN, _SOLVED = 0.25, 0.02
_APART = 2  # best networks that are also trained apart from the start, and averaged with it
_SHARES = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
_NOTHING_LEFT = 0.01  # mean loss of the start below which no network can add to it


def can_race(train: Sequences, valid: Sequences) -> bool:
    """Returns whether candidates can be compared: numbers in, one target per series, and enough of them."""
    target, groups = train.target, len(np.unique(train.groups)) + len(np.unique(valid.groups))
    usual = train.base_values.dtype.kind == "f" and target is not None and not target.per_step
    return usual and train is not valid and groups >= 2 * FOLDS


def selection_metric(objective: Objective) -> str:
    """Returns the metric that chooses epochs and candidates: the loss, which is smoother than the share of correct
    predictions and has a standard error series by series; or the metric of a task.

    Example:
        >>> from chronode.data import from_list
        >>> selection_metric(Objective.for_data(from_list([[1.0], [2.0]], target=["a", "b"])))
        'loss'
    """
    return "loss" if objective.metric in ("accuracy", "rmse") else objective.metric


def race(
    parts: Parts,
    objective: Objective,
    settings: Settings,
    candidates: Sequence[Candidate],
    *,
    budget: str | float = "1m",
    start: str = "linear",
    pools: Sequence[str] = (),
    hard: Sequence[Candidate] = (),
    missing: bool | None = None,
    on_event: Callable[[Any], None] | None = None,
) -> Race:
    """Trains the candidates for a few epochs and returns the best one on held-out series.

    With `settings.refit`, the candidates are cross-validated on the training and validation series, and the number of
    epochs of the winner is that of the lowest mean loss; otherwise they are compared on the validation part. The budget
    counts work rather than time by the clock, so that the same data and seed always give the same choice: it is the
    approximate time on two cores.

    Args:
        parts: Training and validation series, scaled.
        objective: Objective of the training.
        settings: Training settings of all candidates; those that are None may be chosen by a candidate.
        candidates: Models to compare.
        budget: Approximate time for the race, such as "90s" or "2m".
        start: "linear" or "none", as for `fit`.
        pools: Other ways to pool the steps; tried with the best candidate if it beats the linear start.
        hard: Further candidates where the start explains less than half of the loss of a constant prediction, the first
            ones unless values are missing; networks then get 800 to 6,000 optimizer steps each within twice the budget,
            or within four times the budget if the start explains next to nothing.
        missing: Whether values may be missing; by default if some are.
        on_event: Called with a Note for each candidate.

    Example:
        >>> from chronode.data import from_list
        >>> s = from_list([[float(i % 7), float(i % 3)] for i in range(60)], target=[i % 7.0 for i in range(60)])
        >>> found = race(Parts(s[:40], s[40:], s[40:]), Objective.for_data(s), Settings(epochs=2, refit=True),
        ...              [Candidate("gru", {"hidden_size": 4})])
        >>> found.chosen.name, found.settings.epochs
        ('linear start alone', 0)
    """
    check_share(settings, start)
    free, settings = settings.free, completed(settings, parts)
    metric = settings.metric or selection_metric(objective)
    objective = objective.with_settings(metric, settings.class_weights, parts.train)
    seconds, variants, began = seconds_of(budget), pools, time.perf_counter()
    if settings.share is not None:
        candidates, hard = ([replace(one, is_apart=True) for one in group] for group in (candidates, hard))
    apart = _APART if start == AUTO_START and settings.share is None and not settings.refit else 0
    plan = affordable(candidates, parts, settings, seconds, variants=len(pools) + apart)
    judged = _judged(parts, settings, plan.folds)
    whole = None if start == "none" else _start(parts, settings, start)
    starts = [None if whole is None else pair.start_of(whole) for pair in judged]
    course = _Course(parts, objective, settings, judged, starts, plan, free, missing, on_event)
    linear = None if whole is None else course.start_entry(whole)
    if linear is not None:
        course.tell(f"{linear.name}: {objective.metric} {linear.value:.4g} in {time.perf_counter() - began:.0f} s")
        if not linear.rows.nan_to_num().sum() > _NOTHING_LEFT * len(linear.rows):
            decision = decide([], (linear, candidates[0]), linear, objective, settings, free, len(judged))
            return replace(decision, linear=whole)
        explained = 1 - float(linear.rows.nanmean()) / _constant_loss(judged, objective)
        if explained < _LITTLE and not settings.refit:
            seconds *= 2 if explained > _NOTHING else 4
            ordered = [*candidates, *hard] if parts.train.has_missing else [*hard, *candidates]
            plan, variants = many_updates(ordered, parts, settings, seconds), ()
            apart = apart if explained > _NOTHING else 0
            course = replace(course, plan=plan, until_clear=True)
    entries = course.run_all(plan.candidates, linear)
    best = best_of(entries, objective)
    if linear is None or beats(best[0], linear, objective):
        pooled = [replace(best[1], network={**best[1].network, "pool": pool}) for pool in variants]
        for entry, candidate in course.run_all(pooled, linear):
            entries.append((entry, candidate))
            if not entry.fault and beats(entry, best[0], objective, _ERRORS_OF_VARIANTS):
                best = entry, candidate
    trained = [(entry, candidate) for entry, candidate in entries if not entry.fault]
    first = sorted(trained, key=lambda pair: pair[0].value, reverse=objective.better(1.0, 0.0))[:apart]
    for entry, candidate in course.run_all([replace(candidate, is_apart=True) for _, candidate in first], linear):
        entries.append((entry, candidate))
        if not entry.fault and objective.better(entry.value, best[0].value):
            best = entry, candidate
    decision = decide(entries, best, linear, objective, settings, free, len(judged))
    return replace(decision, settings=_lengthened(decision.settings, plan, free), linear=whole)


def _lengthened(settings: Settings, plan: Plan, free: Collection[str]) -> Settings:
    """Returns the settings of the winner with at least the epochs of the race, unless the user chose their number."""
    if settings.refit or settings.epochs != Settings.epochs or plan.epochs <= settings.epochs:
        return settings
    return replace(
        settings, epochs=plan.epochs, early_stop=plan.patience if "early_stop" in free else settings.early_stop
    )


class _Pair(NamedTuple):
    """Training and held-out series, with their row numbers among all; None if they are the parts themselves."""

    parts: Parts
    train: Tensor | None = None
    valid: Tensor | None = None

    def start_of(self, whole: StartFit) -> StartFit:
        """Returns the start for these series: out-of-fold outputs of the one that was fitted to all."""
        return whole if self.train is None or self.valid is None else whole.fold(self.train, self.valid)


@dataclass
class _Course:
    """State that all candidates of a race share: the series, the starts and the number of epochs."""

    parts: Parts
    objective: Objective
    settings: Settings
    judged: list[_Pair]
    starts: list[StartFit | None]
    plan: Plan
    free: Collection[str]
    missing: bool | None
    on_event: Callable[[Any], None] | None
    until_clear: bool = False

    def tell(self, text: str) -> None:
        """Passes a remark to the user."""
        if self.on_event is not None:
            self.on_event(Note(text))

    def run_all(self, candidates: Sequence[Candidate], linear: RaceEntry | None) -> list[tuple[RaceEntry, Candidate]]:
        """Trains candidates one by one, and tells the time of each before it and its result after it.

        With few series, the race ends with a candidate that does not improve on the start in any epoch of the first
        fold; with `until_clear`, with one that is far better than the start.
        """
        entries, used, foreseen = [], 0.0, 0.0
        for number, candidate in enumerate(candidates):
            left = [self._seconds(later) for later in candidates[number:]]
            pace, began = used / foreseen if foreseen else 1.0, time.perf_counter()
            self.tell(f"{candidate}: about {pace * left[0]:.0f} s, {pace * sum(left):.0f} s left in all")
            entry, candidate = self._run(candidate, linear)
            entries.append((entry, candidate))
            seconds = time.perf_counter() - began
            used, foreseen = used + seconds, foreseen + left[0]
            self.tell(f"{candidate}: {entry.fault or f'{self.objective.metric} {entry.value:.4g}'} in {seconds:.0f} s")
            if linear is None:
                continue
            if self.settings.refit and entry.folds < linear.folds:
                break
            if self.until_clear and not entry.fault and self._wins_clearly(entry, linear):
                break
        return entries

    def _seconds(self, candidate: Candidate) -> float:
        """Returns the time that a candidate may take; a variant takes as long as the longest."""
        return self.plan.seconds.get(str(candidate), max(self.plan.seconds.values()))

    def _wins_clearly(self, entry: RaceEntry, linear: RaceEntry) -> bool:
        far = float(entry.rows.nanmean()) < _CLEAR_WIN * float(linear.rows.nanmean())
        return far and beats(entry, linear, self.objective)

    def start_entry(self, whole: StartFit) -> RaceEntry:
        """Returns the result of the start alone, by its outputs for held-out series."""
        return self._entry_of(f"{whole.start.name} alone", self._started())

    def _started(self) -> list[Tensor]:
        """Returns the outputs of the start for the held-out series of every fold."""
        fits = [(pair, fitted) for pair, fitted in zip(self.judged, self.starts, strict=True) if fitted is not None]
        return [
            fitted.outputs(pair.parts.valid) if fitted.held_out_valid is None else fitted.held_out_valid
            for pair, fitted in fits
        ]

    def _entry_of(self, name: str, outputs: Sequence[Tensor], epoch: int = 0) -> RaceEntry:
        """Returns the result of these outputs for the held-out series of every fold."""
        rows, epochs = [], []
        for pair, output in zip(self.judged, outputs, strict=True):
            valid = pair.parts.valid
            goal = _goal(valid, self.objective)
            scores = self.objective.scores()
            weights = None if valid.weights is None else torch.from_numpy(valid.weights)
            self.objective.measure(scores, output, goal, weights)
            loss = self.objective.loss_of(output, goal, weights=weights)
            epochs.append([Epoch(epoch, float("nan"), float(loss.mean), scores.compute())])
            rows.append(weighted_rows(self.objective.row_losses(output, goal).float(), valid))
        return replace(self._entry(name, epochs), rows=torch.cat(rows), folds=len(rows))

    def _averaged(self, candidate: Candidate, outputs: Sequence[Tensor], epoch: int) -> tuple[RaceEntry, Candidate]:
        """Returns the result of the weighted mean of a network and the start with the lowest loss."""
        started = self._started()
        shares = _SHARES if self.settings.share is None else (self.settings.share,)
        best: tuple[RaceEntry, Candidate] | None = None
        for share in shares:
            one = replace(candidate, training=candidate.training | {"share": share})
            mixed = [torch.lerp(b.to(a), a, share) for a, b in zip(outputs, started, strict=True)]
            entry = self._entry_of(str(one), mixed, epoch)
            if best is None or entry.metrics["loss"] < best[0].metrics["loss"]:
                best = entry, one
        assert best is not None
        return best

    def _run(self, candidate: Candidate, linear: RaceEntry | None) -> tuple[RaceEntry, Candidate]:
        """Trains a candidate on every fold, and returns its best epoch.

        If it does not improve on the start in the first fold, the others are left out.
        """
        adapted = replace(self.settings, **{k: v for k, v in candidate.training.items() if k in self.free})
        # On one device: further processes begin with the run of the winner.
        adapted = replace(adapted, epochs=self.plan.epochs, refit=None, early_stop=self.plan.patience, devices=1)
        if candidate.is_apart:
            adapted = replace(adapted, share=None)  # chosen when it is trained
        more = {} if self.missing is None else {"missing": self.missing}
        spec = spec_for(self.parts, candidate.model, **candidate.network, **more)
        curves, rows, outputs, stalled = [], [], [], False
        try:
            for pair, start in zip(self.judged, self.starts, strict=True):
                watch = _Watch(linear if self.until_clear else None)
                start = None if candidate.is_apart else start
                assembly = assemble(pair.parts, spec, adapted, start=start or "none", objective=self.objective)
                fitted = assembly.fit(on_event=watch)
                if fitted.stopped == "interrupted" and not watch.solved:
                    raise KeyboardInterrupt
                stalled = fitted.stopped == "early" and fitted.best_epoch + self.plan.patience <= len(fitted.history)
                curves.append(fitted.history)
                shown = None if start is None else start.held_out_valid
                if candidate.is_apart:
                    outputs.append(outputs_in_order(fitted.model, pair.parts.valid))
                else:
                    rows.append(row_losses(fitted.model, self.objective, pair.parts.valid, shown))
                if linear is not None and not fitted.best_epoch and not _improves(fitted):
                    break
                adapted = replace(adapted, epochs=len(fitted.history), early_stop=0)  # the same for all folds
        except TrainingStopped as error:
            return RaceEntry(str(candidate), float("nan"), {}, 0, str(error)), candidate
        entry = self._entry(str(candidate), curves)
        if candidate.is_apart:
            return self._averaged(candidate, outputs, entry.epochs)
        entry = replace(entry, rows=torch.cat(rows), folds=len(curves), stalled=stalled)
        if linear is not None and len(curves) < linear.folds:  # on other series, the start has another loss
            entry = replace(entry, value=linear.value, metrics=linear.metrics)
        return entry, candidate

    def _entry(self, name: str, curves: Sequence[Sequence[Epoch]]) -> RaceEntry:
        """Returns the best epoch by its mean over the folds, with the spread over them."""
        mean = self._mean(curves)
        entry = entry_of(name, mean, self.objective)
        index = next(index for index, epoch in enumerate(mean) if epoch.number == entry.epochs)
        values = [self.objective.value_of(curve[index].valid_loss, curve[index].metrics) for curve in curves]
        return replace(entry, spread=mean_and_std(values)[1])

    def _mean(self, curves: Sequence[Sequence[Epoch]]) -> list[Epoch]:
        """Returns the weighted mean over the folds of every epoch."""
        weights = [len(pair.parts.valid) for pair in self.judged[: len(curves)]]
        share = [weight / sum(weights) for weight in weights]
        means = []
        for epochs in zip(*curves, strict=False):
            names = epochs[0].metrics
            mean = {name: sum(w * e.metrics[name] for w, e in zip(share, epochs, strict=True)) for name in names}
            loss = sum(w * e.valid_loss for w, e in zip(share, epochs, strict=True))
            means.append(replace(epochs[0], valid_loss=loss, metrics=mean))
        return means


class _Watch:
    """Ends a training whose loss is a small share of that of the start."""

    def __init__(self, start: RaceEntry | None):
        self.enough = -math.inf if start is None else _SOLVED * start.metrics["loss"]
        self.solved = False

    def __call__(self, event: Event) -> None:
        if isinstance(event, EpochDone) and event.epoch.valid_loss < self.enough:
            self.solved = True
            raise KeyboardInterrupt


def _improves(fitted: Trained) -> bool:
    """Returns whether any epoch has a lower loss than the start."""
    start = fitted.record.start
    return start is None or any(epoch.valid_loss < start.valid_loss for epoch in fitted.history)


def _constant_loss(judged: Sequence[_Pair], objective: Objective) -> float:
    """Returns the mean loss of a prediction that is the same for all held-out series: the class frequencies or the
    mean of the training series.
    """
    rows = []
    for pair in judged:
        output = constant_outputs(pair.parts.train.with_classes(objective.class_names))
        held_out = _goal(pair.parts.valid, objective)
        losses = objective.row_losses(output.expand(len(held_out), -1), held_out).float()
        rows.append(weighted_rows(losses, pair.parts.valid))
    return float(torch.cat(rows).nanmean())


def _goal(s: Sequences, objective: Objective) -> Tensor:
    target = s.with_classes(objective.class_names).target
    assert target is not None
    goal = torch.tensor(target.values)
    return goal.long() if objective.kind == "class" else goal


def _judged(parts: Parts, settings: Settings, folds: int) -> list[_Pair]:
    """Returns pairs of training and held-out series."""
    if not settings.refit:
        return [_Pair(replace(parts, test=parts.valid))]
    whole = together(parts.train, parts.valid)
    fold = torch.tensor(folds_of(whole, FOLDS, seed=settings.seed))
    rows = [((fold != i).nonzero()[:, 0], (fold == i).nonzero()[:, 0]) for i in range(folds)]
    return [
        _Pair(
            replace(parts, train=whole[train.numpy()], valid=whole[valid.numpy()], test=whole[valid.numpy()]),
            train,
            valid,
        )
        for train, valid in rows
        if len(train) and len(valid)
    ]


def _start(parts: Parts, settings: Settings, start: str) -> StartFit:
    if settings.refit:
        whole = together(parts.train, parts.valid)
        return fit_named(start, whole, whole[:0], settings.seed)
    return fit_named(start, parts.train, parts.valid, settings.seed)
