"""Whether a trained model beats the baselines beside it, and what to try if it does not."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ..training._baselines import best_baseline
from ..training._metrics import LOWER_IS_BETTER

_SMALL = 500
_ROUNDING = 1e-4


_ARGUMENTS = {
    "--start linear": 'start="linear"',
    "--budget 5m": 'budget="5m"',
    "--hidden 16": "hidden_size=16",
    "--lr 0.001": "learning_rate=0.001",
    "chronode compare": "the argument model",
    "--set dropout=0.2 --weight-decay 0.01": 'settings={"dropout": 0.2}, training={"weight_decay": 0.01}',
    "chronode sweep": "GridSearchCV",
}


def unbeaten(summary: Mapping[str, Any]) -> tuple[str, float] | None:
    """Returns the best baseline of a finished run if the model does not beat it on the test part, else None.

    A model without any error does not need to beat anything.

    Example:
        >>> summary = {"metric": "accuracy", "test": {"accuracy": 0.7}, "baselines": {"linear": {"accuracy": 0.8}}}
        >>> unbeaten(summary), unbeaten({**summary, "test": {"accuracy": 0.9}})
        (('linear', 0.8), None)
    """
    tests, metric = summary.get("test") or {}, headline(summary)
    own, best = tests.get(metric), best_baseline(metric, summary.get("baselines") or {})
    if own is None or best is None:
        return None
    lower = metric in LOWER_IS_BETTER
    perfect = own <= 0 if lower else own >= 1
    alike = math.isclose(own, best[1], rel_tol=_ROUNDING)
    beats = not alike and (own < best[1] if lower else own > best[1])
    return None if beats or perfect else best


def is_linear(summary: Mapping[str, Any], start: str | None) -> bool:
    """Returns whether the result is the linear start alone, because no epoch improved on it or none was trained.

    Example:
        >>> is_linear({"epochs": 0, "best_epoch": 0}, "linear"), is_linear({"epochs": 9, "best_epoch": 4}, "linear")
        (True, False)
    """
    started = "start" in summary or start not in (None, "none")  # a forecast has a linear start without being asked
    return started and summary.get("best_epoch") == 0


def headline(summary: Mapping[str, Any]) -> str:
    """Returns the metric by which results are compared: the selection metric, or the first one if that is the loss,
    which baselines do not have.

    Example:
        >>> headline({"metric": "loss", "test": {"loss": 0.4, "accuracy": 0.8}})
        'accuracy'
    """
    tests = summary.get("test") or {}
    if summary["metric"] in tests and summary["metric"] != "loss":
        return summary["metric"]
    return next((name for name in tests if name != "loss"), "loss")


def verdict(summary: Mapping[str, Any], *, series: int, start: str, forecast: bool, python: bool = False) -> str | None:
    """Returns a sentence on a model that does not beat the best baseline, with the three most likely remedies.

    Args:
        summary: Content of summary.json.
        series: Number of training series or windows.
        start: What the network started from.
        forecast: Whether it forecasts.
        python: Whether to name arguments of the estimators in place of options of the command line.

    Example:
        >>> summary = {"metric": "accuracy", "test": {"accuracy": 0.7}, "baselines": {"linear": {"accuracy": 0.8}}}
        >>> text = verdict({**summary, "epochs": 20, "best_epoch": 20}, series=90, start="none", forecast=False)
        >>> text.partition(" Most")[0]
        'The model does not beat the baseline "linear" (accuracy 0.7, baseline 0.8).'
        >>> text.partition("help: ")[2].split("; ")[0]
        'a linear start (--start linear)'
    """
    best = unbeaten(summary)
    if best is None:
        return None
    metric = headline(summary)
    own = summary["test"][metric]
    if best[0].startswith("linear") and start != "none" and math.isclose(own, best[1], rel_tol=_ROUNDING):
        no_gain = "Training did not improve" if summary.get("epochs") else "No network of the race improved"
        found = f'{no_gain} on the linear start ({metric} {own:.4g}), so the model is "{best[0]}".'
    else:
        found = f'The model does not beat the baseline "{best[0]}" ({metric} {own:.4g}, baseline {best[1]:.4g}).'
    remedies = "; ".join(_remedies(summary, series, start, forecast)[:3])
    for option, argument in _ARGUMENTS.items() if python else ():
        remedies = remedies.replace(option, argument)
    return f"{found} Most likely to help: {remedies}."


def _remedies(summary: Mapping[str, Any], series: int, start: str, forecast: bool) -> list[str]:
    """Remedies, the most likely first; at least three."""
    epochs, best = summary.get("epochs") or 0, summary.get("best_epoch") or 0
    if is_linear(summary, start):  # there is no network whose size or dropout could matter
        found = ["more training series"] if series < _SMALL else []
        found += ["a longer history (--window)"] if forecast else []
        found += ["a longer race (--budget 5m)"] if not epochs else ["a lower learning rate (--lr 0.001)"]
        return [*found, "another model (chronode compare)", "a sweep over learning rate and size (chronode sweep)"]
    found = []
    if start == "none":
        found.append("a linear start (--start linear)")
    if epochs and best == epochs:
        found.append("more epochs (the last one was the best)")
    if series < _SMALL:
        found.append("more training series, or a smaller model (--hidden 16)")
    if epochs and best <= epochs // 4:
        found.append("a lower learning rate (--lr 0.001), since an early epoch was the best")
    if forecast:
        found.append("a longer history (--window)")
    found += ["another model (chronode compare)", "regularization (--set dropout=0.2 --weight-decay 0.01)"]
    return [*found, "a sweep over learning rate and size (chronode sweep)"]
