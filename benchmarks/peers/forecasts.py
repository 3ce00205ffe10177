"""Forecasts of statsforecast for benchmarks/arena_forecast.py, in a Python of its own: JSON in, JSON out.

    pip install statsforecast

Input: a list of [id, values, horizon, season]. Output: for each, {method: [forecast, CPU seconds]}.
"""

import json
import sys
import time
import warnings

import numpy as np
from statsforecast.models import AutoARIMA, AutoETS, AutoTheta  # pyrefly: ignore[missing-import]


def forecasts(values, horizon, season):
    """Returns forecast and CPU seconds by method; a method that fails repeats the last season."""
    found = {}
    for method in (AutoETS, AutoTheta, AutoARIMA):
        began = time.process_time()
        try:
            mean = method(season_length=season).forecast(y=values, h=horizon)["mean"]
        except Exception:
            mean = np.full(horizon, np.nan)
        mean = np.where(np.isfinite(mean), mean, np.resize(values[-season:], horizon))
        found[method.__name__] = [[float(value) for value in mean], time.process_time() - began]
    return found


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    asked = json.load(sys.stdin)
    json.dump([forecasts(np.array(values, float), horizon, season) for _, values, horizon, season in asked], sys.stdout)
