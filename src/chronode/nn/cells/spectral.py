"""SpectralRNN: singular values near 1, from Householder reflections."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ...settings import number, one_of, whole
from .._cell import Cell, State, Step
from .._registry import register


@register("spectral", paper="Zhang, Lei & Dhillon 2018, SpectralRNN", time="none")
class SpectralCell(Cell):
    """SpectralRNN: the singular values of the recurrent matrix stay within 1 ± margin.

        U, V = products of Householder reflections I - 2 vvᵀ/vᵀv;   s = 1 + margin · tanh(p)
        y = h' = φ(W x + U diag(s) Vᵀ h + b)

    State: (h,).

    Args:
        input_size: Number of features D.
        hidden_size: Number of units H.
        margin: Largest deviation of a singular value from 1, in [0, 1].
        reflections: Number of reflections in each of U and V; H (all of them) by default.
        activation: φ, "tanh" or "relu".
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        margin: float = 0.01,
        reflections: int | None = None,
        activation: str = "tanh",
    ):
        super().__init__(input_size, hidden_size)
        count = hidden_size if reflections is None else whole("reflections", reflections, at_least=1)
        if count > hidden_size:
            raise ValueError(f"reflections must be at most hidden_size={hidden_size}, got {count}.")
        self.activation = one_of("activation", activation, ("tanh", "relu"))
        self.register_buffer("margin", self.constant("margin", number("margin", margin, at_least=0)))
        self.inputs = nn.Linear(input_size, hidden_size)
        # Initially U = V, so the recurrence starts near the identity.
        self.left = nn.Parameter(torch.randn(hidden_size, count))
        self.right = nn.Parameter(self.left.detach().clone())
        self.p = nn.Parameter(torch.zeros(hidden_size))

    def project(self, x: Tensor) -> Tensor:
        """Returns W x + b."""
        return self.inputs(x)

    def matrix(self) -> Tensor:
        """Returns U diag(s) Vᵀ, `(H, H)`."""
        scaled = reflected(self.left) * (1 + self.margin * torch.tanh(self.p))
        return scaled @ reflected(self.right).T

    def prepare(self) -> Step:
        """Returns the step with the matrix computed once."""
        transposed = self.matrix().T
        phi = torch.tanh if self.activation == "tanh" else torch.relu

        def step(x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
            h = phi(x + state[0] @ transposed)
            return h, (h,)

        return step


def reflected(raw: Tensor) -> Tensor:
    """Returns the product of the Householder reflections given by the columns of `raw (H, m)` below a unit diagonal.

    The "householder" parametrization of torch is not used: it stores signs on the diagonal of the trained tensor and
    truncates them to integers, so that even a tiny weight decay sets the matrix to 0.
    """
    size, count = raw.shape
    dtype, raw = (
        raw.dtype,
        raw.to(torch.promote_types(raw.dtype, torch.float32)),
    )  # torch does not support narrower types here
    below = torch.tril(raw, diagonal=-1)
    tau = 2 / (1 + below.square().sum(0))
    rest = raw.new_zeros(size, size - count)
    return torch.linalg.householder_product(torch.cat([below, rest], dim=1), torch.cat([tau, rest[0]])).to(dtype)
