"""Shared parts of the commands of `chronode analyze`: options, lists, and the display of findings."""

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
Names = tuple[str, ...]
Integers = tuple[int, ...]
Floats = tuple[float, ...]

OPTIONS: dict[str, tuple[str, int | None]] = {
    "seed": ("Random seed of weights and data.", 0),
    "steps": ("Sequence length T.", 1),
    "model": ("Models, separated by commas.", None),
    "layers": ("Number of layers.", 1),
    "hidden": ("Units H per layer.", 1),
    "delta_t": ("Δt of UnICORNN.", None),
    "lengths": ("Sequence lengths, separated by commas.", None),
    "setting": ("'paper' (as in mmRNN Table 2) or 'default' (as created).", None),
    "weight_scale": ("Additional factor for all weight matrices.", None),
    "seeds": ("Number of random initializations.", 1),
    "length": ("Length of the adding problem.", 2),
    "every": ("Steps between records.", 1),
    "eta": ("Step size η.", None),
    "activation": ("tanh, sigmoid, relu or hardtanh.", None),
    "width": ("Units per layer.", 2),
    "recipe": ("authors (their published code) or text (the text of the paper).", None),
    "registry": ("Use the models of `chronode models` for all names.", None),
    "explained": ("Draw the explained variance instead of the trajectories.", None),
    "over": ("width, depth, sigma_w, sigma_b, activation, solver or recipe.", None),
    "values": ("Values, separated by commas.", None),
    "tries": ("Number of random networks per model and value.", 1),
    "workers": ("Processes.", 1),
    "form": ("synaptic or dense.", None),
    "alpha": ("α of UnICORNN.", None),
    "noise": ("Noise as input instead of a constant.", None),
    "at": ("Step k whose contribution is measured.", 2),
    "task": ("Task to train on; `chronode tasks` lists all.", None),
    "epochs": ("Number of passes over the training data.", 1),
    "runs": ("Number of runs of each kind, with different seeds.", 1),
    "entries": ("Numbers of steps to keep, separated by commas.", None),
}
"""Help text and least value of every option; tuples are given as values separated by commas."""

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


Analysis = Callable[..., Findings]


def command(**help_texts: str | tuple[str, int]) -> Callable[[Analysis], Analysis]:
    """Adds the decorated analysis as a command: its parameters are the options, then --output, --json and --plugin.

    Args:
        help_texts: Help texts of options (perhaps with their least value) that differ from `OPTIONS`.
    """

    def register(analysis: Analysis) -> Analysis:
        name = analysis.__name__.replace("_", "-")
        defaults = {key: one.default for key, one in inspect.signature(analysis).parameters.items()}

        def shown(output: Output = Path("runs/analyze"), json: Json = False, **given: Any) -> None:
            options = {key: _parsed(key, value, defaults[key]) for key, value in given.items()}
            show(name, analysis(**options), output, as_json=json)

        last = inspect.signature(shown, eval_str=True).parameters
        options = [_option(key, default, help_texts.get(key)) for key, default in defaults.items()]
        shown.__signature__ = inspect.Signature([*options, last["output"], last["json"]])  # pyrefly: ignore
        shown.__doc__ = analysis.__doc__
        analyze_app.command(name)(with_plugins(shown))
        return analysis

    return register


def _option(name: str, default: Any, changed: str | tuple[str, int] | None) -> inspect.Parameter:
    """Returns the option of a parameter, of the type of its default."""
    text, least = OPTIONS[name]
    if changed is not None:
        text, least = (changed, least) if isinstance(changed, str) else changed
    if isinstance(default, tuple):
        default = ",".join(value if isinstance(value, str) else f"{value:g}" for value in default)
    least = least if isinstance(default, int) and not isinstance(default, bool) else None
    kind: Any = type(default)
    annotation = Annotated[kind, typer.Option(min=least, help=text)]
    return inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=annotation)


def _parsed(name: str, value: Any, default: Any) -> Any:
    """Parses a list of names or numbers."""
    if not isinstance(default, tuple):
        return value
    option = f"--{name.replace('_', '-')}"
    if isinstance(default[0], str):
        return models_in(value)
    return (whole_numbers if isinstance(default[0], int) else numbers)(option, value)


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
