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
    data = data.with_classes(trained.objective.classes).labeled()
    rows, one = known_rows(data, trained.predict(data)), trained.objective.positive_number
    return TwoClassRows(rows.predicted[:, one].astype(np.float64), rows.true == one, note, rows.weights)


def validation_rows(trained: Trained) -> TwoClassRows:
    """Returns predictions for the validation part by a model that was not trained on it.

    A model that was fitted to the training and validation series together is trained again without the latter.

    Args:
        trained: The model of a run folder whose data are still there.
    """
    check_two_classes(trained)
    config = Config.from_dict(dict(trained.facts.get("config", {})))
    if not config.data.shares[1]:
        raise SettingError("the run has no validation part to choose by", argument="split", cure="train with one")
    prepared = prepared_of(trained)
    if prepared.refit and trained.model.members:
        raise SettingError(
            "the runs of the ensemble were fitted to the validation part too", argument="refit", cure="pass --value"
        )
    if not prepared.refit and (trained.model.start is None or trained.best_epoch or trained.model.members):
        return two_class_rows(trained, prepared.parts.valid)
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
    return two_class_rows(alone, prepared.parts.valid, note)


def set_threshold(run: str | Path, threshold: float | None) -> Objective:
    """Stores the threshold with the model of a run folder, and returns the changed objective.

    Args:
        run: The run folder.
        threshold: Probability from which the positive class is predicted; None for the more likely class.
    """
    from ._trained import load

    if Path(run).is_file():
        raise SettingError(
            f"{run} is a packed model", argument="run", cure="choose the threshold of its run, then pack again"
        )
    trained = load(run)
    check_two_classes(trained)
    changed = replace(trained, objective=replace(trained.objective, threshold=threshold))
    Run.open(run).save_json("objective.json", objective_section(changed))
    return changed.objective
