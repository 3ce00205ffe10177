"""What the commands of `chronode analyze` for oscillators and expressivity share: options, and how they end."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from ..analysis.oscillator_studies import Comparison
    from ..analysis.trial import Trial

Output = Annotated[Path | None, typer.Option(help="The picture's file; runs/analyze/COMMAND.png if not given.")]
Json = Annotated[bool, typer.Option("--json", help="Print the numbers as JSON instead of a summary.")]
Seed = Annotated[int, typer.Option(min=0, help="Of weights and data.")]
Steps = Annotated[int, typer.Option(min=1, help="Length T.")]
Layers = Annotated[int, typer.Option(min=1, help="Layers of the stack.")]
Units = Annotated[int, typer.Option("--hidden-size", min=1, help="Units a layer.")]
DeltaT = Annotated[float, typer.Option(help="UnICORNN's Δt.")]
Alpha = Annotated[float, typer.Option(help="UnICORNN's α.")]
TaskName = Annotated[str, typer.Option(help="What to train on; `chronode tasks` lists all.")]
Epochs = Annotated[int, typer.Option(min=1, help="Passes over the training data.")]
Runs = Annotated[int, typer.Option(min=1, help="Trainings of each kind, with different seeds.")]
Recipe = Annotated[str, typer.Option(help="authors (their published program) or text (the paper's text).")]
Workers = Annotated[int, typer.Option(min=1, help="Processes.")]


def finish(
    command: str,
    found: Any,
    draw: Callable[[Any, Path], Path],
    summary: str,
    output: Path | None,
    as_json: bool,
) -> None:
    """Draws the picture, then prints the numbers or the summary."""
    path = draw(found, output or Path("runs/analyze") / f"{command}.png")
    if as_json:
        results = found if isinstance(found, list) else [found]
        texts = [result.to_json() for result in results]
        print(texts[0] if results is not found else "[" + ",\n".join(texts) + "]")
    else:
        print(summary)
    print(f"plot: {path}", file=sys.stderr if as_json else sys.stdout)


def noise_series(*shape: int, seed: int) -> Any:
    """N(0, 1)."""
    import torch

    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def names(given: str) -> list[str]:
    """What stands between the commas."""
    return [name.strip() for name in given.split(",") if name.strip()]


def numbers(option: str, given: str) -> list[float]:
    """The numbers between the commas."""
    try:
        return [float(value) for value in names(given)]
    except ValueError:
        raise ValueError(f"{option} takes numbers separated by commas, got {given!r}.") from None


def trial_of(task: str, epochs: int, layers: int, units: int, delta_t: float, seed: int, runs: int = 1) -> Trial:
    """What a study trains."""
    from ..analysis.trial import Trial
    from ..training import Settings

    training = Settings(epochs=epochs, learning_rate=1e-2, seed=seed)
    told: dict[str, Any] = {"hidden_size": units, "num_layers": layers, "runs": runs, "training": training}
    return Trial(task, settings={"delta_t": delta_t}, **told)


def scores(found: Comparison) -> str:
    """The scores of a comparison as lines of text."""
    return table(found.kinds, found.values, found.scores, f"test {found.metric} over {found.over}")


def table(rows: Sequence[str], columns: Sequence[Any], values: Any, title: str) -> str:
    """Medians over the last axis as lines of text."""
    import numpy as np

    middle = np.nanmedian(values, axis=-1)
    lines = [f"{title}: " + "  ".join(f"{column!s:>9}" for column in columns)]
    width = len(lines[0].split(":")[0]) + 1
    lines += [f"{row:<{width}} " + "  ".join(f"{x:9.4g}" for x in line) for row, line in zip(rows, middle, strict=True)]
    return "\n".join(lines)


@contextmanager
def progress_bar(command: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on the terminal's error stream, so that --json stays clean."""
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True)) as bars:
        bar = bars.add_task(command, total=None)
        yield lambda done, total: bars.update(bar, completed=done, total=total)
