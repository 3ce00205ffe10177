"""The linear start: features of a series, a linear model of them, and naive forecasts."""

from typing import TYPE_CHECKING

from ...system import lazy

if TYPE_CHECKING:
    from ._classical import prefers_logarithm
    from ._features import Readings, Summaries, Values
    from ._forecast_start import fit_forecast, last_value_at_every_step, naive_forecasts, stretch_of, training_season
    from ._grid import Recent, on_grid
    from ._linear import Choice, Linear, fit_linear
    from ._season import (
        calendar_seasons,
        drift,
        find_season,
        histories,
        is_plain,
        is_short,
        last_value,
        season_of,
        seasonal_naive,
    )
    from ._several import SeveralStart, fit_targets
    from ._stacked import StackedStart, fit_stack
    from ._start import LinearStart, StartFit, fit_start, outputs_of, raw_outputs
    from ._summaries import summaries, summary_names

__getattr__, __dir__, __all__ = lazy(__name__)
