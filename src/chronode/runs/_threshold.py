"""The threshold of a run: predictions for the validation part to choose it by, and storing it with the model."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..data import Sequences
from ..settings import SettingError
from ..training import Objective, Trained, known_rows
from ._choose import assemble_run
from ._config import Config
from ._folder import Run
from ._prepare import prepare
from ._results import objective_section
from ._trained import prepared_of


@dataclass(frozen=True)
class TwoClassRows:
    """Probabilities of the positive class, whether it is true, and weights, for all series (or steps) with a known
    class.
    """

    chances: NDArray[np.float64]
    positive: NDArray[np.bool_]
    note: str = ""
    weights: NDArray[np.float64] | None = None


def for_threshold(trained: Trained, target: str | None = None) -> Trained:
    """Returns the model whose threshold is meant: that of the only target with two classes, or of a named one.

    Raises:
        SettingError: It does not decide between two classes, or there are several such targets.
    """
    models = trained.by_target
    suitable = [name for name, model in models.items() if model.objective.positive is not None]
    one = trained.of_target(suitable[0] if target is None and len(suitable) == 1 else target, "a threshold")
    check_two_classes(one)
    return one


def check_two_classes(trained: Trained) -> None:
    """Raises a SettingError for a model that does not decide between two classes."""
    if trained.objective.positive is None:
        outputs = "numbers" if trained.objective.classes is None else f"{trained.objective.num_outputs} classes"
        raise SettingError(
            f"the model predicts {outputs}: a threshold decides between two classes.",
            argument="target",
            cure="train on a target with two classes",
        )


def two_class_rows(trained: Trained, data: Sequences, note: str = "") -> TwoClassRows:
    """Returns what a threshold is chosen by or measured on.

    Args:
        trained: A model of two classes.
        data: Series with targets, scaled for the model.
        note: Remark for the user.
    """
    check_two_classes(trained)
    data = data.with_classes(trained.objective.class_names).labeled()
    rows, one = known_rows(data, trained.predict(data)), trained.objective.positive_number
    return TwoClassRows(rows.predicted[:, one].astype(np.float64), rows.true == one, note, rows.weights)


def validation_rows(trained: Trained, target: str | None = None) -> TwoClassRows:
    """Returns predictions for the validation part by a model that was not trained on it.

    A model that was fitted to the training and validation series together is trained again without the latter.

    Args:
        trained: The model of a run folder whose data are still there.
        target: Target with two classes, if there are several.
    """
    one = for_threshold(trained, target)
    target = one.output_names()[0] if trained.objective.heads else None
    config = Config.from_dict(dict(trained.facts.get("config", {})))
    if not config.data.shares[1]:
        raise SettingError("the run has no validation part to choose by", argument="split", cure="train with one")
    prepared = prepared_of(trained)
    if prepared.refit and trained.model.members:
        raise SettingError(
            "the runs of the ensemble were fitted to the validation part too", argument="refit", cure="pass --value"
        )
    if not prepared.refit and (trained.model.start is None or trained.best_epoch or trained.model.members):
        return two_class_rows(one, _of_target(prepared.parts.valid, trained, target))
    config = config.with_values({"training": {"refit": False}})
    prepared = prepare(config)
    assembly = assemble_run(config, prepared)
    untrained = copy.deepcopy(assembly.network)
    alone = assembly.fit()
    if alone.model.start is not None and not alone.best_epoch:  # the start alone, before it is fitted to all series
        alone = replace(alone, model=untrained.eval())
    note = (
        "the model was fitted to the validation part too, so a copy that was trained without it predicts the "
        "validation part."
    )
    alone = replace(alone, reading=prepared.reading)
    return two_class_rows(alone.of_target(target, "a threshold"), _of_target(prepared.parts.valid, alone, target), note)


def tested_rows(trained: Trained, target: str | None = None) -> TwoClassRows | None:
    """Returns predictions for the test part; None if there is none."""
    test = prepared_of(trained).parts.test
    return two_class_rows(for_threshold(trained, target), _of_target(test, trained, target)) if len(test) else None


def _of_target(data: Sequences, trained: Trained, target: str | None) -> Sequences:
    """Returns the series with one of several targets."""
    if not trained.objective.heads:
        return data
    name = for_threshold(trained, target).output_names()[0]
    return data.with_classes(trained.objective.class_names).by_target[trained.objective.targets.index(name)]


def set_threshold(run: str | Path, threshold: float | None, target: str | None = None) -> Objective:
    """Stores the threshold with the model of a run folder, and returns the changed objective of its target.

    Args:
        run: The run folder.
        threshold: Probability from which the positive class is predicted; None for the more likely class.
        target: Target with two classes, if there are several.
    """
    from ._trained import load

    if Path(run).is_file():
        raise SettingError(
            f"{run} is a packed model", argument="run", cure="choose the threshold of its run, then pack again"
        )
    trained = load(run)
    one, goal = for_threshold(trained, target), trained.objective
    objective = replace(one.objective, threshold=threshold)
    changed = objective
    if goal.heads:
        at = goal.targets.index(one.output_names()[0])
        head = replace(goal.heads[at], threshold=threshold)
        changed = replace(goal, heads=(*goal.heads[:at], head, *goal.heads[at + 1 :]))
    Run.open(run).save_json("objective.json", objective_section(replace(trained, objective=changed)))
    return objective
