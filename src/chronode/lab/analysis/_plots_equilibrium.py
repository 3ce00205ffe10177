"""Plots of equilibria and phase portraits."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ._equilibrium import Convergence, Eigenvalues
from ._phase import PhasePortrait
from ._plots import color, finish, panels, save


def plot_convergence(found: Convergence, path: str | Path) -> Path:
    """Draws the distance to the root over k, one line per sequence (iRNN and ERNN Fig. 6).

    Example:
        >>> import tempfile, chronode, torch
        >>> from chronode.lab.analysis import convergence
        >>> found = convergence(chronode.create("irnn", 2, 4, recurrent="full"), torch.ones(2, 2))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     plot_convergence(found, f"{folder}/convergence.png").name
        'convergence.png'
    """
    figure, axes = panels()
    axes[0, 0].semilogy(found.distances.T, color=color(0), lw=1, alpha=0.6)
    if np.isfinite(found.bound):
        k = np.arange(found.distances.shape[1])
        worst = found.distances[:, 0].max() * found.bound**k
        axes[0, 0].semilogy(k, worst, color=color(1), ls="--", lw=2, label=f"guarantee, {found.bound:.2f} per step")
    title = f"{found.model}: η = {found.eta:g}, measured rate {np.nanmedian(found.rates):.2f} per step"
    finish(axes[0, 0], "recursion step k", r"$\|g_k - g^*\|$", title, legend=bool(np.isfinite(found.bound)))
    return save(figure, path)


def plot_eigenvalues(found: Eigenvalues, path: str | Path) -> Path:
    """Draws a histogram of the real parts (iRNN Fig. 7, ERNN Fig. 5).

    Example:
        >>> import tempfile, chronode, torch
        >>> from chronode.lab.analysis import equilibrium_eigenvalues
        >>> found = equilibrium_eigenvalues(chronode.create("irnn", 2, 4, recurrent="full"), torch.randn(1, 5, 2))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     plot_eigenvalues(found, f"{folder}/eigenvalues.png").name
        'eigenvalues.png'
    """
    figure, axes = panels()
    axes[0, 0].hist(found.real, bins=60, color=color(0))
    axes[0, 0].axvline(0, color=color(1), ls="--", lw=2)
    title = f"{found.model}: {found.stable:.1%} negative"
    finish(axes[0, 0], r"real part of the eigenvalues of $\nabla\phi\,PU - \gamma I$", "count", title)
    return save(figure, path)


def plot_phase(portrait: PhasePortrait, path: str | Path) -> Path:
    """Draws one panel per model: the start is a black circle, later steps are lighter (iRNN Fig. 2, ERNN Fig. 1).

    Example:
        >>> import tempfile
        >>> from chronode.lab.analysis import phase_portrait
        >>> found = phase_portrait(["rnn", "irnn"], steps=20)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     plot_phase(found, f"{folder}/phase.png").name
        'phase.png'
    """
    count = len(portrait.models)
    figure, axes = panels(count, width=3.6 * count, height=3.7)
    for one, name, path_taken in zip(axes[0], portrait.models, portrait.states, strict=True):
        one.plot(*path_taken.T, color="0.8", lw=0.6, zorder=1)
        dots = one.scatter(*path_taken[1:].T, c=np.arange(1, len(path_taken)), cmap="viridis", s=5, zorder=2)
        one.plot(*path_taken[0], "o", color="black", ms=8, zorder=3)
        finish(one, "first unit", "second unit", name)
    figure.colorbar(dots, ax=list(axes[0]), label="step")
    return save(figure, path)
