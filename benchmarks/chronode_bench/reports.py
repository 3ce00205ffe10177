"""`chronode bench`: speed comparisons."""

from __future__ import annotations

import json
from pathlib import Path

from rich.console import Console

from chronode.cli.tables import Table
from chronode.nn import models
from chronode.system import check_device

from . import compiled, scans, steps
from . import run as bench


def run_bench(
    *,
    all_models: bool,
    scaling: bool,
    memory: bool,
    device: str,
    pick: str,
    repeats: int,
    as_json: bool,
    output: Path | None,
) -> None:
    """Times the selected cases and prints or writes the result."""
    check_device("--device", device)
    cases = list(bench.CASES)
    only = None
    if all_models:
        cases, only = bench.all_models(list(models())), {"chronode", "lstm"}
    cases = [case for case in cases if pick.lower() in case.name.lower()]
    if not cases:
        raise ValueError(f"--case {pick!r} matches none of: {', '.join(case.name for case in bench.CASES)}.")
    if scaling:
        cases, only = [part for case in cases for part in bench.scaled(case)], {"chronode"}
    console = Console(stderr=True)
    with console.status("bench") as line:
        rows = bench.run_cases(cases, repeats, line.update, only, device)
        used = bench.measure_memory(line.update) if memory else {}
    if output is not None:
        bench.write_json(output.with_suffix(".json"), rows, used)
        bench.write(output.with_suffix(".md"), bench.as_markdown(rows, used) + "\n")
    if as_json:
        print(json.dumps(bench.as_dict(rows, used), indent=2))
    else:
        _print(rows, used)


def run_compiled(*, pick: str, repeats: int, as_json: bool, output: Path | None) -> None:
    """Times compiled steps of the models whose name contains `pick` against the loop or the hand-written kernel."""
    with Console(stderr=True).status("bench") as line:
        cases = compiled.hand_cases(pick)
        figures = compiled.time_models([name for name in models() if pick.lower() in name], repeats, line.update)
        if not figures and not cases:
            raise ValueError(f"--case {pick!r} matches no model that is compiled.")
        line.update("lstm and a custom cell")
        others = [] if pick else [*compiled.time_lstm(repeats), compiled.time_leaky(repeats)]
        hand = compiled.time_hand(cases, repeats, line.update)
    facts = bench.machine()
    machine = f"{facts['cpu']}, {facts['threads']} threads, torch {facts['torch']}, {facts['date']}."
    result = compiled.as_dict(figures, others, hand) | {"machine": facts}
    text = compiled.as_markdown(figures, others, hand, machine)
    if output is not None:
        bench.write(output.with_suffix(".json"), json.dumps(result, indent=2) + "\n")
        bench.write(output.with_suffix(".md"), text + "\n")
    print(json.dumps(result, indent=2) if as_json else text)


def run_scans(*, pick: str, repeats: int, as_json: bool, output: Path | None) -> None:
    """Times linear cells whose name contains `pick`, and prints or writes them."""
    with Console(stderr=True).status("bench") as line:
        times = scans.time_scans(pick, repeats, line.update)
    if not times:
        raise ValueError(f"--case {pick!r} matches none of: {', '.join(sorted({name for name, _ in scans.CELLS}))}.")
    facts = bench.machine()
    text_json = json.dumps({"scans": scans.as_dicts(times), "machine": facts}, indent=2)
    text = scans.as_markdown(times, f"{facts['cpu']}, CPU time of one thread, torch {facts['torch']}, {facts['date']}.")
    if output is not None:
        bench.write(output.with_suffix(".json"), text_json + "\n")
        bench.write(output.with_suffix(".md"), text + "\n")
    print(text_json if as_json else text)


