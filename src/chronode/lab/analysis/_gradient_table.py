"""mmRNN Table 2: gradient norms of ODE-RNN and mmRNN for increasing lengths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ...nn import Layer
from ...settings import number, one_of, whole
from ...storage import Result
from ..papers import numbers
from ._gradients import unit_norms
from ._instrumented import as_layer

# The ODE-RNN of the paper is its equation 1 with the input in the field: our neural-ode. Its theorem 3 has mmRNN
# weights close to 0 and σ(b_f) = 0.9943. The factors are fitted to the numbers of the paper, which does not state its
# initialization (docs/analysis.md lists what was tried).
AS_PAPER: dict[str, tuple[str, float, dict[str, Any]]] = {
    "ode-rnn": ("neural-ode", 2.0, {}),
    "mmrnn": ("mmrnn", 0.1, {"variant": "paper", "forget_bias": 5.16}),
}


@dataclass(frozen=True)
class GradientTable(Result):
    """Mean and standard deviation of ‖∂h_T/∂h_0[i]‖ over units, sequences and seeds.

    Attributes:
        models: Names of the models, one per row.
        lengths: Lengths T, one per column.
        means: `(models, lengths)`.
        stds: `(models, lengths)`.
        setting: "paper" or "default".
        made_as: Description of what was measured, by model.
        paper: Numbers of the paper, where available.
    """

    models: tuple[str, ...]
    lengths: tuple[int, ...]
    means: NDArray[np.float64]
    stds: NDArray[np.float64]
    setting: str
    made_as: dict[str, str]
    paper: dict[str, dict[int, tuple[float, float]]]


def gradient_table(
    models: Sequence[str] = ("ode-rnn", "mmrnn"),
    lengths: Sequence[int] = (5, 10, 25, 50),
    *,
    setting: str = "paper",
    weight_scale: float = 1.0,
    hidden_size: int = 64,
    seeds: int = 3,
    batch: int = 4,
) -> GradientTable:
    """Computes mmRNN Table 2: hidden-state gradient norms at the start of training.

    The paper states that it measured hidden-state gradient norms over three initializations, but not which norm, part
    or weights. Its standard deviation (3750 for a mean of 1215) is impossible for three numbers, so more were pooled:
    here all units of the first part of the state (the memory c of mmRNN), for `batch` random bit sequences with dt = 1.

    Args:
        models: Registered names.
        lengths: Sequence lengths.
        setting: "paper": ODE-RNN as equation 1 of the paper (dh/dt = tanh(W x + U h + b)) with doubled weights, mmRNN
            as equations 3-4 with σ(b_f) = 0.9943 and weights close to 0 (x 0.1), as theorem 3 assumes. "default": each
            registered model as created.
        weight_scale: Additional factor for all weight matrices.
        hidden_size: Units H.
        seeds: Number of initializations.
        batch: Sequences per seed.

    Example:
        >>> table = gradient_table(lengths=[5, 10], hidden_size=16, seeds=2)
        >>> bool(table.means[0, 1] > table.means[0, 0] > 2), bool(0.5 < table.means[1].min())
        (True, True)
    """
    one_of("setting", setting, ("paper", "default"))
    number("weight_scale", weight_scale, above=0)
    if not models or not lengths:
        raise ValueError("gradient_table needs at least one model and one length.")
    lengths = [whole("lengths", length, at_least=1) for length in lengths]
    means, stds, made_as = [], [], {}
    for name in models:
        base, factor, settings = AS_PAPER.get(name, (name, 1.0, {})) if setting == "paper" else (name, 1.0, {})
        details = "".join(f", {key}={value}" for key, value in settings.items())
        made_as[name] = f"{base}{details}, weights x {factor * weight_scale:g}"
        pooled: list[list[float]] = [[] for _ in lengths]
        for seed in range(whole("seeds", seeds, at_least=1)):
            layer = as_layer(base, 1, hidden_size, seed, **settings)
            scale_weights(layer, factor * weight_scale)
            rng = torch.Generator().manual_seed(seed)
            bits = torch.randint(0, 2, (batch, max(lengths), 1), generator=rng).float()
            for values, length in zip(pooled, lengths, strict=True):
                values += unit_norms(layer, bits[:, :length], part=0).flatten().tolist()
        means.append([float(np.mean(values)) for values in pooled])
        stds.append([float(np.std(values)) for values in pooled])
    norms = papers_norms()
    paper = {name: norms[name] for name in models if name in norms}
    return GradientTable(tuple(models), tuple(lengths), np.array(means), np.array(stds), setting, made_as, paper)


def papers_norms() -> dict[str, dict[int, tuple[float, float]]]:
    """Returns the mean and standard deviation of the paper by model and length.

    Example:
        >>> papers_norms()["mmrnn"][50]
        (1.25, 0.25)
    """
    norms: dict[str, dict[int, tuple[float, float]]] = {}
    for norm in numbers("mmrnn", "2"):
        assert norm.mean is not None and norm.spread is not None
        norms.setdefault(norm.model, {})[int(norm.column.removeprefix("T="))] = (norm.mean, norm.spread)
    return norms


def scale_weights(layer: Layer, factor: float) -> None:
    """Multiplies every weight matrix of a layer in place; biases are unchanged."""
    with torch.no_grad():
        for parameter in layer.parameters():
            if parameter.dim() >= 2:
                parameter.mul_(factor)
