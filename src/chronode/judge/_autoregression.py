"""An autoregression of one history, as a baseline of forecasts."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_MOST_LAGS, _MOST_STEPS = 60, 2_000


def autoregression(history: Tensor, lengths: Tensor, horizon: int) -> Tensor:
    """Continues each channel with an autoregression, fitted by least squares to its own history: `(B, horizon, C)`.

    The number of lags, up to 60 and a third of the history, is that with the lowest AIC. Only the last 2,000 steps are
    used.

    Example:
        >>> wave = torch.sin(0.5 * torch.arange(60.0, dtype=torch.float64))
        >>> found = autoregression(wave[None, :50, None], torch.tensor([50]), 10)
        >>> bool((found.flatten() - wave[50:]).abs().max() < 1e-6)
        True
    """
    found = torch.empty(len(history), horizon, history.shape[2], dtype=torch.float64)
    for row, length in enumerate(lengths.tolist()):
        for channel in range(history.shape[2]):
            values = history[row, max(0, length - _MOST_STEPS) : length, channel].double().numpy()
            found[row, :, channel] = torch.tensor(_continued(values, horizon))
    return found


def _continued(values: NDArray[np.float64], horizon: int) -> NDArray[np.float64]:
    most = min(_MOST_LAGS, len(values) // 3)
    level, spread = values.mean(), values.std()
    if most < 1 or spread <= 1e-12 * abs(level):
        return np.full(horizon, values[-1])
    scaled = (values - level) / spread
    # All orders are compared on the same steps, those that the longest can predict.
    inputs = np.stack([np.ones(len(scaled) - most), *(scaled[most - lag : -lag] for lag in range(1, most + 1))], axis=1)
    criteria = [_aic(inputs[:, : lags + 1], scaled[most:]) for lags in range(1, most + 1)]
    lags = 1 + int(np.argmin(criteria))
    own = np.stack([np.ones(len(scaled) - lags), *(scaled[lags - lag : -lag] for lag in range(1, lags + 1))], axis=1)
    weights = np.linalg.lstsq(own, scaled[lags:], rcond=None)[0]
    path = scaled.tolist()
    for _ in range(horizon):
        path.append(float(weights[0] + weights[1:] @ np.array(path[: -lags - 1 : -1])))
    return np.array(path[-horizon:]) * spread + level


def _aic(inputs: NDArray[np.float64], goal: NDArray[np.float64]) -> float:
    left = goal - inputs @ np.linalg.lstsq(inputs, goal, rcond=None)[0]
    return len(goal) * float(np.log(max(float(left @ left) / len(goal), 1e-24))) + 2 * inputs.shape[1]
