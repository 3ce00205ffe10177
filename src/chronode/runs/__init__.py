"""Run folders: train into one, resume it, and use the model in it."""

from typing import TYPE_CHECKING

from ..system import lazy

if TYPE_CHECKING:
    from ..training import Trained
    from ._checkpoints import Store
    from ._choose import assemble_run, choose, with_named_model
    from ._config import SECTIONS, Config, DataConfig, ModelConfig, exponent
    from ._environment import environment
    from ._folder import REPORT, Run, next_folder, run_folders
    from ._lock import FolderLock
    from ._loggers import check_loggers
    from ._prepare import Prepared, prepare, prepared_for, source_of
    from ._ranks import followed
    from ._results import STRONG_BASELINE
    from ._source import read_source
    from ._summary import RaceSummary, Summary
    from ._tables import as_csv, as_rows, columns_of, prediction_columns, without_formulas, write_table
    from ._train import MAY_CHANGE, Draw, Outcome, config_of, follow_run, resume_run, train_run
    from ._trained import baselines_of, load, pack, prepared_of, read_card, save, series_of
    from ._transfer import folder_files, write_folder


__getattr__, __dir__, __all__ = lazy(__name__)
