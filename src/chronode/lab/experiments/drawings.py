"""The figures of the papers by name, each drawn by one call: `drawings()["mmrnn/figure1"].draw(folder, "smoke")`.

Budgets: "smoke" checks that it works (seconds), "laptop" takes minutes on two cores with data included in the package,
"paper" has the sizes and data sets of the paper (hours to days).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from ...settings import near, one_of
from ..analysis import plot

Choice = TypeVar("Choice")
Paint = TypeVar("Paint", bound=Callable[..., None])
BUDGETS = ("smoke", "laptop", "paper")


@dataclass(frozen=True)
class Drawing:
    """Figure or analysis table of a paper.

    Attributes:
        name: Name, such as "mmrnn/figure1".
        what: One-line description.
        draw: Called with a folder and a budget; writes PNG files with their numbers (JSON) next to them, and returns
            the PNG files.
    """

    name: str
    what: str
    draw: Callable[[Path, str], list[Path]]


def drawings() -> dict[str, Drawing]:
    """Returns all drawings by name.

    Example:
        >>> drawings()["ltc/table2"].what
        'computational depth of Neural ODE, CT-RNN and LTC by activation'
    """
    from . import figures  # noqa: F401 - importing adds them

    return dict(sorted(_drawings.items()))


def find_drawing(name: str) -> Drawing:
    """Returns the drawing of the given name; otherwise raises a ValueError that lists similar names.

    Example:
        >>> find_drawing("irnn/figure2").name
        'irnn/figure2'
    """
    registered = drawings()
    if name not in registered:
        raise ValueError(
            f"there is no drawing {name!r}.{near(name, registered)} `chronode reproduce --list` lists all drawings."
        )
    return registered[name]


# ---- for the modules of figures -----------------------------------------------------------------------------

_drawings: dict[str, Drawing] = {}


class Canvas:
    """Output folder and budget of a drawing."""

    def __init__(self, name: str, folder: Path, budget: str):
        self.budget = one_of("budget", budget, BUDGETS)
        self.stem = Path(folder) / f"{name.replace('/', '-')}-{budget}"
        self.drawn: list[Path] = []

    def pick(self, smoke: Choice, laptop: Choice, paper: Choice) -> Choice:
        """Returns the choice for the budget."""
        return dict(zip(BUDGETS, (smoke, laptop, paper), strict=True))[self.budget]

    def add(self, result: Any, part: str = "", kind: str | None = None) -> None:
        """Writes the numbers and the plot of a result, or of a list; `part` distinguishes the plots of one figure."""
        stem = f"{self.stem}{'-' if part else ''}{part}"
        for index, one in enumerate(result if isinstance(result, list) else [result]):
            one.to_json(f"{stem}{f'-{index + 1}' if isinstance(result, list) else ''}.json")
        self.drawn.append(plot(result, f"{stem}.png", kind))


def drawing(name: str, what: str, *models: str) -> Callable[[Paint], Paint]:
    """Registers the decorated function as a drawing; it is called with the canvas and `models`."""

    def register(paint: Paint) -> Paint:
        def draw(folder: Path, budget: str = "laptop") -> list[Path]:
            canvas = Canvas(name, folder, budget)
            paint(canvas, *models)
            return canvas.drawn

        _drawings[name] = Drawing(name, what, draw)
        return paint

    return register
