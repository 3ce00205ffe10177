"""Figures of UnICORNN."""

from __future__ import annotations

from .. import analysis
from .drawings import Canvas, drawing, trial_for


@drawing("unicornn/figure2", "time of forward and backward: UnICORNN, LSTM of torch, SRU, IndRNN")
def figure2(canvas: Canvas) -> None:
    """Times the CPU; the paper measured N = 1000 and 2000 with batches of 128 on a GPU."""
    lengths = canvas.pick((10, 20), (500, 1000, 2000), (1000, 2000))
    sizes = {"batch": canvas.pick(2, 32, 128), "hidden_size": canvas.pick(4, 64, 128)}
    found = analysis.training_speed(lengths=lengths, repeats=canvas.pick(1, 5, 100), **sizes)
    canvas.add(found, analysis.plot_speed)


@drawing("unicornn/figure3", "accuracy with only the last, or random, entries of a series")
def figure3(canvas: Canvas) -> None:
    """Uses EigenWorms at the paper budget."""
    entries = canvas.pick((4, 8), (8, 16, 32, 64), (1000, 2000, 6000, 12000, 17984))
    found = analysis.subsampling(trial_for(canvas, "eigenworms", runs=5), entries=entries)
    canvas.add(found, analysis.plot_subsampling)


@drawing("unicornn/figure4", "accuracy over Δt and over α")
def figure4(canvas: Canvas) -> None:
    """Uses noise-padded CIFAR-10 at the paper budget."""
    delta_t = canvas.pick((0.1, 0.3), (0.03, 0.1, 0.3, 1.0), (0.03, 0.063, 0.126, 0.25, 0.5))
    alpha = canvas.pick((1.0,), (0.3, 1.0, 3.0, 10.0), (1.0, 3.0, 6.5, 13.0, 26.0))
    found = analysis.sensitivity(trial_for(canvas, "noisy-cifar"), delta_t=delta_t, alpha=alpha)
    canvas.add(found, analysis.plot_sensitivity)


@drawing("unicornn/figure5", "the time steps that the units learn")
def figure5(canvas: Canvas) -> None:
    """Uses permuted MNIST and 3 layers of 256 units at the paper budget."""
    found = analysis.learned_steps(trial_for(canvas, "psmnist", layers=3, runs=1))
    canvas.add(found, analysis.plot_effective_steps)


@drawing("unicornn/figure6", "plain and residual stacking, and untrained time scales")
def figure6(canvas: Canvas) -> None:
    """Uses noise-padded CIFAR-10 at the paper budget."""
    found = analysis.stacking(trial_for(canvas, "noisy-cifar"), layers=canvas.pick((3,), (3, 4, 5, 6), (3, 4, 5, 6)))
    canvas.add(found, analysis.plot_stacking)


@drawing("unicornn/figure7", "the norms of the hidden weights during training")
def figure7(canvas: Canvas) -> None:
    """Uses noise-padded CIFAR-10 and 3 layers at the paper budget."""
    canvas.add(analysis.weight_norms(trial_for(canvas, "noisy-cifar", layers=3)), analysis.plot_weight_norms)
