"""The runs of a comparison: their configurations and folders."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..nn import find_model
from ..runs import Config, Run, source_of
from ..settings import SettingError, named
from ._scores import RunResult


@dataclass(frozen=True)
class PlannedRun:
    """Run of a comparison: a model and a seed.

    Attributes:
        model: Name of the model.
        seed: Seed of the split, the weights and the batch order.
        config: Complete configuration.
        folder: Run folder; its name contains a hash of the config and the data file.
    """

    model: str
    seed: int
    config: Config
    folder: Path

    def result(self) -> RunResult | None:
        """Returns the result; None if the run is not finished."""
        if not (self.folder / "run.json").is_file():
            return None
        run = Run.open(self.folder)
        return RunResult.of(run, self.model, self.seed) if run.status in ("finished", "failed") else None


def plan(config: Config, models: Sequence[str], seeds: int, folder: str | Path) -> list[PlannedRun]:
    """Returns the runs of a comparison, ordered by seed.

    Args:
        config: Common configuration. A setting named MODEL.NAME only applies to that model.
        models: Names from `chronode models`.
        seeds: Number of runs per model, with the seed of the config and the following ones.
        folder: Folder for the run folders.

    Example:
        >>> [(planned.model, planned.seed) for planned in plan(Config(), ["gru", "ltc"], 2, "runs/compare")]
        [('gru', 0), ('ltc', 0), ('gru', 1), ('ltc', 1)]
    """
    names = list(dict.fromkeys(models))
    if not names:
        raise ValueError("models is empty: pass names from `chronode models`, separated by commas.")
    for name in names:
        find_model(name)
    for name in config.model.settings:
        owner = name.partition(".")[0]
        if "." in name and owner not in names:
            raise ValueError(f"the setting {name} is for {owner}, which is not compared: {', '.join(names)}.")
    if not config.data.test and not config.data.shares[2]:
        raise SettingError(
            f"models are compared on the test part: give {named('split')} a share of test, or {named('test', ...)}.",
            argument="split",
        )
    first = config.training.seed
    file = file_of(config)
    return [_planned(config, name, seed, Path(folder), file) for seed in range(first, first + seeds) for name in names]


def file_of(config: Config) -> dict[str, Any] | None:
    """Returns name, size and hash of the data file; None for a task."""
    return source_of(config.data.source) if Path(config.data.source).is_file() else None


def identity(config: Config, file: dict[str, Any] | None) -> dict[str, Any]:
    """Returns everything that determines the result of a run as plain data, independent of the location of the
    file.
    """
    description = config.as_dict()
    description["data"]["source"] = file or config.data.source
    test = Path(description["data"].pop("test"))
    if config.data.test:
        description["data"]["test"] = source_of(test) if test.is_file() else config.data.test
    del description["training"]["threads"]
    return json.loads(json.dumps(description))


def _planned(config: Config, model: str, seed: int, folder: Path, file: dict[str, Any] | None) -> PlannedRun:
    shared = {name: value for name, value in config.model.settings.items() if "." not in name}
    prefix = f"{model}."
    own = {name[len(prefix) :]: v for name, v in config.model.settings.items() if name.startswith(prefix)}
    # Networks are compared; a linear start, the default of forecasts, would make them alike.
    start = config.model.start or "none"
    changes = {"model": model, "settings": {**shared, **own}, "start": start}
    asked = config.with_values({"model": changes, "training": {"seed": seed}})
    text = json.dumps(identity(asked, file), sort_keys=True)
    hashed = hashlib.sha256(text.encode()).hexdigest()[:10]
    return PlannedRun(model, seed, asked, folder / f"{model}-seed{seed}-{hashed}")
