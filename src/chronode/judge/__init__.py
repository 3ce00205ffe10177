"""Is a model better than something simple, and how sure are we: baselines, race of candidates, verdict, intervals."""

from typing import TYPE_CHECKING

from ..system import lazy

if TYPE_CHECKING:
    from ..model import Margins
    from ..model.start import (
        Choice,
        Linear,
        LinearStart,
        StartFit,
        drift,
        find_season,
        fit_forecast,
        fit_linear,
        fit_start,
        last_value,
        on_grid,
        seasonal_naive,
        summaries,
        summary_names,
    )
    from ._attribution import Attribution, integrated_gradients
    from ._auto import EARLY_STOP, EPOCHS, SMALL, auto_settings, can_race, race
    from ._autoregression import autoregression
    from ._baselines import MeasuredBaselines, baselines, best_baseline, linear_validation, measured_baselines
    from ._candidates import Candidate, candidates_for, pools_for
    from ._compared import compare, remark
    from ._intervals import metric_intervals
    from ._neighbors import nearest_by_warping, warping_distances
    from ._paired import PairedDifference, paired_difference
    from ._race import LINEAR, Race, entry_of
    from ._verdict import headline, is_linear, linear_text, model_name, unbeaten, verdict

__getattr__, __dir__, __all__ = lazy(__name__)
