"""Shared code of the commands of `chronode analyze`: options, lists, and the display of findings."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from ...cli.flags import words
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


# ---- options ------------------------------------------------------------------------------------------------


def models_in(given: str) -> list[str]:
    """Parses --model and checks the names."""
    from ...nn import find_model

    found = words(given)
    if not found:
        raise ValueError("--model is empty; pass names from `chronode models`, separated by commas.")
    for name in found:
        find_model(name)
    return found


def numbers(option: str, given: str) -> list[float]:
    """Parses numbers separated by commas; at least one."""
    try:
        found = [float(value) for value in words(given)]
    except ValueError:
        raise ValueError(f"{option} must be numbers separated by commas, got {given!r}.") from None
    if not found:
        raise ValueError(f"{option} is empty; pass numbers separated by commas.")
    return found


def whole_numbers(option: str, given: str) -> list[int]:
    """Parses whole numbers separated by commas; at least one."""
    found = numbers(option, given)
    if any(value != int(value) for value in found):
        raise ValueError(f"{option} must be whole numbers separated by commas such as 5,10,25, got {given!r}.")
    return [int(value) for value in found]


def noise_series(*shape: int, seed: int) -> Tensor:
    """Returns noise from N(0, 1)."""
    import torch

    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


# ---- output -------------------------------------------------------------------------------------------------


class Piece(NamedTuple):
    """One plot: OUTPUT/name.png and OUTPUT/name.json.

    Attributes:
        name: Name of both files.
        found: A result, or a list of results.
        draw: Function that draws the result to a file.
    """

    name: str
    found: Any
    draw: Callable[[Any, Path], Path]


class Findings(NamedTuple):
    """Output of a command.

    Attributes:
        summary: Text that is printed, unless the numbers are.
        pieces: Numbers and plots.
        notes: Lines that are printed last.
    """

    summary: str | Table
    pieces: list[Piece]
    notes: Sequence[str] = ()


def with_output(command: Callable[..., Findings]) -> Callable[..., None]:
    """Adds the options --output and --json to a command and shows its findings."""

    def shown(output: Output = Path("runs/analyze"), json: Json = False, **given: Any) -> None:
        show(command(**given), output, as_json=json)

    own, added = (inspect.signature(one, eval_str=True).parameters for one in (command, shown))
    shown.__signature__ = inspect.Signature([*own.values(), added["output"], added["json"]])  # pyrefly: ignore
    shown.__doc__ = command.__doc__
    return shown


def show(findings: Findings, output: Path, *, as_json: bool) -> None:
    """Writes the numbers, draws the plots, and prints the numbers or the summary and the paths of the plots."""
    texts = {piece.name: _as_json(piece.found) for piece in findings.pieces}
    drawn = []
    for name, found, draw in findings.pieces:
        with replacing(output / f"{name}.json") as draft:
            draft.write_text(texts[name] + "\n", encoding="utf-8")
        drawn.append(f"plot: {draw(found, output / f'{name}.png')}")
    if as_json:
        inner = ",\n".join(f"{json.dumps(name)}: {text}" for name, text in texts.items())
        print(f"{{{inner}}}" if len(texts) > 1 else texts.popitem()[1])
    elif isinstance(findings.summary, str):
        print(findings.summary)
    else:
        from rich.console import Console

        Console().print(findings.summary)
    print(*drawn, *findings.notes, sep="\n", file=sys.stderr if as_json else sys.stdout)


def _as_json(found: Any) -> str:
    return "[" + ",\n".join(one.to_json() for one in found) + "]" if isinstance(found, list) else found.to_json()


def table(rows: Sequence[str], columns: Sequence[Any], values: Any, title: str) -> str:
    """Formats the medians over the last axis as lines of text."""
    import numpy as np

    middle = np.nanmedian(values, axis=-1)
    lines = [f"{title}: " + "  ".join(f"{column!s:>9}" for column in columns)]
    width = len(lines[0].split(":")[0]) + 1
    lines += [f"{row:<{width}} " + "  ".join(f"{x:9.4g}" for x in line) for row, line in zip(rows, middle, strict=True)]
    return "\n".join(lines)


@contextmanager
def progress_bar(command: str) -> Iterator[Callable[[int, int], None]]:
    """Shows a progress bar on standard error, so that --json stays clean."""
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True)) as bars:
        bar = bars.add_task(command, total=None)
        yield lambda done, total: bars.update(bar, completed=done, total=total)