def run_steps(*, pick: str, repeats: int, as_json: bool, output: Path | None) -> None:
    """Times single steps of the models whose name contains `pick`, and prints or writes them."""
    names = [name for name in (models() if pick else steps.MODELS) if pick.lower() in name]
    if not names:
        raise ValueError(f"--case {pick!r} matches no model: `chronode models` lists them.")
    with Console(stderr=True).status("bench") as line:
        timings = steps.time_steps(names, repeats, tell=line.update)
    if output is not None:
        bench.write(output.with_suffix(".json"), json.dumps(steps.as_dicts(timings), indent=2) + "\n")
        bench.write(output.with_suffix(".md"), steps.as_markdown(timings) + "\n")
    if as_json:
        print(json.dumps(steps.as_dicts(timings), indent=2))
    else:
        _print_steps(timings)


def run_stream(*, repeats: int, as_json: bool, output: Path | None) -> None:
    """Times a stream and prints or writes the observations per minute and other costs."""
    from . import stream
    from . import stream_costs as costs

    with Console(stderr=True).status("bench") as line:
        timings = stream.time_stream(repeats, line.update)
        found = costs.measure_costs(stream.bench_model(), line.update)
    facts = bench.machine()
    measured = {"stream": [vars(timing) for timing in timings], "costs": [vars(cost) for cost in found]}
    text_json = json.dumps({**measured, "machine": facts}, indent=2)
    tables = f"{stream.as_markdown(timings)}\n\n{costs.as_markdown(found)}"
    text = f"{tables}\n\n{facts['cpu']}, {facts['threads']} threads, torch {facts['torch']}."
    if output is not None:
        bench.write(output.with_suffix(".json"), text_json + "\n")
        bench.write(output.with_suffix(".md"), text + "\n")
    print(text_json if as_json else text)


def _print_steps(timings: list[steps.StepTiming]) -> None:
    console = Console(highlight=False)
    table = Table("model", title="one step of one sequence, H = 64, median µs (relative to torch.nn.LSTMCell)")
    for title in ("layer.stepper", "layer.step", f"stepper ≤ {steps.MOST:g}x"):
        table.add_column(title, justify="right")
    for timing in timings:
        reached = "[green]reached[/]" if timing.ratio <= steps.MOST else "[red]missed[/]"
        own, plain = (f"{timing.stepper:.1f} ({timing.ratio:.2f}x)", f"{timing.step:.0f} ({timing.step_ratio:.1f}x)")
        table.add_row(timing.model, own, plain, reached if timing.model in steps.MODELS else "")
    console.print(table)
    facts = bench.machine()
    console.print(f"torch.nn.LSTMCell: {timings[0].lstm_cell:.1f} µs; {facts['cpu']}, torch {facts['torch']}")


def _print(rows: list[bench.CaseTimes], memory: dict[str, float]) -> None:
    console = Console(highlight=False)
    titles = {"loop": "plain loop", "lstm": "torch LSTM", "ncps": "ncps", "limit": "matrix limit"}
    shown = [other for other in titles if any(other in row.times for row in rows)]
    table = Table("shape", title="one batch, median ms: forward + backward (forward alone)")
    for title in ("chronode", *(titles[other] for other in shown), "goals"):
        table.add_column(title, justify="right")
    for row in rows:
        cells = [_cell(row, other) for other in shown]
        goals = ("[green]reached[/]" if row.reached() else "[red]missed[/]") if row.case.goals else ""
        ours = row.times["chronode"]
        table.add_row(row.case.name, f"{1e3 * ours.train:.1f} ({1e3 * ours.inference:.1f})", *cells, goals)
    console.print(table)
    for name, mebibytes in memory.items():
        console.print(f"peak memory beyond input and weights, {name}: {mebibytes:.1f} MiB")
    facts = bench.machine()
    console.print(f"{facts['cpu']}, {facts['threads']} threads, torch {facts['torch']}, {facts['kernels']}")


def _cell(row: bench.CaseTimes, other: str) -> str:
    ratio, goal = row.ratio(other), row.case.goals.get(other)
    if ratio is None:
        return ""
    timing = row.times[other]
    wanted = "" if goal is None else f" [{'≤' if other == 'limit' else '≥'} {bench.tell(goal)}]"
    return f"{1e3 * timing.train:.1f} ({1e3 * timing.inference:.1f})\n{bench.tell(ratio)}x" + wanted.replace("[", r"\[")
