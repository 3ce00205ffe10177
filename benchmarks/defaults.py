"""Defaults against simple baselines, on data sets that ship with aeon, sktime, statsmodels and scikit-learn.

    python benchmarks/defaults.py [NAME ...] [--seeds 3] [--again COLUMN]

Every figure is stored in benchmarks/defaults.json as soon as it is known; what is there is not computed again, except
for a column that is named with --again, such as "chronode, irregular".
benchmarks/defaults.md is the table, the main part of which is also in docs/choosing.md. The data set physionet-2012
(five random splits of set a) is downloaded and takes hours; it is only measured if it is named.

Forecasts: all series with a calendar that ship with statsmodels and sktime and have at least 60 values, and the 36
months of shampoo sales. PBS is left out: its last 36 months are all 0, so that the last value has no error to compare
with. Each series is forecast from six origins, evenly spaced over its later half up to one horizon before its end; a
horizon is two years of quarters, one year of months or weeks, one day of half hours, and ten years (el Niño: 24 months,
sunspots: 20 years, shampoo: half a year).

AR, ETS (exponential smoothing, chosen by AICc; not for co2) and theta are those of statsmodels. The best of the three
for each series, and the best of all seven methods, known only afterwards, show what could be reached.

The settings of the linear start of forecasts were chosen by errors on other series: the number of maps and the share of
the simple forecast on the last horizons of about 70 series of github.com/vincentarelbundock/Rdatasets, of the M4
competition, and random cycles; the power of the shares and the margin of maps with more parameters from six origins of
58 series of Rdatasets. Forecasts were made with one seed, which has no effect unless the network improves on the linear
start.
"""

import argparse
import json
import re
import tempfile
import warnings
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np

from chronode.data import from_list
from chronode.estimators import SequenceClassifier, SequenceForecaster, SequenceRegressor
from chronode.judge import find_season, summaries

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "choosing.md"
CLASSES = ["ArrowHead", "ItalyPowerDemand", "GunPoint", "BasicMotions", "JapaneseVowels", "OSULeaf", "ACSF1"]
CLASSES += ["UnitTest", "PickupGestureWiimoteZ", "digits", "breast_cancer", "wine"]
TABLES = ("digits", "breast_cancer", "wine", "diabetes")
"""Tables of scikit-learn whose columns are taken as steps."""
VALUES = ["Covid3Month", "CardanoSentiment", "diabetes"]
MACRO = ["realgdp", "unemp", "cpi", "realcons", "realinv", "realgovt", "realdpi", "m1", "tbilrate", "pop", "infl"]
MACRO += ["realint"]
CHANGES = ["Consumption", "Income", "Production", "Savings", "Unemployment"]
SERIES = {"sunspots": 20, "elnino": 24, "nile": 10, "airline": 12, "lynx": 10, "shampoo": 6, "co2": 52}
SERIES |= dict.fromkeys(MACRO, 8) | dict.fromkeys(CHANGES, 8) | {"inflation": 8, "interest": 8}
SERIES |= {"elec_equip": 12, "seatbelts": 12, "solar": 48}
ORIGINS = 6
STAYS = "physionet-2012"


def parts(name):
    """(training X, y, test X, y); tables of scikit-learn are series of their columns."""
    if name in TABLES:
        from sklearn import datasets
        from sklearn.model_selection import train_test_split

        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
        a, b, ya, yb = train_test_split(X[:, None], y, test_size=0.5, random_state=0, stratify=None)
        return a, ya, b, yb
    from aeon.datasets import load_classification, load_regression

    load = load_regression if name in VALUES else load_classification
    return (*load(name, split="train"), *load(name, split="test"))


def series(name):
    """One series, (T,)."""
    import statsmodels.api as sm

    data = sm.datasets
    if name == "co2":
        return data.co2.load_pandas().data["co2"].interpolate().to_numpy()
    if name == "sunspots":
        return data.sunspots.load_pandas().data["SUNACTIVITY"].to_numpy()
    if name == "elnino":
        return data.elnino.load_pandas().data.iloc[:, 1:].to_numpy().ravel()
    if name == "nile":
        return data.nile.load_pandas().data["volume"].to_numpy()
    if name in MACRO:
        return data.macrodata.load_pandas().data[name].to_numpy()
    if name in ("inflation", "interest"):
        column = {"inflation": "Dp", "interest": "R"}[name]
        return data.interest_inflation.load_pandas().data[column].to_numpy(dtype=float)
    if name == "elec_equip":
        from statsmodels.datasets.elec_equip import load_pandas

        return load_pandas().data.iloc[:, -1].to_numpy(dtype=float)
    from sktime import datasets

    if name in CHANGES:
        return datasets.load_uschange(name)[0].to_numpy(dtype=float)
    if name in ("seatbelts", "solar"):
        file = Path(datasets.__file__).parent / "data" / name / f"{name}.csv"
        return np.genfromtxt(file, delimiter=",", skip_header=1, usecols=1)
    load = {"airline": datasets.load_airline, "lynx": datasets.load_lynx, "shampoo": datasets.load_shampoo_sales}
    return np.asarray(load[name](), dtype=float).ravel()


