"""State-space models with a complex diagonal matrix: LRU, S5 and S4D."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn

from ...settings import SettingError, number, one_of, whole
from .._cell import State
from .._registry import register
from .linear import LinearCell, Matrix, Recurrence, StateSpaceCell

DISCRETIZATIONS = ("zoh", "bilinear")


def discretized(decay: Tensor, frequency: Tensor, step: Tensor, kind: str) -> tuple[Matrix, tuple[Tensor, Tensor]]:
    """Returns M and the complex factor of B u for Λ = -decay + i frequency and the step Δ.

    zoh:       M = exp(Λ Δ),                      factor = (exp(Λ Δ) - 1)/Λ
    bilinear:  M = (1 + Λ Δ/2)/(1 - Λ Δ/2),       factor = Δ/(1 - Λ Δ/2)
    """
    a, b = decay * step, frequency * step
    if kind == "bilinear":
        # 1/(1 - Λ Δ/2) = (p + i q)
        p, q = 1 + 0.5 * a, 0.5 * b
        size = p * p + q * q
        p, q = p / size, q / size
        real, imaginary = 2 * p - 1, 2 * q
        return ((real, -imaginary), (imaginary, real)), (step * p, step * q)
    size, half = torch.exp(-a), torch.sin(0.5 * b)
    real, imaginary = size * torch.cos(b), size * torch.sin(b)
    # exp(Λ Δ) - 1, without the cancellation of short steps.
    gone, turned = torch.expm1(-a) - 2 * size * half * half, imaginary
    square = decay * decay + frequency * frequency
    factor = (frequency * turned - decay * gone) / square, -(decay * turned + frequency * gone) / square
    return ((real, -imaginary), (imaginary, real)), factor


def log_steps(size: int, shortest: float, longest: float) -> Tensor:
    """Returns log Δ of `size` units, uniform between the logarithms of two positive numbers."""
    number("step_min", shortest, above=0)
    number("step_max", longest, above=0)
    if shortest > longest:
        raise SettingError(
            f"step_min={shortest} is greater than step_max={longest}",
            argument="step_min",
            cure="choose step_min <= step_max",
        )
    return torch.empty(size).uniform_(math.log(shortest), math.log(longest))


@register("lru", paper="Orvieto et al. 2023, LRU", time="native")
class LRUCell(StateSpaceCell):
    """LRU: a complex diagonal recurrence on a ring of eigenvalues, with normalized input.

        λ(dt) = exp((-e^ν + i e^θ) dt),   γ(dt) = e^γ̂ √((1 - |λ|^2dt) / (1 - |λ|²)),   |λ| = exp(-e^ν)
        h' = λ(dt) ⊙ h + γ(dt) ⊙ B u;     y = Re(C h') + D u

    With dt = 1 it is the paper's model. Initially |λ|² is uniform between r_min² and r_max², the phase e^θ between 0
    and `max_phase`, and e^γ̂ = √(1 - |λ|²).

    State: (Re h, Im h).

    Args:
        input_size: Number of features D.
        hidden_size: Number of outputs H.
        state_size: Number of complex units P; by default H.
        r_min: Smallest initial |λ|.
        r_max: Largest initial |λ|, at most 1.
        max_phase: Largest initial phase of λ.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        state_size: int | None = None,
        r_min: float = 0.0,
        r_max: float = 1.0,
        max_phase: float = 2 * math.pi,
    ):
        super().__init__(input_size, hidden_size, state_size)
        number("r_min", r_min, at_least=0, below=1)
        number("r_max", r_max, above=0)
        number("max_phase", max_phase, above=0)
        if not r_min < r_max <= 1:
            raise SettingError(
                f"r_min={r_min} and r_max={r_max} do not enclose a ring within the unit circle",
                argument="r_max",
                cure="choose 0 <= r_min < r_max <= 1",
            )
        nn.init.normal_(self.B, std=(2 * input_size) ** -0.5)
        nn.init.normal_(self.C, std=self.units**-0.5)
        tiny = torch.finfo(self.B.dtype).eps
        square = torch.empty(self.units).uniform_(r_min**2, r_max**2).clamp(tiny, 1 - tiny)
        self.nu = nn.Parameter((-0.5 * square.log()).log())
        self.theta = nn.Parameter(torch.empty(self.units).uniform_(0, max_phase).clamp(min=tiny).log())
        self.log_gamma = nn.Parameter(0.5 * (1 - square).log())

    def recurrence(self) -> Recurrence:
        """Returns the function that computes M and F."""
        decay, frequency = torch.exp(self.nu), torch.exp(self.theta)
        gain = torch.exp(self.log_gamma) * torch.rsqrt(-torch.expm1(-2 * decay))

        def at(u: Tensor, dt: Tensor) -> tuple[Matrix, State]:
            angle = frequency * dt
            size = torch.exp(-decay * dt)
            real, imaginary = size * torch.cos(angle), size * torch.sin(angle)
            passed = -torch.expm1(-2 * decay * dt)
            # The slope of the root is infinite at dt = 0.
            moves = passed > 1e-12
            gamma = torch.where(moves, gain * torch.where(moves, passed, torch.ones_like(passed)).sqrt(), 0.0)
            u_real, u_imaginary = self.driven(u)
            return ((real, -imaginary), (imaginary, real)), (gamma * u_real, gamma * u_imaginary)

        return at


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


