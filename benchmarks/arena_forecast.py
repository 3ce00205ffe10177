"""Arenas of forecasts: competitions with published results, and the same data forecast by peers.

    CHRONODE_DATA_MIRROR=DATA python benchmarks/arena_forecast.py m3 [--count N] [--peers PYTHON]

Arenas: m3, tourism_monthly, tourism_quarterly, tourism_yearly and m4_hourly. The data are those of the publishers
in the folder `forecasting` of the mirror (docs/arena.md). Results go to benchmarks/arena_forecast.json, series by
series in a fixed random order, so that the first N series are a sample of all, and the same command continues after an
interruption. Each arena compares the defaults of `SequenceForecaster`, fitted to every series by itself (of m4_hourly,
to all series as one panel; with `--start`, without a network), with seasonal naive forecasts and, with `--peers`, with
AutoETS, AutoTheta and AutoARIMA of statsforecast, and for panels LightGBM, which that Python must have installed. With
`--methods` and `--count`, slow peers forecast the first series only. Nothing is chosen on the test values.
"""

import argparse
import csv
import json
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np

from chronode.storage import replacing

HERE = Path(__file__).parent
RESULTS = HERE / "arena_forecast.json"
SEASONS = {"YEARLY": 1, "QUARTERLY": 4, "MONTHLY": 12, "OTHER": 1, "HOURLY": 24}
HORIZONS = {"tourism_monthly": 24, "tourism_quarterly": 8, "tourism_yearly": 4}
PANELS = ("m4_hourly",)
AT_ONCE = {"AutoETS": 50, "AutoTheta": 50, "AutoARIMA": 2}
"""Peers, and the number of series after which their results are stored."""


def series_of(arena, folder):
    """Returns (id, period, training values, test values) of each series, in a fixed random order."""
    if arena == "m3":
        lines = (folder / "m3.jsonl").read_text().splitlines()
        rows = [(r["id"], r["period"], r["train"], r["test"]) for r in map(json.loads, lines)]
    elif arena == "m4_hourly":
        parts = [_numbers(folder / f"M4_Hourly-{part}.csv", header=True) for part in ("train", "test")]
        rows = [(name, "HOURLY", values, parts[1][name]) for name, values in parts[0].items()]
    else:
        parts = [_columns(folder / f"{arena}_{part}.csv") for part in ("in", "oos")]
        period = arena.split("_")[1].upper()
        rows = [(name, period, values, parts[1][name]) for name, values in parts[0].items()]
    order = np.random.default_rng(0).permutation(len(rows))
    return [(*rows[i][:2], np.array(rows[i][2], float), np.array(rows[i][3], float)) for i in order]


def _numbers(path, *, header):
    with path.open() as file:
        rows = list(csv.reader(file))[header:]
    return {row[0]: [float(cell) for cell in row[1:] if cell not in ("", "NA")] for row in rows}


def _columns(path):
    """The columns of a file of the Tourism competition: the length, the first year (and month), then the values."""
    with path.open() as file:
        names, *rows = list(csv.reader(file))
    facts, columns = 2 if "yearly" in path.name else 3, list(zip(*rows, strict=True))
    return {
        name: [float(cell) for cell in cells[facts : facts + int(cells[0])]]
        for name, cells in zip(names, columns, strict=True)
    }


def scores(train, test, forecast, season):
    """Symmetric MAPE in percent, and MASE; NaN for a training part that never changes."""
    error = np.abs(test - forecast)
    scale = np.abs(train[season:] - train[:-season]).mean() if len(train) > season else np.nan
    smape = 200 * (error / np.maximum(np.abs(test) + np.abs(forecast), 1e-12)).mean()
    return {"smape": float(smape), "mase": float(error.mean() / scale) if scale > 0 else None}


def dates(period, steps):
    """Dates of months and quarters, which tell the length of a year; None for other series."""
    months = {"MONTHLY": 1, "QUARTERLY": 3}.get(period)
    return None if months is None else [np.datetime64("1980-01", "M") + months * np.arange(steps)]


def seasonal_naive(train, horizon, season):
    return np.resize(train[-season:], horizon)


