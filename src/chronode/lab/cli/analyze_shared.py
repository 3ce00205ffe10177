"""What the commands of `chronode analyze` share: options, lists, and the display of findings."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from ...cli.flags import words
from ...cli.options import with_plugins
from ...storage import replacing

if TYPE_CHECKING:
    from torch import Tensor

    from ...cli.tables import Table

Output = Annotated[Path, typer.Option(help="Folder for the plots and the numbers (JSON).")]
Json = Annotated[bool, typer.Option("--json", help="Print the numbers as JSON instead of a summary.")]
Seed = Annotated[int, typer.Option(min=0, help="Random seed of weights and data.")]
Steps = Annotated[int, typer.Option(min=1, help="Sequence length T.")]
Models = Annotated[str, typer.Option("--model", help="Models, separated by commas.")]
Layers = Annotated[int, typer.Option(min=1, help="Number of layers.")]
Hidden = Annotated[int, typer.Option(min=1, help="Units H per layer.")]
DeltaT = Annotated[float, typer.Option(help="Δt of UnICORNN.")]
DeltaTs = Annotated[str, typer.Option("--delta-t", help="Values of Δt, separated by commas.")]

analyze_app = typer.Typer(
    help="Analyze models: health, gradients, equilibria, oscillators.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


class Findings(NamedTuple):
    """Output of a command.

    Attributes:
        summary: Text that is printed, unless the numbers are.
        results: Result, or list of results, that is drawn to OUTPUT/COMMAND.png; or several of them by name.
        kind: Kind of plot, as for `chronode.lab.analysis.plot`.
        notes: Lines that are printed last.
    """

    summary: str | Table
    results: Any
    kind: str | None = None
    notes: Sequence[str] = ()


def command(analysis: Callable[..., Findings]) -> Callable[..., Findings]:
    """Adds an analysis as a command, with the options --output, --json and --plugin; it returns what to show."""
    name = analysis.__name__.replace("_", "-")

    def shown(output: Output = Path("runs/analyze"), json: Json = False, **options: Any) -> None:
        show(name, analysis(**options), output, as_json=json)

    first, last = (inspect.signature(function, eval_str=True).parameters for function in (analysis, shown))
    shown.__signature__ = inspect.Signature([*first.values(), last["output"], last["json"]])  # pyrefly: ignore
    shown.__doc__ = analysis.__doc__
    analyze_app.command(name)(with_plugins(shown))
    return analysis


def show(name: str, findings: Findings, output: Path, *, as_json: bool) -> None:
    """Writes the numbers, draws the plots, and prints the numbers or the summary and the paths of the plots."""
    from ..analysis import plot

    results = findings.results if isinstance(findings.results, Mapping) else {name: findings.results}
    texts, drawn = {}, []
    for stem, result in results.items():
        several = isinstance(result, list)
        texts[stem] = "[" + ",\n".join(one.to_json() for one in result) + "]" if several else result.to_json()
        with replacing(output / f"{stem}.json") as draft:
            draft.write_text(texts[stem] + "\n", encoding="utf-8")
        drawn.append(f"plot: {plot(result, output / f'{stem}.png', findings.kind)}")
    if as_json:
        inner = ",\n".join(f"{json.dumps(stem)}: {text}" for stem, text in texts.items())
        print(f"{{{inner}}}" if len(texts) > 1 else texts.popitem()[1])
    elif isinstance(findings.summary, str):
        print(findings.summary)
    else:
        from rich.console import Console

        Console().print(findings.summary)
    print(*drawn, *findings.notes, sep="\n", file=sys.stderr if as_json else sys.stdout)


def models_in(text: str) -> list[str]:
    """Parses --model and checks the names."""
    from ...nn import find_model

    names = words(text)
    if not names:
        raise ValueError("--model is empty; pass names from `chronode models`, separated by commas.")
    for name in names:
        find_model(name)
    return names


def numbers(option: str, text: str) -> list[float]:
    """Parses numbers separated by commas; at least one."""
    try:
        values = [float(value) for value in words(text)]
    except ValueError:
        raise ValueError(f"{option} must be numbers separated by commas, got {text!r}.") from None
    if not values:
        raise ValueError(f"{option} is empty; pass numbers separated by commas.")
    return values


def whole_numbers(option: str, text: str) -> list[int]:
    """Parses whole numbers separated by commas; at least one."""
    values = numbers(option, text)
    if any(value != int(value) for value in values):
        raise ValueError(f"{option} must be whole numbers separated by commas such as 5,10,25, got {text!r}.")
    return [int(value) for value in values]


def noise_series(*shape: int, seed: int) -> Tensor:
    """Returns noise from N(0, 1)."""
    import torch

    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def table(rows: Sequence[str], columns: Sequence[Any], values: Any, title: str) -> str:
    """Formats the medians over the last axis as lines of text."""
    import numpy as np

    middle = np.nanmedian(values, axis=-1)
    lines = [f"{title}: " + "  ".join(f"{column!s:>9}" for column in columns)]
    width = len(lines[0].split(":")[0]) + 1
    lines += [f"{row:<{width}} " + "  ".join(f"{x:9.4g}" for x in line) for row, line in zip(rows, middle, strict=True)]
    return "\n".join(lines)


@contextmanager
def progress_bar(name: str) -> Iterator[Callable[[int, int], None]]:
    """Shows a progress bar on standard error, so that --json stays clean."""
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True)) as bars:
        bar = bars.add_task(name, total=None)
        yield lambda done, total: bars.update(bar, completed=done, total=total)
