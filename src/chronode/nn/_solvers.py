"""Integration of dh/dt = field(h) over a time `dt` that differs between the samples of a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import cast

import torch
from torch import Tensor, nn

from ..compiler import why_hooked
from ..kernels import need_values
from ..settings import flag, number, one_of, whole
from ._flows import Flow, MLPFlow, is_linear

Field = Callable[..., Tensor]


def _euler(f: Callable[[Tensor], Tensor], h: Tensor, step: Tensor) -> Tensor:
    return h + step * f(h)


def _midpoint(f: Callable[[Tensor], Tensor], h: Tensor, step: Tensor) -> Tensor:
    return h + step * f(h + 0.5 * step * f(h))


def _heun(f: Callable[[Tensor], Tensor], h: Tensor, step: Tensor) -> Tensor:
    k1 = f(h)
    k2 = f(h + step * k1)
    return h + 0.5 * step * (k1 + k2)


def _rk4(f: Callable[[Tensor], Tensor], h: Tensor, step: Tensor) -> Tensor:
    k1 = f(h)
    k2 = f(h + 0.5 * step * k1)
    k3 = f(h + 0.5 * step * k2)
    k4 = f(h + step * k3)
    return h + step / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


Advance = Callable[[Callable[[Tensor], Tensor], Tensor, Tensor], Tensor]

FIXED: dict[str, Advance] = {"euler": _euler, "midpoint": _midpoint, "heun": _heun, "rk4": _rk4}
_EXPLICIT = tuple(FIXED)
ADAPTIVE = ("dopri5",)
"""Solvers whose steps depend on the values."""
NAMES = [*FIXED, *ADAPTIVE]
FLOW_NAMES = [*NAMES, "exponential"]


def register_solver(name: str) -> Callable[[Advance], Advance]:
    """Returns a decorator that makes a function a method of `Solver`, which cells take as `solver`.

    The function performs one step: `advance(field, h, step)` returns the state `(B, size)` a time `step (B, 1)` after
    `h`, where `field(h)` is dh/dt. `chronode.testing.check_solver` checks the contract: it converges to the solution
    as steps become shorter, a step of 0 changes nothing, every row has its own time, and it can be differentiated.

    Example:
        >>> @register_solver("ralston")
        ... def ralston(field, h, step):
        ...     k = field(h)
        ...     return h + step * (k / 4 + 3 / 4 * field(h + 2 / 3 * step * k))
        >>> solver = Solver("ralston", steps=64)
        >>> round(solver(lambda h: -h, torch.ones(1, 1), torch.ones(1, 1)).item(), 3)
        0.368
    """

    def add(advance: Advance) -> Advance:
        if name in FLOW_NAMES and getattr(FIXED.get(name), "__qualname__", "") != advance.__qualname__:
            raise ValueError(f"there is another solver {name!r}; choose a different name.")
        FIXED[name] = advance
        for names in (NAMES, FLOW_NAMES):
            names += [] if name in names else [name]
        return advance

    return add


class Solver:
    """Integrates `field(h, *held)` from 0 to `dt`; the tensors `held` stay constant.

    The fixed-step methods (`euler`, `midpoint`, `heun`, `rk4`) take `steps` steps of `dt / steps` for each sample.
    `dopri5` is the adaptive Dormand-Prince method of torchdiffeq: time is rescaled to [0, 1] and the field
    multiplied by `dt`, so every sample has its own time, and the error is controlled for the worst sample.

    Example:
        >>> import torch
        >>> solver = Solver("rk4", steps=8)
        >>> h, dt = torch.ones(2, 1), torch.tensor([[1.0], [2.0]])
        >>> [round(value, 3) for value in solver(lambda h: -h, h, dt).flatten().tolist()]  # e⁻¹ and e⁻²
        [0.368, 0.135]
    """

    names: Sequence[str] = NAMES

    def __init__(
        self,
        name: str = "euler",
        steps: int = 4,
        *,
        rtol: float = 1e-5,
        atol: float = 1e-7,
        adjoint: bool = False,
    ):
        self.name = one_of("solver", name, self.names)
        self.steps = whole("steps", steps, at_least=1)
        self.rtol = number("rtol", rtol, above=0)
        self.atol = number("atol", atol, above=0)
        self.adjoint = flag("adjoint", adjoint)
        if adjoint and name not in ADAPTIVE:
            raise ValueError(f"adjoint=True needs an adaptive solver; solver={name!r} is not: use solver='dopri5'.")

    def __call__(
        self, field: Field, h: Tensor, dt: Tensor, *held: Tensor, params: Iterable[nn.Parameter] = ()
    ) -> Tensor:
        """Returns the state after `dt (B, 1)`; `params` are the parameters of the field, only needed for adjoint
        gradients.
        """
        if self.name in ADAPTIVE:
            return self._adaptive(field, h, dt, held, tuple(params))

        def f(at: Tensor) -> Tensor:
            return field(at, *held)

        advance, step = FIXED[self.name], dt / self.steps
        for _ in range(self.steps):
            h = advance(f, h, step)
        return h

    def prepared(self, field: Flow) -> Callable[..., Tensor]:
        """Returns `(h, dt, *held) -> state after dt`; what depends on parameters alone may be computed once."""
        return partial(self, field, params=list(field.parameters()))

    def _adaptive(
        self, field: Field, h: Tensor, dt: Tensor, held: tuple[Tensor, ...], params: tuple[nn.Parameter, ...]
    ) -> Tensor:
        need_values(h, f"solver={self.name!r}", f"use one of {', '.join(FIXED)}")
        try:
            from torchdiffeq import odeint, odeint_adjoint
        except ImportError as error:
            raise ImportError(f"solver={self.name!r} needs torchdiffeq: pip install 'chronode[train]'.") from error

        # dt and the held tensors are constant states, so that adjoint gradients reach them too.
        def scaled(_: Tensor, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            at, span, *constants = state
            return (span * field(at, *constants), *(torch.zeros_like(s) for s in state[1:]))

        def worst_sample(state: tuple[Tensor, ...] | Tensor) -> Tensor:
            # It only controls the step sizes. Without detach, the gradient of the first one is NaN where dt is 0 (√0).
            moving = (state[0] if isinstance(state, tuple) else state).detach()
            return moving.square().mean(-1).sqrt().max()

        start = (h, dt.expand(h.shape[0], 1).contiguous(), *held)
        span = torch.tensor([0.0, 1.0], dtype=h.dtype, device=h.device)
        common = {"rtol": self.rtol, "atol": self.atol, "method": self.name, "options": {"norm": worst_sample}}
        if self.adjoint:
            end = odeint_adjoint(
                scaled, start, span, adjoint_params=params, adjoint_options={"norm": "seminorm"}, **common
            )
        else:
            end = odeint(scaled, start, span, **common)
        return end[0][-1]


class FlowSolver(Solver):
    """Integrates a `Flow` with a held input: the methods of `Solver`, and exponential Euler.

    `exponential` takes `steps` exponential Euler steps (`Flow.advance`): the leak of a flow is integrated exactly, so
    the state stays bounded however long the gap is. The explicit methods diverge if dt / steps exceeds a few of the
    time constants of the flow. For a flow without a leak ("mlp", "tanh") it is Euler's method.

    Example:
        >>> import torch
        >>> from chronode.nn._flows import make_flow
        >>> flow, h, gap = make_flow("leaky", 2), torch.ones(1, 2), torch.full((1, 1), 1e6)
        >>> [bool(FlowSolver(name, 3)(flow, h, gap).abs().max() < 2) for name in ("exponential", "rk4")]
        [True, False]
    """

    names = FLOW_NAMES

    def __call__(
        self, field: Field, h: Tensor, dt: Tensor, *held: Tensor, params: Iterable[nn.Parameter] = ()
    ) -> Tensor:
        """Returns the state after `dt (B, 1)`."""
        if self.name != "exponential":
            return super().__call__(field, h, dt, *held, params=params)
        assert isinstance(field, Flow)
        step = dt / self.steps
        for _ in range(self.steps):
            h = field.advance(h, step, *held)
        return h

    def prepared(self, field: Flow) -> Callable[..., Tensor]:
        """Returns `(h, dt, *held) -> state after dt`; an mlp flow takes half as many products."""
        is_mlp = getattr(field.forward, "__func__", None) is MLPFlow.forward and why_hooked(field) is None
        if not (is_mlp and self.name in _EXPLICIT and type(self).__call__ is FlowSolver.__call__):
            return super().prepared(field)
        flow = cast(MLPFlow, field)
        if not (is_linear(flow.inner) and is_linear(flow.outer)):
            return super().prepared(field)
        enter, inner, leave = flow.lifted()

        def solve(h: Tensor, dt: Tensor, *held: Tensor) -> Tensor:
            return leave(h, Solver.__call__(self, inner, enter(h, *held), dt), dt)

        return solve
