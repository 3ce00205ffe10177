"""S5: a diagonal state-space model with many inputs and outputs."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn

from ...settings import SettingError, one_of, whole
from .._cell import State
from .._registry import register
from ._diagonal import DISCRETIZATIONS, discretized, log_steps
from ._linear import Matrix, Recurrence, StateSpaceCell


def hippo(size: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the eigenvalues of the normal part of HiPPO-LegS with positive imaginary part, and their eigenvectors.

    The matrix is -1/2 I + K with a skew-symmetric K, K[n, m] = -√((2n+1)(2m+1))/2 for n > m; `size` is even, and its
    eigenvalues are conjugate pairs.
    """
    root = np.sqrt(2 * np.arange(size) + 1.0)
    skew = np.tril(-0.5 * np.outer(root, root), -1)
    frequencies, vectors = np.linalg.eigh(-1j * (skew - skew.T))
    return -0.5 + 1j * frequencies[size // 2 :], vectors[:, size // 2 :]


@register("s5", paper="Smith, Warrington & Linderman 2023, S5", time="native")
class S5Cell(StateSpaceCell):
    """S5: one state-space model with many inputs and outputs, diagonal in the basis of HiPPO.

        zoh:       h' = exp(Λ Δ dt) h + Λ⁻¹ (exp(Λ Δ dt) - 1) B u
        bilinear:  h' = (1 + Λ Δ dt/2)/(1 - Λ Δ dt/2) h + Δ dt/(1 - Λ Δ dt/2) B u
        y = 2 Re(C h') + D u

    Each unit stands for a conjugate pair. Λ = -e^ρ + i ω; initially the eigenvalues of the normal part of HiPPO-LegS,
    in blocks, and B and C are random matrices in its eigenbasis.

    State: (Re h, Im h).

    Args:
        input_size: Number of features D.
        hidden_size: Number of outputs H.
        state_size: Number of conjugate pairs P; by default H.
        blocks: Number of HiPPO matrices, of 2 P / blocks units each, on the diagonal; must divide P.
        discretization: "zoh" (zero-order hold, exact for an input held constant) or "bilinear".
        step_min: Smallest initial Δ.
        step_max: Largest initial Δ.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        state_size: int | None = None,
        blocks: int = 1,
        discretization: str = "zoh",
        step_min: float = 0.001,
        step_max: float = 0.1,
    ):
        super().__init__(input_size, hidden_size, state_size)
        if self.units % whole("blocks", blocks, at_least=1):
            raise SettingError(
                f"blocks={blocks} does not divide state_size={self.units}",
                argument="blocks",
                cure="choose a divisor of state_size",
            )
        self.discretization = one_of("discretization", discretization, DISCRETIZATIONS)
        values, vectors = hippo(2 * self.units // blocks)
        self.log_decay = nn.Parameter(torch.full((self.units,), math.log(0.5)))
        self.frequency = nn.Parameter(torch.from_numpy(np.tile(values.imag, blocks)).to(self.B.dtype))
        self.log_step = nn.Parameter(log_steps(self.units, step_min, step_max))
        self._rotate(torch.from_numpy(vectors), blocks)

    def _rotate(self, vectors: Tensor, blocks: int) -> None:
        """Draws B and C for all 2 P units in the basis of HiPPO, and rotates them into its eigenbasis V: V* B, C V."""
        size = vectors.shape[0]
        B = torch.empty(blocks, size, self.input_size).normal_(std=self.input_size**-0.5).to(vectors)
        C = torch.empty(blocks, self.hidden_size, size).normal_(std=(2 * self.units) ** -0.5).to(vectors)
        B, C = (vectors.mH @ B).flatten(0, 1), (C @ vectors).transpose(0, 1).flatten(1)
        with torch.no_grad():
            self.B.copy_(torch.cat([B.real, B.imag]))
            self.C.copy_(2 * torch.cat([C.real, -C.imag], dim=1))

    def recurrence(self) -> Recurrence:
        """Returns the function that computes M and F."""
        decay, step = torch.exp(self.log_decay), torch.exp(self.log_step)

        def at(u: Tensor, dt: Tensor) -> tuple[Matrix, State]:
            matrix, factor = discretized(decay, self.frequency, step * dt, self.discretization)
            p, q = factor
            real, imaginary = self.driven(u)
            return matrix, (p * real - q * imaginary, p * imaginary + q * real)

        return at