def ours(period, train, horizon):
    """Forecast, 90% interval and CPU seconds of the default forecaster."""
    from chronode.estimators import SequenceForecaster

    began, times = time.process_time(), dates(period, len(train))
    times = None if times is None else [own.astype("datetime64[D]") for own in times]
    fitted = SequenceForecaster(horizon=horizon, intervals=[90], random_state=0, n_threads=1).fit([train], times=times)
    forecast = fitted.predict([train], times)[0, :, 0]
    ends = fitted.predict_intervals([train], times)[90][0, :, 0]
    return forecast, ends, time.process_time() - began, fitted.best_epoch_ > 0


def run_panel(arena, rows, results, start):
    """Forecasts all series by one model; with `start`, by its linear start."""
    from chronode.estimators import SequenceForecaster

    done, histories, began = results.setdefault(arena, {}), [row[2] for row in rows], time.process_time()
    if all("chronode" in done.get(row[0], {}) for row in rows):
        return
    options = {"epochs": 0} if start else {}
    options |= {"intervals": [90], "random_state": 0, "n_threads": 1, "verbose": True}
    fitted = SequenceForecaster(horizon=len(rows[0][3]), **options)
    fitted.fit(histories)
    forecasts, ends = fitted.predict(histories)[..., 0], fitted.predict_intervals(histories)[90][:, :, 0]
    seconds = (time.process_time() - began) / len(rows)
    for row, forecast, own in zip(rows, forecasts, ends, strict=True):
        done.setdefault(row[0], {}).update(judged(row, forecast, own, seconds, fitted.best_epoch_ > 0))
    store(results)


def judged(row, forecast, ends, seconds, network):
    """The scores of a forecast with its 90% interval, and of the seasonal naive forecast."""
    _, period, train, test = row
    season, (low, high) = SEASONS[period], ends.T
    beyond = np.maximum(low - test, 0) + np.maximum(test - high, 0)
    scale = np.abs(train[season:] - train[:-season]).mean()
    width = float((high - low + 20 * beyond).mean() / scale) if scale > 0 else None
    interval = {"coverage": float(((low <= test) & (test <= high)).mean()), "msis": width}
    own = {**scores(train, test, forecast, season), **interval, "cpu": seconds, "network": network}
    naive = scores(train, test, seasonal_naive(train, len(test), season), season)
    return {"period": period, "chronode": own, "seasonal naive": naive}


def run_series(arena, rows, results, minutes):
    """Forecasts series that are missing from the results, one by one."""
    done = results.setdefault(arena, {})
    last = began = time.monotonic()
    for row in rows:
        name, period, train, test = row
        if "chronode" in done.get(name, {}):
            continue
        done.setdefault(name, {}).update(judged(row, *ours(period, train, len(test))))
        if time.monotonic() - last > 30:
            store(results)
            last = time.monotonic()
        if minutes and time.monotonic() - began > 60 * minutes:
            break
    store(results)


def run_peers(arena, rows, python, results, methods):
    """Lets another Python forecast the series that peers are missing from; LightGBM has one model for all series."""
    done = results.setdefault(arena, {})
    for method in methods:
        missing = [row for row in rows if method not in done.get(row[0], {})]
        size = max(len(rows), 1) if method == "LightGBM" else AT_ONCE[method]
        for first in range(0, len(missing), size):
            part = rows if method == "LightGBM" else missing[first : first + size]
            lines = [[name, train.tolist(), len(test), SEASONS[period]] for name, period, train, test in part]
            found = subprocess.run(
                [python, str(HERE / "peers" / "forecasts.py")],
                input=json.dumps({"method": method, "rows": lines}),
                capture_output=True,
                text=True,
            )
            if found.returncode:
                sys.exit(found.stderr)
            for (forecast, seconds), (name, period, train, test) in zip(json.loads(found.stdout), part, strict=True):
                own = scores(train, test, np.array(forecast), SEASONS[period])
                done.setdefault(name, {"period": period})[method] = {**own, "cpu": seconds}
            store(results)


