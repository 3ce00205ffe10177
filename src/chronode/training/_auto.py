"""Automatic choice of a model: a short race of a few candidates on series that they were not trained on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..baselines import StartFit, fit_start
from ..data import Sequences
from ..data._split import folds_of
from ..tasks._task import Parts
from ._assembly import assemble
from ._candidates import FOLDS, Candidate, affordable
from ._events import Epoch, Note, TrainingStopped
from ._inputs import spec_for, together
from ._objective import Objective, class_counts
from ._race import LINEAR, Race, RaceEntry, decide, entry_of
from ._settings import Settings, seconds_of
from ._start import kinds_of

SMALL = 500
"""With fewer series, candidates are cross-validated, and the winner is trained on all of them."""
EPOCHS, EARLY_STOP = 50, 20
"""Most epochs, and epochs without improvement, of the full training."""
_LARGE_BATCHES = 1_000  # series


def can_race(train: Sequences, valid: Sequences) -> bool:
    """Returns whether candidates can be compared: numbers in, one target per series, and enough of them."""
    target, groups = train.target, len(np.unique(train.groups)) + len(np.unique(valid.groups))
    usual = train.base_values.dtype.kind == "f" and target is not None and not target.per_step
    return usual and groups >= 2 * FOLDS


def auto_settings(settings: Settings, free: Collection[str], series: int) -> Settings:
    """Returns the settings with defaults for an automatic choice where the user left them free.

    Args:
        settings: Training settings.
        free: Names of settings that the user did not give.
        series: Number of series for training and validation.

    Example:
        >>> made = auto_settings(Settings(epochs=9), ("batch_size", "refit"), 80)
        >>> made.epochs, made.batch_size, made.refit
        (9, 16, True)
    """
    usual: dict[str, Any] = {"epochs": EPOCHS, "early_stop": EARLY_STOP, "refit": series < SMALL}
    usual |= {"batch_size": 64 if series >= _LARGE_BATCHES else 16}
    return replace(settings, **{name: value for name, value in usual.items() if name in free})


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
    free: Collection[str] = (),
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
        objective: What is learnt.
        settings: Training settings of all candidates.
        candidates: What to compare.
        budget: Approximate time for the race, such as "90s" or "2m".
        start: "linear" or "none", as for `fit`.
        free: Names of training settings that a candidate may change.
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
    seconds = seconds_of(budget)
    metric = settings.metric or selection_metric(objective, parts.train)
    objective = objective.with_settings(metric, settings.class_weights, parts.train)
    tell = on_event or (lambda event: None)
    chosen, folds, epochs = affordable(candidates, parts, settings, seconds)
    judged = _judged(parts, settings, folds)
    starts = [_start(pair, settings, start) if start != "none" else None for pair in judged]
    found: list[tuple[RaceEntry, Candidate | None]] = []
    for candidate in chosen:
        own = replace(settings, **{name: value for name, value in candidate.training.items() if name in free})
        own = replace(own, epochs=epochs, refit=None, early_stop=0 if settings.refit else own.early_stop)
        more = {} if missing is None else {"missing": missing}
        spec = spec_for(parts, candidate.model, **candidate.network, **more)
        tell(Note(f"trying {candidate}: {epochs} epochs" + (f", {len(judged)} folds" if len(judged) > 1 else "")))
        try:
            curves = []
            for pair, linear in zip(judged, starts, strict=True):
                fitted = assemble(pair, spec, own, start=linear or "none", objective=objective).fit()
                if fitted.stopped == "interrupted":
                    raise KeyboardInterrupt
                curves.append([*([fitted.start] if fitted.start else []), *fitted.history])
        except TrainingStopped as error:
            found.append((RaceEntry(str(candidate), float("nan"), {}, 0, str(error)), candidate))
            continue
        curve = _mean_curve(curves, [len(pair.valid) for pair in judged], objective.metric)
        if starts[0] is not None and not any(own is None for _, own in found):
            found.append((entry_of(LINEAR, curve[:1], objective), None))
        found.append((entry_of(str(candidate), curve[1:] if starts[0] is not None else curve, objective), candidate))
    return replace(decide(found, objective, settings, free, judged), linear=None if settings.refit else starts[0])


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
    return fit_start(pair.train, valid, kinds=kinds_of(start), seed=settings.seed)


def _mean_curve(curves: list[list[Epoch]], weights: list[int], metric: str) -> list[Epoch]:
    """Returns the weighted mean over the folds of every epoch."""
    found = []
    for epochs in zip(*curves, strict=False):
        names = epochs[0].metrics
        share = [weight / sum(weights) for weight in weights]
        mean = {name: sum(w * e.metrics[name] for w, e in zip(share, epochs, strict=True)) for name in names}
        loss = sum(w * e.valid_loss for w, e in zip(share, epochs, strict=True))
        found.append(replace(epochs[0], valid_loss=loss, metrics=mean))
    return found
