"""Discretization of diagonal state-space models, shared by S5 and S4D."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ...settings import SettingError, number
from ._linear import Matrix

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
