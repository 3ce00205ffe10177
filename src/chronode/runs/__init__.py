"""Run folders: train into one, resume it, and use the model in it."""

from typing import TYPE_CHECKING

from ..system._lazy import lazy

if TYPE_CHECKING:
    from ._checkpoints import Store
    from ._config import Config, DataConfig, ModelConfig
    from ._folder import Run, run_folders
    from ._pack import pack, read_card
    from ._prepare import Prepared, prepare
    from ._train import Outcome, resume_run, train_run
    from ._trained import Trained

__all__ = [
    "Config",
    "DataConfig",
    "ModelConfig",
    "Outcome",
    "Prepared",
    "Run",
    "Store",
    "Trained",
    "pack",
    "prepare",
    "read_card",
    "resume_run",
    "run_folders",
    "train_run",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "_checkpoints": "Store",
        "_config": "Config DataConfig ModelConfig",
        "_folder": "Run run_folders",
        "_pack": "pack read_card",
        "_prepare": "Prepared prepare",
        "_train": "Outcome resume_run train_run",
        "_trained": "Trained",
    },
)
