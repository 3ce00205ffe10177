"""Comparison of a fitted estimator with simple models, on the series that selected the epoch or the model."""

from __future__ import annotations

from ..data import Parts, Sequences
from ..training import Trained, class_counts
from ._baselines import baselines
from ._race import LINEAR, Race
from ._verdict import verdict

Metrics = dict[str, float]


def compare(
    fitted: Trained, race: Race | None, train: Sequences, valid: Sequences
) -> tuple[Metrics, dict[str, Metrics]]:
    """Returns the metrics of the model, and those of the baselines by name, all on held-out series.

    Args:
        fitted: The result of training.
        race: Race that chose the model or its number of epochs, if there was one.
        train: Training series, scaled.
        valid: Validation series, scaled.
    """
    if race is not None and race.settings.refit:  # the validation series were trained on: what cross-validation found
        found = {entry.name: entry.metrics for entry in race.entries if entry.name == LINEAR}
        if train.classes is not None:
            counts = class_counts(train) + class_counts(valid.with_classes(train.classes))
            found["majority"] = {"accuracy": float(counts.max() / counts.sum())}
        return race.chosen.metrics, found
    start, best = fitted.record.start, fitted.best
    found = baselines(fitted.objective, Parts(train, valid, valid), linear=start is None)
    if start is not None and fitted.model.start is not None:
        found[f"linear ({fitted.model.start.features.kind})"] = {"loss": start.valid_loss, **start.metrics}
    return {} if best is None else {"loss": best.valid_loss, **best.metrics}, found


def remark(fitted: Trained, own: Metrics, found: dict[str, Metrics], series: int) -> tuple[str, ...]:
    """Returns a sentence with remedies if the model does not beat the best baseline, else nothing."""
    summary = {"metric": fitted.objective.metric, "test": own, "baselines": found}
    summary |= {"epochs": len(fitted.history), "best_epoch": fitted.best_epoch, "baseline": fitted.record.baseline}
    start = "none" if fitted.model.start is None else "linear"
    text = verdict(summary, series=series, start=start, forecast=False, python=True)
    return () if text is None else (text,)
