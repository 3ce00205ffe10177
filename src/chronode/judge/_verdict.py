"""Whether a trained model beats the baselines beside it, and what to try if it does not."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..data import Parts, Sequences
from ..model import ALONE, LINEAR, STACK
from ..training import LOWER_IS_BETTER, Trained, class_counts
from ._baselines import baselines, best_baseline
from ._intervals import LEVEL
from ._race import Race

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

    A model without any error, or nearly so (R² of 1), does not need to beat anything.

    Example:
        >>> summary = {"metric": "accuracy", "test": {"accuracy": 0.7}, "baselines": {"linear": {"accuracy": 0.8}}}
        >>> unbeaten(summary), unbeaten({**summary, "test": {"accuracy": 0.9}})
        (('linear', 0.8), None)
        >>> unbeaten({"metric": "rmse", "test": {"rmse": 2e-4, "r2": 1.0}, "baselines": {"linear": {"rmse": 1e-4}}})
    """
    tests, metric = summary.get("test") or {}, headline(summary)
    value, best = tests.get(metric), best_baseline(metric, summary.get("baselines") or {})
    if value is None or best is None:
        return None
    lower = metric in LOWER_IS_BETTER
    perfect = (value <= 0 if lower else value >= 1) or tests.get("r2", 0.0) >= 1 - _ROUNDING
    alike = math.isclose(value, best[1], rel_tol=_ROUNDING)
    beats = not alike and (value < best[1] if lower else value > best[1])
    return None if beats or perfect else best


def is_linear(summary: Mapping[str, Any], start: str | None) -> bool:
    """Returns whether the result is the linear start alone, because no epoch improved on it or none was trained.

    Example:
        >>> is_linear({"epochs": 0, "best_epoch": 0}, "linear"), is_linear({"epochs": 9, "best_epoch": 4}, "linear")
        (True, False)
    """
    # A forecast has a linear start without being asked.
    started = bool(summary.get("start")) or start not in (None, "none")
    return started and summary.get("best_epoch") == 0


def model_name(summary: Mapping[str, Any], model: str, start: str | None) -> str:
    """Returns what the result of a run is; runs of earlier versions only tell whether it is the linear start alone.

    Args:
        summary: Content of summary.json; empty if the run has not ended.
        model: Name of the network.
        start: Linear start of the model.

    Example:
        >>> model_name({"epochs": 9, "best_epoch": 0}, "mmrnn", "linear"), model_name({}, "mmrnn", "linear")
        ('linear start alone', 'mmrnn')
    """
    return summary.get("model") or (LINEAR if is_linear(summary, start) else model)


def linear_text(summary: Mapping[str, Any]) -> str:
    """Returns what a model without a network is, and why: the linear start, or the baseline that takes its place.

    Args:
        summary: Content of summary.json.

    Example:
        >>> linear_text({"epochs": 3, "baseline": "last value"})
        'the baseline "last value", which is better on the validation part than what was trained'
        >>> linear_text({"epochs": 0})
        'the linear start alone, fitted to the training and validation series together'
    """
    if replaced := summary.get("baseline"):
        return f'the baseline "{replaced}", which is better on the validation part than what was trained'
    name = STACK if str(summary.get("model")).startswith(STACK) else LINEAR
    if not summary.get("epochs"):
        return f"the {name}, fitted to the training and validation series together"
    return f"the {name}: {gain_text(summary.get('start') or {})}"


def end_text(summary: Mapping[str, Any]) -> str:
    """Returns why a run stopped early.

    Example:
        >>> end_text({"epochs": 7, "best_epoch": 7}), end_text({"epochs": 27, "best_epoch": 7})
        ('stopped early: next to no validation loss is left', 'stopped early: no improvement')
    """
    solved = summary["best_epoch"] == summary["epochs"]
    return f"stopped early: {'next to no validation loss is left' if solved else 'no improvement'}"


