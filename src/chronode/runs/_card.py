"""The model card of a run: what the model is, what it was trained on, how good it is, what it is not for."""

from __future__ import annotations

from collections.abc import Iterator

from .._model import SequenceModel
from .._version import __version__
from ..data import Reading
from ..training._metrics import labelled
from ._config import Config
from ._prepare import DataFacts
from ._summary import Scores, Summary


def model_card(config: Config, model: SequenceModel, facts: DataFacts, summary: Summary) -> str:
    """Returns a model card in Markdown, with the header that the Hugging Face Hub reads.

    Args:
        config: Configuration of the run.
        model: The trained model.
        facts: Facts about its data.
        summary: Metrics and baselines.
    """
    name = "linear-model" if model.is_linear else config.model.model
    lines = ["---", "library_name: chronode", "tags:", "- time-series", f"- {name}", "---", ""]
    lines += [f"# {model.title} trained on {config.data.source}", ""]
    lines += [*_model(config, model, summary), *_data(config, facts), *_metrics(summary)]
    lines += [*_limits(config, facts.reading, summary), *_use()]
    return "\n".join(lines) + "\n"


def _model(config: Config, model: SequenceModel, summary: Summary) -> Iterator[str]:
    spec = model.spec
    assert spec is not None
    weights, by = model.num_weights, f"chronode {__version__}"
    if model.is_linear:
        yield f"A linear model with {weights:,} weights, fitted with {by}: the {model.title}, without a network."
        return
    yield (
        f"A `{spec.model}` with {spec.num_layers} layer(s) of {spec.hidden_size} units and {weights:,} parameters, "
        f"trained with {by} for {summary.epochs or 0} epochs (seed {config.training.seed}); the "
        f"weights are those of epoch {summary.best_epoch or 0}, the best on the validation part by {summary.metric}."
    )


def _data(config: Config, facts: DataFacts) -> Iterator[str]:
    reading = facts.reading
    yield from ("", "## Data", "")
    yield f"- Source: {config.data.source}"
    if "sha256" in facts.source:
        yield f"- SHA-256 of the file: {facts.source['sha256']}"
    yield "- Series: " + ", ".join(f"{count:,} {part}" for part, count in facts.series.items())
    shares = ", ".join(f"{share:g}" for share in config.data.shares)
    yield f"- Split: {shares} (training, validation, test), by {config.data.split_by}"
    if reading is not None:
        yield f"- Channels: {', '.join(reading.channels)}"
        if reading.horizon:
            yield f"- Target: the next {reading.horizon} steps of {', '.join(reading.forecast_channels)}"
        else:
            yield f"- Target: {', '.join(reading.target)}"
        yield f"- Time: {_time(reading)}"
        yield f"- Missing values: {'allowed' if reading.missing else 'not allowed'}"


def _time(reading: Reading) -> str:
    if reading.unit == "step":
        return "no times; observations are one step apart"
    gap = "" if reading.gap is None else f"; median gap {reading.gap:.3g}"
    return f"{'dates' if reading.dates else 'numbers'}, unit {reading.unit}{gap}"


def _metrics(summary: Summary) -> Iterator[str]:
    rows: dict[str, Scores] = {"this model": summary.test, **summary.baselines}
    names = [name for name in summary.test if any(name in scores for scores in rows.values())]
    yield from ("", "## Metrics on the test part", "")
    if not names:
        yield "The model was not tested."
        return
    yield "| | " + " | ".join(labelled(name, summary.positive) for name in names) + " |"
    yield "| --- |" + " ---: |" * len(names)
    for row, scores in rows.items():
        yield f"| {row} | " + " | ".join(_number(scores.get(name)) for name in names) + " |"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _limits(config: Config, reading: Reading | None, summary: Summary) -> Iterator[str]:
    yield from ("", "## Limits", "")
    yield "- The metrics are those of one split of one data set; on data from elsewhere they will differ."
    if reading is not None and reading.gap is not None:
        yield f"- Gaps far from those of training (median {reading.gap:.3g}) were not tested."
    if reading is not None:
        yield "- Files with other columns or other units are refused."
    for note in summary.notes:
        yield f"- Note from training: {' '.join(note.split())}"


def _use() -> Iterator[str]:
    yield from ("", "## Use", "", "```sh", "pip install chronode", "chronode predict model.chronode new.csv", "```")
