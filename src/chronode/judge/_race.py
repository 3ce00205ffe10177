"""The result of a race of candidates, and which of them wins."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from ..model import ALONE
from ..model.start import StartFit
from ..training import Epoch, Objective, Settings, standard_error
from ._candidates import Candidate

_EARLY_STOP_WITHOUT_GAIN = 10


@dataclass(frozen=True)
class RaceEntry:
    """Result of a candidate.

    Attributes:
        name: The candidate, or the linear start alone.
        value: Selection metric on held-out series, in the best epoch.
        metrics: Loss and metrics in that epoch.
        epochs: That epoch; 0 for the linear start.
        fault: Why it could not be trained.
        spread: Standard deviation of the value over the folds; None if there is only one.
        rows: Loss of every held-out series, fold by fold.
        folds: Number of folds; one of several if it did not improve on the start there.
        stalled: Whether its training ended because no epoch improved on the best one any more.
    """

    name: str
    value: float
    metrics: dict[str, float]
    epochs: int
    fault: str = ""
    spread: float | None = None
    rows: Tensor = field(default_factory=lambda: torch.empty(0), compare=False, repr=False)
    folds: int = 1
    stalled: bool = False


@dataclass(frozen=True)
class Race:
    """Result of a race.

    Attributes:
        winner: Model to train in full.
        settings: Training settings of the winner.
        entries: All candidates, best first.
        metric: Metric that decided.
        judged: Method of the measurement: "3-fold cross-validation" or "validation".
        reason: The choice in a sentence, with the numbers that decided.
        linear: The start of all candidates, fitted to the training part, or with a refit to all series.
    """

    winner: Candidate
    settings: Settings
    entries: tuple[RaceEntry, ...]
    metric: str
    judged: str
    reason: str
    linear: StartFit | None = field(default=None, compare=False)

    @property
    def chosen(self) -> RaceEntry:
        """The entry of what will be trained."""
        names = ALONE if self.settings.epochs == 0 else (str(self.winner),)
        return next(entry for entry in self.entries if entry.name in names)

    def as_dict(self) -> dict[str, Any]:
        """Returns the results as plain data for JSON."""
        rows = [
            {
                **entry.metrics,
                "candidate": entry.name,
                "epochs": entry.epochs,
                "spread": entry.spread,
                "folds": entry.folds,
            }
            for entry in self.entries
        ]
        fields = {"metric": self.metric, "judged": self.judged, "reason": self.reason}
        return {**fields, "chosen": self.chosen.metrics, "entries": rows}


def entry_of(name: str, curve: list[Epoch], objective: Objective) -> RaceEntry:
    """Returns the best epoch of a curve."""
    best, value = curve[0], objective.value_of(curve[0].valid_loss, curve[0].metrics)
    for epoch in curve[1:]:
        candidate = objective.value_of(epoch.valid_loss, epoch.metrics)
        if objective.better(candidate, value):
            best, value = epoch, candidate
    return RaceEntry(name, value, {"loss": best.valid_loss, **best.metrics}, best.number)


def best_of(entries: list[tuple[RaceEntry, Candidate]], objective: Objective) -> tuple[RaceEntry, Candidate]:
    """Returns the best candidate that could be trained."""
    trained = [(entry, candidate) for entry, candidate in entries if not entry.fault]
    if not trained:
        raise ValueError(f"no candidate could be trained: {'; '.join(entry.fault for entry, _ in entries)}")
    best = trained[0]
    for one in trained[1:]:
        if objective.better(one[0].value, best[0].value):
            best = one
    return best


def decide(
    raced: list[tuple[RaceEntry, Candidate]],
    chosen: tuple[RaceEntry, Candidate],
    linear: RaceEntry | None,
    objective: Objective,
    settings: Settings,
    free: Collection[str],
    folds: int,
) -> Race:
    """Ranks the entries; a network has to beat the start by more than one standard error."""
    best, winner = chosen
    wins = linear is None or beats(best, linear, objective)
    completed = replace(settings, metric=objective.metric)
    completed = replace(completed, **{name: value for name, value in winner.training.items() if name in free})
    hopeless = linear is not None and not objective.better(best.value, linear.value)
    if settings.refit:
        completed = replace(completed, epochs=best.epochs if wins else 0, early_stop=0)
    elif hopeless and settings.epochs == Settings.epochs:  # no epoch of any network was better than the start
        completed = replace(completed, epochs=0)
    elif wins and best.stalled and completed.schedule == "constant" and settings.epochs == Settings.epochs:
        completed = replace(completed, epochs=best.epochs, early_stop=0)  # the same weights as in the race
    elif not wins and "early_stop" in free:
        completed = replace(completed, early_stop=_EARLY_STOP_WITHOUT_GAIN)
    on = f"{folds}-fold cross-validation" if folds > 1 else "validation"
    alone = [] if linear is None else [linear]
    entries = sorted([*alone, *(entry for entry, _ in raced)], key=lambda entry: _rank(entry, objective))
    reason = _reason(
        best, linear, wins, entries, objective, on, alone_is_left=bool(settings.refit) or not completed.epochs
    )
    return Race(winner, completed, tuple(entries), objective.metric, on, reason)


def beats(best: RaceEntry, other: RaceEntry, objective: Objective, errors: float = 1.0) -> bool:
    """Returns whether an entry beats a simpler one: it has the better value and more correct predictions, and its mean
    loss is lower by more than `errors` standard errors of the differences, series by series.
    """
    if best.folds < other.folds or not objective.better(best.value, other.value) or not _more_correct(best, other):
        return False
    gain, error = paired_gain(best, other)
    return gain > errors * error


def paired_gain(best: RaceEntry, other: RaceEntry) -> tuple[float, float]:
    """Returns by how much the mean loss of an entry is lower than that of another one, with its standard error."""
    gaps = other.rows[: len(best.rows)] - best.rows[: len(other.rows)]
    return float(gaps.nanmean()), standard_error(gaps)


def _more_correct(best: RaceEntry, linear: RaceEntry) -> bool:
    """Returns whether more predictions are correct, or the classes are ordered better: a lower loss alone may only mean
    more extreme probabilities. Where a class is rare, the order says more than the few predictions that change.
    """
    accuracy, auroc = (best.metrics.get(name, 1.0) - linear.metrics.get(name, 0.0) for name in ("accuracy", "auroc"))
    return accuracy > 0 or (auroc > 0 and ("auroc" in linear.metrics or accuracy == 0))


def _rank(entry: RaceEntry, objective: Objective) -> float:
    if entry.value != entry.value:
        return float("inf")
    return entry.value if objective.better(0.0, 1.0) else -entry.value


def _reason(
    best: RaceEntry,
    linear: RaceEntry | None,
    wins: bool,
    entries: list[RaceEntry],
    objective: Objective,
    on: str,
    *,
    alone_is_left: bool,
) -> str:
    """Returns the choice in a sentence, with the numbers that decided."""
    metric = objective.metric
    others = [entry for entry in entries if entry.name not in (best.name, *ALONE) and entry.value == entry.value]
    next_best = f"; next: {others[0].name} {others[0].value:.4g}" if others else ""
    if linear is not None and best is linear:
        return f"the {linear.name} ({metric} {linear.value:.4g} by {on}: nothing is left for a network to learn)."
    if linear is not None and not wins:
        what = f"the {linear.name}" if alone_is_left else f"{best.name} with a {linear.name.removesuffix(' alone')}"
        gain, error = paired_gain(best, linear)
        lacks = ""
        if best.folds < linear.folds:
            lacks = ", no improvement in the first fold"
        elif gain > 0 and not _more_correct(best, linear):
            lacks = ", but not more correct predictions"
        elif 0 < gain <= error:
            lacks = f", a gain of {gain:.2g} ± {error:.2g}"
        return f"{what} ({metric} {linear.value:.4g} by {on}; with {best.name}: {best.value:.4g}{lacks}{next_best})."
    alone = "" if linear is None else f"; the {linear.name}: {linear.value:.4g}"
    return f"{best.name} ({metric} {best.value:.4g} by {on}{next_best}{alone})."
