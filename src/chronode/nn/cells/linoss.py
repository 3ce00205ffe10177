"""LinOSS and D-LinOSS: linear oscillators, whose motion is known in closed form for every damping and time."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from ...settings import one_of
from .._cell import State
from .._registry import register
from .linear import Matrix, Recurrence, StateSpaceCell

_NEAR = 0.25  # |r| below which power series are used
_TERMS = 9  # of the series: enough for float64


class OscillatorCell(StateSpaceCell):
    """Base class of LinOSS and D-LinOSS: complex (z, x) as (Re z, Im z, Re x, Im x), on which M acts twice."""

    state_parts = 4
    copies = 2

    def __init__(self, input_size: int, hidden_size: int, state_size: int | None):
        super().__init__(input_size, hidden_size, state_size)
        nn.init.uniform_(self.B, -(input_size**-0.5), input_size**-0.5)
        nn.init.uniform_(self.C, -(self.units**-0.5), self.units**-0.5)
        self.stiffness = nn.Parameter(torch.empty(self.units).uniform_(0, 1))
        self.rate = nn.Parameter(torch.empty(self.units).uniform_(0, 1))

    def forced(self, matrix: Matrix, on_z: Tensor, on_x: Tensor, u: Tensor) -> tuple[Matrix, State]:
        """Returns M and F for the gains of B u in z and in x."""
        real, imaginary = self.driven(u)
        return matrix, (on_z * real, on_z * imaginary, on_x * real, on_x * imaginary)

    def exact(self, A: Tensor, G: Tensor | None, e: Tensor, u: Tensor) -> tuple[Matrix, State]:
        """Returns M and F of the exact motion for the time e."""
        c, s, q = motion(A, G, e)
        drag = 0.0 if G is None else 0.5 * G * s
        return self.forced(((c - drag, -A * s), (s, c + drag)), s, q, u)


def motion(stiffness: Tensor, damping: Tensor | None, time: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Returns (c, s, q) of x'' = f - A x - G x', from which the motion over a time τ follows for a constant f.

    With K = [[-G, -A], [1, 0]], on (x', x):  exp(K τ) = c I + s (K + G/2 I),  and f adds (s f, q f),  q = ∫ s.
    With m = G τ/2 and r = m² - A τ²:

        s = τ e^-m S(r),  c = e^-m C(r),   C(r) = cosh √r,  S(r) = sinh(√r)/√r   (r < 0: cos and sin of √-r)
        q = τ² (1 - e^-m (C + m S)) / (m² - r)

    None of them loses digits: near r = 0 power series are used, and q of an overdamped motion comes from its two rates.

    Args:
        stiffness: A >= 0.
        damping: G >= 0; None for undamped motion.
        time: τ >= 0; all arguments are broadcast.
    """
    return _undamped(stiffness, time) if damping is None else _damped(stiffness, damping, time)


