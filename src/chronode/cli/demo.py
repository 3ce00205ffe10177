"""`chronode demo`: a minute in which recurrent networks learn something that needs time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from ..data import Sequences
from ..kernels.library import status
from ..model import SequenceModel
from ..nn.registry import create, find
from ..report.curves import plot_curves
from ..tasks.bitstream import BLOCK, bitstream
from ..training.fit import Epoch, Settings, accuracy, fit

LONGEST = 15
TRAIN, VALID, TEST = 20_000, 2_000, 4_000
HIDDEN = 32


@dataclass
class Outcome:
    """One model's run."""

    parameters: int
    test_accuracy: float = 0.0
    seconds: float = 0.0
    epochs: list[Epoch] = field(default_factory=list)


def run_demo(names: list[str], epochs: int, seed: int, output: Path) -> dict[str, Outcome]:
    """Trains each model on event-coded bit streams; prints a table and draws the learning curves."""
    if not names:
        raise ValueError("--models is empty; give names as in `chronode models`, separated by commas.")
    for name in names:
        find(name)
    console = Console()
    console.print(status())
    data = [bitstream(count, 3 * seed + part, longest=LONGEST) for part, count in enumerate((TRAIN, VALID, TEST))]
    console.print(f"task: the parity of 2 to {LONGEST} bits, seen only when they change ({TRAIN:,} series)")
    for line in drawn_examples(data[0], 3):
        console.print(line)
    outcomes = {}
    with _one_thread(), _progress(console) as progress:
        for name in names:
            outcomes[name] = _train(name, data, Settings(epochs=epochs, batch_size=128, seed=seed), progress)
    console.print(_table(outcomes))
    curves = {name: [100 * e.accuracy for e in outcome.epochs] for name, outcome in outcomes.items()}
    title = f"Parity of up to {LONGEST} bits from irregular events (H = {HIDDEN}, seed {seed})"
    path = plot_curves(curves, output / "curves.png", title=title, ylabel="validation accuracy (%)", chance=50)
    console.print(f"plot: {path}", soft_wrap=True)
    console.print("next: `chronode models` lists what else you can compare with --models")
    return outcomes


@contextmanager
def _one_thread() -> Iterator[None]:
    """Batches as small as these gain nothing from threads, and on a busy machine wait long for them."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def drawn_examples(streams: Sequences, count: int) -> list[str]:
    """Small bars of the bits, with the events that the models see and the answer."""
    lines = []
    for series in streams[:count]:
        values = series.values[:, 0].astype(int).tolist()
        gaps = (series.dt * BLOCK).round().astype(int).tolist()
        # Each event's bit holds until the next event; the last one holds for its own place.
        bits = [value for value, run in zip(values, [*gaps[1:], 1], strict=True) for _ in range(run)]
        bar = "".join("█" if bit else "▁" for bit in bits)
        told = " ".join(f"{value}@+{gap}" for value, gap in zip(values, gaps, strict=True))
        lines.append(f"  {bar:<{LONGEST}}  parity {series.target}   told as {told}")
    return lines


def _train(name: str, data: list[Sequences], settings: Settings, progress: Progress) -> Outcome:
    train, valid, test = data
    torch.manual_seed(settings.seed)
    model = SequenceModel(create(name, 1, HIDDEN, outputs="last"), 2)
    outcome = Outcome(sum(p.numel() for p in model.parameters()))
    bar = progress.add_task(name, total=settings.epochs, told=f"epoch 0/{settings.epochs}")
    start = time.perf_counter()

    def on_batch(done: int, batches: int, loss: float) -> None:
        told = f"epoch {len(outcome.epochs) + 1}/{settings.epochs}  loss {loss:.3f}"
        if outcome.epochs:
            told += f"  valid {outcome.epochs[-1].accuracy:.1%}"
        progress.update(bar, completed=len(outcome.epochs) + done / batches, told=told)

    for epoch in fit(model, train, valid, settings, on_batch):
        outcome.epochs.append(epoch)
    outcome.seconds = time.perf_counter() - start
    outcome.test_accuracy = accuracy(model, test)
    progress.update(bar, completed=settings.epochs)
    return outcome


def _progress(console: Console) -> Progress:
    columns = (TextColumn("{task.description:<12}"), BarColumn(24), TextColumn("{task.fields[told]}"))
    return Progress(*columns, TimeRemainingColumn(elapsed_when_finished=True), console=console)


def _table(outcomes: dict[str, Outcome]) -> Table:
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
    return table
