"""The model card of a run: what the model is, what it was trained on, how good it is, what it is not for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from .._version import __version__
from ..data import Reading
from ..training import Trained, labeled
from ._config import Config
from ._summary import Scores, Summary, read_summary

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>&|~#])")


def model_card(trained: Trained) -> str:
    """Returns a model card in Markdown, with the header that the Hugging Face Hub reads.

    Names that users chose are shown as they are and never read as Markdown.
    """
    model, facts = trained.model, trained.facts
    assert model.spec is not None
    summary = read_summary(facts["summary"], "summary") if "summary" in facts else None
    name = "linear-model" if model.is_linear else model.spec.model
    name = "naive-forecast" if trained.record.baseline else name
    tag = name if re.fullmatch(r"[A-Za-z][\w.-]*", name) else "chronode"
    source = facts.get("config", {}).get("data", {}).get("source")
    lines = ["---", "library_name: chronode", "tags:", "- time-series", f"- {tag}", "---", ""]
    lines += [f"# {_plain(model.title)}" + (f" trained on {_plain(source)}" if source else ""), ""]
    lines += [*_model(trained, summary), *_data(trained), *_metrics(summary)]
    lines += [*_limits(trained.reading, trained.notes), *_use()]
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
    line = _one_line(text) or " "
    ends = "`" * (1 + max((len(run) for run in re.findall("`+", line)), default=0))
    space = " " if "`" in line else ""
    return f"{ends}{space}{line}{space}{ends}"


def _model(trained: Trained, summary: Summary | None) -> Iterator[str]:
    model, spec = trained.model, trained.model.spec
    assert spec is not None
    weights, when = model.num_weights, _when(trained.facts.get("environment", {}))
    if trained.record.baseline:
        why = "which was better on the validation part than what was trained"
        yield f"Forecasts of the {_plain(model.title)}, {why}{when}."
        return
    if model.is_linear:
        title = _plain(model.title)
        yield f"A linear model with {weights:,} weights, fitted{when}: the {title}, without a network."
        return
    size = f"{spec.num_layers} layer(s) of {spec.hidden_size} units and {weights:,} parameters"
    training = trained.facts.get("config", {}).get("training", {})
    seed = f" (seed {training['seed']})" if "seed" in training else ""
    epochs = len(trained.history) if summary is None else summary.epochs or 0
    yield (
        f"A {_code(spec.model)} with {size}, trained{when} for {epochs} epochs{seed}; the weights are those of epoch "
        f"{trained.best_epoch}, the best on the validation part by {_plain(trained.objective.metric)}."
    )


def _when(environment: Mapping[str, Any]) -> str:
    """Returns the date and the versions of a training."""
    date = re.match(r"\d{4}-\d\d-\d\d", str(environment.get("started", "")))
    versions = {"chronode": __version__, **environment}
    packages = [
        f"{name} {_plain(versions[name])}" for name in ("chronode", "torch", "numpy", "python") if name in versions
    ]
    return f"{f' on {date[0]}' if date else ''} with {', '.join(packages)}"


def _data(trained: Trained) -> Iterator[str]:
    reading, data, config = trained.reading, trained.facts.get("data", {}), trained.facts.get("config")
    yield from ("", "## Data", "")
    if config is not None:
        yield f"- Source: {_code(config['data']['source'])}"
    if "sha256" in data.get("source", {}):
        yield f"- SHA-256 of the file: {_plain(data['source']['sha256'])}"
    if data.get("series"):
        yield "- Series: " + ", ".join(f"{count:,} {part}" for part, count in data["series"].items())
    if trained.objective.classes is not None:
        yield f"- Classes: {_names(trained.objective.classes)}"
    if config is not None:
        parts = Config.from_dict(config).data
        shares = ", ".join(f"{share:g}" for share in parts.shares)
        yield f"- Split: {shares} (training, validation, test), by {_plain(parts.split_by)}"
    if reading is not None:
        yield f"- Channels: {_names(reading.channels)}"
        if reading.horizon:
            yield f"- Target: the next {reading.horizon} steps of {_names(reading.forecast_channels)}"
        else:
            yield f"- Target: {_names(trained.output_names())}"
        yield f"- Time: {_plain(_time(reading))}"
        yield f"- Missing values: {'allowed' if reading.missing else 'not allowed'}"


def _time(reading: Reading) -> str:
    if reading.unit == "step":
        return "no times; observations are one step apart"
    gap = "" if reading.gap is None else f"; median gap {reading.gap:.3g}"
    return f"{'dates' if reading.dates else 'numbers'}, unit {reading.unit}{gap}"


def _metrics(summary: Summary | None) -> Iterator[str]:
    yield from ("", "## Metrics on the test part", "")
    if summary is None or not summary.test:
        yield "The model was not tested."
        return
    heads = {name: labeled(name, summary.positive, len(summary.targets)) for name in summary.test}
    yield from _table({"this model": summary.test, **summary.baselines}, heads)
    if summary.targets:
        each = {name: metrics.test for name, metrics in summary.targets.items()}
        yield from ("", "Each target in its own units:", "")
        yield from _table(each, {name: name for metrics in each.values() for name in metrics})


def _table(rows: Mapping[str, Scores], heads: Mapping[str, str]) -> Iterator[str]:
    yield "| | " + " | ".join(map(_plain, heads.values())) + " |"
    yield "| --- |" + " ---: |" * len(heads)
    for row, scores in rows.items():
        yield f"| {_plain(row)} | " + " | ".join(_number(scores.get(name)) for name in heads) + " |"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _limits(reading: Reading | None, notes: Iterable[str]) -> Iterator[str]:
    yield from ("", "## Limits", "")
    yield "- The metrics are those of one split of one data set; on data from elsewhere they will differ."
    if reading is not None and reading.gap is not None:
        yield f"- Gaps far from those of training (median {reading.gap:.3g}) were not tested."
    if reading is not None:
        yield "- Files with other columns or other units are refused."
    for note in notes:
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
    yield from ('print(model.predict("new.csv").values)', "```", "")
    yield from ("On the command line, after `pip install 'chronode[train]'`:", "", "```sh")
    yield from ("chronode predict model.chronode new.csv", "```")