def _undamped(stiffness: Tensor, time: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """m = 0: q = τ²/2 S(r/4)², because 1 - cos θ = 2 sin²(θ/2)."""
    square = stiffness * time * time
    is_near = square < _NEAR
    angle = torch.where(is_near, torch.ones_like(square), square).sqrt()
    half = 0.5 * angle
    r = -torch.where(is_near, square, torch.zeros_like(square))
    c = torch.where(is_near, _series(r, 0), torch.cos(angle))
    s = time * torch.where(is_near, _series(r, 1), torch.sin(angle) / angle)
    half_s = torch.where(is_near, _series(0.25 * r, 1), torch.sin(half) / half)
    return c, s, 0.5 * time * time * half_s * half_s


def _damped(stiffness: Tensor, damping: Tensor, time: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    m = 0.5 * damping * time
    square = stiffness * time * time
    r = m * m - square
    swings, creeps = r < -_NEAR, r > _NEAR
    one, zero = torch.ones_like(r), torch.zeros_like(r)
    near = torch.where(swings | creeps, zero, r)
    angle = torch.where(swings, -r, one).sqrt()
    fading = torch.exp(-m)
    c = fading * torch.where(swings, torch.cos(angle), _series(near, 0))
    s = fading * torch.where(swings, torch.sin(angle) / angle, _series(near, 1))
    # Of the motions with |r| <= 1/4, those with m <= 1 need the series, in which m² - r, nearly 0, is divided out.
    is_small = ~swings & ~creeps & (m < 1)
    small_m = torch.where(is_small, m, zero)
    q = torch.where(
        is_small,
        torch.exp(-small_m) * _quotient(small_m, torch.where(is_small, r, zero)),
        (1 - c - m * s) / torch.where(is_small | creeps, one, square),
    )
    # e^-m cosh √r without the overflow of cosh: the rates are m ± √r, and m - √r = A τ² / (m + √r).
    root = torch.where(creeps, r, one).sqrt()
    fast = torch.where(creeps, m, one) + root
    slow = torch.where(creeps, square, zero) / fast
    slow_part, fast_part = torch.exp(-slow), torch.exp(-fast)
    c = torch.where(creeps, 0.5 * (slow_part + fast_part), c)
    s = torch.where(creeps, 0.5 * (slow_part - fast_part) / root, s)
    q = torch.where(creeps, 0.5 * (_mean_decay(slow) - _mean_decay(fast)) / root, q)
    return c, time * s, time * time * q


def _series(r: Tensor, odd: int) -> Tensor:
    """Returns C(r) (`odd` 0) or S(r) (1), the sums of r^k / (2k + odd)!, for small r."""
    total = torch.zeros_like(r)
    for k in reversed(range(_TERMS - 1)):
        total = total * r + 1 / math.factorial(2 * k + odd)
    return total


def _quotient(m: Tensor, r: Tensor) -> Tensor:
    """Returns (e^m - C(r) - m S(r)) / (m² - r) for small m and r.

    e^m = C(m²) + m S(m²), so this is a divided difference: the sum over k of (m^2k - r^k)/(m² - r) times
    1/(2k)! + m/(2k + 1)!, whose first factor follows from (m^2k - r^k)/(m² - r) = m² (previous one) + r^(k-1).
    """
    square, power = m * m, torch.ones_like(r)
    difference = torch.ones_like(r)
    total = torch.zeros_like(r)
    for k in range(1, _TERMS + 1):
        total = total + difference * (1 / math.factorial(2 * k) + m * (1 / math.factorial(2 * k + 1)))
        power = power * r
        difference = square * difference + power
    return total


def _mean_decay(x: Tensor) -> Tensor:
    """Returns (1 - e^-x)/x, 1 at 0."""
    is_tiny = x < 1e-8
    return torch.where(is_tiny, 1 - 0.5 * x, -torch.expm1(-x) / torch.where(is_tiny, torch.ones_like(x), x))


@register("linoss", paper="Rusch & Rus 2025, LinOSS", time="native")
class LinOSSCell(OscillatorCell):
    """LinOSS: undamped linear oscillators x'' = -A x + B u, one per unit, read out linearly.

        A = relu(a),  e = σ(ŝ) dt
        exact:  the motion for the time e with u held constant:
                (z', x') = exp(e [[0, -A], [1, 0]]) (z, x) + ∫ exp(t [[0, -A], [1, 0]]) (B u, 0) dt
        im:     S = 1/(1 + e² A);  z' = S (z - e A x + e B u);   x' = S (e z + x + e² B u)
        imex:   z' = z - e A x + e B u;                          x' = x + e z'
        y = Re(C x') + D u

    "im" and "imex" with dt = 1 are the paper's models. "im" dissipates energy, the more the longer the steps; "imex"
    keeps the volume of the state, and diverges if e² A exceeds 4. With "exact", one gap of 2 is two gaps of 1.

    State: (Re z, Im z, Re x, Im x).

    Args:
        input_size: Number of features D.
        hidden_size: Number of outputs H.
        state_size: Number of complex oscillators P; by default H.
        discretization: "exact", "im" or "imex".
    """

    def __init__(self, input_size: int, hidden_size: int, state_size: int | None = None, discretization: str = "exact"):
        super().__init__(input_size, hidden_size, state_size)
        self.discretization = one_of("discretization", discretization, ("exact", "im", "imex"))

    def recurrence(self) -> Recurrence:
        """Returns the function that computes M and F."""
        A, s = torch.relu(self.stiffness), torch.sigmoid(self.rate)

        def at(u: Tensor, dt: Tensor) -> tuple[Matrix, State]:
            e = s * dt
            if self.discretization == "exact":
                return self.exact(A, None, e, u)
            if self.discretization == "im":
                S = 1 / (1 + e * e * A)
                return self.forced(((S, -e * A * S), (e * S, S)), e * S, e * e * S, u)
            return self.forced(((1.0, -e * A), (e, 1 - e * e * A)), e, e * e, u)

        return at


@register("d-linoss", paper="Boyer, Rusch & Rus 2025, D-LinOSS", time="native")
class DampedLinOSSCell(OscillatorCell):
    """D-LinOSS: damped linear oscillators x'' = -A x - G x' + B u, whose damping is learned.

        G = relu(g),  s = σ(ŝ),  e = s dt
        exact:  A = relu(a);  the motion for the time e with u held constant:
                (z', x') = exp(e [[-G, -A], [1, 0]]) (z, x) + ∫ exp(t [[-G, -A], [1, 0]]) (B u, 0) dt
        imex:   A = a within (2 + sG ± 2 √(1 + sG))/s²;  z' = (z - e A x + e B u)/(1 + e G);   x' = x + e z'
        y = Re(C x') + D u

    "imex" with dt = 1 is the paper's model, stable by its bounds on A; it diverges after gaps of several steps. With
    "exact", one gap of 2 is two gaps of 1, and every gap is stable.

    Initially the eigenvalues of a step with dt = 1 are r exp(± i θ),  r² ~ U(0.81, 1),  θ ~ U(0, π).

    State: (Re z, Im z, Re x, Im x).

    Args:
        input_size: Number of features D.
        hidden_size: Number of outputs H.
        state_size: Number of complex oscillators P; by default H.
        discretization: "exact" or "imex".
    """

    def __init__(self, input_size: int, hidden_size: int, state_size: int | None = None, discretization: str = "exact"):
        super().__init__(input_size, hidden_size, state_size)
        self.discretization = one_of("discretization", discretization, ("exact", "imex"))
        nn.init.normal_(self.rate, std=0.5)
        s = torch.sigmoid(self.rate.detach())
        r2, angle = torch.empty_like(s).uniform_(0.81, 1), torch.empty_like(s).uniform_(0, math.pi)
        if discretization == "exact":
            damping = -r2.log() / s
            stiffness = (angle / s).square() + damping.square() / 4
        else:
            damping = (1 - r2) / (s * r2)
            stiffness = (1 + 1 / r2 - 2 * torch.cos(angle) * r2.rsqrt()) / s.square()
        self.damping = nn.Parameter(damping)
        with torch.no_grad():
            self.stiffness.copy_(stiffness)

    def recurrence(self) -> Recurrence:
        """Returns the function that computes M and F."""
        G, s = torch.relu(self.damping), torch.sigmoid(self.rate)
        if self.discretization == "exact":
            A = torch.relu(self.stiffness)
            return lambda u, dt: self.exact(A, G, s * dt, u)
        middle, width = (2 + s * G) / s.square(), 2 * (1 + s * G).sqrt() / s.square()
        A = torch.minimum(torch.maximum(self.stiffness, middle - width), middle + width)

        def at(u: Tensor, dt: Tensor) -> tuple[Matrix, State]:
            e = s * dt
            S = 1 / (1 + e * G)
            return self.forced(((S, -e * A * S), (e * S, 1 - e * e * A * S)), e * S, e * e * S, u)

        return at
