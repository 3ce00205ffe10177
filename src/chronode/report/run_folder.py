"""The plots that a run folder holds."""

from __future__ import annotations

import numpy as np

from ..data import UNKNOWN, Sequences
from ..runs._folder import Run
from ..training import Fitted, Predictions
from .run_plots import plot_confusion, plot_history, plot_residuals

# Beyond it the names of classes cannot be read.
_MOST_CLASSES = 100
# And so many panels of residuals no one looks at.
_MOST_TARGETS = 12


def draw_run(run: Run, fitted: Fitted, test: Sequences, answers: Predictions) -> None:
    """Draws curves.png, and confusion.png or residuals.png of the test part, into the folder.

    Args:
        run: with the metrics of all epochs.
        fitted: what came of it.
        test: the test series with their targets in their own units.
        answers: what the model says of them.
    """
    objective, target = fitted.objective, test.target
    plot_history(run.metrics(), run.path / "curves.png", metric=objective.metric, best_epoch=fitted.best_epoch or None)
    assert target is not None
    truth = target.values[test.steps] if target.per_step else target.values
    said = np.concatenate(answers.values) if target.per_step else np.stack(answers.values)
    if objective.classes is None:
        few = slice(_MOST_TARGETS)
        path = run.path / "residuals.png"
        plot_residuals(said[:, few], truth[:, few], answers.names[few], path, title="Test: predictions and residuals")
    elif len(objective.classes) <= _MOST_CLASSES:
        known = truth != UNKNOWN
        matrix = np.zeros((objective.num_outputs, objective.num_outputs), dtype=int)
        np.add.at(matrix, (truth[known], said[known].argmax(-1)), 1)
        plot_confusion(matrix, objective.classes, run.path / "confusion.png", title="Test")
