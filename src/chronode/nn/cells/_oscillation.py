"""Base class of LinOSS and D-LinOSS, and the motion x'' = f - A x - G x' in closed form for every damping and time."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from .._cell import State
from ._linear import Matrix, StateSpaceCell

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
