"""Vector fields of ordinary differential equations: dh/dt = f(h), or f(h, u) with an input u that is held constant.

A flow computes the contribution of u once per step (`drive`), then evaluates dh/dt many times (`forward`) or takes
exponential Euler steps (`advance`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrize

from ..compiler import why_hooked
from ..settings import one_of

Kind = TypeVar("Kind", bound="Flow")


def is_linear(module: nn.Module) -> bool:
    """Returns whether calling a module is nothing but W x + b, so that its weights may be read instead."""
    plain = parametrize.type_before_parametrizations(module) is nn.Linear and "forward" not in vars(module)
    return plain and why_hooked(module) is None


class Flow(nn.Module):
    """Base class for vector fields dh/dt of `size` units, driven by `drive_size` inputs (0: autonomous).

    Subclasses compute `forward`; `register_flow` gives them a name, which cells take as `flow`. They are built as
    `kind(size, drive_size)`. `chronode.testing.check_flow` checks the contract:

    - `forward(h, drive)` maps `h (B, size)` to dh/dt of the same shape, row by row, without changing anything.
    - `drive(u)` is `(B, drive_width)`; without inputs, `forward` and `advance` take no drive.
    - `advance(h, step, drive)` is the state after a short time `step (B, 1)`: h + step dh/dt, up to terms in step².

    Example:
        >>> @register_flow("decay")
        ... class Decay(Flow):
        ...     def forward(self, h, drive=None):
        ...         return -h if drive is None else drive - h
        >>> from chronode.nn import create
        >>> create("mmrnn", 1, 4, flow="decay")(torch.zeros(1, 3, 1))[0].shape
        torch.Size([1, 3, 4])
    """

    def __init__(self, size: int, drive_size: int = 0, gates: int = 1):
        super().__init__()
        self.size = size
        self.drive_width = gates * size
        self.drive_in = nn.Linear(drive_size, self.drive_width, bias=False) if drive_size else None

    def drive(self, u: Tensor) -> Tensor:
        """Returns the contribution of the held input, computed once per step."""
        assert self.drive_in is not None
        return self.drive_in(u)

    def forward(self, h: Tensor, drive: Tensor | None = None) -> Tensor:
        """dh/dt."""
        raise NotImplementedError

    def advance(self, h: Tensor, step: Tensor, drive: Tensor | None = None) -> Tensor:
        """Takes an exponential Euler step; without a leak it is an Euler step."""
        return h + step * self(h, drive)


class Approach(Flow):
    """Flow with a leak: the state approaches a target at a rate, dh/dt = rate ⊙ (target - h), rate ≥ 0.

    An exponential Euler step is exact while target and rate are held: h' = h + (1 - exp(-rate step)) (target - h)
    lies between h and the target, however long the step.
    """

    def approach(self, h: Tensor, drive: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Returns (target, rate) at h."""
        raise NotImplementedError

    def forward(self, h: Tensor, drive: Tensor | None = None) -> Tensor:
        """dh/dt."""
        target, rate = self.approach(h, drive)
        return rate * (target - h)

    def advance(self, h: Tensor, step: Tensor, drive: Tensor | None = None) -> Tensor:
        """Takes an exponential Euler step."""
        target, rate = self.approach(h, drive)
        return h - torch.expm1(-rate * step) * (target - h)


def _plus(a: Tensor, drive: Tensor | None) -> Tensor:
    return a if drive is None else a + drive


class MLPFlow(Flow):
    """dh/dt = W2 tanh(W1 h + K u + b1) + b2."""

    def __init__(self, size: int, drive_size: int = 0):
        super().__init__(size, drive_size)
        self.inner = nn.Linear(size, size)
        self.outer = nn.Linear(size, size)

    def forward(self, h: Tensor, drive: Tensor | None = None) -> Tensor:
        """dh/dt."""
        return self.outer(torch.tanh(_plus(self.inner(h), drive)))

    def lifted(self) -> tuple[Callable[..., Tensor], Callable[..., Tensor], Callable[..., Tensor]]:
        """Returns the flow of (p, S), with p = W1 h + K u + b1 and S = ∫ tanh(p): half as many products.

            dp/dt = W1 W2 tanh(p) + W1 b2,  dS/dt = tanh(p),  h(dt) = h(0) + W2 S + dt b2

        Explicit methods commute with linear maps, so the result is the same.

        Returns:
            `(h, drive) -> (p, S)` at the start, `(p, S) -> d(p, S)/dt`, and `(h, (p, S), dt) -> h(dt)`.
        """
        weight, bias = self.outer.weight, self.outer.bias
        product, shift = self.inner.weight @ weight, self.inner.weight @ bias

        def enter(h: Tensor, drive: Tensor | None = None) -> Tensor:
            p = _plus(self.inner(h), drive)
            return torch.cat([p, torch.zeros_like(p)], dim=-1)

        def field(lifted: Tensor) -> Tensor:
            slope = torch.tanh(lifted[..., : self.size])
            return torch.cat([F.linear(slope, product, shift), slope], dim=-1)

        def leave(h: Tensor, lifted: Tensor, dt: Tensor) -> Tensor:
            return h + F.linear(lifted[..., self.size :], weight) + dt * bias

        return enter, field, leave