def gain_text(start: Mapping[str, Any]) -> str:
    """Returns why no epoch counts as better than the linear start, with the numbers that decided.

    Args:
        start: Entry "start" of summary.json.

    Example:
        >>> found = {"metric": "loss", "valid": 0.4186, "network": 0.3653, "epoch": 9, "chance": 0.14}
        >>> gain_text(found)
        'no epoch beat it by more than chance allows (loss 0.4186 alone, 0.3653 in epoch 9: 13% better, but 14% needed)'
        >>> gain_text({**found, "network": 0.43})
        'no epoch improved on it (loss 0.4186 alone, 0.43 in epoch 9)'
    """
    alone, best, metric = start.get("valid"), start.get("network"), start.get("metric", "loss")
    if alone is None or best is None:
        return "no epoch improved on it"
    values = f"{metric} {alone:.4g} alone, {best:.4g} in epoch {start['epoch']}"
    left = (alone, best) if metric in LOWER_IS_BETTER else (1 - alone, 1 - best)
    gain, chance = 1 - left[1] / left[0] if left[0] > 0 else 0.0, start.get("chance")
    if gain <= 0 or chance is None:
        return f"no epoch improved on it ({values})"
    return f"no epoch beat it by more than chance allows ({values}: {gain:.0%} better, but {chance:.0%} needed)"


def headline(summary: Mapping[str, Any]) -> str:
    """Returns the metric by which results are compared: the selection metric, or the first one if that is the loss,
    which baselines do not have.

    Example:
        >>> headline({"metric": "loss", "test": {"loss": 0.4, "accuracy": 0.8}})
        'accuracy'
    """
    tests, others = summary.get("test") or {}, (summary.get("baselines") or {}).values()
    comparable = bool(others) and all("loss" in metrics for metrics in others)  # of several targets
    if summary["metric"] in tests and (summary["metric"] != "loss" or comparable):
        return summary["metric"]
    return next((name for name in tests if name != "loss"), "loss")


