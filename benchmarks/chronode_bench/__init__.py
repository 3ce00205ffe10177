"""`chronode bench`: the benchmarks of chronode. They are part of its repository, not of the installed package."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from chronode.cli.options import with_plugins


@with_plugins
def bench(
    all_models: Annotated[
        bool, typer.Option("--all", help="Compare every model with torch.nn.LSTM at T256 B64 H64.")
    ] = False,
    scaling: Annotated[bool, typer.Option("--scaling", help="Show the cost at 1x, 2x and 4x T and B.")] = False,
    memory: Annotated[bool, typer.Option("--memory", help="Measure peak memory too.")] = False,
    step: Annotated[
        bool, typer.Option("--step", help="Compare single steps (B1 H64) with torch.nn.LSTMCell instead.")
    ] = False,
    compiled: Annotated[
        bool, typer.Option("--compiled", help="Compare compiled steps with the loop and torch.nn.LSTM instead.")
    ] = False,
    scan: Annotated[
        bool,
        typer.Option("--scan", help="Compare linear cells with a scan in torch and with the loop instead."),
    ] = False,
    stream: Annotated[
        bool, typer.Option("--stream", help="Measure the observations per minute of a stream of 100,000 ids instead.")
    ] = False,
    device: Annotated[str, typer.Option(help="Device: cpu or cuda.")] = "cpu",
    case: Annotated[str, typer.Option(help="Only run cases whose name contains this. [example: mmrnn]")] = "",
    repeats: Annotated[int, typer.Option(min=1, help="Number of rounds; the median is reported.")] = 7,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    output: Annotated[Path | None, typer.Option(help="Also write OUTPUT.json and OUTPUT.md. [example: bench]")] = None,
) -> None:
    """Time one training batch of the models on this machine.

    Compares it with the plain loop, the LSTM of torch, ncps and the limit of the machine.

    Example: chronode bench --case mmrnn --repeats 3
    """
    from .reports import run_bench, run_compiled, run_scans, run_steps, run_stream

    if stream:
        run_stream(repeats=repeats, as_json=json, output=output)
    elif scan:
        run_scans(pick=case, repeats=repeats, as_json=json, output=output)
    elif compiled:
        run_compiled(pick=case, repeats=repeats, as_json=json, output=output)
    elif step:
        run_steps(pick=case, repeats=repeats, as_json=json, output=output)
    else:
        run_bench(
            all_models=all_models,
            scaling=scaling,
            memory=memory,
            device=device,
            pick=case,
            repeats=repeats,
            as_json=json,
            output=output,
        )
