"""The figures of the papers by name, each drawn by one call: `drawings()["mmrnn/figure1"].draw(folder, "smoke")`.

mmRNN Table 2 and LTC Table 2 are drawn too. Budgets: "smoke" checks that it works (seconds), "laptop" takes minutes on
two cores with data included in the package, "paper" has the sizes and data sets of the paper (hours to days).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from ...settings import one_of
from ...training import Settings, assemble
from .. import analysis
from ..papers import setting_for
from .recipe import training_of

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


_drawings: dict[str, Drawing] = {}


def drawings() -> dict[str, Drawing]:
    """Returns all drawings by name.

    Example:
        >>> drawings()["ltc/table2"].what
        'computational depth of Neural ODE, CT-RNN and LTC by activation'
    """
    return dict(sorted(_drawings.items()))


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
        self.drawn.append(analysis.plot(result, f"{stem}.png", kind))


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


@drawing("mmrnn/figure1", "gradient flow from step t to the last step: ODE-RNN, RNN-decay, mmRNN")
def _flow(canvas: Canvas) -> None:
    """Uses noise with irregular gaps."""
    canvas.add(analysis.noise_flows(steps=canvas.pick(20, 100, 100), hidden_size=canvas.pick(4, 64, 64)))


@drawing("mmrnn/figure3", "the teaching signal over time, and the loss surface")
def _teaching(canvas: Canvas) -> None:
    """Uses blocks of 31 bits."""
    sizes = {"steps": canvas.pick(6, 31, 31), "hidden_size": canvas.pick(4, 32, 64), "points": canvas.pick(3, 15, 31)}
    signals, surfaces = analysis.teach_bits(**sizes)
    canvas.add(signals, "left")
    canvas.add(surfaces, "right")


@drawing("mmrnn/table2", "gradient norms of ODE-RNN and mmRNN by length, compared with the paper")
def _norms(canvas: Canvas) -> None:
    """Uses the setting fitted to the numbers of the paper; see docs/analysis.md."""
    canvas.add(analysis.gradient_table(hidden_size=canvas.pick(8, 64, 64), seeds=canvas.pick(1, 3, 3)))


def _study(canvas: Canvas, task: str, layers: int = 2, runs: int = 10) -> analysis.StudySetup:
    """Returns the training of a UnICORNN study: the task of the paper at the paper budget, otherwise small digits."""
    small = Settings(epochs=canvas.pick(1, 10, 10), learning_rate=1e-2)
    if canvas.budget != "paper":
        return analysis.StudySetup(hidden_size=canvas.pick(4, 32, 32), num_layers=layers, training=small)
    paper = setting_for("unicornn", task, "unicornn")
    assert paper is not None
    settings = dict(paper.network)
    sizes = {"hidden_size": settings.pop("hidden_size", 128), "num_layers": settings.pop("num_layers", layers)}
    training = training_of({"training": paper.training})
    return analysis.StudySetup(task, settings=settings, training=training, runs=runs, **sizes)


@drawing("unicornn/figure2", "time of forward and backward: UnICORNN, LSTM of torch, SRU, IndRNN")
def _speed(canvas: Canvas) -> None:
    """Times the CPU; the paper measured N = 1000 and 2000 with batches of 128 on a GPU."""
    lengths = canvas.pick((10, 20), (500, 1000, 2000), (1000, 2000))
    sizes = {"batch": canvas.pick(2, 32, 128), "hidden_size": canvas.pick(4, 64, 128)}
    canvas.add(analysis.training_speed(lengths=lengths, repeats=canvas.pick(1, 5, 100), **sizes))


@drawing("unicornn/figure3", "accuracy with only the last, or random, entries of a series")
def _subsampling(canvas: Canvas) -> None:
    """Uses EigenWorms at the paper budget."""
    entries = canvas.pick((4, 8), (8, 16, 32, 64), (1000, 2000, 6000, 12000, 17984))
    canvas.add(analysis.subsampling(_study(canvas, "eigenworms", runs=5), entries=entries))


@drawing("unicornn/figure4", "accuracy over Δt and over α")
def _sensitivity(canvas: Canvas) -> None:
    """Uses noise-padded CIFAR-10 at the paper budget."""
    delta_t = canvas.pick((0.1, 0.3), (0.03, 0.1, 0.3, 1.0), (0.03, 0.063, 0.126, 0.25, 0.5))
    alpha = canvas.pick((1.0,), (0.3, 1.0, 3.0, 10.0), (1.0, 3.0, 6.5, 13.0, 26.0))
    canvas.add(analysis.sensitivity(_study(canvas, "noisy-cifar"), delta_t=delta_t, alpha=alpha))


@drawing("unicornn/figure5", "the time steps that the units learn")
def _time_steps(canvas: Canvas) -> None:
    """Uses permuted MNIST and 3 layers of 256 units at the paper budget."""
    canvas.add(analysis.learned_steps(_study(canvas, "psmnist", layers=3, runs=1)))


@drawing("unicornn/figure6", "plain and residual stacking, and untrained time scales")
def _stacking(canvas: Canvas) -> None:
    """Uses noise-padded CIFAR-10 at the paper budget."""
    canvas.add(analysis.stacking(_study(canvas, "noisy-cifar"), layers=canvas.pick((3,), (3, 4, 5, 6), (3, 4, 5, 6))))


@drawing("unicornn/figure7", "the norms of the hidden weights during training")
def _weight_norms(canvas: Canvas) -> None:
    """Uses noise-padded CIFAR-10 and 3 layers at the paper budget."""
    canvas.add(analysis.weight_norms(_study(canvas, "noisy-cifar", layers=3)))


def _sweep(canvas: Canvas, part: str, over: str, values: Any, activation: str = "tanh") -> None:
    setting = analysis.Setting(activation, width=canvas.pick(6, 100, 100))
    canvas.add(analysis.sweep(over, values, setting=setting, tries=canvas.pick(1, 5, 100)), part)


@drawing("ltc/figure1", "trajectories of a circle from layer to layer")
def _trajectories(canvas: Canvas) -> None:
    """Draws the three layers of one LTC."""
    path = analysis.trajectory("ltc", analysis.Setting("tanh", width=canvas.pick(6, 100, 100), depth=3))
    layers = zip(path.latent, path.lengths, path.explained, strict=True)
    canvas.add([analysis.LayerTrajectory(f"layer {index}", *layer) for index, layer in enumerate(layers, 1)])


@drawing("ltc/figure2", "trajectory length by layers, weights and width, for several activations")
def _lengths(canvas: Canvas) -> None:
    """Draws parts A to E of the figure."""
    depths = canvas.pick((1, 2), (1, 2, 3), (1, 2, 3, 4, 5, 6))
    widths = canvas.pick((4, 8), (10, 25, 50, 100), (10, 25, 50, 100, 200))
    _sweep(canvas, "a", "depth", depths, "hardtanh")
    _sweep(canvas, "b", "sigma_w", canvas.pick((1.0, 2.0), (1.0, 2.0, 4.0), (1.0, 2.0, 4.0, 8.0)))
    _sweep(canvas, "c", "width", widths, "relu")
    _sweep(canvas, "d", "width", widths, "hardtanh")
    _sweep(canvas, "e", "depth", depths, "sigmoid")


@drawing("ltc/figure3", "trajectory length by solver, width, weights and layers; the variance explained")
def _solvers(canvas: Canvas) -> None:
    """Draws parts A to D of the figure; B has two plots."""
    _sweep(canvas, "a", "solver", ("rk23", "rk45", "adams", "implicit"))
    _sweep(canvas, "b", "width", canvas.pick((4, 8), (10, 25, 50, 100), (10, 25, 50, 100, 150, 200)))
    setting = analysis.Setting("tanh", width=canvas.pick(8, 100, 100))
    paths = [analysis.trajectory(model, setting) for model in ("neural-ode", "ct-rnn", "ltc")]
    canvas.add(paths, "b-explained", "explained")
    _sweep(canvas, "c", "sigma_w", canvas.pick((1.0, 2.0), (0.5, 1.0, 2.0, 4.0), (0.5, 1.0, 2.0, 4.0, 8.0)))
    _sweep(canvas, "d", "depth", canvas.pick((1, 2), (1, 2, 3), (1, 2, 3, 4, 5, 6)))


@drawing("ltc/table2", "computational depth of Neural ODE, CT-RNN and LTC by activation")
def _depths(canvas: Canvas) -> None:
    """Draws 100 networks of 100 units at the paper budget."""
    setting = analysis.Setting(width=canvas.pick(6, 100, 100))
    canvas.add(analysis.depth_table(canvas.pick(1, 20, 100), setting=setting), kind="depth")


@drawing("irnn/figure2", "phase portraits of RNN, FastRNN and iRNN under a random walk", "irnn")
@drawing("ernn/figure1", "phase portraits of RNN, FastRNN and ERNN under a random walk", "ernn")
def _phase(canvas: Canvas, model: str) -> None:
    """Draws phase portraits of two units."""
    canvas.add(analysis.phase_portrait(["rnn", "fastrnn", model], steps=canvas.pick(50, 1000, 1000)))


# The four panels contain the measurements of both figures; K = 1 is SiRNN, K = 5 iRNN.
_ADDING = ("sirnn", "irnn", "fastrnn", "antisymmetric", "lstm", "rnn")


@drawing("irnn/figure3", "the adding problem: the gradient ratio and the loss over training, for several K", *_ADDING)
@drawing("irnn/figure8", "gradients of RNN and iRNN over training", "rnn", "irnn")
@drawing("ernn/figure2", "gradients of RNN and ERNN over training", "rnn", "ernn")
@drawing("irnn/figure9", "the adding problem: gradients of the loss and of the last state over training", *_ADDING)
def _history(canvas: Canvas, *models: str) -> None:
    """Uses the adding problem; in iRNN Fig. 8 and ERNN Fig. 2, the papers use HAR-2."""
    length, steps, every = canvas.pick((10, 3, 1), (50, 200, 20), (200, 1000, 50))
    sizes = {"length": length, "steps": steps, "every": every, "hidden_size": canvas.pick(4, 32, 128)}
    canvas.add(analysis.track_adding(models, **sizes))


@drawing("irnn/figure4", "learning curves: the adding problem and the copy task")
def _learning(canvas: Canvas) -> None:
    """Draws copy of length 200 and 500 and adding of length 200 and 750 at the paper budget; otherwise one of each."""
    tasks = canvas.pick(
        (("copy", 5), ("adding", 10)),
        (("copy", 200), ("adding", 200)),
        (("copy", 200), ("copy", 500), ("adding", 200), ("adding", 750)),
    )
    series = canvas.pick({"train": 32, "valid": 8, "test": 8}, {}, {})
    training = Settings(batch_size=canvas.pick(8, 128, 128), learning_rate=1e-3)
    sizes = {"steps": canvas.pick(3, 300, 2000), "hidden_size": canvas.pick(4, 64, 128), "training": training}
    canvas.add([analysis.learning_curves(task, options={"length": n, **series}, **sizes) for task, n in tasks])


@drawing("irnn/figure6", "distance of the recursion to the equilibrium found by SciPy", "irnn")
@drawing("ernn/figure6", "distance of the recursion to the equilibrium found by SciPy", "ernn")
def _convergence(canvas: Canvas, model: str) -> None:
    """Draws the convergence of a trained network."""
    layer, batch = _trained(canvas, model)
    middle = batch.x[:, batch.x.shape[1] // 2]  # because series often begin with zeros
    canvas.add(analysis.convergence(layer, middle, steps=40))


@drawing("irnn/figure7", "eigenvalues of ∇φ U - γ I over a data set", "irnn")
@drawing("ernn/figure5", "eigenvalues of ∇φ U - γ I over a data set", "ernn")
def _eigenvalues(canvas: Canvas, model: str) -> None:
    """Draws the eigenvalues of a trained network."""
    layer, batch = _trained(canvas, model)
    canvas.add(analysis.equilibrium_eigenvalues(layer, batch.x, lengths=batch.lengths))


def _trained(canvas: Canvas, model: str) -> tuple[Any, Any]:
    """Trains an iRNN or ERNN with a full U on small digits (HAR-2 at the paper budget); returns it with test series."""
    task = canvas.pick("digits-seq", "digits-seq", "har-2")
    settings = Settings(learning_rate=1e-3, epochs=canvas.pick(1, 5, 100), early_stop=0)
    assembly = assemble(task, model, settings, network={"hidden_size": canvas.pick(4, 32, 80), "recurrent": "full"})
    return assembly.fit().model.layer, assembly.parts.test[: canvas.pick(2, 32, 256)].batch()
