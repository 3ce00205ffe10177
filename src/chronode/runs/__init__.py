"""Run folders: train into one, resume it, and use the model in it."""

from typing import TYPE_CHECKING

from ..system import lazy

if TYPE_CHECKING:
    from ..training import Trained
    from ._check import CheckResult, check_data
    from ._checkpoints import Store
    from ._choose import assemble_run, choose, fine_tuning, with_named_model
    from ._config import SECTIONS, Config, DataConfig, ModelConfig, exponent
    from ._early import EarlyScores, early_scores
    from ._ensemble import best_runs, combined, ensemble_runs
    from ._environment import FolderLock, environment
    from ._folder import REPORT, Run, folder_files, next_folder, run_folders, write_folder
    from ._folds import CrossValidation, cross_validate
    from ._loggers import check_loggers
    from ._prepare import SECOND_FILES, Prepared, prepare, prepared_for, source_of
    from ._results import STRONG_BASELINE
    from ._score import score
    from ._series import as_packed, asked_of, read_source, reading_fields
    from ._summary import RaceSummary, Summary, config_of
    from ._tables import (
        as_csv,
        as_rows,
        columns_of,
        explanation_columns,
        prediction_columns,
        without_formulas,
        write_table,
    )
    from ._threshold import TwoClassRows, for_threshold, set_threshold, tested_rows, validation_rows
    from ._train import Draw, Outcome, fit_in, resume_run, train_run
    from ._trained import baselines_of, load, pack, prepared_of, read_card, save, series_of


__getattr__, __dir__, __all__ = lazy(__name__)
