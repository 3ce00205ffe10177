"""The page of results: what every package did with the file."""

from __future__ import annotations

from typing import Any

from protocol import ALONE, TOLERANCE


def page(results: dict[str, Any]) -> str:
    """Returns README.md."""
    train, test = results["series"]
    fewest, most = results["rows"]
    lines = [
        "# One irregular file, eight packages",
        "",
        "Made by `python benchmarks/peers/run.py`.",
        "",
        "The file: JapaneseVowels with 30% of its frames dropped and 20% of the remaining cells empty.",
        f"{train} training series and {test} test series of nine speakers, 12 channels, {fewest} to {most} rows",
        "each, at irregular times.",
        "",
        f"- **works**: all predictions are numbers, and those of {ALONE} test series are the same whether a series is",
        f"  passed alone or in one call with all others (probabilities and forecasts within {TOLERANCE:g}).",
        "- **wrong predictions**: predictions are NaN, or depend on the other series in the call.",
        "- **error**: the package raises an error; the message is shown.",
        "",
        "One run each, one thread, CPU seconds on a shared machine. The networks of ncps and torchcde were",
        "trained with the same loop (30 epochs), PyPOTS with its own (60 epochs, early stopping), chronode with",
        "its defaults.",
        "",
        "## Which speaker is it?",
        "",
        *_table(results, "classify", "accuracy"),
        "",
        "darts and neuralforecast only forecast.",
        "",
        "## The next reading of the first channel",
        "",
        f"Mean absolute error; repeating the last reading has {results['last value']:.4f}.",
        "",
        *_table(results, "forecast", "error"),
    ]
    return "\n".join(lines) + "\n"


def _table(results: dict[str, Any], task: str, score: str) -> list[str]:
    rows = [f"| package | usage | result | {score} | fit, s | predict, s |", "| --- | --- | --- | ---: | ---: | ---: |"]
    for answer in results["packages"].values():
        name = f"{answer['package']} {answer['version']}"
        rows += [_row(name, way, task) for way in answer["ways"] if way["task"] == task]
    return rows


def _row(name: str, way: dict[str, Any], task: str) -> str:
    result = f"**{way['verdict']}**" + (f": {_cell(way['message'])}" if way["message"] else "")
    score, fit, predict = (
        "" if not way[key] else mean(way[key]) for key in ("score", "fit_seconds", "predict_seconds")
    )
    if score != "":
        score = f"{100 * score:.1f}%" if task == "classify" else f"{score:.4f}"
    cells = (
        name,
        _cell(way["title"]),
        result,
        score,
        *(f"{value:.1f}" if value != "" else "" for value in (fit, predict)),
    )
    return "| " + " | ".join(cells) + " |"


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def _cell(text: str) -> str:
    """Returns `text` as it can stand in a Markdown table."""
    return text.replace("|", "\\|").replace("<", "&lt;")
