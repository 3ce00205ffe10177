"""`chronode pack`: a trained model in one file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ..storage import check_new, replacing
from .options import RunFolder, with_plugins


def attach(app: typer.Typer) -> None:
    """Adds the command to `app`."""
    app.command()(with_plugins(pack))


def pack(
    run: RunFolder,
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write.")] = Path("model.chronode"),
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing output files.")] = False,
    card: Annotated[
        Path | None, typer.Option("--card", help="Also write the model card to this file. [example: card.md]")
    ] = None,
) -> None:
    """Pack a trained model into one file.

    It contains weights, configuration, scaling, class names and a model card.

    The file can be used in place of the run folder. It contains no code and no data.

    Example: chronode pack runs/vitals-1 -o vitals.chronode
    """
    from ..runs import pack as pack_run
    from ..runs import read_card
    from .outcome import say

    check_new(output, "--output", force=force)
    if card is not None:
        check_new(card, "--card", force=force)
    file = pack_run(run, output)
    if card is not None:
        with replacing(card) as draft:
            draft.write_text(read_card(file), encoding="utf-8")
    say(Console(stderr=True), f"{file}: {file.stat().st_size:,} bytes")
