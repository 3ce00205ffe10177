"""Check of new data against those of a run: drift of inputs, of predictions, and of the metric if labels are there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data import Sequences
from ..judge import Drift, MetricChange, features_of, find_drift, metric_change, stretch_length, units_of
from ..settings import SettingError
from ..training import OWN_METRICS, KnownRows, Trained, labeled, rows_by_target
from ._config import Config
from ._trained import prepared_of


@dataclass(frozen=True)
class CheckResult:
    """Result of a check.

    Attributes:
        inputs: Drift of the inputs.
        predictions: Drift of the predictions, compared with those for the test part; None without a test part.
        metrics: Change of the selection metric of each target; empty without labels or without a test part.
        features: Features of the training and of the new series, by name.
        series: Number of new series.
        notes: Remarks on the new data.
    """

    inputs: Drift
    predictions: Drift | None
    metrics: tuple[MetricChange, ...]
    features: dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]]
    series: int
    notes: tuple[str, ...]

    @property
    def found(self) -> tuple[str, ...]:
        """Names of all that has changed by more than chance allows."""
        parts = [*self.inputs.found, *(() if self.predictions is None else self.predictions.found)]
        return (*parts, *(f"{change.metric} is worse" for change in self.metrics if change.is_worse))

    def as_dict(self) -> dict[str, Any]:
        """Returns plain data for JSON."""
        parts = {"inputs": self.inputs, "predictions": self.predictions}
        plain = {name: None if part is None else part.as_dict() for name, part in parts.items()}
        changes = [change.as_dict() for change in self.metrics]
        plain |= {"metric": changes[0] if changes else None, "metrics": changes}
        return {"changed": list(self.found), "series": self.series, **plain, "notes": list(self.notes)}


def check_data(trained: Trained, source: Any, *, level: float = 0.01, labels: Any = None) -> CheckResult:
    """Compares a new file or frame with the data of a run.

    Args:
        trained: The model of a run folder whose data file is still there.
        source: The file, or a frame.
        level: Probability of a false alarm over all inputs, over all predictions, and of the metric.
        labels: Second file or frame, with the target of each id.
    """
    reading, config = trained.reading, Config.from_dict(dict(trained.facts.get("config", {})))
    if reading is None or trained.path is None or not trained.path.is_dir():
        raise SettingError(
            "a check compares new data with the file of a run",
            argument="run",
            cure="pass a run folder trained on a file",
        )
    test = prepared_of(trained).parts.test
    before = reading.matched(config.data.source, labeled=False, anyway=True)
    with_target = bool(reading.horizon) or labels is not None or _has_target(trained, source)
    now = reading.matched(source, labeled=with_target, anyway=True, labels=labels)
    changes, steps = reading.relative is not None, stretch_length(before)
    features = [features_of(s, changes=changes, steps=steps) for s in (before, now)]
    inputs = find_drift(*features, level=level)
    pairs = {name: (features[0][name], features[1][name]) for name in features[0]}
    new = reading.inputs(now, labeled=with_target)
    predictions, metrics = None, ()
    if len(test) and len(new):
        sides = [_predicted(trained, s) for s in (test, new)]
        predictions = find_drift(*sides, level=level)
        pairs |= {name: (sides[0][name], sides[1][name]) for name in sides[0]}
        if with_target and _known(new):
            metrics = _metric_changes(trained, test, new, level)
    return CheckResult(inputs, predictions, metrics, pairs, len(now), now.notes)


def _has_target(trained: Trained, source: Any) -> bool:
    """Returns whether a file or frame has the target column."""
    assert trained.reading is not None
    try:
        trained.reading.matched(source, labeled=True, anyway=True)
    except ValueError:
        return False
    return True


def _known(s: Sequences) -> bool:
    return s.target is not None and len(s.labeled()) > 0


def _predicted(trained: Trained, s: Sequences) -> dict[str, NDArray[np.float64]]:
    """Returns the mean prediction of each group of series, by class or target."""
    predictions = trained.predict(s)
    means = np.array([np.nanmean(np.atleast_2d(values), axis=0) for values in predictions.values])
    if trained.reading is not None and trained.reading.relative is not None:  # forecasts follow the level
        means = means - np.tile(trained.last_values(s), means.shape[1] // len(trained.reading.relative))
    names: list[str] = []
    kept: list[int] = []
    for part, goal, span in zip(predictions.by_target, trained.objective.parts, predictions.spans, strict=True):
        classes, first = part.classes, span.start or 0
        of = f" of {part.names[0]}" if trained.objective.heads else ""
        if classes is None:
            names, kept = [*names, *part.names], [*kept, *range(first, first + len(part.names))]
            continue
        shown = [goal.positive_number] if len(classes) == 2 else range(len(classes))
        names, kept = [*names, *(f"p({classes[k]}){of}" for k in shown)], [*kept, *(first + k for k in shown)]
    means = means[:, kept]
    index = units_of(s.groups, _shortest(trained))
    counts = np.bincount(index)
    return {f"prediction: {name}": np.bincount(index, means[:, k]) / counts for k, name in enumerate(names)}


def _metric_changes(trained: Trained, test: Sequences, new: Sequences, level: float) -> tuple[MetricChange, ...]:
    """Returns the change of the selection metric of each target; together they have this level."""
    goal, sides, changes = trained.objective, [_rows(trained, s) for s in (test, new)], []
    for name, part, *rows in zip(goal.targets if goal.heads else ("",), goal.parts, *sides, strict=True):
        if not all(len(known.true) for known in rows):
            continue
        metric = part.metric if part.metric != "loss" and part.metric not in OWN_METRICS else ""
        metric = metric or ("cross_entropy" if part.kind == "class" else "rmse" if "rmse" in part.metrics else "r2")
        found = metric_change(metric, *rows, positive=part.positive_number, level=level / len(goal.parts))
        text = labeled(metric, part.positive, len(part.targets))
        changes.append(replace(found, metric=f"{name} {text}".strip()))
    return tuple(changes)


def _shortest(trained: Trained) -> int:
    """Returns how many consecutive windows of a forecast share the steps that they forecast."""
    return 1 if trained.reading is None else max(trained.reading.horizon, 1)


def _rows(trained: Trained, s: Sequences) -> list[KnownRows]:
    s = s.with_classes(trained.objective.class_names).labeled()
    rows = rows_by_target(trained.objective, s, trained.predict(s))
    return [known._replace(groups=units_of(known.groups, _shortest(trained))) for known in rows]
