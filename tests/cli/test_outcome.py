"""The last lines that `chronode train` prints."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from chronode.cli.outcome import show_outcome


@pytest.mark.parametrize(
    ("epochs", "best", "row", "by"),
    [
        (0, 0, "linear start alone", "finished: the linear start alone, fitted to the training and validation series"),
        (12, 0, "linear start alone", "finished: the linear start alone: no epoch improved on it"),
        (12, 7, "lstm", "finished: best epoch 7 of 12 by loss"),
    ],
)
def test_a_result_without_a_network_is_not_called_by_the_name_of_one(epochs, best, row, by):
    summary = {"epochs": epochs, "best_epoch": best, "metric": "loss", "stopped": "epochs", "notes": []}
    summary |= {"test": {"accuracy": 0.9}, "valid": {}, "baselines": {"majority": {"accuracy": 0.5}}}
    config = {"model": {"model": "lstm", "start": "linear"}, "training": {"refit": epochs == 0}}
    outcome = SimpleNamespace(summary=summary, run=SimpleNamespace(path=Path("run"), config=config))
    console = Console(record=True, width=120, quiet=False)
    show_outcome(console, outcome)  # pyrefly: ignore[bad-argument-type]
    printed = console.export_text()
    assert by in printed and f" {row} " in printed
    assert (" lstm " in printed) == (row == "lstm")
