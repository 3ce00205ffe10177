"""Newton's method for small logistic regressions, where it is several times faster than L-BFGS, and exact."""

from __future__ import annotations

import torch
from torch import Tensor

_ITERATIONS = 50
_TOLERANCE = 1e-9
_MOST_UNKNOWNS = 120
_MOST_NUMBERS = 30_000_000
# The same number added to all biases changes nothing: without this the Hessian would be singular.
_RIDGE = 1e-9


def is_small(rows: int, width: int, classes: int) -> bool:
    """Returns whether the Hessian is small enough to be computed and solved again and again."""
    unknowns = (width + 1) * classes
    return unknowns <= _MOST_UNKNOWNS and rows * unknowns**2 <= _MOST_NUMBERS


@torch.no_grad()
def newton(x: Tensor, y: Tensor, weight: Tensor, bias: Tensor, penalty: float) -> None:
    """Sets weight and bias to the minimum of `mean cross entropy + penalty |weight|^2 / 2`.

    Args:
        x: `(N, F)` inputs.
        y: `(N,)` class numbers.
        weight: `(F, K)`, where to begin, and the result.
        bias: `(K,)`, likewise.
        penalty: Strength of the L2 penalty on the weights.
    """
    count, classes = len(x), len(bias)
    inputs = torch.cat([x, x.new_ones(count, 1)], dim=1)
    unknowns = torch.cat([weight, bias[None]])
    penalties = torch.full_like(unknowns, penalty)
    penalties[-1] = 0
    hot = torch.nn.functional.one_hot(y, classes).to(x)

    def loss_at(place: Tensor) -> tuple[Tensor, Tensor]:
        logits = inputs @ place
        found = (logits.logsumexp(1) - (logits * hot).sum(1)).mean() + (penalties * place.square()).sum() / 2
        return found, logits.softmax(1)

    loss, chances = loss_at(unknowns)
    for _ in range(_ITERATIONS):
        gradient = inputs.T @ (chances - hot) / count + penalties * unknowns
        if gradient.abs().max() < _TOLERANCE:
            break
        step = torch.linalg.solve(_hessian(inputs, chances, penalties), gradient.T.flatten()).reshape(classes, -1).T
        size = 1.0
        while (found := loss_at(unknowns - size * step))[0] > loss and size > 1e-6:
            size /= 2
        unknowns, (loss, chances) = unknowns - size * step, found
    weight.copy_(unknowns[:-1])
    bias.copy_(unknowns[-1])


def _hessian(inputs: Tensor, chances: Tensor, penalties: Tensor) -> Tensor:
    """Returns the second derivatives, `(K (F + 1), K (F + 1))`, class by class."""
    curvature = torch.diag_embed(chances) - chances[:, :, None] * chances[:, None]  # (N, K, K)
    weighed = curvature[..., None] * inputs[:, None, None] / len(inputs)  # (N, K, K, F + 1)
    found = torch.tensordot(inputs, weighed, dims=([0], [0])).permute(1, 0, 2, 3)  # (K, F + 1, K, F + 1)
    return found.reshape(penalties.numel(), -1) + torch.diag(penalties.T.flatten() + _RIDGE)
