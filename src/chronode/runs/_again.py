"""The series of an existing run: the same file, divided as in its training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..data import is_there
from ._config import Config, DataConfig
from ._prepare import SECOND_FILES, DataFacts, Prepared, prepare, source_of


def prepare_again(config: Config, run: Path) -> Prepared:
    """Returns the series of a run, divided as in its training.

    A test part that is divided differently contains series of training. The sizes of the parts and the scaling, which
    was fitted to the training part, show whether they are the same.

    Args:
        config: The config of the run.
        run: The run folder.

    Raises:
        ValueError: The parts cannot be found.
    """
    stored = DataFacts.load(run)
    prepared = prepare(config, like=stored.reading if config.model.origin else None)
    if not _same_parts(prepared, stored):
        raise ValueError(
            f"{run} was trained by another version of chronode, which divided the data in another way: its test part "
            "is not known. `chronode predict` and `evaluate` work with other files; train again to resume or test it."
        )
    return prepared


def _same_parts(prepared: Prepared, stored: DataFacts) -> bool:
    if prepared.as_dict()["series"] != stored.series:
        return False
    now = None if prepared.reading is None else prepared.reading.scaler
    then = None if stored.reading is None else stored.reading.scaler
    if now is None or then is None:
        return now is then
    pairs = ((getattr(now, name), getattr(then, name)) for name in ("mean", "std", "target_mean", "target_std"))
    return all(len(a) == len(b) and np.allclose(a, b, rtol=1e-9, atol=0) for a, b in pairs)


def check_same_file(source: str, known: dict[str, Any], run: Path) -> None:
    """Rejects data that differ from those of the run."""
    if "file" not in known:
        same = source == known.get("task")
    else:
        same = is_there(source) and source_of(source)["sha256"] == known["sha256"]
    if not same:
        trained_on = known.get("file") or f"the task {known.get('task')}"
        raise ValueError(
            f"{run} was trained on other data ({trained_on}), not on {source}. Pass a copy of those data to resume "
            f"the run, or "
            f"omit --resume to train on {source}."
        )


def check_unchanged(data: DataConfig, known: dict[str, Any], run: Path) -> None:
    """Rejects files that have changed since the start of `run`; tasks never change."""
    if "file" in known:
        _check_file(
            Path(data.source),
            known,
            run,
            f"pass its new location, `chronode train PLACE/{Path(data.source).name} --resume {run}`",
        )
    for name in SECOND_FILES:
        if name in known:
            _check_file(Path(getattr(data, name) or ""), known[name], run, "restore it")


def _check_file(path: Path, known: dict[str, Any], run: Path, cure: str) -> None:
    if not is_there(path):
        raise ValueError(f"{path}, the data of {run}, was not found: {cure}.")
    now = source_of(path)
    if now["sha256"] != known["sha256"]:
        sizes = f"{known['size']:,} bytes then, {now['size']:,} bytes with other content now"
        raise ValueError(
            f"{path} has changed since {run} was started ({sizes}): restore the old file, or start a new run."
        )
