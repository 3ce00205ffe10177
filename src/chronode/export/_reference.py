"""Reference predictions of chronode, random irregular series to compare on, and the errors that rounding causes."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..model import SequenceModel
from ..model.start import Summaries
from ._deployment import Deployment, Series

_MOST_OF_SPREAD = 0.3
"""Rounding that accounts for a tenth of the variance of the predictions has changed what the model predicts."""


def irregular(deployment: Deployment, batch: int, steps: int, seed: int = 0) -> Series:
    """Draws series: random walks around the training means, random gaps, and missing values if allowed."""
    rng, size = np.random.default_rng(seed), len(deployment.channels)
    scaler = deployment.scaler
    values = np.empty((batch, steps, size))
    value = np.zeros((batch, size))
    for step in range(steps):
        value = 0.8 * value + 0.6 * rng.normal(size=(batch, size))
        values[:, step] = value
    if scaler is not None:
        values = scaler.inverse_values(values)
    missing = 0.3 if deployment.missing else 0.0
    dt = deployment.gap * rng.exponential(size=(batch, steps))
    dt[:, 0] = 0.0
    observed = rng.random(values.shape) >= missing
    return Series(values.astype(np.float32), observed, dt.astype(np.float32))


def predictions(deployment: Deployment, series: Series, *, double: bool = False) -> NDArray[Any]:
    """Returns the predictions `(B, T, K)` of the model itself after each step.

    Args:
        deployment: The model with its names, units and scaling.
        series: The observations.
        double: Whether to compute in float64.
    """
    scaler, target, dtype = deployment.scaler, deployment.target_scaler, torch.float64 if double else torch.float32
    model = _predicting_every_step(deployment.model)
    model = model.double() if double else model
    x, observed, dt = map(torch.from_numpy, series)
    values = torch.where(observed, x, 0).double()
    if scaler is not None:
        mean, std = (torch.tensor(numbers, dtype=torch.float64) for numbers in (scaler.mean, scaler.std))
        shaped = [scaler.shaped(i, column) for i, column in enumerate(np.moveaxis(values.numpy(), -1, 0))]
        values = (torch.from_numpy(np.stack(shaped, axis=-1)) - mean) / std
    scaled = torch.where(observed, values, 0).to(dtype)
    gaps = dt.double()
    if deployment.has_times:
        gaps = torch.cat([torch.zeros_like(gaps[:, :1]), gaps[:, 1:]], dim=1)
    if scaler is not None:
        gaps = (gaps if scaler.gaps is None else torch.from_numpy(scaler.gaps(gaps.numpy()))) / scaler.dt
    gaps = gaps.to(dtype)
    with torch.no_grad():
        times = {"dt": gaps, **({"observed": observed} if deployment.missing else {})}
        if deployment.window:
            y = _window_outputs(model, deployment.window, scaled, times)
        else:
            y = model(scaled, **times) if model.pooling is None else model.run(scaled, None, **times)[0]
    if deployment.classes:
        return y.softmax(-1).numpy()
    return (y if target is None else target.inverse_target(y)).numpy()


def _window_outputs(model: SequenceModel, window: int, x: torch.Tensor, times: dict[str, torch.Tensor]) -> torch.Tensor:
    """Returns the outputs `(B, T, K)` for the windows that end at each step."""
    outputs = []
    for end in range(1, x.shape[1] + 1):
        part = slice(max(0, end - window), end)
        arguments = {name: values[:, part].clone() for name, values in times.items()}
        arguments["dt"][:, 0] = 0  # a window begins at its first step
        outputs.append(model(x[:, part], **arguments))
    return torch.stack(outputs, dim=1)


def _predicting_every_step(model: SequenceModel) -> SequenceModel:
    model = copy.deepcopy(model)
    if model.relative is None:
        model.layer.outputs = "all"
    if model.start is not None and isinstance(model.start.features, Summaries):
        model.start.features.every_step = True
    return model


def tolerances(deployment: Deployment) -> NDArray[np.float64]:
    """Returns the allowed difference of an export for each output: 1e-5, for values times the target's deviation."""
    target = deployment.target_scaler
    if target is None or not target.targets:
        return np.full(len(deployment.outputs), 1e-5)
    scale = np.array(target.target_std)
    for output, shape in enumerate(target.target_shapes):
        if shape.offset is not None:  # an exponential multiplies errors by its value
            scale[output] *= np.exp(target.target_mean[output] + 3 * target.target_std[output])
    return 1e-5 * scale


@dataclass(frozen=True)
class Rounding:
    """The effect of rounding on predictions.

    Attributes:
        original: `(steps, K)` predictions of the model.
        rounded: `(steps, K)` predictions with the rounded weights.
        tolerances: `(K,)` differences that floating-point arithmetic alone may cause.
        classes: Whether the predictions are class probabilities.
    """

    original: NDArray[np.float32]
    rounded: NDArray[np.float32]
    tolerances: NDArray[np.float64]
    classes: bool

    @property
    def difference(self) -> float:
        """The largest difference."""
        return float(np.abs(self.rounded - self.original).max())

    @property
    def limits(self) -> NDArray[np.float64]:
        """The allowed mean squared difference of each output."""
        spread = np.asarray(self.original, np.float64).std(axis=0)
        return (self.tolerances + _MOST_OF_SPREAD * spread) ** 2

    @property
    def shares(self) -> NDArray[np.float64]:
        """The root mean square of the differences of each output, as a share of the spread of its predictions."""
        squares = (np.asarray(self.rounded, np.float64) - self.original) ** 2
        return _MOST_OF_SPREAD * np.sqrt(squares.mean(axis=0) / self.limits)

    @property
    def is_small(self) -> bool:
        """Whether the predictions are still those of the model."""
        return bool((self.shares <= _MOST_OF_SPREAD).all())

    def text(self) -> str:
        """The effect in one line."""
        parts = [f"largest difference from float32 {self.difference:.3g}"]
        parts.append(f"root mean square {100 * self.shares.max():.2g}% of the spread of the predictions")
        if self.classes:
            same = (self.original.argmax(-1) == self.rounded.argmax(-1)).mean()
            parts.append(f"same class in {100 * same:.4g}% of {len(self.original):,}")
        return ", ".join(parts) + ("" if self.is_small else ": too much, use float32 (`make check` fails)")
