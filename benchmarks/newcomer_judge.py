"""Simple predictions for the test part of a run, made from its file without chronode: for newcomer.py."""

import re
import time
import warnings
from dataclasses import dataclass

import numpy as np
import pandas as pd
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler


@dataclass(frozen=True)
class Layout:
    """Roles of the columns of a file, as its documentation says.

    Attributes:
        id: Column of the series; "" for one series.
        time: Column of times.
        season: Number of steps after which values repeat; 0 for none.
        left_out: Columns without meaning.
        value: Column that is forecast, as it is called in the file.
        where: Column and text of the rows that hold it, for files with one reading per row.
    """

    id: str = ""
    time: str = ""
    season: int = 0
    left_out: tuple = ()
    value: str = ""
    where: tuple = ()


LAYOUTS = {
    "iowa": Layout("source", "year", value="net_generation"),
    "chicks": Layout("Chick", "Time", left_out=("rownames",)),
    "seattle": Layout("", "date"),
    "stocks": Layout("symbol", "date", 12, value="price"),
    "water": Layout("", "Time", 24, value="Water flow [l/s]"),
    "liver": Layout("id", "day", left_out=("rownames",)),
    "survival": Layout("id", "day", left_out=("rownames",)),
    "housing": Layout("city", "date", 12, value="sales"),
    "storms": Layout("name", "when", value="wind"),
    "watch": Layout("recording", "seconds"),
    "airports": Layout("origin", "time_hour", 24, value="temp"),
    "fatty liver": Layout("id", "days", value="value", where=("test", "hdl")),
}


def judge(name, file, predictions, options):
    """Returns the metric of a run and those of simple predictions for the same test part."""
    start = time.process_time()
    layout = LAYOUTS[name]
    data = _read(file, layout)
    made = pd.read_csv(predictions)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if "--forecast" in options:
            metric, own, others = _forecasts(data, made, layout)
            overlap = sum(column.startswith("true_") for column in made)  # steps that neighboring windows share
        else:
            metric, own, others = _targets(data, made, layout, options[1])
            overlap = 1
    seconds = time.process_time() - start
    best = min(others, key=lambda other: others[other].mean())
    # The mean of squared errors is compared, so the error of a difference of their roots follows from it.
    scale = 2 * np.sqrt(np.maximum(others[best].mean(), 1e-30)) if metric == "rmse" else -1.0
    paired = (own - others[best]) / scale
    return {
        "metric": metric,
        "cases": len(own),
        "test": _summed(own, metric),
        "others": {other: _summed(errors, metric) for other, errors in others.items()},
        "best": best,
        "difference": float(paired.mean()),
        "error": float(paired.std(ddof=1) / np.sqrt(max(1, len(paired) / overlap))),
        "scikit-learn seconds": round(seconds, 1),
    }


def _summed(errors, metric):
    return float(np.sqrt(errors.mean())) if metric == "rmse" else float(1 - errors.mean())


def _read(file, layout):
    data = pd.read_csv(file).drop(columns=list(layout.left_out))
    if layout.time == "when":
        data["when"] = data.groupby(layout.id).cumcount()  # no column holds the whole date: steps are counted
    if layout.time in ("date", "year", "Time", "time_hour") and not pd.api.types.is_numeric_dtype(data[layout.time]):
        data[layout.time] = pd.to_datetime(data[layout.time], utc=True)
    if layout.where:
        data = data[data[layout.where[0]] == layout.where[1]]
    return data.sort_values([layout.id, layout.time] if layout.id else [layout.time])


# ---- forecasts -------------------------------------------------------------------------------------------


