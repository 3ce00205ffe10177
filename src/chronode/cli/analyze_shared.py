"""What the commands of `chronode analyze` share: options, how they read lists, how their findings are shown."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from .._files import replacing
from .flags import words

if TYPE_CHECKING:
    from rich.table import Table
    from torch import Tensor

Output = Annotated[Path, typer.Option(help="Folder for the pictures and the numbers (JSON).")]
Json = Annotated[bool, typer.Option("--json", help="Print the numbers as JSON instead of a summary.")]
Seed = Annotated[int, typer.Option(min=0, help="Of weights and data.")]
Steps = Annotated[int, typer.Option(min=1, help="Length T.")]
Models = Annotated[str, typer.Option("--model", help="Models, separated by commas.")]
Layers = Annotated[int, typer.Option(min=1, help="Layers of the stack.")]
Hidden = Annotated[int, typer.Option(min=1, help="Units H of a layer.")]
DeltaT = Annotated[float, typer.Option(help="UnICORNN's Δt.")]
DeltaTs = Annotated[str, typer.Option("--delta-t", help="Values of Δt, separated by commas.")]


# ---- what is asked ------------------------------------------------------------------------------------------


def models_in(given: str) -> list[str]:
    """The models of --model, each of which the registry knows."""
    from ..nn._registry import find

    found = words(given)
    if not found:
        raise ValueError("--model is empty; give names as in `chronode models`, separated by commas.")
    for name in found:
        find(name)
    return found


def numbers(option: str, given: str) -> list[float]:
    """The numbers between the commas; at least one."""
    try:
        found = [float(value) for value in words(given)]
    except ValueError:
        raise ValueError(f"{option} takes numbers separated by commas, got {given!r}.") from None
    if not found:
        raise ValueError(f"{option} is empty; give numbers separated by commas.")
    return found


def whole_numbers(option: str, given: str) -> list[int]:
    """The whole numbers between the commas; at least one."""
    found = numbers(option, given)
    if any(value != int(value) for value in found):
        raise ValueError(f"{option} takes whole numbers separated by commas such as 5,10,25, got {given!r}.")
    return [int(value) for value in found]


def noise_series(*shape: int, seed: int) -> Tensor:
    """N(0, 1)."""
    import torch

    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


# ---- what is told -------------------------------------------------------------------------------------------


class Piece(NamedTuple):
    """One picture: OUTPUT/name.png and OUTPUT/name.json.

    Attributes:
        name: of both files.
        found: a result, or a list of them.
        draw: draws it into a file.
    """

    name: str
    found: Any
    draw: Callable[[Any, Path], Path]


class Findings(NamedTuple):
    """What a command gives back to be shown.

    Attributes:
        summary: what is printed, unless the numbers are.
        pieces: the numbers and pictures.
        notes: lines to print last.
    """

    summary: str | Table
    pieces: list[Piece]
    notes: Sequence[str] = ()


def with_output(command: Callable[..., Findings]) -> Callable[..., None]:
    """Gives a command the options --output and --json after its own, and shows what it finds."""

    def shown(output: Output = Path("runs/analyze"), json: Json = False, **given: Any) -> None:
        show(command(**given), output, as_json=json)

    own, added = (inspect.signature(one, eval_str=True).parameters for one in (command, shown))
    shown.__signature__ = inspect.Signature([*own.values(), added["output"], added["json"]])  # pyrefly: ignore
    shown.__doc__ = command.__doc__
    return shown


def show(findings: Findings, output: Path, *, as_json: bool) -> None:
    """Writes the numbers, draws the pictures, prints the numbers or the summary, and says where the pictures are."""
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
