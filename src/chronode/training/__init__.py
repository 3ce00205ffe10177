"""Training of a model on a task or on your own series."""

from typing import TYPE_CHECKING

from ..system import lazy

if TYPE_CHECKING:
    from ..data import Parts
    from ._assembly import Assembly, assemble, completed, gather, spec_for, together
    from ._attribution import Attribution, integrated_gradients
    from ._calibration import USUAL_INTERVALS, calibrate, interval_scores, intervals_of
    from ._crew import Helpers, WorkerLost, follow
    from ._events import BatchDone, Diverged, Epoch, EpochDone, Event, Listener, Note, TrainingStopped, paced
    from ._explain import Explanation, explain
    from ._fit import fit
    from ._forecasting import default_window, forecast_at, forecast_parts, forecast_scaler, is_panel
    from ._loaders import evaluation_batches
    from ._metrics import (
        LOWER_IS_BETTER,
        OWN_METRICS,
        Metric,
        Scores,
        SeveralScores,
        labeled,
        mean_and_std,
        register_metric,
    )
    from ._objective import Objective, class_counts
    from ._predict import (
        KnownRows,
        Predictions,
        by_target,
        evaluate,
        evaluate_targets,
        known_rows,
        outputs_in_order,
        predict,
        row_losses,
        rows_by_target,
        standard_error,
        weighted_rows,
    )
    from ._progress import ProgressBar
    from ._settings import AUTO, MAY_CHANGE, STARTS, WITHOUT_EFFECT, Settings, seconds_of
    from ._start import check_share, fit_named
    from ._task import LOSSES, METRICS, PROTOCOLS, Sizes, Task, add_task, find_task, tasks
    from ._trained import Record, Trained


__getattr__, __dir__, __all__ = lazy(__name__)