def _forecasts(data, made, layout):
    """Returns squared errors per window: of the run, of the last value, of a season ago, and of ridge regression."""
    steps = [column for column in made if re.search(r"\+\d+$", column)]
    true = made[[column for column in steps if column.startswith("true_")]].to_numpy(float)
    own = made[[column for column in steps if not column.startswith("true_")]].to_numpy(float)
    horizon = true.shape[1]
    windows = made.iloc[:, 0].astype(str).str.extract(r"(.*)\[\d+:(\d+)\]$")
    ids, origins = windows[0], made.iloc[:, 1]
    if made.columns[1].startswith("true_"):  # steps are counted
        origins = windows[1].astype(int) - 1
    series = {"0": data} if not layout.id else {str(name): part for name, part in data.groupby(layout.id)}
    length = max(2 * layout.season, horizon + 6)
    rows, test, season, before = [], [], [], []
    first = pd.to_datetime(origins, utc=True).min() if not layout.id else None
    for name, part in series.items():
        values = part[layout.value].ffill().to_numpy(float)
        if layout.id and name in set(ids):
            continue
        last = len(values) if first is None else int((part[layout.time] <= first).sum())
        rows += [_window(values, end, length, horizon) for end in range(2, last - horizon + 1)]
    for name, origin in zip(ids, origins, strict=True):
        part = series.get(name if layout.id else "0")
        before.append(part is not None)
        if part is None:  # it has other readings only
            continue
        moment = (
            pd.to_datetime(origin, utc=True) if not pd.api.types.is_numeric_dtype(part[layout.time]) else float(origin)
        )
        if getattr(part[layout.time].dtype, "tz", None) is None and isinstance(moment, pd.Timestamp):
            moment = moment.tz_localize(None)
        near = part[layout.time] <= (moment + 1e-6 if isinstance(moment, float) else moment)
        values = part[layout.value][near].ffill().to_numpy(float)
        before[-1] = bool(len(values))
        if not len(values):  # other columns begin earlier: no rule has a value to start from, and none is judged
            continue
        test.append(_window(values, len(values), length, 0))
        if layout.season and len(values) >= layout.season:
            season.append([values[-layout.season + step % layout.season] for step in range(horizon)])
    rows = [row for row in rows if np.isfinite(row).all()]
    rows = np.array(rows)[:: max(1, len(rows) // 20_000)]
    test, true, own = np.array(test), true[before], own[before]
    model = make_pipeline(StandardScaler(), RidgeCV(np.logspace(-2, 4, 13)))
    model.fit(rows[:, :-horizon], rows[:, -horizon:] - rows[:, -horizon - 1 : -horizon])
    ridge = np.reshape(model.predict(test), (len(test), horizon)) + test[:, -1:]
    answers = {"last value": np.repeat(test[:, -1:], horizon, 1), "ridge": ridge}
    if len(season) == len(test):
        answers["seasonal naive"] = np.array(season)
    seen = np.isfinite(true)
    use = seen.any(1)

    def squared(answer):
        return (np.where(seen, answer - true, 0)[use] ** 2).sum(1) / seen[use].sum(1)

    return "rmse", squared(own), {other: squared(answer) for other, answer in answers.items()}


def _window(values, end, length, horizon):
    """Returns the last values before `end`, filled with the first one, and those that follow."""
    history = values[max(0, end - length) : end]
    padded = np.concatenate([np.full(length - len(history), history[0]), history])
    return np.concatenate([padded, values[end : end + horizon]])


# ---- targets ---------------------------------------------------------------------------------------------


def _targets(data, made, layout, target):
    """Returns errors per series, or per row for a target of every row, of the run and of a linear model."""
    true, own = made[f"true_{target}"], made[target]
    if layout.id:
        inputs = _summaries(data.drop(columns=[target]), layout)
        goal = data.groupby(layout.id)[target].first()
        names = made[layout.id]
        train = inputs.index.difference(names)
        fit, asked, goal = inputs.loc[train], inputs.loc[names], goal.loc[train]
    else:
        inputs = data.drop(columns=[target, layout.time])
        asked_rows = data[layout.time].isin(pd.to_datetime(made.iloc[:, 1], utc=True))
        fit, asked, goal = inputs[~asked_rows], inputs[asked_rows], data[target][~asked_rows]
    is_class = goal.dtype == object or str(goal.dtype) in ("str", "string") or goal.nunique() < 10
    linear = LogisticRegression(max_iter=2000) if is_class else RidgeCV(np.logspace(-2, 4, 13))
    model = make_pipeline(SimpleImputer(), StandardScaler(), linear).fit(fit, goal)
    answer = model.predict(asked)
    if not is_class:
        errors = {"ridge": (answer - true.to_numpy()) ** 2, "mean": (goal.mean() - true.to_numpy()) ** 2}
        return "rmse", ((own - true) ** 2).to_numpy(), errors
    texts = true.astype(str).to_numpy()
    common = goal.astype(str).mode()[0]
    errors = {"logistic regression": answer.astype(str) != texts, "most frequent": common != texts}
    return "accuracy", (own.astype(str) != texts).to_numpy(float), {name: e.astype(float) for name, e in errors.items()}


def _summaries(data, layout):
    """Returns mean, deviation, least, largest, first and last value of each column for each series, and its length."""
    text = [column for column in data if not pd.api.types.is_numeric_dtype(data[column])]
    data = pd.get_dummies(data, columns=text, dtype=float)
    groups = data.groupby(layout.id)
    parts = [groups.agg(kind).add_suffix(f" {kind}") for kind in ("mean", "std", "min", "max", "first", "last")]
    return pd.concat([*parts, groups.size().rename("length")], axis=1)