def store(results):
    """Writes all results, one series per line, together with those that another command has written since."""
    for arena, rows in stored().items():
        for name, row in rows.items():
            own = results.setdefault(arena, {}).setdefault(name, {})
            own.update({method: value for method, value in row.items() if method not in own})
    texts = []
    for arena, rows in results.items():
        lines = [f"{json.dumps(name)}: {json.dumps(_rounded(row))}" for name, row in sorted(rows.items())]
        texts.append(f"{json.dumps(arena)}: {{\n" + ",\n".join(lines) + "\n}")
    with replacing(RESULTS) as path:
        path.write_text("{\n" + ",\n".join(texts) + "\n}\n")


def stored():
    """Returns the results by arena, series and method."""
    return json.loads(RESULTS.read_text()) if RESULTS.exists() else {}


def _rounded(value):
    if isinstance(value, dict):
        return {key: _rounded(own) for key, own in value.items()}
    return float(f"{value:.5g}") if isinstance(value, float) else value


def table(arena, rows):
    """Means over the series that a method has forecast, by period."""
    methods = sorted({key for row in rows.values() for key in row if key != "period"})
    periods = sorted({row["period"] for row in rows.values()})
    lines = [
        f"{arena}: {len(rows)} series",
        "method".ljust(16) + "".join(f"{p.lower():>20}" for p in [*periods, "all"]),
    ]
    for method in methods:
        cells = []
        for period in [*periods, None]:
            own = [row[method] for row in rows.values() if method in row and period in (None, row["period"])]
            mase = [one["mase"] for one in own if one["mase"] is not None]
            cells.append(f"{np.mean([one['smape'] for one in own]):.2f} / {np.mean(mase):.3f}" if own else "")
        cpu = [row[method].get("cpu", 0.0) for row in rows.values() if method in row]
        lines.append(
            method.ljust(16) + "".join(f"{cell:>20}" for cell in cells) + f"  {np.mean(cpu):.2f} CPU s a series"
        )
    intervals = [row["chronode"] for row in rows.values() if row.get("chronode", {}).get("coverage") is not None]
    if intervals:
        msis = [one["msis"] for one in intervals if one["msis"] is not None]
        lines.append(
            f"90% intervals: coverage {np.mean([one['coverage'] for one in intervals]):.1%}, "
            f"MSIS {np.mean(msis):.2f}, median {np.median(msis):.2f}; network in "
            f"{np.mean([one['network'] for one in intervals]):.0%} of the fits"
        )
    return "\n".join(lines)


def published(folder):
    """The published results of M3 of the methods with the lowest MASE."""
    with (folder / "m3_published.csv").open() as file:
        best = list(csv.DictReader(file))[:5]
    print("published, 3,003 series:", "; ".join(f"{r['method']} {r['smape all']} / {r['mase all']}" for r in best))


def main():
    warnings.filterwarnings("ignore")
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("arena", choices=["m3", *HORIZONS, *PANELS])
    options.add_argument("--count", type=int, help="number of series; all by default")
    options.add_argument("--minutes", type=float, default=0.0, help="stop after this time; the same command continues")
    options.add_argument("--peers", help="Python that has statsforecast")
    options.add_argument("--methods", default="", help="peers to run, such as AutoETS,AutoTheta; all by default")
    options.add_argument("--start", action="store_true", help="of a panel, fit the linear start without a network")
    options.add_argument("--only-peers", action="store_true", help="run the peers alone, and print nothing")
    given = options.parse_args()
    folder = Path(os.environ["CHRONODE_DATA_MIRROR"]) / "forecasting"
    results = stored()
    rows = series_of(given.arena, folder)[: given.count]
    usual = (*AT_ONCE, *(["LightGBM"] if given.arena in PANELS else []))
    methods = given.methods.split(",") if given.methods else usual
    if given.only_peers:
        return run_peers(given.arena, rows, given.peers, results, methods)
    if given.arena in PANELS:
        run_panel(given.arena, rows, results, given.start)
    else:
        run_series(given.arena, rows, results, given.minutes)
    if given.peers:
        run_peers(given.arena, rows, given.peers, results, methods)
    print(table(given.arena, results[given.arena]))
    if given.arena == "m3":
        published(folder)


if __name__ == "__main__":
    main()
