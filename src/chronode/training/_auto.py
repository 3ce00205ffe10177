"""Automatic choice of a model: a short race of a few candidates on series that they were not trained on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..baselines import StartFit, fit_start
from ..data import Sequences
from ..data._split import folds_of
from ..tasks._task import Parts
from ._assembly import assemble
from ._events import Epoch, Note, TrainingStopped
from ._inputs import spec_for, together
from ._objective import Objective, class_counts
from ._settings import Settings, seconds_of
from ._start import kinds_of

SMALL = 500
"""With fewer series, candidates are cross-validated, and the winner is trained on all of them."""
LINEAR = "linear start alone"

_FOLDS = 3
_FEWEST_EPOCHS = 3
_MOST_EPOCHS = 20
_LARGE_BATCHES = 1_000
EPOCHS, EARLY_STOP = 50, 20
"""Most epochs, and epochs without improvement, of the full training."""
_EARLY_STOP_WITHOUT_GAIN = 10
# Microseconds: of an optimizer step, of a time step of a batch (more if values are missing), of a step of one series
# with 64 units.
_PER_UPDATE = 4_000.0
_PER_MISSING_STEP = 300.0
_COSTS = {
    "mmrnn": (5.0, 4.0),
    "lstm": (5.0, 2.0),
    "lstm-dt": (5.0, 2.0),
    "unicornn": (1.0, 0.3),
    "gru-d": (600.0, 13.0),
}
_UNKNOWN_COSTS = (300.0, 10.0)


@dataclass(frozen=True)
class Candidate:
    """A model with settings.

    Attributes:
        model: Name of the model.
        network: Its size and settings, as for `ModelSpec.for_data`.
        training: Training settings that belong to it.

    Example:
        >>> print(Candidate("gru", {"hidden_size": 16, "dropout": 0.2}, {"average": "ema"}))
        gru H=16 dropout=0.2 average=ema
    """

    model: str
    network: dict[str, Any] = field(default_factory=dict)
    training: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        own = {"H": self.network.get("hidden_size", 64), **self.network, **self.training}
        hidden = {"hidden_size", "average_decay"}
        return " ".join([self.model, *(f"{name}={value}" for name, value in own.items() if name not in hidden)])


@dataclass(frozen=True)
class Entry:
    """Result of a candidate.

    Attributes:
        name: The candidate, or the linear start alone.
        value: Selection metric on held-out series, in the best epoch.
        metrics: Loss and metrics in that epoch.
        epochs: That epoch; 0 for the linear start.
        fault: Why it could not be trained.
    """

    name: str
    value: float
    metrics: dict[str, float]
    epochs: int
    fault: str = ""


@dataclass(frozen=True)
class Race:
    """Result of a race.

    Attributes:
        winner: What to train in full.
        settings: How to train it.
        entries: All candidates, best first.
        metric: Metric that decided.
        judged: How it was measured: "3-fold cross-validation" or "validation".
        reason: The choice in a sentence, with the numbers that decided.
        linear: The linear start of all candidates on the training part; None with a refit, which fits another one.
    """

    winner: Candidate
    settings: Settings
    entries: tuple[Entry, ...]
    metric: str
    judged: str
    reason: str
    linear: StartFit | None = field(default=None, compare=False)

    @property
    def chosen(self) -> Entry:
        """The entry of what will be trained."""
        name = LINEAR if self.settings.epochs == 0 else str(self.winner)
        return next(entry for entry in self.entries if entry.name == name)

    def as_dict(self) -> dict[str, Any]:
        """Returns the results as plain data for JSON."""
        rows = [{**entry.metrics, "candidate": entry.name, "epochs": entry.epochs} for entry in self.entries]
        about = {"metric": self.metric, "judged": self.judged, "reason": self.reason}
        return {**about, "chosen": self.chosen.metrics, "entries": rows}


def can_race(train: Sequences, valid: Sequences) -> bool:
    """Returns whether candidates can be compared: numbers in, one target per series, and enough of them."""
    target, groups = train.target, len(np.unique(train.groups)) + len(np.unique(valid.groups))
    usual = train.base_values.dtype.kind == "f" and target is not None and not target.per_step
    return usual and groups >= 2 * _FOLDS


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
    answers; the area under the ROC curve if a class is rare.

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


def candidates_for(train: Sequences, network: Mapping[str, Any], *, small: bool) -> list[Candidate]:
    """Returns the models and settings that suit the series, at most four.

    Args:
        train: Training series.
        network: Sizes and settings given by the user, which all candidates have.
        small: Whether there are few series.
    """
    gated = "lstm"
    if train.base_times is not None and len(gaps := train.dt[train.dt > 0]) and np.ptp(gaps) > 0.01 * gaps.mean():
        gated = "lstm-dt"
    if train.has_missing:
        gated = "gru-d"
    averaged = {"average": "ema", "average_decay": 0.98}
    made = [
        Candidate("mmrnn", {"hidden_size": 64}),
        Candidate(gated, {"hidden_size": 32 if small else 64, "dropout": 0.2}, {"weight_decay": 0.001, **averaged}),
        Candidate("mmrnn", {"hidden_size": 16, "dropout": 0.2}, {"weight_decay": 0.001, **averaged}),
    ]
    unique = {str(own): own for own in (replace(one, network=one.network | dict(network)) for one in made)}
    return list(unique.values())


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
    chosen, folds, epochs = _affordable(candidates, parts, settings, seconds)
    judged = _judged(parts, settings, folds)
    starts = [_start(pair, settings, start) if start != "none" else None for pair in judged]
    found: list[tuple[Entry, Candidate | None]] = []
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
            found.append((Entry(str(candidate), float("nan"), {}, 0, str(error)), candidate))
            continue
        curve = _mean_curve(curves, [len(pair.valid) for pair in judged], objective.metric)
        if starts[0] is not None and not any(own is None for _, own in found):
            found.append((_entry(LINEAR, curve[:1], objective), None))
        found.append((_entry(str(candidate), curve[1:] if starts[0] is not None else curve, objective), candidate))
    return replace(_decided(found, objective, settings, free, judged), linear=None if settings.refit else starts[0])


def _affordable(
    candidates: Sequence[Candidate], parts: Parts, settings: Settings, seconds: float
) -> tuple[list[Candidate], int, int]:
    """Returns the candidates, folds and epochs that fit into the budget: first fewer epochs, then fewer of the rest."""
    series = len(parts.train) + (len(parts.valid) if settings.refit else 0)
    updates, length = -(-series // settings.batch_size), float(parts.train.lengths.mean())
    costs = {}
    for candidate in candidates:
        per_step, per_series = _COSTS.get(candidate.model, _UNKNOWN_COSTS)
        per_step += _PER_MISSING_STEP if parts.train.has_missing and candidate.model != "gru-d" else 0.0
        per_series *= settings.batch_size * max(0.25, candidate.network.get("hidden_size", 64) / 64)
        costs[str(candidate)] = 1e-6 * updates * (_PER_UPDATE + length * (per_step + per_series))
    kept, folds = list(candidates), _FOLDS if settings.refit else 1
    while True:
        epochs = int(seconds / (folds * sum(costs[str(one)] for one in kept)))
        if epochs >= _FEWEST_EPOCHS or (len(kept) == 1 and folds == 1):
            return kept, folds, max(1, min(settings.epochs, _MOST_EPOCHS, epochs))
        if len(kept) > 1:
            kept.remove(max(kept, key=lambda one: costs[str(one)]))
        else:
            folds = max(1, folds // 2)


def _judged(parts: Parts, settings: Settings, folds: int) -> list[Parts]:
    """Returns pairs of training and held-out series."""
    if not settings.refit:
        return [replace(parts, test=parts.valid)]
    whole = together(parts.train, parts.valid)
    fold = folds_of(whole, _FOLDS, seed=settings.seed)
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


def _entry(name: str, curve: list[Epoch], objective: Objective) -> Entry:
    """Returns the best epoch of a curve."""
    best, value = curve[0], _value(curve[0], objective)
    for epoch in curve[1:]:
        if objective.better(_value(epoch, objective), value):
            best, value = epoch, _value(epoch, objective)
    return Entry(name, value, {"loss": best.valid_loss, **best.metrics}, best.number)


def _value(epoch: Epoch, objective: Objective) -> float:
    return epoch.valid_loss if objective.metric == "loss" else epoch.metrics[objective.metric]


def _decided(
    found: list[tuple[Entry, Candidate | None]],
    objective: Objective,
    settings: Settings,
    free: Collection[str],
    judged: list[Parts],
) -> Race:
    """Ranks the entries; a network has to beat the linear start by more than chance allows."""
    trained = [(entry, own) for entry, own in found if own is not None and not entry.fault]
    if not trained:
        raise ValueError(f"no candidate could be trained: {'; '.join(entry.fault for entry, _ in found)}")
    best, winner = trained[0]
    for entry, own in trained[1:]:
        if objective.better(entry.value, best.value):
            best, winner = entry, own
    assert winner is not None
    linear = next((entry for entry, own in found if own is None), None)
    count = sum(len(pair.valid) for pair in judged)
    wins = linear is None or _beats(best, linear, objective, count)
    made = replace(settings, metric=objective.metric)
    made = replace(made, **{name: value for name, value in winner.training.items() if name in free})
    if settings.refit:
        made = replace(made, epochs=best.epochs if wins else 0, early_stop=0)
    elif not wins and "early_stop" in free:
        made = replace(made, early_stop=_EARLY_STOP_WITHOUT_GAIN)
    on = f"{len(judged)}-fold cross-validation" if len(judged) > 1 else "validation"
    entries = sorted((entry for entry, _ in found), key=lambda entry: _rank(entry, objective))
    reason = _reason(best, linear, wins, entries, objective.metric, on, bool(settings.refit))
    return Race(winner, made, tuple(entries), objective.metric, on, reason)


def _beats(best: Entry, linear: Entry, objective: Objective, count: int) -> bool:
    """Returns whether a network beats the linear start by more than chance allows.

    A lower loss alone may mean nothing but more extreme probabilities: of classes, more have to be correct as well.
    """
    if objective.metric == "loss" and not _more_correct(best, linear):
        return False
    return objective.gain(best.value, linear.value) > 0.5 * count**-0.5


def _more_correct(best: Entry, linear: Entry) -> bool:
    return best.metrics.get("accuracy", 1.0) > linear.metrics.get("accuracy", 0.0)


def _rank(entry: Entry, objective: Objective) -> float:
    if entry.value != entry.value:
        return float("inf")
    return entry.value if objective.better(0.0, 1.0) else -entry.value


def _reason(
    best: Entry, linear: Entry | None, wins: bool, entries: list[Entry], metric: str, on: str, refit: bool
) -> str:
    """Returns the choice in a sentence."""
    others = [entry for entry in entries if entry.name not in (best.name, LINEAR) and entry.value == entry.value]
    next_best = f"; next: {others[0].name} {others[0].value:.4g}" if others else ""
    if linear is not None and not wins:
        what = "the linear start alone" if refit else f"{best.name} with a linear start"
        same = (
            ", but not more correct answers"
            if metric == "loss" and best.value < linear.value and not _more_correct(best, linear)
            else ""
        )
        return f"{what} ({metric} {linear.value:.4g} by {on}; with {best.name}: {best.value:.4g}{same}{next_best})."
    alone = "" if linear is None else f"; the linear start alone: {linear.value:.4g}"
    return f"{best.name} ({metric} {best.value:.4g} by {on}{next_best}{alone})."