def holes(X, share=0.3):
    """The same series with a share of their values missing."""
    rng = np.random.default_rng(0)
    made = [np.array(x, dtype=float) for x in X]
    for x in made:
        x[rng.random(x.shape) < share] = np.nan
    return made


def irregular(X, share=0.3):
    """The same series without a share of their steps, and the times of the others."""
    rng = np.random.default_rng(0)
    kept = [np.flatnonzero(rng.random(np.shape(x)[1]) >= share) for x in X]
    kept = [steps if len(steps) > 1 else np.arange(2) for steps in kept]
    return [np.asarray(x)[:, steps] for x, steps in zip(X, kept, strict=True)], [steps.astype(float) for steps in kept]


def features(X):
    """Summaries of each series, for scikit-learn."""
    batch = from_list([np.asarray(x, dtype=float).T for x in X]).batch()
    return np.nan_to_num(summaries(batch.x, **batch.times).numpy())


def classify(name, column, seed):
    """Accuracy, or R² of numbers; None where a method cannot be used."""
    X, y, test, truth = parts(name)
    numbers = name in VALUES
    kind = SequenceRegressor if numbers else SequenceClassifier
    if column == "chronode":
        return kind(random_state=seed).fit(list(X), y).score(list(test), truth)
    if column == "chronode, 30% missing":
        return kind(random_state=seed, missing=True).fit(holes(X), y).score(holes(test), truth)
    if column == "chronode, irregular":
        (X, times), (test, later) = irregular(X), irregular(test)
        return kind(random_state=seed).fit(X, y, times=times).score(test, truth, times=later)
    if column == "1-NN DTW":
        from aeon.classification.distance_based import KNeighborsTimeSeriesClassifier

        return KNeighborsTimeSeriesClassifier(distance="dtw").fit(X, y).score(test, truth)
    if column == "ridge":
        from sklearn.linear_model import RidgeClassifierCV, RidgeCV
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        model = (RidgeCV if numbers else RidgeClassifierCV)(alphas=np.logspace(-3, 3, 13))
        known, others = features(X), features(test)
        # Means and deviations of normalized series differ by rounding errors only, which scaling would enlarge.
        varies = known.std(0) > 1e-7 * np.maximum(1, np.abs(known).mean(0))
        return make_pipeline(StandardScaler(), model).fit(known[:, varies], y).score(others[:, varies], truth)
    from aeon.classification.convolution_based import MiniRocketClassifier
    from aeon.regression.convolution_based import MiniRocketRegressor

    try:
        return (
            (MiniRocketRegressor if numbers else MiniRocketClassifier)(random_state=seed).fit(X, y).score(test, truth)
        )
    except ValueError:  # unequal lengths, or fewer than nine steps
        return None


def columns_of(name):
    """Column -> whether it depends on the seed."""
    if name in VALUES:
        return {"chronode": True, "ridge": False, "MiniRocket": True}
    more = {"chronode, 30% missing": True, "chronode, irregular": True, "1-NN DTW": False, "ridge": False}
    return {"chronode": True, **more, "MiniRocket": True}


def stays(name, column, seed):
    """AUROC of a random split of the stays of set a, with `chronode train`'s defaults; the best baseline's."""
    from chronode.runs import Config, train_run

    config = Config.from_dict({"data": {"source": name, "protocol": "paper"}, "training": {"seed": seed}})
    summary = train_run(config, Path(tempfile.mkdtemp()) / "run").summary
    return summary["test"]["auroc"]


