"""Recurrent matrices with singular values at or near 1: expRNN, uRNN and SpectralRNN."""

from __future__ import annotations

import math
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from ...settings import number, one_of, whole
from .._cell import InputMapCell, State, Step
from .._registry import register


class OrthogonalMatrix(nn.Module):
    """A trained orthogonal matrix: B exp(X - Xᵀ), X lower triangular (torch.nn.utils.parametrizations).

    The initial value is a block-diagonal matrix of rotations by random angles, as in expRNN ("Henaff").
    """

    def __init__(self, size: int):
        super().__init__()
        self.size = size
        holder = nn.Linear(size, size, bias=False)
        angles = torch.empty(size // 2).uniform_(-math.pi, math.pi)
        generator = torch.zeros(size, size)
        even = 2 * torch.arange(size // 2)
        generator[even, even + 1] = angles
        with torch.no_grad():
            holder.weight.copy_(torch.matrix_exp(generator - generator.T))
        self.holder = parametrizations.orthogonal(holder, orthogonal_map="matrix_exp")

    def forward(self) -> Tensor:
        """Returns the matrix, computed at every call."""
        return cast(Tensor, self.holder.weight)

    def __reduce__(self):
        # torch cannot pickle parametrized modules, so the module is rebuilt with the same values.
        trained = [parameter.requires_grad for parameter in self.parameters()]
        return _rebuilt, (self.size, self.state_dict(), trained, self.training)


def _rebuilt(size: int, numbers: dict[str, Tensor], trained: list[bool], training: bool) -> OrthogonalMatrix:
    with torch.random.fork_rng(devices=[]):
        matrix = OrthogonalMatrix(size)
    matrix.to(next(iter(numbers.values()))).load_state_dict(numbers)
    for parameter, one in zip(matrix.parameters(), trained, strict=True):
        parameter.requires_grad_(one)
    return matrix.train(training)


@register("exprnn", paper="Lezcano-Casado & Martínez-Rubio 2019, expRNN", time="none")
class ExpRNNCell(InputMapCell):
    """expRNN: an orthogonal recurrent matrix, parametrized by the matrix exponential.

        Q = B exp(X - Xᵀ);   y = h' = modrelu(W x + Q h),  modrelu(a) = sign(a) relu(|a| + b)

    State: (h,).

    Args:
        input_size: Number of features D.
        hidden_size: Number of units H.
    """

    def __init__(self, input_size: int, hidden_size: int):
        super().__init__(input_size, hidden_size)
        self.inputs = nn.Linear(input_size, hidden_size, bias=False)
        nn.init.kaiming_normal_(self.inputs.weight)
        self.recurrent = OrthogonalMatrix(hidden_size)
        self.bias = nn.Parameter(torch.empty(hidden_size).uniform_(-0.01, 0.01))

    def prepare(self) -> Step:
        """Returns the step with Q computed once."""
        transposed = self.recurrent().T

        def step(x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
            a = x + state[0] @ transposed
            h = torch.sign(a) * torch.relu(a.abs() + self.bias)
            return h, (h,)

        return step


@register("urnn", paper="Arjovsky, Shah & Bengio 2016, uRNN (full capacity: Wisdom et al. 2016)", time="none")
class UnitaryCell(InputMapCell):
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


@register("spectral", paper="Zhang, Lei & Dhillon 2018, SpectralRNN", time="none")
class SpectralCell(InputMapCell):
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
