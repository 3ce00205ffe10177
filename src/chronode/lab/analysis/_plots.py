"""Plots of analyses: `plot` draws any result; the modules `_plots_*` know how."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ...report.pages import COLORS
from ...settings import one_of
from ...storage import Result, replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Draw = TypeVar("Draw", bound=Callable[..., Any])

_drawings: dict[type, dict[str, Callable[..., Any]]] = {}
"""Class of results -> kind of plot, "" for the usual one -> the function that draws it."""


def plot(result: Result | Sequence[Result], path: str | Path, kind: str | None = None, **options: Any) -> Path:
    """Draws a result of an analysis, or several of the same analysis in one plot, as a PNG file.

    Args:
        result: The result, or a list of results (for those of one model each, such as `gradient_flow`).
        path: The PNG file.
        kind: Kind of plot where there are several: "singular values" of a `GradientFlow`, "explained" (variance) of
            trajectories, "depth" of a `Sweep`; None for the usual one.
        options: `components` of "explained", `neurons` of `TimeConstants`: how many are drawn.

    Example:
        >>> import tempfile
        >>> from chronode.lab.analysis import noise_flows
        >>> flows = noise_flows(["rnn", "mmrnn"], steps=20, hidden_size=4)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     plot(flows, f"{folder}/gradient_flow.png").name
        'gradient_flow.png'
    """
    for module in ("_plots_gradients", "_plots_oscillators"):  # importing them fills the table
        import_module(f"{__package__}.{module}")
    results = list(result) if isinstance(result, Sequence) else [result]
    kinds = _drawings.get(type(results[0]), {}) if results else {}
    if not kinds:
        raise TypeError(f"plot draws results of analyses, got {type(results[0] if results else result).__name__}.")
    draw = kinds["" if kind is None else one_of("kind", kind, [name for name in kinds if name])]
    path = Path(path)
    figure = draw(results, **options)
    with replacing(path) as draft:
        figure.savefig(draft, format="png")
    return path


def draws(*results: type, kind: str = "", many: bool = False) -> Callable[[Draw], Draw]:
    """Registers the decorated function as a plot of results of these classes; with `many` it takes a list of them."""

    def register(draw: Draw) -> Draw:
        def drawn(group: list[Any], **options: Any) -> Figure:
            if not many and len(group) > 1:
                raise ValueError(f"results of {type(group[0]).__name__} are drawn one by one, got {len(group)}.")
            return draw(group if many else group[0], **options)

        for result in results:
            _drawings.setdefault(result, {})[kind] = drawn
        return draw

    return register


def panels(columns: int = 1, *, rows: int = 1, width: float = 6.4, height: float = 4.0) -> tuple[Figure, Any]:
    """Creates a figure with a grid of axes, `axes[row, column]`."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=100, layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False)


def color(index: int) -> str:
    """Returns the color of the index-th item."""
    return COLORS[index % len(COLORS)]


def finish(axes: Any, xlabel: str, ylabel: str, title: str, *, legend: bool = False) -> None:
    """Adds labels, a title and a light grid."""
    axes.set_xlabel(xlabel)
    axes.set_ylabel(ylabel)
    axes.set_title(title, fontsize=11)
    axes.grid(alpha=0.3)
    if legend:
        axes.legend(frameon=False, fontsize=9)