@register("s4d", paper="Gu et al. 2022, S4D", time="native")
class S4DCell(LinearCell):
    """S4D: a diagonal state-space model of its own for each of H channels.

        v = u if D = H, else W u
        h' = exp(Λ Δ dt) h + Λ⁻¹ (exp(Λ Δ dt) - 1) v    (or bilinear, see S5),   P complex units for each channel
        y = 2 Re(sum of C h' over the P units) + D v

    Λ = -e^ρ + i ω, initially -1/2 + i π n (S4D-Lin); each channel has its own Δ.

    State: (Re h, Im h), `H P` numbers each: the units of the first channel, then those of the second.

    Args:
        input_size: Number of features D.
        hidden_size: Number of channels H.
        state_size: Number of complex units P of each channel.
        discretization: "zoh" (zero-order hold, exact for an input held constant) or "bilinear".
        step_min: Smallest initial Δ.
        step_max: Largest initial Δ.
    """

    state_parts = 2
    for_data = StateSpaceCell.for_data

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        state_size: int = 16,
        discretization: str = "zoh",
        step_min: float = 0.001,
        step_max: float = 0.1,
    ):
        whole("state_size", state_size, at_least=1)
        super().__init__(input_size, hidden_size)
        self.state_size, self.units = state_size, self.hidden_size * state_size
        self.discretization = one_of("discretization", discretization, DISCRETIZATIONS)
        self.mix = nn.Linear(input_size, hidden_size, bias=False) if input_size != hidden_size else nn.Identity()
        self.log_decay = nn.Parameter(torch.full((self.units,), math.log(0.5)))
        self.frequency = nn.Parameter(math.pi * torch.arange(state_size).repeat(hidden_size).to(self.log_decay))
        self.log_step = nn.Parameter(log_steps(hidden_size, step_min, step_max))
        self.C = nn.Parameter(torch.randn(2, self.units) * 0.5**0.5)
        self.D = nn.Parameter(torch.randn(hidden_size))

    def project(self, x: Tensor) -> Tensor:
        """Returns v."""
        return self.mix(x)

    def recurrence(self) -> Recurrence:
        """Returns the function that computes M and F."""
        decay = torch.exp(self.log_decay)
        step = torch.exp(self.log_step).repeat_interleave(self.state_size)

        def at(u: Tensor, dt: Tensor) -> tuple[Matrix, State]:
            matrix, factor = discretized(decay, self.frequency, step * dt, self.discretization)
            v = u.repeat_interleave(self.state_size, dim=-1)
            return matrix, (factor[0] * v, factor[1] * v)

        return at

    def readout(self, state: State, u: Tensor) -> Tensor:
        """Returns 2 Re(sum of C h) + D v."""
        real, imaginary = state
        C_real, C_imaginary = self.C
        terms = 2 * (C_real * real - C_imaginary * imaginary)
        return terms.unflatten(-1, (self.hidden_size, self.state_size)).sum(-1) + self.D * u
