"""Synthetic two-legged gait: six joints as coupled oscillators, in the 17 observations of Walker2d."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FRAME = 0.008  # seconds, as in Walker2d
AGES = 4  # as many speeds as there are policies
_KICK = 0.01  # share of frames with a phase jump, as random actions would cause
_COUPLING = 4.0
_SWING = np.array([0.5, 0.7, 0.3, 0.5, 0.7, 0.3])
# Thigh, leg and foot are phase-shifted; the left leg is half a period behind the right.
_PHASE = np.array([0.0, -1.0, -1.6, np.pi, np.pi - 1.0, np.pi - 1.6])


def walk(count: int, seed: int, frames: int = 1000) -> NDArray[np.float32]:
    """Returns `(count, frames, 17)`: height, pitch, six joint angles, then the velocities of the body and of those
    values.

    The phases θ of the joints obey θ_i' = ω + κ/6 Σ_j sin(θ_j - φ_j - θ_i + φ_i), so that a perturbed joint returns to
    the common rhythm. The velocities of height, pitch and joints are the derivatives of those values.

    Example:
        >>> walk(3, seed=0, frames=50).shape
        (3, 50, 17)
    """
    rng = np.random.default_rng(seed)
    pace = 5.0 + rng.integers(AGES, size=(count, 1)) + rng.normal(0, 0.1, (count, 1))  # radians per second
    phase = rng.uniform(-np.pi, np.pi, (count, 6))
    shown = np.empty((count, frames, 17), dtype=np.float32)
    for frame in range(frames):
        lag = phase - _PHASE
        # The sum of sines over all joints is computed from their mean in the complex plane.
        turns = np.exp(1j * lag)
        speed = pace + _COUPLING * (turns.mean(1, keepdims=True) * turns.conj()).imag
        shown[:, frame] = _observed(phase, speed)
        kicked = rng.uniform(size=(count, 1)) < _KICK
        phase = phase + FRAME * speed + kicked * rng.normal(0, 1, (count, 6))
    return shown


def _observed(phase: NDArray[np.float64], speed: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the 17 observations for joints with these phases and angular velocities."""
    angle, turning = _SWING * np.sin(phase), _SWING * np.cos(phase) * speed
    thighs, thigh_speeds = phase[:, ::3], speed[:, ::3]
    height = 1.25 + 0.05 * np.cos(2 * thighs).mean(1)
    climbing = -0.1 * (np.sin(2 * thighs) * thigh_speeds).mean(1)
    pitch, pitching = 0.1 * angle.mean(1), 0.1 * turning.mean(1)
    forward = 0.4 * speed.mean(1) + 0.2 * turning[:, 0] * np.cos(phase[:, 0])
    body = np.stack([height, pitch], axis=1)
    return np.concatenate([body, angle, np.stack([forward, climbing, pitching], axis=1), turning], axis=1)
