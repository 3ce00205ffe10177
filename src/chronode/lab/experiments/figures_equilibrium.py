"""The figures of iRNN and ERNN."""

from __future__ import annotations

from ...training import Settings
from .. import analysis
from .drawings import Canvas, drawing, trained_equilibrium


def _phase(canvas: Canvas, own: str) -> None:
    found = analysis.phase_portrait(["rnn", "fastrnn", own], steps=canvas.pick(50, 1000, 1000))
    canvas.add(found, analysis.plot_phase)


def _history(canvas: Canvas, *models: str) -> None:
    length, steps, every = canvas.pick((10, 3, 1), (50, 200, 20), (200, 1000, 50))
    hidden = canvas.pick(4, 32, 128)
    found = analysis.track_adding(models, length=length, steps=steps, every=every, hidden_size=hidden)
    canvas.add(found, analysis.plot_history)


def _convergence(canvas: Canvas, own: str) -> None:
    layer, batch = trained_equilibrium(canvas, own)
    middle = batch.x[:, batch.x.shape[1] // 2]  # because series often begin with zeros
    canvas.add(analysis.convergence(layer, middle, steps=40), analysis.plot_convergence)


def _eigenvalues(canvas: Canvas, own: str) -> None:
    layer, batch = trained_equilibrium(canvas, own)
    canvas.add(analysis.equilibrium_eigenvalues(layer, batch.x, lengths=batch.lengths), analysis.plot_eigenvalues)


@drawing("irnn/figure2", "phase portraits of RNN, FastRNN and iRNN under a random walk")
def irnn_figure2(canvas: Canvas) -> None:
    """Draws phase portraits of two units."""
    _phase(canvas, "irnn")


@drawing("irnn/figure3", "the adding problem: the gradient ratio and the loss over training, for several K")
def irnn_figure3(canvas: Canvas) -> None:
    """Compares K = 1 (SiRNN) to K = 5 (iRNN)."""
    _history(canvas, "sirnn", "irnn", "fastrnn", "antisymmetric", "lstm", "rnn")


@drawing("irnn/figure4", "learning curves: the adding problem and the copy task")
def irnn_figure4(canvas: Canvas) -> None:
    """Draws copy of length 200 and 500 and adding of length 200 and 750 at the paper budget; otherwise one of each."""
    tasks = canvas.pick(
        (("copy", 5), ("adding", 10)),
        (("copy", 200), ("adding", 200)),
        (("copy", 200), ("copy", 500), ("adding", 200), ("adding", 750)),
    )
    series = canvas.pick({"train": 32, "valid": 8, "test": 8}, {}, {})
    training = Settings(batch_size=canvas.pick(8, 128, 128), learning_rate=1e-3)
    sizes = {"steps": canvas.pick(3, 300, 2000), "hidden_size": canvas.pick(4, 64, 128), "training": training}
    found = [analysis.learning_curves(task, options={"length": length, **series}, **sizes) for task, length in tasks]
    canvas.add(found, analysis.plot_learning)


@drawing("irnn/figure6", "distance of the recursion to the equilibrium found by SciPy")
def irnn_figure6(canvas: Canvas) -> None:
    """Draws the convergence of a trained iRNN."""
    _convergence(canvas, "irnn")


@drawing("irnn/figure7", "eigenvalues of ∇φ U - γ I over a data set")
def irnn_figure7(canvas: Canvas) -> None:
    """Draws the eigenvalues of a trained iRNN (HAR-2 at the paper budget, otherwise small digits)."""
    _eigenvalues(canvas, "irnn")


@drawing("irnn/figure8", "gradients of RNN and iRNN over training")
def irnn_figure8(canvas: Canvas) -> None:
    """Uses the adding problem; the paper uses HAR-2."""
    _history(canvas, "rnn", "irnn")


@drawing("irnn/figure9", "the adding problem: gradients of the loss and of the last state over training")
def irnn_figure9(canvas: Canvas) -> None:
    """Draws the same measurements as figure 3, whose four panels contain both."""
    _history(canvas, "sirnn", "irnn", "fastrnn", "antisymmetric", "lstm", "rnn")


@drawing("ernn/figure1", "phase portraits of RNN, FastRNN and ERNN under a random walk")
def ernn_figure1(canvas: Canvas) -> None:
    """Draws phase portraits of two units."""
    _phase(canvas, "ernn")


@drawing("ernn/figure2", "gradients of RNN and ERNN over training")
def ernn_figure2(canvas: Canvas) -> None:
    """Uses the adding problem; the paper uses HAR-2."""
    _history(canvas, "rnn", "ernn")


@drawing("ernn/figure5", "eigenvalues of ∇φ U - γ I over a data set")
def ernn_figure5(canvas: Canvas) -> None:
    """Draws the eigenvalues of a trained ERNN (HAR-2 at the paper budget, otherwise small digits)."""
    _eigenvalues(canvas, "ernn")


@drawing("ernn/figure6", "distance of the recursion to the equilibrium found by SciPy")
def ernn_figure6(canvas: Canvas) -> None:
    """Draws the convergence of a trained ERNN."""
    _convergence(canvas, "ernn")
