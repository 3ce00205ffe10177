"""The benchmark cases: shapes, contenders, and the speed-ups to reach."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from chronode.kernels import backend
from chronode.nn import create

Products = list[tuple[int, int, int]]
"""Matrix products of one time step and sample: (rows per sample, inner size, columns)."""


@dataclass(frozen=True)
class BenchCase:
    """One shape.

    Attributes:
        name: Shown in the table.
        model: Name of a registered model.
        time: Number of steps T.
        batch: Number of sequences B.
        features: Number of input features D.
        hidden: Number of units H.
        layers: Number of layers L.
        settings: Settings of the model.
        products: Matrix products of one step and sample in the forward pass; if None, no limit is shown.
        goals: Minimum speed-up over a contender ("loop", "lstm", "ncps"), or maximum multiple of the "limit".
    """

    name: str
    model: str
    time: int
    batch: int
    features: int
    hidden: int
    layers: int = 1
    settings: dict[str, Any] = field(default_factory=dict)
    products: Products | None = None
    goals: dict[str, float] = field(default_factory=dict)

    def data(self, device: str = "cpu") -> tuple[Tensor, Tensor]:
        """Returns x `(B, T, D)` and dt `(B, T)`."""
        rng = torch.Generator().manual_seed(0)
        x = torch.randn(self.batch, self.time, self.features, generator=rng)
        dt = torch.rand(self.batch, self.time, generator=rng) + 0.5
        return x.to(device), dt.to(device)

    def contenders(self, device: str = "cpu") -> dict[str, Callable[[], Tensor]]:
        """Returns the forward passes to compare, by name."""
        x, dt = self.data(device)
        torch.manual_seed(0)
        layer = create(self.model, self.features, self.hidden, self.layers, **self.settings).to(device)

        def loop() -> Tensor:
            with backend("torch"):
                return layer(x, dt=dt)[0]

        found = {"chronode": lambda: layer(x, dt=dt)[0], "loop": loop}
        lstm = nn.LSTM(self.features, self.hidden, batch_first=True).to(device)
        found["lstm"] = lambda: lstm(x)[0]
        if self.model == "ltc":
            found["ncps"] = _ncps(self, x)
        return found


def _ncps(case: BenchCase, x: Tensor) -> Callable[[], Tensor]:
    try:
        from ncps.torch import LTC
    except ImportError as error:
        raise ImportError("`chronode bench` compares with ncps: pip install 'chronode[dev]'.") from error
    layer = LTC(case.features, case.hidden, ode_unfolds=case.settings.get("unfolds", 6))
    layer = layer.to(x.device)
    return lambda: layer(x)[0]


def _stack(features: int, hidden: int, layers: int) -> Products:
    return [(1, features, hidden), *[(1, hidden, hidden)] * (layers - 1)]


def _mmrnn(features: int, hidden: int, steps: int) -> Products:
    gates = [(1, features, 4 * hidden), (1, hidden, 4 * hidden)]
    return gates + [(1, hidden, hidden)] * (2 * steps)


def _irnn(features: int, hidden: int, k: int, rank: int) -> Products:
    return [(1, features, hidden)] + [(1, hidden, rank), (1, rank, hidden)] * (2 * k)


CASES = (
    BenchCase(
        "UnICORNN T1000 B128 H128 L2", "unicornn", 1000, 128, 1, 128, 2,
        products=_stack(1, 128, 2), goals={"loop": 4.5, "lstm": 6},
    ),
    BenchCase(
        "UnICORNN T784 B32 H256 L3", "unicornn", 784, 32, 1, 256, 3,
        products=_stack(1, 256, 3), goals={"loop": 3, "lstm": 2.5},
    ),
    BenchCase(
        "UnICORNN T17984 B8 H32 L2", "unicornn", 17984, 8, 6, 32, 2,
        products=_stack(6, 32, 2), goals={"loop": 80, "lstm": 4.5},
    ),
    BenchCase("LTC synaptic T256 B64 H32", "ltc", 256, 64, 8, 32, goals={"loop": 12, "ncps": 10}),
    BenchCase(
        "mmRNN gated T256 B32 H64", "mmrnn", 256, 32, 1, 64,
        products=_mmrnn(1, 64, 4), goals={"loop": 10},
    ),
    BenchCase(
        "mmRNN gated T256 B256 H64", "mmrnn", 256, 256, 1, 64,
        products=_mmrnn(1, 64, 4), goals={"loop": 3, "limit": 1.6},
    ),
    BenchCase(
        "iRNN T784 B128 H128 K5 rank 16", "irnn", 784, 128, 1, 128,
        settings={"K": 5, "rank": 16}, products=_irnn(1, 128, 5, 16), goals={"loop": 8, "limit": 1.8},
    ),
)  # fmt: skip


def all_models(names: list[str]) -> list[BenchCase]:
    """Returns every named model at one shape, for comparison with torch.nn.LSTM; none may be over 60 times slower."""
    return [BenchCase(name, name, 256, 64, 8, 64, goals={"lstm": 1 / 60}) for name in names]
