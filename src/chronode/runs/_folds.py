"""Cross-validation of a configuration: every series is predicted by a model that was trained without its group."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from ..data import folds_of, is_there
from ..judge import intervals_of_rows
from ..settings import SettingError, named, whole
from ..training import Event, KnownRows, Note, Objective, SeveralScores, rows_by_target
from ._choose import assemble_run
from ._config import Config
from ._prepare import prepare
from ._results import with_given_target
from ._series import read_source
from ._tables import Columns, columns_of


@dataclass(frozen=True)
class CrossValidation:
    """Result of a cross-validation.

    Attributes:
        scores: Metrics of all out-of-fold predictions together.
        intervals: Metric -> 95% interval over groups of series.
        folds: Metrics of each fold.
        predictions: Table of out-of-fold predictions with the true targets and the fold of each row.
        positive: Positive one of two classes.
        targets: Targets that the metrics are over, if there are several.
    """

    scores: dict[str, float]
    intervals: dict[str, tuple[float, float]]
    folds: tuple[dict[str, float], ...]
    predictions: Columns
    positive: str | None
    targets: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Returns the metrics as plain data for JSON."""
        return {
            "metrics": self.scores,
            "intervals": self.intervals,
            "folds": list(self.folds),
            "positive": self.positive,
        }


def cross_validate(
    config: Config, folds: int = 5, *, on_event: Callable[[Event], None] | None = None
) -> CrossValidation:
    """Trains the model of a config once per fold, and predicts the series that were left out.

    The model and its settings are those of the config: they are not chosen again in every fold.

    Args:
        config: Complete config of a run on a file, with one target per series or step.
        folds: Number of folds; the series of a group are in the same one.
        on_event: Called with a Note after each fold.
    """
    whole("folds", folds, at_least=2)
    if config.data.horizon or not is_there(config.data.source):
        cure = "use `chronode backtest`" if config.data.horizon else "pass a run on a file"
        raise SettingError(f"{named('folds')} needs a target in a file", argument="folds", cure=cure)
    series = read_source(config.data).labeled()
    groups = len(np.unique(series.groups))
    if groups < 2 * folds:
        raise SettingError(
            f"{named('folds', folds)} needs at least {2 * folds} groups of series, there are {groups}",
            argument="folds",
            cure=f"pass {named('folds', max(2, groups // 2))}",
        )
    train, valid = (share / (1 - config.data.shares[2]) for share in config.data.shares[:2])
    fold_config = config.with_values({"data": {"split": [train, valid, 0.0], "test": ""}})
    fold_of = folds_of(series, folds, seed=config.training.seed)
    rows, scores, tables, goal = [], [], [], None
    for fold in range(folds):
        prepared = prepare(fold_config, series[fold_of != fold])
        fitted = replace(assemble_run(fold_config, prepared).fit(), reading=prepared.reading)
        assert prepared.reading is not None
        goal = fitted.objective
        part = prepared.reading.inputs(series[fold_of == fold], labeled=True).with_classes(goal.class_names)
        predictions = fitted.predict(part)
        rows.append(rows_by_target(goal, part, predictions))
        scores.append(fitted.evaluate(part))
        names = {"id": config.data.id or "series", "time": config.data.time}
        table = columns_of(predictions, with_given_target(part), **names, truth=True)
        tables.append({**table, "fold": [fold + 1] * len(next(iter(table.values())))})
        if on_event is not None:
            shown = ", ".join(f"{name} {value:.4g}" for name, value in scores[-1].items())
            on_event(Note(f"fold {fold + 1} of {folds}: {shown}"))
    assert goal is not None
    merged = [_merged(each) for each in zip(*rows, strict=True)]
    together = {name: [cell for table in tables for cell in table[name]] for name in tables[0]}
    ends = intervals_of_rows(goal, merged)
    return CrossValidation(_pooled(goal, merged), ends, tuple(scores), together, goal.positive, goal.targets)


def _merged(rows: Sequence[KnownRows]) -> KnownRows:
    """Returns the rows of all folds as one."""
    predicted, true, groups = map(np.concatenate, zip(*(row[:3] for row in rows), strict=True))
    shares = [row.weights for row in rows if row.weights is not None]
    return KnownRows(predicted, true, groups, np.concatenate(shares) if shares else None)


def _pooled(goal: Objective, rows: Sequence[KnownRows]) -> dict[str, float]:
    """Returns the metrics of all predictions of each target together, values in the units of the metrics."""
    pooled = goal.scores()
    each = pooled.parts.values() if isinstance(pooled, SeveralScores) else (pooled,)
    for part, scores, known in zip(goal.parts, each, rows, strict=True):
        values = torch.from_numpy(np.asarray(known.predicted, dtype=np.float64))
        target = torch.from_numpy(np.asarray(known.true, dtype=np.int64 if part.classes is not None else np.float64))
        output = values.clamp(min=1e-38).log() if part.classes is not None else values
        scores.update(output, target, None if known.weights is None else torch.from_numpy(known.weights))
    return pooled.compute()
