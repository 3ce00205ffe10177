"""Baselines: simple models that a trained network has to beat, and the linear model that it can start from."""

from ..model._margins import Margins
from ..model.start._forecast_start import fit_forecast
from ..model.start._grid import on_grid
from ..model.start._linear import Choice, Linear, fit_linear
from ..model.start._naive import drift, last_value, seasonal_naive
from ..model.start._season import find_season
from ..model.start._start import LinearStart, StartFit, fit_start
from ..model.start._summaries import summaries, summary_names
from ._autoregression import autoregression
from ._neighbours import nearest_by_warping, warping_distances

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
