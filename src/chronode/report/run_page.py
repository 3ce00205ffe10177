"""report.html of a run: data, training, test, single series, settings, and how to repeat the run."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..judge import best_baseline, end_text, headline, intervals_by_target, is_linear, linear_text, model_name
from ..model import SequenceModel
from ..runs import REPORT, Config, Prepared, RaceSummary, Run, Summary, load, prepared_of
from ..training import Objective, Predictions, labeled
from ._data_pictures import pictures_of
from ._test_part import coming_forecast, own_units, scores_table, targets_table, test_parts
from ._time_axis import noun
from ._training_pictures import learning_pictures
from .pages import Html, bullets, cards, code, details, grid, heading, number, page, paragraph, safe, table, write_page

_ENDS = {"epochs": "all epochs were trained", "steps": "all steps were taken"}
_FEW_METRICS = 5
_PILLS = {"finished": "", "failed": " bad"}


def draw_run(
    run: Run, prepared: Prepared, model: SequenceModel, objective: Objective, predictions: Predictions | None
) -> None:
    """Writes report.html of a run that has just finished."""
    write_report(run, prepared, model, objective, predictions)


def report_of(folder: str | Path) -> Path:
    """Writes report.html of a run folder again, from its data, and returns its path."""
    run = Run.open(folder)
    if not (run.path / "model.safetensors").is_file():
        return write_report(run, None, None, None, None)
    trained = load(folder)
    prepared = prepared_of(trained).sampled
    tested = run.status == "finished" and len(prepared.parts.test) > 0
    predictions = trained.predict(prepared.parts.test) if tested else None
    return write_report(run, prepared, trained.model, trained.objective, predictions)


def write_report(
    run: Run,
    prepared: Prepared | None,
    model: SequenceModel | None,
    objective: Objective | None,
    predictions: Predictions | None,
) -> Path:
    """Writes report.html from what is available; a run without a model has no test section."""
    summary = run.summary() or Summary(run.status if run.status in ("failed", "stopped") else "interrupted")
    config = Config.from_dict({name: part for name, part in run.config.items() if name != "baseline"})
    name = model_name(asdict(summary), config.model.model, config.model.start)
    sections: dict[str, list[str]] = {}
    intervals: dict[str, tuple[float, float]] = {}
    if prepared is not None:
        sections["Data"] = _data_section(prepared)
    sections["Training"] = _training_section(run, summary, config.model.start)
    if prepared is not None and model is not None and objective is not None and predictions is not None:
        tests = test_parts(prepared, model, objective, predictions)
        intervals = intervals_by_target(objective, prepared.parts.test, predictions)
        sections["Test"] = [scores_table(summary, name, intervals), *targets_table(summary, name)]
        for target, test in tests.items():
            drawn = [*test.pictures(config), *test.importance()]
            sections["Test"] += drawn if len(tests) == 1 else [details(target, *drawn)]
        if coming := coming_forecast(prepared, model, objective, config):
            sections["Coming forecast"] = coming
        sections[f"Best and worst {'windows' if noun(prepared.parts.test) == 'window' else 'series'}"] = [
            drawn
            for target, test in tests.items()
            for drawn in (test.cases() if len(tests) == 1 else [details(target, *test.cases())])
        ]
    sections["Settings"] = _settings_section(run, config)
    sections["How to repeat"] = _repeat_section(run, config, prepared)
    head = _head(run, summary, config, intervals)
    title = f"{run.path.name}: {name} on {Path(config.data.source).name}"
    foot = f"chronode {run.environment.get('chronode', '')}; written into {run.path}"
    return write_page(run.path / REPORT, page(title, head, sections, foot=foot))


def _head(run: Run, summary: Summary, config: Config, intervals: dict[str, tuple[float, float]]) -> str:
    status = Html(f'<span class="pill{_PILLS.get(summary.status, " off")}">{safe(summary.status)}</span>')
    started = str(run.environment.get("started") or "")[:16].replace("T", " ")
    facts: dict[str, Any] = {}
    fields = asdict(summary)
    metric, linear = headline(fields), is_linear(fields, config.model.start)
    value = summary.test.get(metric)
    if value is not None:
        low, high = intervals.get(metric, (None, None))
        ends = "" if low is None or high is None else f"<small>{number(low)} to {number(high)}</small>"
        facts[f"test {labeled(metric, summary.positive, len(summary.targets))}"] = Html(f"{number(value)}{ends}")
    # A linear start alone, or a baseline, is not compared with itself.
    start = summary.start
    itself = (start.title or f"linear ({start.features})") if linear and start is not None else ""
    itself = summary.baseline or itself
    others: dict[str, Any] = {name: scores for name, scores in fields["baselines"].items() if name != itself}
    if (best := best_baseline(metric, others)) is not None:
        facts[f"best baseline: {best[0]}"] = best[1]
    if summary.best_epoch:
        facts["best epoch"] = f"{summary.best_epoch} of {summary.epochs}"
    if summary.parameters is not None:
        facts["parameters"] = summary.parameters
    if summary.seconds is not None and summary.epochs:
        facts["training time"] = _duration(summary.seconds)
    network = config.model
    size = (
        f"{network.num_layers} × {network.hidden_size}"
        if (network.num_layers or 1) > 1
        else str(network.hidden_size or 64)
    )
    lead = Html(f"{status} {safe(started)} UTC") if started else status
    fault = paragraph(f"Training failed: {summary.fault}") if summary.fault else ""
    units = "" if linear else f" · {size} units"
    text = paragraph(Html(f"{lead}{units} · seed {config.training.seed}"), "lead")
    return text + fault + cards(facts)


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.3g} min" if seconds < 7200 else f"{seconds / 3600:.3g} h"


# ---- data --------------------------------------------------------------------------------------------------


def _data_section(prepared: Prepared) -> list[str]:
    parts, facts = prepared.parts, prepared.facts
    rows = []
    for name, part in (("training", parts.train), ("validation", parts.valid), ("test", parts.test)):
        ends = sorted({int(part.lengths.min()), int(part.lengths.max())}) if len(part) else []
        rows.append([name, len(part), int(part.lengths.sum()), " to ".join(f"{end:,}" for end in ends)])
    columns = ["part", "series", "steps", "steps per series"]
    if noun(parts.train) == "window":
        columns = ["part", "windows", "steps", "steps per window"]
    shown = own_units(parts.train, parts.scaler)
    pieces = [paragraph(str(facts)), paragraph(f"{facts.time}; {prepared.divided}.", "small")]
    pieces += [table(columns, rows, numeric=columns[1:]), "<h3>Training part</h3>", grid(*pictures_of(shown, 4))]
    if prepared.notes:
        pieces += ["<h3>Notes</h3>", bullets(prepared.notes)]
    return pieces


# ---- training ----------------------------------------------------------------------------------------------


def _training_section(run: Run, summary: Summary, start: str | None) -> list[str]:
    """Returns the choice of the model, the learning curves and all epochs."""
    rows, linear = run.metrics(), is_linear(asdict(summary), start)
    pieces: list[str] = []
    if rows:
        ends = {**_ENDS, "early": end_text(asdict(summary))}
        end = ends.get(summary.stopped, summary.stopped or summary.status)
        alone = f" The model is {linear_text(asdict(summary))}." if linear and summary.start is not None else ""
        pieces += [paragraph(f"{len(rows):,} epochs; {end}.{alone}")]
        metric = headline({"metric": summary.metric, "test": summary.valid})
        pieces.append(grid(*learning_pictures(rows, metric, summary.best_epoch)))
    elif linear:
        pieces.append(paragraph(f"The model is {linear_text(asdict(summary))}."))
    else:
        pieces.append(paragraph("No epoch was finished."))
    if summary.race is not None:
        pieces += _race(summary.race, summary.positive)
    if rows:
        names = list(rows[-1])
        body = [[row.get(name) for name in names] for row in rows]
        pieces.append(details("All epochs", table(names, body, numeric=names)))
    return pieces


def _race(race: RaceSummary, positive: str | None) -> list[str]:
    """Returns all candidates with their metrics on held-out series, the best first."""
    no_metrics = ("candidate", "epochs", "spread")
    measured = [name for name in race.chosen if name not in no_metrics]
    names = list(dict.fromkeys([race.metric, "loss", *measured]))[:_FEW_METRICS]
    heads = [labeled(name, positive) for name in names]
    spread = any(entry.get("spread") is not None for entry in race.entries)
    columns = ["candidate", heads[0], *(["± over folds"] if spread else []), *heads[1:], "epochs"]
    rows: list[list[Any]] = []
    for entry in race.entries:
        first, *others = (entry.get(name) for name in names)
        rows.append([entry.get("candidate"), first, *([entry.get("spread")] if spread else []), *others])
        rows[-1].append(entry.get("epochs") or "")
    text = f"Candidates on held-out series, by {race.judged}; the best {labeled(race.metric, positive)} first."
    return [
        str(heading("Race")),
        paragraph(f"Choice: {race.reason}"),
        table(columns, rows, numeric=columns[1:]),
        paragraph(text, "small"),
    ]


# ---- settings ----------------------------------------------------------------------------------------------


def _settings_section(run: Run, config: Config) -> list[str]:
    asked, usual = config.as_dict(), Config().as_dict()
    rows = [
        [section, name, _plain(value), _plain(usual[section][name])]
        for section, values in asked.items()
        for name, value in values.items()
        if value != usual[section][name]
    ]
    whole = json.dumps(asked, indent=1, ensure_ascii=False)
    machine = [[name, str(value)] for name, value in run.environment.items() if value is not None]
    return [
        table(["section", "setting", "value", "default"], rows)
        if rows
        else paragraph("All settings are the defaults."),
        details("All settings, as --config takes them", code(whole)),
        details("Versions and machine", table(["", ""], machine)),
    ]


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}={item}" for name, item in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else "" if value is None else str(value)


def _repeat_section(run: Run, config: Config, prepared: Prepared | None) -> list[str]:
    pieces: list[str] = []
    if run.command:
        pieces += [paragraph("The same command trains the same model:"), code(f"chronode {shlex.join(run.command)}")]
    else:
        pieces += [
            paragraph("Save all settings, listed above, as config.yaml; the same settings train the same model:"),
            code("chronode train --config config.yaml"),
        ]
    folder = shlex.quote(str(run.path))
    pieces += [paragraph("Use the model:"), code(f"chronode predict {folder} NEW_FILE -o predictions.csv")]
    if prepared is not None and "file" in prepared.source:
        source = prepared.source
        pieces.append(
            paragraph(f"Data: {source['file']}, {source['size']:,} bytes, SHA-256 {source['sha256']}", "small")
        )
    commit, changed = run.environment.get("commit"), run.environment.get("changed")
    if commit:
        pieces.append(paragraph(f"chronode at commit {commit}{' with local changes' if changed else ''}", "small"))
    return pieces
