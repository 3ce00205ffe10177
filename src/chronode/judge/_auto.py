"""Automatic choice of a model: a short race of a few candidates on series that they were not trained on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..data import Parts, Sequences, folds_of
from ..model.start import StartFit
from ..training import (
    Epoch,
    Note,
    Objective,
    Settings,
    TrainingStopped,
    assemble,
    class_counts,
    completed,
    fit_named,
    mean_and_std,
    seconds_of,
    spec_for,
    together,
)
from ._race import FOLDS, Candidate, Race, RaceEntry, affordable, beats, best_of, decide, deciding, entry_of

SMALL = 500
"""With fewer series, candidates are cross-validated, and the winner is trained on all of them."""


def can_race(train: Sequences, valid: Sequences) -> bool:
    """Returns whether candidates can be compared: numbers in, one target per series, and enough of them."""
    target, groups = train.target, len(np.unique(train.groups)) + len(np.unique(valid.groups))
    usual = train.base_values.dtype.kind == "f" and target is not None and not target.per_step
    return usual and train is not valid and groups >= 2 * FOLDS


def selection_metric(objective: Objective, data: Sequences) -> str:
    """Returns the metric that chooses epochs and candidates: the loss, which is smoother than the share of correct
    predictions; the area under the ROC curve if a class is rare.

    Example:
        >>> from chronode.data import from_list
        >>> rare = from_list([[1.0]] * 100, target=["ill"] * 12 + ["well"] * 88)
        >>> selection_metric(Objective.for_data(rare), rare)
        'auroc'
    """
    if objective.metric not in ("accuracy", "rmse"):
        return objective.metric
    if objective.kind == "class" and "auroc" in objective.metrics:
        counts = class_counts(data)
        counts = counts[counts > 0]
        if counts.min() >= 10 and counts.min() < 0.5 * counts.sum() / len(counts):
            return "auroc"
    return "loss"


def race(
    parts: Parts,
    objective: Objective,
    settings: Settings,
    candidates: Sequence[Candidate],
    *,
    budget: str | float = "1m",
    start: str = "linear",
    pools: Sequence[str] = (),
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
    free, settings = settings.free, completed(settings, parts)
    metric = settings.metric or selection_metric(objective, parts.train)
    objective = objective.with_settings(metric, settings.class_weights, parts.train)
    chosen, folds, epochs = affordable(candidates, parts, settings, seconds_of(budget), variants=len(pools))
    judged = _judged(parts, settings, folds)
    starts = [_start(pair, settings, start) if start != "none" else None for pair in judged]
    course = _Course(parts, objective, settings, judged, starts, epochs, free, missing, on_event)
    found = [course.run(candidate) for candidate in chosen]
    best, count = best_of(found, objective), deciding(judged, objective)
    linear = None if starts[0] is None else course.linear_entry()
    if linear is None or beats(best[0], linear, objective, count):
        found += [course.run(replace(best[1], network={**best[1].network, "pool": pool})) for pool in pools]
    for entry, own in found[len(chosen) :]:
        if not entry.fault and beats(entry, best[0], objective, count):
            best = entry, own
    decided = decide(found, best, linear, objective, settings, free, judged)
    return replace(decided, linear=None if settings.refit else starts[0])


@dataclass
class _Course:
    """State that all candidates of a race share: the series, the linear starts and the number of epochs."""

    parts: Parts
    objective: Objective
    settings: Settings
    judged: list[Parts]
    starts: list[StartFit | None]
    epochs: int
    free: Collection[str]
    missing: bool | None
    on_event: Callable[[Any], None] | None
    before: list[Epoch] = field(default_factory=list)

    def run(self, candidate: Candidate) -> tuple[RaceEntry, Candidate]:
        """Trains a candidate on every fold, and returns its best epoch."""
        own = replace(self.settings, **{k: v for k, v in candidate.training.items() if k in self.free})
        # On one device: further processes begin with the run of the winner.
        own = replace(own, epochs=self.epochs, refit=None, early_stop=0 if own.refit else own.early_stop, devices=1)
        more = {} if self.missing is None else {"missing": self.missing}
        spec = spec_for(self.parts, candidate.model, **candidate.network, **more)
        if self.on_event is not None:
            folds = f", {len(self.judged)} folds" if len(self.judged) > 1 else ""
            self.on_event(Note(f"trying {candidate}: {self.epochs} epochs{folds}"))
        curves = []
        try:
            for pair, linear in zip(self.judged, self.starts, strict=True):
                fitted = assemble(pair, spec, own, start=linear or "none", objective=self.objective).fit()
                if fitted.stopped == "interrupted":
                    raise KeyboardInterrupt
                curves.append(fitted)
        except TrainingStopped as error:
            return RaceEntry(str(candidate), float("nan"), {}, 0, str(error)), candidate
        self.before = [fitted.record.start for fitted in curves if fitted.record.start is not None]
        return self._entry(str(candidate), [fitted.history for fitted in curves]), candidate

    def linear_entry(self) -> RaceEntry:
        """Returns the result of the linear start alone."""
        alone = next((start.start.name for start in self.starts if start is not None), "linear start")
        return self._entry(f"{alone} alone", [[epoch] for epoch in self.before])

    def _entry(self, name: str, curves: Sequence[Sequence[Epoch]]) -> RaceEntry:
        """Returns the best epoch by its mean over the folds, with the spread over them."""
        mean = self._mean(curves)
        found = entry_of(name, mean, self.objective)
        place = next(place for place, epoch in enumerate(mean) if epoch.number == found.epochs)
        values = [self.objective.value_of(own[place].valid_loss, own[place].metrics) for own in curves]
        return replace(found, spread=mean_and_std(values)[1])

    def _mean(self, curves: Sequence[Sequence[Epoch]]) -> list[Epoch]:
        """Returns the weighted mean over the folds of every epoch."""
        weights = [len(pair.valid) for pair in self.judged]
        share = [weight / sum(weights) for weight in weights]
        found = []
        for epochs in zip(*curves, strict=False):
            names = epochs[0].metrics
            mean = {name: sum(w * e.metrics[name] for w, e in zip(share, epochs, strict=True)) for name in names}
            loss = sum(w * e.valid_loss for w, e in zip(share, epochs, strict=True))
            found.append(replace(epochs[0], valid_loss=loss, metrics=mean))
        return found


def _judged(parts: Parts, settings: Settings, folds: int) -> list[Parts]:
    """Returns pairs of training and held-out series."""
    if not settings.refit:
        return [replace(parts, test=parts.valid)]
    whole = together(parts.train, parts.valid)
    fold = folds_of(whole, FOLDS, seed=settings.seed)
    pairs = [(whole[fold != i], whole[fold == i]) for i in range(folds)]
    return [replace(parts, train=train, valid=valid, test=valid) for train, valid in pairs if len(train) and len(valid)]


def _start(pair: Parts, settings: Settings, start: str) -> StartFit:
    # Held-out series of a fold must not choose the penalty.
    valid = pair.train[:0] if settings.refit else pair.valid
    return fit_named(start, pair.train, valid, settings.seed)
