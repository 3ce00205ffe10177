"""Run folders: train into one, resume it, and use the model in it."""

from ._checkpoints import Store
from ._config import Config, DataConfig, ModelConfig
from ._folder import Run, run_folders
from ._prepare import Prepared, prepare
from ._reading import Reading
from ._train import Outcome, resume_run, train_run
from ._trained import Trained

__all__ = [
    "Config",
    "DataConfig",
    "ModelConfig",
    "Outcome",
    "Prepared",
    "Reading",
    "Run",
    "Store",
    "Trained",
    "prepare",
    "resume_run",
    "run_folders",
    "train_run",
]
