"""uRNN: a unitary recurrent matrix on complex units."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from ...settings import one_of
from .._cell import Cell, State, Step
from .._registry import register
from .exprnn import OrthogonalMatrix


@register("urnn", paper="Arjovsky, Shah & Bengio 2016, uRNN (full capacity: Wisdom et al. 2016)", time="none")
class UnitaryCell(Cell):
    """uRNN: a unitary recurrent matrix on a complex state.

        full:        Q = O₁ diag(e^{iθ}) O₂, O₁ and O₂ real orthogonal: every unitary matrix has this form
        structured:  Q = D₃ R₂ F⁻¹ D₂ Π R₁ F D₁: diagonal phases, reflections, Fourier, a permutation (Arjovsky et al.)
        h' = modrelu(W x + Q h),  modrelu(a) = a relu(|a| + b) / |a|;   y = (Re h', Im h')

    State: (h,), `2 H` numbers: real parts, then imaginary parts. y has `2 H` features.

    Args:
        input_size: Number of features D.
        hidden_size: Number of complex units H.
        form: "full" (all unitary matrices) or "structured" (7 H parameters).
    """

    def __init__(self, input_size: int, hidden_size: int, form: str = "full"):
        super().__init__(input_size, hidden_size)
        self.output_size = 2 * hidden_size
        self.form = one_of("form", form, ("full", "structured"))
        self.inputs = nn.Linear(input_size, 2 * hidden_size, bias=False)
        self.bias = nn.Parameter(torch.empty(hidden_size).uniform_(-0.01, 0.01))
        self.phases = nn.Parameter(torch.empty(3 if form == "structured" else 1, hidden_size))
        nn.init.uniform_(self.phases, -math.pi, math.pi)
        if form == "full":
            self.o1, self.o2 = OrthogonalMatrix(hidden_size), OrthogonalMatrix(hidden_size)
        else:
            self.reflections = nn.Parameter(torch.empty(2, 2, hidden_size).uniform_(-1, 1))
            self.register_buffer("permutation", torch.randperm(hidden_size))

    def initial_state(self, batch: int, like: Tensor) -> State:
        """Returns h = 0."""
        return (like.new_zeros(batch, 2 * self.hidden_size),)

    def project(self, x: Tensor) -> Tensor:
        """Returns W x."""
        return self.inputs(x)

    def matrix(self) -> tuple[Tensor, Tensor]:
        """Returns Re Q and Im Q, `(H, H)` each."""
        if self.form == "full":
            o1, o2 = self.o1(), self.o2()
            return (o1 * torch.cos(self.phases)) @ o2, (o1 * torch.sin(self.phases)) @ o2
        d1, d2, d3 = torch.polar(torch.ones_like(self.phases), self.phases)
        r1, r2 = torch.complex(self.reflections[:, 0], self.reflections[:, 1])
        # Rows are the images of the unit vectors, so this is Qᵀ.
        q = _reflect(torch.fft.fft(torch.diag(d1), norm="ortho"), r1)
        q = _reflect(torch.fft.ifft(q[:, self.permutation] * d2, norm="ortho"), r2) * d3
        return q.real.T, q.imag.T

    def prepare(self) -> Step:
        """Returns the step with Q computed once, as a real matrix on (Re h, Im h)."""
        real, imaginary = self.matrix()
        both = torch.cat([torch.cat([real, -imaginary], dim=1), torch.cat([imaginary, real], dim=1)]).T

        def step(x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
            a = (x + state[0] @ both).unflatten(-1, (2, self.hidden_size))
            squared = a.square().sum(-2, keepdim=True)
            length = torch.where(squared > 0, squared, torch.ones_like(squared)).sqrt()
            h = (a * (torch.relu(length + self.bias) / length)).flatten(-2)
            return h, (h,)

        return step


def _reflect(rows: Tensor, v: Tensor) -> Tensor:
    """Maps each row r to r - 2 v (v* r) / (v* v)."""
    return rows - 2 * (rows @ v.conj() / (v.abs().square().sum())).unsqueeze(-1) * v