class TanhFlow(Flow):
    """dh/dt = tanh(R h + K u + b)."""

    def __init__(self, size: int, drive_size: int = 0):
        super().__init__(size, drive_size)
        self.recurrent = nn.Linear(size, size)

    def forward(self, h: Tensor, drive: Tensor | None = None) -> Tensor:
        """dh/dt."""
        return torch.tanh(_plus(self.recurrent(h), drive))


class CTRNNFlow(Approach):
    """dh/dt = s ⊙ tanh(R h + K u + b) - h."""

    def __init__(self, size: int, drive_size: int = 0):
        super().__init__(size, drive_size)
        self.recurrent = nn.Linear(size, size)
        self.scale = nn.Parameter(torch.ones(size))

    def approach(self, h: Tensor, drive: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Returns (s ⊙ tanh(.), 1)."""
        return self.scale * torch.tanh(_plus(self.recurrent(h), drive)), torch.ones_like(self.scale)


class LeakyFlow(Approach):
    """dh/dt = -h/τ + tanh(R h + K u + b),  1/τ > 0."""

    def __init__(self, size: int, drive_size: int = 0):
        super().__init__(size, drive_size)
        self.recurrent = nn.Linear(size, size)
        self.rate = nn.Parameter(torch.full((size,), inverse_softplus(1.0)))

    def approach(self, h: Tensor, drive: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """(τ tanh(.), 1/τ)."""
        rate = F.softplus(self.rate)
        return torch.tanh(_plus(self.recurrent(h), drive)) / rate, rate


class GRUFlow(Approach):
    """The GRU-ODE field: dh/dt = (1 - z) ⊙ (g - h).

    r, z = σ(R h + K u + b) for each gate;  g = tanh(R_g (r ⊙ h) + K_g u + b_g)
    """

    def __init__(self, size: int, drive_size: int = 0):
        super().__init__(size, drive_size, gates=3)
        self.gates = nn.Linear(size, 2 * size)
        self.candidate = nn.Linear(size, size)

    def approach(self, h: Tensor, drive: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Returns (g, 1 - z)."""
        for_gates, for_candidate = (None, None) if drive is None else drive.split([2 * self.size, self.size], -1)
        r, z = torch.sigmoid(_plus(self.gates(h), for_gates)).chunk(2, dim=-1)
        return torch.tanh(_plus(self.candidate(r * h), for_candidate)), 1 - z


class LTCFlow(Approach):
    """The liquid time-constant field: dh/dt = -(1/τ + f) ⊙ h + f ⊙ A,  f = σ(R h + K u + b),  τ > 0."""

    def __init__(self, size: int, drive_size: int = 0):
        super().__init__(size, drive_size)
        self.recurrent = nn.Linear(size, size)
        self.rate = nn.Parameter(torch.full((size,), inverse_softplus(1.0)))
        self.target = nn.Parameter(torch.empty(size).uniform_(-1, 1))

    def approach(self, h: Tensor, drive: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Returns (f A / (1/τ + f), 1/τ + f)."""
        f = torch.sigmoid(_plus(self.recurrent(h), drive))
        rate = F.softplus(self.rate) + f
        return f * self.target / rate, rate


FLOWS: dict[str, type[Flow]] = {
    "mlp": MLPFlow,
    "ctrnn": CTRNNFlow,
    "tanh": TanhFlow,
    "leaky": LeakyFlow,
    "gru": GRUFlow,
    "ltc": LTCFlow,
}


def register_flow(name: str) -> Callable[[type[Kind]], type[Kind]]:
    """Returns a decorator that gives a subclass of `Flow` a name."""

    def add(kind: type[Kind]) -> type[Kind]:
        if FLOWS.get(name, kind).__qualname__ != kind.__qualname__:
            raise ValueError(f"there is another flow {name!r}; choose a different name.")
        FLOWS[name] = kind
        return kind

    return add


def make_flow(name: str, size: int, drive_size: int = 0) -> Flow:
    """Returns a new flow of the given kind."""
    return FLOWS[one_of("flow", name, FLOWS)](size, drive_size)


def inverse_softplus(value: float) -> float:
    """Returns the raw parameter whose softplus is `value`."""
    return float(torch.tensor(value, dtype=torch.float64).expm1().log())
