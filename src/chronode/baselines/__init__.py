"""Baselines: simple models that a trained network has to beat, and the linear model that it can start from."""

from ._autoregression import autoregression
from ._forecast_start import fit_forecast
from ._grid import on_grid
from ._linear import Choice, Linear, fit_linear
from ._margins import Margins
from ._naive import drift, last_value, seasonal_naive
from ._neighbours import nearest_by_warping, warping_distances
from ._season import find_season
from ._start import LinearStart, StartFit, fit_start
from ._summaries import summaries, summary_names

__all__ = [
    "Choice",
    "Linear",
    "LinearStart",
    "Margins",
    "StartFit",
    "autoregression",
    "drift",
    "find_season",
    "fit_forecast",
    "fit_linear",
    "fit_start",
    "last_value",
    "nearest_by_warping",
    "on_grid",
    "seasonal_naive",
    "summaries",
    "summary_names",
    "warping_distances",
]
