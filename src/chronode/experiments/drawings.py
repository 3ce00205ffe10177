"""The papers' figures by name, each drawn by one call: `drawings()["mmrnn/figure1"].draw(folder, "smoke")`.

Budgets: "smoke" shows that it works (seconds), "laptop" is what two cores do in minutes on data that come with the
package, "paper" has the paper's sizes and data sets (hours to days).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from .._checks import near, one_of
from ..analysis import Trial
from ..papers import setting_for
from ..training import Settings
from ..training._assembly import assemble
from .recipe import BUDGETS

Choice = TypeVar("Choice")


@dataclass(frozen=True)
class Drawing:
    """A figure or an analysis table of a paper.

    Attributes:
        name: "mmrnn/figure1".
        what: one line.
        draw: called with a folder and a budget; writes PNG files with their numbers (JSON) beside them, and gives the
            PNG files.
    """

    name: str
    what: str
    draw: Callable[[Path, str], list[Path]]


def drawings() -> dict[str, Drawing]:
    """All drawings by name.

    Example:
        >>> drawings()["ltc/table2"].what
        'computational depth of Neural ODE, CT-RNN and LTC by activation'
    """
    from . import figures_equilibrium, figures_ltc, figures_mmrnn, figures_unicornn  # noqa: F401 - importing adds them

    return dict(_drawings)


def find_drawing(name: str) -> Drawing:
    """The drawing of that name; a ValueError that lists the near ones if there is none.

    Example:
        >>> find_drawing("irnn/figure2").name
        'irnn/figure2'
    """
    known = drawings()
    if name not in known:
        raise ValueError(f"there is no drawing {name!r}.{near(name, known)} `chronode reproduce --list` lists all.")
    return known[name]


# ---- for the files that add them ----------------------------------------------------------------------------

_drawings: dict[str, Drawing] = {}


class Canvas:
    """Where a drawing goes, and how much may be spent on it."""

    def __init__(self, name: str, folder: Path, budget: str):
        self.budget = one_of("budget", budget, BUDGETS)
        self.stem = Path(folder) / f"{name.replace('/', '-')}-{budget}"
        self.drawn: list[Path] = []

    def pick(self, smoke: Choice, laptop: Choice, paper: Choice) -> Choice:
        """What the budget allows."""
        return dict(zip(BUDGETS, (smoke, laptop, paper), strict=True))[self.budget]

    def add(self, found: Any, plot: Callable[[Any, Path], Path], part: str = "") -> None:
        """Writes the numbers and the picture; `part` tells the pictures of one figure apart."""
        stem = f"{self.stem}{'-' if part else ''}{part}"
        for index, one in enumerate(found if isinstance(found, list) else [found]):
            one.to_json(f"{stem}{f'-{index + 1}' if isinstance(found, list) else ''}.json")
        self.drawn.append(plot(found, Path(f"{stem}.png")))


def drawing(name: str, what: str) -> Callable[[Callable[[Canvas], None]], Callable[[Canvas], None]]:
    """Adds the decorated function as a drawing."""

    def added(paint: Callable[[Canvas], None]) -> Callable[[Canvas], None]:
        def draw(folder: Path, budget: str = "laptop") -> list[Path]:
            canvas = Canvas(name, folder, budget)
            paint(canvas)
            return canvas.drawn

        _drawings[name] = Drawing(name, what, draw)
        return paint

    return added


def trial_for(canvas: Canvas, task: str, layers: int = 2, runs: int = 10) -> Trial:
    """What a study of UnICORNN trains: the paper's task at the paper's budget, else small digits."""
    small = Settings(epochs=canvas.pick(1, 10, 10), learning_rate=1e-2)
    if canvas.budget != "paper":
        return Trial(hidden_size=canvas.pick(4, 32, 32), num_layers=layers, training=small)
    paper = setting_for("unicornn", task, "unicornn")
    assert paper is not None
    own = dict(paper.network)
    sizes = {"hidden_size": own.pop("hidden_size", 128), "num_layers": own.pop("num_layers", layers)}
    return Trial(task, settings=own, training=Settings.from_dict(paper.training), runs=runs, **sizes)


def trained_equilibrium(canvas: Canvas, name: str) -> tuple[Any, Any]:
    """An iRNN or ERNN with a full U after training, and a batch of its test series: HAR-2 at the paper's budget."""
    task = canvas.pick("digits-seq", "digits-seq", "har-2")
    settings = replace(Settings(learning_rate=1e-3), epochs=canvas.pick(1, 5, 100))
    sizes = {"hidden_size": canvas.pick(4, 32, 80), "recurrent": "full"}
    assembly = assemble(task, name, settings, network=sizes)
    return assembly.fit().model.layer, assembly.parts.test[: canvas.pick(2, 32, 256)].batch()