def verdict(summary: Mapping[str, Any], *, series: int, start: str, forecast: bool, python: bool = False) -> str | None:
    """Returns a sentence on a model that does not beat the best baseline, with the three most likely remedies.

    Args:
        summary: Content of summary.json.
        series: Number of training series or windows.
        start: Linear start of the network.
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
    value = summary["test"][metric]
    if replaced := summary.get("baseline"):
        sentence = (
            f'The model is the baseline "{replaced}" ({metric} {value:.4g}): nothing was better on the validation part.'
        )
    elif (
        best[0].startswith(("linear", "stack")) and start != "none" and math.isclose(value, best[1], rel_tol=_ROUNDING)
    ):
        no_gain = "Training did not improve" if summary.get("epochs") else "No network of the race improved"
        why = gain_text(summary.get("start") or {}) if summary.get("epochs") else ""
        why = f": {why}" if "(" in why else ""
        sentence = f'{no_gain} on the linear start ({metric} {value:.4g}), so the model is "{best[0]}"{why}.'
    else:
        sentence = f'The model does not beat the baseline "{best[0]}" ({metric} {value:.4g}, baseline {best[1]:.4g}).'
    remedies = "; ".join(_remedies(summary, series, start, forecast)[:3])
    for option, argument in _ARGUMENTS.items() if python else ():
        remedies = remedies.replace(option, argument)
    return f"{sentence} Most likely to help: {remedies}."


def _remedies(summary: Mapping[str, Any], series: int, start: str, forecast: bool) -> list[str]:
    """Remedies, the most likely first; at least three."""
    epochs, best = summary.get("epochs") or 0, summary.get("best_epoch") or 0
    if is_linear(summary, start):  # there is no network whose size or dropout could matter
        remedies = ["more training series"] if series < _SMALL else []
        remedies += ["a longer history (--window)"] if forecast else []
        remedies += ["a longer race (--budget 5m)"] if not epochs else ["a lower learning rate (--lr 0.001)"]
        return [*remedies, "another model (chronode compare)", "a sweep over learning rate and size (chronode sweep)"]
    remedies = []
    if start == "none":
        remedies.append("a linear start (--start linear)")
    if epochs and best == epochs:
        remedies.append("more epochs (the last one was the best)")
    if series < _SMALL:
        remedies.append("more training series, or a smaller model (--hidden 16)")
    if epochs and best <= epochs // 4:
        remedies.append("a lower learning rate (--lr 0.001), since an early epoch was the best")
    if forecast:
        remedies.append("a longer history (--window)")
    remedies += ["another model (chronode compare)", "regularization (--set dropout=0.2 --weight-decay 0.01)"]
    return [*remedies, "a sweep over learning rate and size (chronode sweep)"]


Metrics = dict[str, float]


def compare(
    fitted: Trained, race: Race | None, train: Sequences, valid: Sequences
) -> tuple[Metrics, dict[str, Metrics]]:
    """Returns the metrics of the model, and those of the baselines by name, all on held-out series.

    Args:
        fitted: The result of training.
        race: Race that chose the model or its number of epochs, if there was one.
        train: Training series, scaled.
        valid: Validation series, scaled.
    """
    if race is not None and race.settings.refit:  # the validation series were trained on: what cross-validation found
        simple = {entry.name: entry.metrics for entry in race.entries if entry.name in ALONE}
        if train.classes is not None:
            counts = class_counts(train) + class_counts(valid.with_classes(train.class_names))
            simple["majority"] = {"accuracy": float(counts.max() / counts.sum())}
        return race.chosen.metrics, simple
    start, best = fitted.record.start, fitted.best
    simple = baselines(fitted.objective, Parts(train, valid, valid), linear=start is None)
    if start is not None and fitted.model.start is not None:
        simple[fitted.model.start.title] = {"loss": start.valid_loss, **start.metrics}
    return {} if best is None else {"loss": best.valid_loss, **best.metrics}, simple


def remark(fitted: Trained, metrics: Metrics, baselines: dict[str, Metrics], series: int) -> tuple[str, ...]:
    """Returns a sentence with remedies if the model does not beat the best baseline, else nothing."""
    summary = {"metric": fitted.objective.metric, "test": metrics, "baselines": baselines}
    summary |= {"epochs": len(fitted.history), "best_epoch": fitted.best_epoch, "baseline": fitted.record.baseline}
    start = "none" if fitted.model.start is None else "linear"
    text = verdict(summary, series=series, start=start, forecast=False, python=True)
    return () if text is None else (text,)


class PairedDifference(NamedTuple):
    """Mean difference of a metric over shared seeds.

    Attributes:
        mean: Mean of the differences, first model minus second.
        low: Lower end of the 95% interval of the mean; None with one seed.
        high: Upper end of that interval.
        n: Number of shared seeds.
    """

    mean: float
    low: float | None
    high: float | None
    n: int


def paired_difference(first: Mapping[int, float], second: Mapping[int, float]) -> PairedDifference | None:
    """Compares two models seed by seed; the interval is that of Student's t for the mean of the differences.

    Args:
        first: Seed -> metric of the first model.
        second: Seed -> metric of the second model.

    Returns:
        The difference; None without a shared seed.

    Example:
        >>> found = paired_difference({0: 0.91, 1: 0.93, 2: 0.92}, {0: 0.90, 1: 0.91, 2: 0.91})
        >>> round(found.mean, 4), round(found.low, 4), round(found.high, 4), found.n
        (0.0133, -0.001, 0.0277, 3)
    """
    gaps = [value - second[seed] for seed, value in first.items() if seed in second]
    if not gaps:
        return None
    mean, n = statistics.fmean(gaps), len(gaps)
    if n == 1:
        return PairedDifference(mean, None, None, 1)
    from scipy.special import stdtrit

    half = float(stdtrit(n - 1, (1 + LEVEL) / 2)) * statistics.stdev(gaps) / math.sqrt(n)
    return PairedDifference(mean, mean - half, mean + half, n)
