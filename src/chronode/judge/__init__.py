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
    from ._auto import AUTO_START, SMALL, can_race, race, selection_metric
    from ._baselines import (
        MeasuredBaselines,
        autoregression,
        baselines,
        best_baseline,
        linear_validation,
        measured_baselines,
        nearest_by_warping,
        warping_distances,
    )
    from ._candidates import Candidate, candidates_for, hard_candidates, pools_for
    from ._drift import (
        Drift,
        MetricChange,
        feature_names,
        features_of,
        find_drift,
        metric_change,
        reference_of,
        stretch_length,
        stretch_numbers,
        units_of,
    )
    from ._importance import Importance, permutation_importance
    from ._intervals import intervals_by_target, intervals_of_rows, metric_intervals
    from ._race import ALONE, Race, entry_of
    from ._threshold import COSTS, Rates, candidate_thresholds, choose_threshold, rates_at
    from ._verdict import (
        PairedDifference,
        compare,
        end_text,
        headline,
        is_linear,
        linear_text,
        model_name,
        paired_difference,
        remark,
        unbeaten,
        verdict,
    )

__getattr__, __dir__, __all__ = lazy(__name__)
