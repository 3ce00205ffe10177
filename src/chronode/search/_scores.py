"""Results of finished runs, and the comparison of models made from them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..judge import PairedDifference, best_baseline, headline, paired_difference
from ..runs import Run, Summary
from ..system import drawn
from ..training import LOWER_IS_BETTER, labeled, mean_and_std


@dataclass(frozen=True)
class RunResult:
    """A finished run.

    Attributes:
        model: Name of the model.
        seed: Seed of the run.
        run: Run folder.
        metric: Metric that selected the best epoch.
        test: Metrics on the test part; {} for a failed run.
        curve: Metric on the validation part after every epoch; None where it is not finite.
        parameters: Number of trained parameters.
        seconds: Seconds per epoch.
        baselines: Test metrics of baselines without training.
        fault: Reason for a failure.
        positive: Positive one of two classes.
    """

    model: str
    seed: int
    run: str
    metric: str = ""
    test: dict[str, float | None] | None = None
    curve: tuple[float | None, ...] = ()
    parameters: int = 0
    seconds: float = 0.0
    baselines: dict[str, dict[str, float | None]] | None = None
    fault: str = ""
    positive: str | None = None

    @classmethod
    def of(cls, run: Run, model: str, seed: int) -> RunResult:
        """Reads the result from a run folder."""
        summary, rows = run.summary() or Summary("failed"), run.metrics()
        metric, test = summary.metric, summary.test
        key = "valid_loss" if metric == "loss" else metric
        fault = summary.fault
        if not fault and test.get(metric) is None:
            fault = f"{metric} on the test series is NaN."
        return cls(
            *(model, seed, str(run.path), metric, test),
            curve=tuple(row.get(key) for row in rows),
            parameters=summary.parameters or 0,
            seconds=statistics.fmean(row.get("seconds") or 0.0 for row in rows) if rows else 0.0,
            baselines=summary.baselines,
            fault=fault,
            positive=summary.positive,
        )


@dataclass(frozen=True)
class ModelScores:
    """Runs of a model with all seeds.

    Attributes:
        model: Name of the model.
        results: Results of the successful runs.
        failed: Results of the failed runs.
    """

    model: str
    results: tuple[RunResult, ...]
    failed: tuple[RunResult, ...]

    def values(self, metric: str) -> dict[int, float]:
        """Returns a test metric by seed, of every run that has it."""
        return {one.seed: value for one in self.results if (value := (one.test or {}).get(metric)) is not None}

    def score(self, metric: str) -> tuple[float | None, float | None]:
        """Returns mean and sample standard deviation (None for a single run) of a test metric."""
        values = list(self.values(metric).values())
        return mean_and_std(values) if values else (None, None)

    @property
    def seconds(self) -> float | None:
        """Seconds per epoch, averaged over the runs."""
        return statistics.fmean(one.seconds for one in self.results) if self.results else None

    @property
    def parameters(self) -> int | None:
        """The number of trained parameters."""
        return next((one.parameters for one in (*self.results, *self.failed) if one.parameters), None)


@dataclass(frozen=True)
class Comparison:
    """Comparison of models, best first.

    Attributes:
        metric: Metric of the order: that which selected the best epochs, or the first one if that is the loss.
        metrics: All metrics, with that one first.
        rows: One row per model; models without a result last.
        baseline: Name and mean test metric of the best baseline.
    """

    metric: str
    metrics: tuple[str, ...]
    rows: tuple[ModelScores, ...]
    baseline: tuple[str, float] | None

    @classmethod
    def of(cls, results: Sequence[RunResult]) -> Comparison:
        """Sorts results into a comparison.

        Example:
            >>> scores = [("gru", 0, 0.25), ("gru", 1, 0.75), ("ltc", 0, 0.875), ("ltc", 1, 0.875)]
            >>> results = [RunResult(m, seed, "", "accuracy", {"accuracy": score}) for m, seed, score in scores]
            >>> comparison = Comparison.of(results)
            >>> [(row.model, row.score("accuracy")) for row in comparison.rows]
            [('ltc', (0.875, 0.0)), ('gru', (0.5, 0.3535533905932738))]
            >>> comparison.differences()["gru"].mean
            -0.375
        """
        first = next((one for one in results if one.metric), None)
        metric = "" if first is None else headline({"metric": first.metric, "test": first.test})
        sign = 1.0 if metric in LOWER_IS_BETTER else -1.0
        rows = []
        for model in dict.fromkeys(one.model for one in results):
            runs = [one for one in results if one.model == model]
            rows.append(ModelScores(model, tuple(r for r in runs if not r.fault), tuple(r for r in runs if r.fault)))
        rows.sort(key=lambda row: float("inf") if (mean := row.score(metric)[0]) is None else sign * mean)
        measured = dict.fromkeys(name for one in results for name in one.test or {})
        return cls(metric, tuple(dict.fromkeys([metric, *measured])), tuple(rows), _baseline(results, metric))

    def _repr_html_(self) -> str:
        return drawn("comparison_html", self)

    def label(self, metric: str) -> str:
        """Returns the heading of a metric, with the positive class if it depends on it."""
        return labeled(metric, next((one.positive for row in self.rows for one in row.results), None))

    @property
    def failed(self) -> list[RunResult]:
        """The failed runs."""
        return [one for row in self.rows for one in row.failed]

    def differences(self) -> dict[str, PairedDifference]:
        """Returns the metric of each other model minus that of the best one, over the seeds that both have."""
        best, *others = (row.values(self.metric) for row in self.rows) if self.rows else ({},)
        pairs = zip(self.rows[1:], (paired_difference(other, best) for other in others), strict=True)
        return {row.model: difference for row, difference in pairs if difference is not None}

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Returns the headings and the rows of the table as text; the last row may be the best baseline."""
        differences = self.differences()
        headings = ["model", *map(self.label, self.metrics), *(["difference to best"] if differences else [])]
        headings += ["parameters", "s/epoch", "seeds"]
        lines = []
        for row in self.rows:
            scores = [mean_text(*row.score(name)) for name in self.metrics]
            if not row.results:
                scores[0] = "failed"
            if differences:
                scores.append(difference_text(differences.get(row.model)))
            count = f"{len(row.results)}" + (f" of {len(row.results) + len(row.failed)}" if row.failed else "")
            parameters = "" if row.parameters is None else f"{row.parameters:,}"
            lines.append([row.model, *scores, parameters, "" if row.seconds is None else f"{row.seconds:.2g}", count])
        if self.baseline is not None:
            name, value = self.baseline
            lines.append([f"baseline: {name}", f"{value:.4g}", *[""] * (len(headings) - 2)])
        return headings, lines

    def as_dict(self) -> dict[str, Any]:
        """Returns the comparison as plain data for JSON."""
        return {
            "metric": self.metric,
            "baseline": None if self.baseline is None else dict([self.baseline]),
            "differences": {name: difference._asdict() for name, difference in self.differences().items()},
            "models": [self._row_as_dict(row) for row in self.rows],
        }

    def _row_as_dict(self, row: ModelScores) -> dict[str, Any]:
        mean, spread = row.score(self.metric)
        return {
            "model": row.model,
            "mean": mean,
            "spread": spread,
            "parameters": row.parameters,
            "seconds_per_epoch": row.seconds,
            "test": {name: dict(zip(("mean", "spread"), row.score(name), strict=True)) for name in self.metrics},
            "runs": [asdict(one) for one in (*row.results, *row.failed)],
        }


def mean_text(mean: float | None, spread: float | None) -> str:
    """Returns a mean with its standard deviation as text; "" without one."""
    return "" if mean is None else f"{mean:.4g}" + ("" if spread is None else f" ± {spread:.2g}")


def difference_text(difference: PairedDifference | None) -> str:
    """Returns a difference with its interval as text; "" without one.

    Example:
        >>> difference_text(PairedDifference(-0.01, -0.03, 0.01, 3)), difference_text(None)
        ('-0.01 (-0.03 to 0.01)', '')
    """
    if difference is None:
        return ""
    interval = "" if difference.low is None else f" ({difference.low:.2g} to {difference.high:.2g})"
    return f"{difference.mean:.3g}{interval}"


def _baseline(results: Sequence[RunResult], metric: str) -> tuple[str, float] | None:
    """Returns the best baseline by its mean over the runs."""
    measured: dict[str, list[float]] = {}
    for one in results:
        for name, scores in (one.baselines or {}).items():
            if (value := scores.get(metric)) is not None:
                measured.setdefault(name, []).append(value)
    return best_baseline(metric, {name: {metric: statistics.fmean(values)} for name, values in measured.items()})
