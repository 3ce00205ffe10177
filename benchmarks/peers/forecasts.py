"""Forecasts of statsforecast and LightGBM for benchmarks/arena_forecast.py, in a Python of its own: JSON in, JSON out.

    pip install statsforecast lightgbm

Input: {"method": name, "rows": [[id, values, horizon, season], ...]}. Output: [forecast, CPU seconds] of each row.
AutoETS, AutoTheta and AutoARIMA are fitted to each series by itself. LightGBM is one model of all series: the change
since a season ago from the changes before it, in units of the mean absolute change of the series, applied to its own
forecasts.
"""

import json
import sys
import time
import warnings

import numpy as np

LAGS, SEASONAL_LAGS = 24, (1, 2, 7)
TREES = {"n_estimators": 400, "learning_rate": 0.05, "num_leaves": 31, "verbose": -1, "n_jobs": 1}


def statistical(method, rows):
    """Returns the forecast and CPU seconds of each series; a method that fails repeats the last season."""
    from statsforecast import models  # pyrefly: ignore[missing-import]

    found = []
    for _, values, horizon, season in rows:
        began, values = time.process_time(), np.array(values, float)
        try:
            mean = getattr(models, method)(season_length=season).forecast(y=values, h=horizon)["mean"]
        except Exception:
            mean = np.full(horizon, np.nan)
        mean = np.where(np.isfinite(mean), mean, np.resize(values[-season:], horizon))
        found.append([mean.tolist(), time.process_time() - began])
    return found


def boosted(rows):
    """Returns the forecasts of one LightGBM model of all series."""
    from lightgbm import LGBMRegressor  # pyrefly: ignore[missing-import]

    began = time.process_time()
    season, horizon = rows[0][3], rows[0][2]
    whole = [np.array(row[1], float) for row in rows]
    changes = [values[season:] - values[:-season] for values in whole]
    scales = [max(float(np.abs(change).mean()), 1e-9) for change in changes]
    changes = [change / scale for change, scale in zip(changes, scales, strict=True)]
    reach = max(LAGS, season * max(SEASONAL_LAGS))
    back = np.array([*range(1, LAGS + 1), *(season * cycles for cycles in SEASONAL_LAGS if season * cycles > LAGS)])
    places = [np.arange(reach, len(change)) for change in changes]
    phase = [np.arange(len(change)) % (7 * season) for change in changes]

    def inputs(change, at, when):
        return np.column_stack([change[at[:, None] - back], when % season, when])

    x = np.concatenate([inputs(c, at, p[at]) for c, at, p in zip(changes, places, phase, strict=True)])
    y = np.concatenate([change[at] for change, at in zip(changes, places, strict=True)])
    model = LGBMRegressor(**TREES).fit(x, y)
    ahead = np.stack([change[-reach:] for change in changes])
    ends = np.array([len(change) for change in changes])
    for step in range(horizon):
        when = (ends + step) % (7 * season)
        row = np.column_stack([ahead[:, -back], when % season, when])
        ahead = np.column_stack([ahead, model.predict(row)])
    found = []
    for values, change, scale in zip(whole, ahead[:, reach:], scales, strict=True):
        path = list(values[-season:])
        for step in range(horizon):
            path.append(path[step] + scale * change[step])
        found.append([[float(value) for value in path[season:]], 0.0])
    seconds = (time.process_time() - began) / len(rows)
    return [[forecast, seconds] for forecast, _ in found]


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    asked = json.load(sys.stdin)
    rows = asked["rows"]
    json.dump(boosted(rows) if asked["method"] == "LightGBM" else statistical(asked["method"], rows), sys.stdout)
