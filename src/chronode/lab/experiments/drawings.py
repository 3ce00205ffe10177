"""The figures of the papers by name, each drawn by one call: `drawings()["mmrnn/figure1"].draw(folder, "smoke")`.

Budgets: "smoke" checks that it works (seconds), "laptop" takes minutes on two cores with data included in the package,
"paper" has the sizes and data sets of the paper (hours to days).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from ...settings import near, one_of
from ...training import Settings, assemble
from ..analysis import StudySetup
from ..papers import setting_for

Choice = TypeVar("Choice")
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
    from . import figures_equilibrium, figures_ltc, figures_mmrnn, figures_unicornn  # noqa: F401 - importing adds them

    return dict(_drawings)


def find_drawing(name: str) -> Drawing:
    """Returns the drawing of the given name; otherwise raises a ValueError that lists similar names.

    Example:
        >>> find_drawing("irnn/figure2").name
        'irnn/figure2'
    """
    known = drawings()
    if name not in known:
        raise ValueError(
            f"there is no drawing {name!r}.{near(name, known)} `chronode reproduce --list` lists all drawings."
        )
    return known[name]


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

    def add(self, found: Any, plot: Callable[[Any, Path], Path], part: str = "") -> None:
        """Writes the numbers and the plot; `part` distinguishes the plots of one figure."""
        stem = f"{self.stem}{'-' if part else ''}{part}"
        for index, one in enumerate(found if isinstance(found, list) else [found]):
            one.to_json(f"{stem}{f'-{index + 1}' if isinstance(found, list) else ''}.json")
        self.drawn.append(plot(found, Path(f"{stem}.png")))


def drawing(name: str, what: str) -> Callable[[Callable[[Canvas], None]], Callable[[Canvas], None]]:
    """Registers the decorated function as a drawing."""

    def added(paint: Callable[[Canvas], None]) -> Callable[[Canvas], None]:
        def draw(folder: Path, budget: str = "laptop") -> list[Path]:
            canvas = Canvas(name, folder, budget)
            paint(canvas)
            return canvas.drawn

        _drawings[name] = Drawing(name, what, draw)
        return paint

    return added


def trial_for(canvas: Canvas, task: str, layers: int = 2, runs: int = 10) -> StudySetup:
    """Returns the trial of a UnICORNN study: the task of the paper at the paper budget, otherwise small digits."""
    small = Settings(epochs=canvas.pick(1, 10, 10), learning_rate=1e-2)
    if canvas.budget != "paper":
        return StudySetup(hidden_size=canvas.pick(4, 32, 32), num_layers=layers, training=small)
    paper = setting_for("unicornn", task, "unicornn")
    assert paper is not None
    own = dict(paper.network)
    sizes = {"hidden_size": own.pop("hidden_size", 128), "num_layers": own.pop("num_layers", layers)}
    return StudySetup(task, settings=own, training=Settings.from_dict(paper.training), runs=runs, **sizes)


def trained_equilibrium(canvas: Canvas, name: str) -> tuple[Any, Any]:
    """Returns a trained iRNN or ERNN with a full U and a batch of its test series (HAR-2 at the paper budget)."""
    task = canvas.pick("digits-seq", "digits-seq", "har-2")
    settings = replace(Settings(learning_rate=1e-3), epochs=canvas.pick(1, 5, 100))
    sizes = {"hidden_size": canvas.pick(4, 32, 80), "recurrent": "full"}
    assembly = assemble(task, name, settings, network=sizes)
    return assembly.fit().model.layer, assembly.parts.test[: canvas.pick(2, 32, 256)].batch()
