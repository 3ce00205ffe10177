"""`chronode demo`: recurrent networks learn a task that needs time, within a minute."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from ...cli.tables import Table
from ...data import Sequences
from ...kernels import status
from ...model import ModelSpec
from ...model.start import summaries
from ...nn import find_model
from ...report import write_curves
from ...training import Epoch, ProgressBar, Settings, fit
from ..tasks.bitstream import BLOCK, bitstream

LONGEST = 15
TRAIN, VALID, TEST = 20_000, 2_000, 4_000
HIDDEN = 32


@dataclass(frozen=True)
class DemoResult:
    """Result of one model."""

    parameters: int
    test_accuracy: float
    seconds: float
    epochs: tuple[Epoch, ...]


def run_demo(names: list[str], epochs: int, seed: int, output: Path) -> dict[str, DemoResult]:
    """Trains each model on event-encoded bit streams; prints a table and draws the learning curves."""
    if not names:
        raise ValueError("--models is empty; pass names from `chronode models`, separated by commas.")
    for name in names:
        find_model(name)
    console = Console()
    console.print(status())
    data = [bitstream(count, 3 * seed + part, longest=LONGEST) for part, count in enumerate((TRAIN, VALID, TEST))]
    console.print(f"task: parity of 2 to {LONGEST} bits, event-based encoding ({TRAIN:,} series)")
    for line in drawn_examples(data[0], 3):
        console.print(line)
    outcomes = {}
    # Such small batches gain nothing from threads, and on a busy machine they wait long for them.
    settings = Settings(epochs=epochs, batch_size=128, seed=seed, threads=1)
    with ProgressBar(epochs, console.file, labels=names) as bar:
        for name in names:
            outcomes[name] = _train(name, data, settings, bar)
    console.print(_table(outcomes, simple_models(data[0], data[2])))
    curves = {name: [100 * e.metrics["accuracy"] for e in outcome.epochs] for name, outcome in outcomes.items()}
    title = f"Parity of up to {LONGEST} bits from irregular events (H = {HIDDEN}, seed {seed})"
    path = write_curves(curves, output / "curves.html", title=title, ylabel="validation accuracy (%)", chance=50)
    console.print(f"plot: {path}", soft_wrap=True)
    console.print("next: `chronode models` lists more models for --models")
    return outcomes


def drawn_examples(streams: Sequences, count: int) -> list[str]:
    """Draws some bit streams with their events and parity."""
    lines = []
    for series in streams[:count]:
        values = series.values[:, 0].astype(int).tolist()
        gaps = (series.dt * BLOCK).round().astype(int).tolist()
        # The bit of an event is valid until the next event; the last one only for its own position.
        bits = [value for value, run in zip(values, [*gaps[1:], 1], strict=True) for _ in range(run)]
        bar = "".join("█" if bit else "▁" for bit in bits)
        events_text = " ".join(f"{value}@+{gap}" for value, gap in zip(values, gaps, strict=True))
        lines.append(f"  {bar:<{LONGEST}}  parity {series.target}   events {events_text}")
    return lines


def _train(name: str, data: list[Sequences], settings: Settings, bar: ProgressBar) -> DemoResult:
    train, valid, test = data
    fitted = fit(train, ModelSpec.for_data(train, name, HIDDEN), settings, valid=valid, on_event=bar)
    parameters = sum(p.numel() for p in fitted.model.parameters())
    return DemoResult(parameters, fitted.evaluate(test)["accuracy"], fitted.record.seconds, fitted.history)


def simple_models(train: Sequences, test: Sequences) -> dict[str, float]:
    """Returns the test accuracy of models that see only summaries of the series: counts, means, gaps, durations; {}
    without scikit-learn.
    """
    try:
        from sklearn.ensemble import HistGradientBoostingClassifier
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler
    except ImportError:
        return {}

    def inputs(s: Sequences) -> tuple[Any, Any]:
        batch = s.batch()
        assert batch.target is not None
        return summaries(batch.x, batch.lengths, batch.dt).nan_to_num().numpy(), batch.target.numpy()

    models = {
        "linear on summaries": make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)),
        "boosting on summaries": HistGradientBoostingClassifier(max_iter=300, early_stopping=True, random_state=0),
    }
    return {name: float(model.fit(*inputs(train)).score(*inputs(test))) for name, model in models.items()}


def _table(outcomes: dict[str, DemoResult], simple: dict[str, float]) -> Table:
    table = Table("model")
    for column in ("test accuracy", "parameters", "seconds/epoch", "seconds"):
        table.add_column(column, justify="right")
    for name, outcome in outcomes.items():
        per_epoch = outcome.seconds / len(outcome.epochs)
        cells = (
            f"{outcome.test_accuracy:.1%}",
            f"{outcome.parameters:,}",
            f"{per_epoch:.2f}",
            f"{outcome.seconds:.0f}",
        )
        table.add_row(name, *cells)
    for name, accuracy in simple.items():
        table.add_row(name, f"{accuracy:.1%}", "", "", "")
    return table
