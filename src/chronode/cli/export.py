"""`chronode export`: a trained model for a device, another runtime or another language."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .flags import PanelCommand
from .plugins import with_plugins
from .predict import RunFolder


def attach(app: typer.Typer) -> None:
    """Adds the command to `app`."""
    app.command(cls=PanelCommand)(with_plugins(export))


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
    verify: Annotated[
        str | None,
        typer.Option(
            help="File to run through the export and through chronode; the largest difference is printed. "
            "[example: new.csv]",
            rich_help_panel="Data",
        ),
    ] = None,
) -> None:
    """Export a trained model as files that need no Python.

    The whole path of a raw observation is exported: scaling, missing values, gaps, the network, class names.

    Example: chronode export runs/vitals-1 -o device --weights int8

    Example: chronode export runs/vitals-1 --format onnx -o onnx --verify new.csv
    """
    from .._checks import one_of
    from .._files import check_new_folder
    from ..export import export as write
    from ..export._export import FORMATS, MATH, WEIGHTS
    from ..runs import Trained

    one_of("--format", format, FORMATS)
    one_of("--weights", weights, WEIGHTS)
    one_of("--math", math, MATH)
    if format != "c" and (weights, math) != ("float32", "library"):
        option = "--weights" if weights != "float32" else "--math"
        raise ValueError(f"{option} goes with --format c.")
    usual = run.with_name(f"{run.stem}-{format}") if run.is_file() else run / f"export-{format}"
    folder = check_new_folder(output or usual, "--output", force=force)
    trained = Trained.load(run)
    done = write(trained, folder, force=True, format=format, weights=weights, math=math)
    print(f"{done.folder}: {', '.join(done.files)}")
    for name, text in done.costs.items():
        print(f"  {name + ':':16}{text}")
    if verify is not None:
        print(done.verify(trained, verify).text())
