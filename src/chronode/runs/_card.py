"""The model card of a run: what the model is, what it was trained on, how good it is, what it is not for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from .._version import __version__
from ..data import Reading
from ..model import SequenceModel
from ..training import labeled
from ._config import Config
from ._prepare import DataFacts
from ._summary import Scores, Summary

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>&|~#])")


def model_card(
    config: Config,
    model: SequenceModel,
    facts: DataFacts,
    summary: Summary,
    classes: Iterable[str] | None = None,
    environment: Mapping[str, Any] | None = None,
) -> str:
    """Returns a model card in Markdown, with the header that the Hugging Face Hub reads.

    Names that users chose are shown as they are and never read as Markdown.

    Args:
        config: Configuration of the run.
        model: The trained model.
        facts: Facts about its data.
        summary: Metrics and baselines.
        classes: Names of the classes; None for values.
        environment: Contents of environment.json: versions and date of the training.
    """
    name = "linear-model" if model.is_linear else config.model.model
    name = "naive-forecast" if summary.baseline else name
    tag = name if re.fullmatch(r"[A-Za-z][\w.-]*", name) else "chronode"
    lines = ["---", "library_name: chronode", "tags:", "- time-series", f"- {tag}", "---", ""]
    lines += [f"# {_plain(model.title)} trained on {_plain(config.data.source)}", ""]
    lines += [*_model(config, model, summary, environment or {}), *_data(config, facts, classes), *_metrics(summary)]
    lines += [*_limits(config, facts.reading, summary), *_use()]
    return "\n".join(lines) + "\n"


def _one_line(text: object) -> str:
    """Returns text without line breaks and characters that are not shown."""
    return " ".join("".join(char if char.isprintable() else " " for char in str(text)).split())


def _plain(text: object) -> str:
    """Returns text that Markdown shows as it is."""
    return _SPECIAL.sub(r"\\\1", _one_line(text))


def _names(names: Iterable[object]) -> str:
    """Returns names as code, one after the other."""
    return ", ".join(map(_code, names))


def _code(text: object) -> str:
    """Returns text as a code span, whose ends are longer than any run of backticks in it."""
    own = _one_line(text) or " "
    ends = "`" * (1 + max((len(run) for run in re.findall("`+", own)), default=0))
    space = " " if "`" in own else ""
    return f"{ends}{space}{own}{space}{ends}"


def _model(config: Config, model: SequenceModel, summary: Summary, environment: Mapping[str, Any]) -> Iterator[str]:
    spec = model.spec
    assert spec is not None
    weights, when = model.num_weights, _when(environment)
    if summary.baseline:
        why = "which was better on the validation part than what was trained"
        yield f"Forecasts of the {_plain(model.title)}, {why}{when}."
        return
    if model.is_linear:
        title = _plain(model.title)
        yield f"A linear model with {weights:,} weights, fitted{when}: the {title}, without a network."
        return
    size = f"{spec.num_layers} layer(s) of {spec.hidden_size} units and {weights:,} parameters"
    epochs = f"{summary.epochs or 0} epochs (seed {config.training.seed})"
    yield (
        f"A {_code(spec.model)} with {size}, trained{when} for {epochs}; the weights are those of epoch "
        f"{summary.best_epoch or 0}, the best on the validation part by {_plain(summary.metric)}."
    )


def _when(environment: Mapping[str, Any]) -> str:
    """Returns the date and the versions of a training."""
    date = re.match(r"\d{4}-\d\d-\d\d", str(environment.get("started", "")))
    versions = {"chronode": __version__, **environment}
    found = [
        f"{name} {_plain(versions[name])}" for name in ("chronode", "torch", "numpy", "python") if name in versions
    ]
    return f"{f' on {date[0]}' if date else ''} with {', '.join(found)}"


def _data(config: Config, facts: DataFacts, classes: Iterable[str] | None) -> Iterator[str]:
    reading = facts.reading
    yield from ("", "## Data", "")
    yield f"- Source: {_code(config.data.source)}"
    if "sha256" in facts.source:
        yield f"- SHA-256 of the file: {_plain(facts.source['sha256'])}"
    yield "- Series: " + ", ".join(f"{count:,} {part}" for part, count in facts.series.items())
    shares = ", ".join(f"{share:g}" for share in config.data.shares)
    if classes is not None:
        yield f"- Classes: {_names(classes)}"
    yield f"- Split: {shares} (training, validation, test), by {_plain(config.data.split_by)}"
    if reading is not None:
        yield f"- Channels: {_names(reading.channels)}"
        if reading.horizon:
            yield f"- Target: the next {reading.horizon} steps of {_names(reading.forecast_channels)}"
        else:
            yield f"- Target: {_names(reading.target)}"
        yield f"- Time: {_plain(_time(reading))}"
        yield f"- Missing values: {'allowed' if reading.missing else 'not allowed'}"


def _time(reading: Reading) -> str:
    if reading.unit == "step":
        return "no times; observations are one step apart"
    gap = "" if reading.gap is None else f"; median gap {reading.gap:.3g}"
    return f"{'dates' if reading.dates else 'numbers'}, unit {reading.unit}{gap}"


def _metrics(summary: Summary) -> Iterator[str]:
    yield from ("", "## Metrics on the test part", "")
    if not summary.test:
        yield "The model was not tested."
        return
    heads = {name: labeled(name, summary.positive, len(summary.targets)) for name in summary.test}
    yield from _table({"this model": summary.test, **summary.baselines}, heads)
    if summary.targets:
        each = {name: own.test for name, own in summary.targets.items()}
        yield from ("", "Each target in its own units:", "")
        yield from _table(each, {name: name for own in each.values() for name in own})


def _table(rows: Mapping[str, Scores], heads: Mapping[str, str]) -> Iterator[str]:
    yield "| | " + " | ".join(map(_plain, heads.values())) + " |"
    yield "| --- |" + " ---: |" * len(heads)
    for row, scores in rows.items():
        yield f"| {_plain(row)} | " + " | ".join(_number(scores.get(name)) for name in heads) + " |"


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
        yield f"- Note from training: {_plain(note)}"


def _use() -> Iterator[str]:
    yield from (
        "",
        "## Use",
        "",
        "In Python, after `pip install 'chronode[predict]'`:",
        "",
        "```python",
        "import chronode",
    )
    yield from ("", 'model = chronode.load("model.chronode")')
    yield from ('print(model.predict(model.series("new.csv", labeled=False)).values)', "```", "")
    yield from ("On the command line, after `pip install 'chronode[train]'`:", "", "```sh")
    yield from ("chronode predict model.chronode new.csv", "```")