def forecast(name, seeds, known=()):
    """Mean absolute errors over the origins, of all methods that are not known yet and can be used at every origin."""
    whole, horizon = series(name), SERIES[name]
    first = max(3 * horizon, len(whole) // 2)
    errors = {}
    for origin in np.linspace(first, len(whole) - horizon, ORIGINS).astype(int):
        past, future = whole[:origin], whole[origin : origin + horizon]
        season = find_season(past)
        for method, forecaster in {**FORECASTERS, "chronode": partial(by_chronode, seeds=seeds)}.items():
            values = None if method in known else forecaster(past, horizon, season)
            if values is not None:
                errors.setdefault(method, []).append(float(np.abs(values - future).mean()))
    return {method: [float(np.mean(values))] for method, values in errors.items() if len(values) == ORIGINS}


def by_chronode(past, horizon, season, seeds):
    """The forecasts of several seeds, (seeds, horizon)."""
    fitted = (SequenceForecaster(horizon=horizon, random_state=seed).fit([past]) for seed in range(seeds))
    return np.stack([model.predict([past])[0, :, 0] for model in fitted])


def last_value(past, horizon, season):
    """The last value."""
    return np.full(horizon, past[-1])


def seasonal(past, horizon, season):
    """The last season, again and again."""
    return np.resize(past[-season:], horizon)


def drift(past, horizon, season):
    """The line through the first and the last value."""
    return past[-1] + (past[-1] - past[0]) / (len(past) - 1) * np.arange(1, horizon + 1)


def autoregression(past, horizon, season):
    """The forecast of the autoregression with the lowest AIC."""
    from statsmodels.tsa.ar_model import AutoReg, ar_select_order

    most = min(max(60, season + 2), len(past) // 3)
    lags = ar_select_order(past, maxlag=most, ic="aic").ar_lags or 1
    return AutoReg(past, lags=lags).fit().predict(len(past), len(past) + horizon - 1)


def smoothing(past, horizon, season):
    """The forecast of exponential smoothing with the lowest AICc; None for long series, which take too long."""
    from statsmodels.tsa.exponential_smoothing.ets import ETSModel

    if len(past) > 1500:
        return None
    seasons = [None, "add", "mul"] if 1 < season <= 24 and len(past) >= 2 * season + 4 else [None]
    fitted = []
    for error, (trend, damped), seasonal in product(
        ("add", "mul"), ((None, False), ("add", False), ("add", True)), seasons
    ):
        if (past.min() <= 0 and "mul" in (error, seasonal)) or (error, seasonal) == ("add", "mul"):
            continue
        cycle = {"seasonal": seasonal, "seasonal_periods": season if seasonal else None}
        try:
            fitted.append(ETSModel(past, error=error, trend=trend, damped_trend=damped, **cycle).fit(disp=False))
        except (ValueError, np.linalg.LinAlgError):
            continue
    return np.asarray(min(fitted, key=lambda own: own.aicc).forecast(horizon))


def theta(past, horizon, season):
    """The forecast of the theta method, of seasonally adjusted values if there is a season."""
    from statsmodels.tsa.forecasting.theta import ThetaModel

    seasonal = 1 < season <= len(past) // 2
    method = "auto" if past.min() > 0 else "additive"
    model = ThetaModel(past, period=season if seasonal else 1, deseasonalize=seasonal, method=method)
    return np.asarray(model.fit().forecast(horizon))


FORECASTERS = {
    "last": last_value,
    "seasonal naive": seasonal,
    "drift": drift,
    "AR": autoregression,
    "ETS": smoothing,
    "theta": theta,
}


def table(found):
    """The figures of all data sets as Markdown."""
    lines = [
        "# Defaults against simple baselines",
        "",
        "`python benchmarks/defaults.py`; see there for the data sets.",
        "",
    ]
    found = {name: {key: own for key, own in row.items() if None not in own} for name, row in found.items()}
    groups = {"Classes: accuracy": CLASSES, "Numbers: R²": VALUES, "Forecasts: mean absolute error": list(SERIES)}
    groups["Stays in intensive care: AUROC of five random splits"] = [STAYS]
    for title, names in groups.items():
        rows = {name: found[name] for name in names if "chronode" in found.get(name, {})}
        columns = list(dict.fromkeys(key for row in rows.values() for key in row if key != "seconds"))
        columns.sort(key=lambda key: not key.startswith("chronode"))
        if not rows:
            continue
        seeds = {name: len(row.get("chronode", ())) for name, row in rows.items()}
        seeds = {} if title.startswith("Forecasts") else seeds
        heads = [*columns, *(["runs of chronode"] if seeds else [])]
        lines += [f"## {title}", "", f"| data set | {' | '.join(heads)} |", f"| --- |{' ---: |' * len(heads)}"]
        for name, row in rows.items():
            cells = [f"{np.mean(row[key]):.4g}" if key in row else "" for key in columns]
            cells += [str(seeds[name])] if seeds else []
            lines.append(f"| {name} | {' | '.join(cells)} |")
        lines += ["", *summary(title, rows), ""]
    return "\n".join(lines)


def short_table(found):
    """The accuracies of all data sets with classes as percent, for docs/choosing.md."""
    columns = ["chronode", "chronode, 30% missing", "chronode, irregular", "1-NN DTW", "MiniRocket"]
    lines = [f"| data set | {' | '.join(columns)} |", f"| --- |{' ---: |' * len(columns)}"]
    rows = {name: found[name] for name in CLASSES if name in found}
    for name, row in rows.items():
        known = [key in row and None not in row[key] for key in columns]
        cells = [f"{100 * np.mean(row[key]):.1f}%" if there else "" for key, there in zip(columns, known, strict=True)]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    known = {name: {key: own for key, own in row.items() if None not in own} for name, row in rows.items()}
    return "\n".join([*lines, "", *(f"- {line}" for line in summary("Classes", known))])


def write_page(found):
    """Puts the table into docs/choosing.md."""
    pattern, text = r"(?s)(<!-- defaults -->\n).*?(<!-- /defaults -->)", PAGE.read_text()
    PAGE.write_text(re.sub(pattern, lambda match: f"{match[1]}\n{short_table(found)}\n\n{match[2]}", text))


def gap(row, other):
    """By how many points chronode is better; versions of it are compared with the same seeds."""
    seeds = len(row[other]) if other.startswith("chronode") else None
    return 100 * float(np.mean(row["chronode"][:seeds]) - np.mean(row[other]))


def summary(title, rows):
    """The figures over all data sets."""
    if title.startswith("Forecasts"):
        mean = {name: {key: float(np.mean(value)) for key, value in row.items()} for name, row in rows.items()}
        naive = [r["chronode"] / min(r["last"], r["seasonal naive"], r["drift"]) for r in mean.values()]
        ar = [r["chronode"] / r["AR"] for r in mean.values()]
        worse = [name for name, r in mean.items() if r["chronode"] > r["last"]]
        best = {name: min(r["last"], r["seasonal naive"], r["drift"]) for name, r in mean.items()}
        names = ("AR", "ETS", "theta")
        others = {key: np.mean([r[key] / best[name] for name, r in mean.items() if key in r]) for key in names}
        oracle = [min(r[key] for key in others if key in r) / best[name] for name, r in mean.items()]
        every = [min(oracle[i], naive[i], 1.0) for i in range(len(naive))]
        listed = ", ".join(f"{key} {value:.3f}" for key, value in others.items())
        return [
            f"Mean ratio to the best of last value, seasonal naive and drift: {np.mean(naive):.3f}; to AR: "
            f"{np.mean(ar):.3f}; worse than the last value: {len(worse)} of {len(mean)} ({', '.join(worse)}).",
            "",
            f"Mean ratio of others to the same: {listed}; of the best of these three for each series, known only "
            f"afterwards: {np.mean(oracle):.3f}; of the best of all seven methods, likewise: {np.mean(every):.3f}.",
        ]
    found = []
    for other in ("1-NN DTW", "ridge", "MiniRocket", "chronode, 30% missing", "chronode, irregular"):
        gaps = {n: gap(r, other) for n, r in rows.items() if {"chronode", other} <= r.keys()}
        if gaps and not title.startswith("Stays"):
            series = [points for name, points in gaps.items() if name not in TABLES]
            only = f", {np.mean(series):+.1f} over the {len(series)} that are series" if len(series) < len(gaps) else ""
            about = f"{np.mean(list(gaps.values())):+.1f} points over {len(gaps)} data sets"
            found.append(f"chronode minus {other}: {about}{only if ',' in other else ''}.")
    return found


def measure(found, seeds, names, save):
    """Measures what is missing: the first seed of all data sets before the second of any."""
    for name in [name for name in names if name in SERIES and "chronode" not in found.get(name, {})]:
        known = found.get(name, {})
        save(name, {**known, **forecast(name, seeds, known)})
    for seed in range(5 if STAYS in names else seeds):
        for name in [name for name in names if name not in SERIES]:
            for column, varies in ({"chronode": True} if name == STAYS else columns_of(name)).items():
                known = found.get(name, {}).get(column, [])
                if len(known) > seed or (seed and not varies) or (seed >= seeds and name != STAYS):
                    continue
                value = (stays if name == STAYS else classify)(name, column, seed)
                save(name, {**found.get(name, {}), column: [*known, value]})


def main():
    warnings.filterwarnings("ignore")
    options = argparse.ArgumentParser()
    options.add_argument("names", nargs="*")
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--again")
    asked = options.parse_args()
    path = HERE / "defaults.json"
    found = json.loads(path.read_text()) if path.is_file() else {}

    def save(name, row):
        found[name] = row
        path.write_text(json.dumps(found, indent=1) + "\n")
        (HERE / "defaults.md").write_text(table(found))
        write_page(found)
        print(name, row, flush=True)

    names = asked.names or [*SERIES, *CLASSES, *VALUES]
    for name in names:
        found.get(name, {}).pop(asked.again, None)
    measure(found, asked.seeds, names, save)


if __name__ == "__main__":
    main()
