"""torchcde: neural controlled differential equations, prepared as in its example/irregular_data.py."""

from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import torch
import torchcde
from loop import fit
from protocol import STEP_MS, Answer, Series, Way, classes, main, moments
from torch import Tensor, nn

HIDDEN, WIDTH = 16, 64


class Field(nn.Module):
    """Vector field with a tanh at its end, as the package's classification example recommends."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.channels = channels
        self.layers = nn.Sequential(nn.Linear(HIDDEN, WIDTH), nn.ReLU(), nn.Linear(WIDTH, HIDDEN * channels), nn.Tanh())

    def forward(self, t: Tensor, z: Tensor) -> Tensor:
        return self.layers(z).view(*z.shape, self.channels)


class Network(nn.Module):
    """Initial state from the first value of the path, neural CDE, linear map of the final state."""

    def __init__(self, channels: int, outputs: int, linear: bool, method: str) -> None:
        super().__init__()
        self.linear, self.method = linear, method
        self.initial = nn.Linear(channels, HIDDEN)
        self.field = Field(channels)
        self.readout = nn.Linear(HIDDEN, outputs)

    def forward(self, coefficients: Tensor) -> Tensor:
        path = (torchcde.LinearInterpolation if self.linear else torchcde.CubicSpline)(coefficients)
        start = self.initial(path.evaluate(path.interval[0]))
        states = torchcde.cdeint(
            path, self.field, start, path.interval, adjoint=False, method=self.method, options={"step_size": 1.0}
        )
        return self.readout(states[:, -1])


class Coefficients:
    """Those of a padded batch: time, values and counts of readings as channels, the last row repeated as padding."""

    def __init__(self, train: list[Series], linear: bool) -> None:
        self.mean, self.deviation = moments(train)
        self.linear = linear

    def __call__(self, series: list[Series]) -> tuple[Tensor]:
        rows = [torch.tensor(self._channels(each), dtype=torch.float32) for each in series]
        longest = max(map(len, rows))
        padded = torch.stack([torch.cat([row, row[-1:].expand(longest - len(row), -1)]) for row in rows])
        coefficients = (
            torchcde.linear_interpolation_coeffs
            if self.linear
            else torchcde.hermite_cubic_coefficients_with_backward_differences
        )
        return (coefficients(padded),)

    def _channels(self, each: Series) -> np.ndarray:
        values = (each.values - self.mean) / self.deviation
        counts = np.cumsum(~np.isnan(values), axis=0) / 10
        return np.column_stack([each.times / STEP_MS / 10, values, counts])


def way(title: str, source: str, *, linear: bool, method: str) -> Way:
    def train_network(train: list[Series], seed: int) -> Answer:
        torch.manual_seed(seed)
        channels = 1 + 2 * train[0].values.shape[1]
        network = Network(channels, len(classes(train)), linear, method)
        return fit(network, Coefficients(train, linear), train, seed)

    return Way(title, source, train_network)


if __name__ == "__main__":
    main(
        "torchcde",
        version("torchcde"),
        [
            way(
                "neural CDE, cubic Hermite splines, rk4, last row repeated as padding",
                "example/irregular_data.py",
                linear=False,
                method="rk4",
            ),
            way(
                "neural CDE, linear interpolation, rk4, last row repeated as padding",
                "example/irregular_data.py; README, fixed solvers",
                linear=True,
                method="rk4",
            ),
            way(
                "neural CDE, linear interpolation, midpoint, last row repeated as padding",
                "example/irregular_data.py; README, fixed solvers",
                linear=True,
                method="midpoint",
            ),
        ],
    )
