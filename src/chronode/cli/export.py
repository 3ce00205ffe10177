"""`chronode export` and `pack`: a trained model as files that need no Python, or in one file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ..storage import check_new, replacing
from .flags import PanelCommand
from .options import RunFolder, with_plugins


def attach(app: typer.Typer) -> None:
    """Adds the commands to `app`."""
    app.command(cls=PanelCommand)(with_plugins(export))
    app.command()(with_plugins(pack))


def export(
    run: RunFolder,
    format: Annotated[
        str,
        typer.Option(
            help="c (C99), onnx or pt2 (torch.export). [default: c; example: onnx]",
            show_default=False,
            rich_help_panel="Output",
        ),
    ] = "c",
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Folder to write. [default: export-FORMAT in the run folder; example: device]",
            show_default=False,
            rich_help_panel="Output",
        ),
    ] = None,
    force: Annotated[
        bool,
        typer.Option("--force", help="Overwrite files in the output folder.", rich_help_panel="Output"),
    ] = False,
    weights: Annotated[
        str,
        typer.Option(
            help="float32, or for C int8: 8 bits and a scale per row. [default: float32; example: int8]",
            show_default=False,
            rich_help_panel="Model",
        ),
    ] = "float32",
    math: Annotated[
        str,
        typer.Option(
            help="For C: library calls math.h, builtin needs no library. [default: library; example: builtin]",
            show_default=False,
            rich_help_panel="Model",
        ),
    ] = "library",
    name: Annotated[
        str,
        typer.Option(
            help="For C: beginning of all symbols, macros and file names, so that several models can be linked into "
            "one program. [default: chronode_model; example: pulse]",
            show_default=False,
            rich_help_panel="Model",
        ),
    ] = "chronode_model",
    package: Annotated[
        str,
        typer.Option(
            help="For C: a library of arduino, esp-idf, platformio or zephyr, with an example that reads a sensor. "
            "[example: arduino]",
            rich_help_panel="Output",
        ),
    ] = "",
    opset: Annotated[
        int,
        typer.Option(
            help="For ONNX: version of the operator set, 18 to 26. [default: 18; example: 21]",
            show_default=False,
            rich_help_panel="Model",
        ),
    ] = 18,
    series: Annotated[
        str | None,
        typer.Option(
            help="Id of the series whose model is exported, for a forecast with maps of each series' own. "
            "[example: sensor-3]",
            rich_help_panel="Model",
        ),
    ] = None,
    verify: Annotated[
        str | None,
        typer.Option(
            help="File to run through the export and through chronode; the largest difference is printed, and for "
            "files with targets the metrics of both. [example: new.csv]",
            rich_help_panel="Data",
        ),
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(
            help="With --verify: largest allowed difference; beyond it, the exit code is 1. [example: 1e-5]",
            rich_help_panel="Data",
        ),
    ] = None,
) -> None:
    """Export a trained model as files that need no Python.

    The whole path of a raw observation is exported: scaling, missing values, gaps, the network, class names.

    Example: chronode export runs/vitals-1 -o device --weights int8

    Example: chronode export runs/vitals-1 --format onnx -o onnx --verify new.csv --tolerance 1e-5
    """
    from ..export import check_options
    from ..export import export as write
    from ..runs import load
    from ..settings import number
    from ..storage import check_new_folder

    options = {"format": format, "weights": weights, "math": math, "name": name, "package": package, "opset": opset}
    check_options("--", **options)
    if tolerance is not None:
        number("--tolerance", tolerance, at_least=0)
        if verify is None:
            raise ValueError("--tolerance requires --verify FILE.")
    usual = run.with_name(f"{run.stem}-{format}") if run.is_file() else run / f"export-{format}"
    folder = check_new_folder(output or usual, "--output", force=force)
    trained = load(run)
    trained = trained if series is None else trained.of_series(series)
    done = write(trained, folder, force=True, **options)
    print(f"{done.folder}: {', '.join(done.files)}")
    for row, text in done.costs.items():
        print(f"  {row + ':':16}{text}")
    if verify is None:
        return
    comparison = done.verify(trained, verify)
    print(comparison.text())
    if tolerance is not None and not comparison.difference <= tolerance:
        print(f"the largest difference is beyond --tolerance {tolerance:g}.", file=sys.stderr)
        raise typer.Exit(1)


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
