"""iRNN, SiRNN and ERNN: recurrent networks that evolve on an equilibrium manifold."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.func import jacfwd, vmap
from torch.nn import functional as F

from ...kernels import need_values
from ...settings import number, one_of, whole
from .._cell import Cell, State, Step, counter
from .._flows import is_linear
from .._registry import register

ACTIVATIONS = {"relu": torch.relu, "tanh": torch.tanh, "sigmoid": torch.sigmoid}


@register("irnn", paper="Kag, Zhang & Saligrama 2020, iRNN", time="none")
@register("sirnn", paper="Kag, Zhang & Saligrama 2020, iRNN with K = 1", time="none", K=1)
@register("ernn", paper="Kag, Zhang & Saligrama 2019, ERNN", time="none", K=3)
class EquilibriumCell(Cell):
    """iRNN/ERNN: K steps of a recursion towards the equilibrium f(g + s h, x) = γ (g + s h).

        f(q, x) = φ(P (U q + W x + b))                     (depth 1; each further layer: φ(U_i f + b_i))
        g ← g + η_k [f(g + s h, x) - γ (g + s h)],  k = 1..K,  from g = h ("previous") or 0 ("zero")
        h' = y = g

    U = I + V₂V₁ ("low-rank") or any matrix ("full"); P = U ("same") or P = I ("identity"). At the equilibrium
    q = g + s h depends on x alone, so h' = q(x) - s h: an alternating (s = 1) or plain (s = -1) sum over time,
    with dh'/dh = -s I: gradients neither vanish nor explode.

    State: (h,), and with `eta_steps` the number of steps so far.

    Args:
        input_size: Number of features D.
        hidden_size: Number of units H.
        K: Number of steps of the recursion (SiRNN: 1).
        recurrent: "low-rank" or "full" matrix U.
        rank: r of V₂ `(H, r)` and V₁ `(r, H)`; by default a quarter of H.
        outer: P: "same" as U, or "identity".
        activation: φ: "relu", "tanh" or "sigmoid".
        depth: Number of layers of the transition f; override `transition` for another one.
        gamma: γ > 0 (α in the iRNN paper).
        sign: s, 1 or -1.
        start: Start of the recursion: "previous" (has memory at small K) or "zero" (the form of the theorems).
        eta: Initial η.
        eta_steps: T: a separate η for each of the first T time steps (later ones use the last); 0: shared over time.
        solver: "steps" (the K steps) or "equilibrium" (Newton to `tolerance`; gradients by the implicit function
            theorem, memory independent of the iterations).
        tolerance: Largest residual that counts as equilibrium, relative to |γ q| where that is above 1.
        max_iterations: Maximum number of iterations of Newton's method.
        input_std: Standard deviation of the initial W. Sigmoids learn faster with 1.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        K: int = 5,
        recurrent: str = "low-rank",
        rank: int | None = None,
        outer: str = "same",
        activation: str = "relu",
        depth: int = 1,
        gamma: float = 1.0,
        sign: int = 1,
        start: str = "previous",
        eta: float = 0.01,
        eta_steps: int = 0,
        solver: str = "steps",
        tolerance: float = 1e-6,
        max_iterations: int = 50,
        input_std: float = 0.1,
    ):
        super().__init__(input_size, hidden_size)
        self.K = whole("K", K, at_least=1)
        self.recurrent = one_of("recurrent", recurrent, ("low-rank", "full"))
        self.outer = one_of("outer", outer, ("same", "identity"))
        self.activation = one_of("activation", activation, ACTIVATIONS)
        self.depth = whole("depth", depth, at_least=1)
        self.start = one_of("start", start, ("previous", "zero"))
        self.solver = one_of("solver", solver, ("steps", "equilibrium"))
        self.tolerance = number("tolerance", tolerance, above=0)
        self.max_iterations = whole("max_iterations", max_iterations, at_least=1)
        if sign not in (1, -1):
            raise ValueError(f"sign must be 1 or -1, got {sign!r}.")
        if solver == "equilibrium" and recurrent == "low-rank" and gamma <= 1:
            raise ValueError(
                f"solver='equilibrium' needs ‖P U‖ < γ, but recurrent='low-rank' starts at the identity and "
                f"gamma={gamma}: use recurrent='full' or a gamma well above 1."
            )
        self.register_buffer("gamma", self.constant("gamma", number("gamma", gamma, above=0)))
        self.register_buffer("sign", self.constant("sign", float(sign)))
        self.input_std = number("input_std", input_std, above=0)
        self._make_parameters(rank, number("eta", eta), whole("eta_steps", eta_steps, at_least=0))

    def _make_parameters(self, rank: int | None, eta: float, eta_steps: int) -> None:
        size = self.hidden_size
        self.inputs = nn.Linear(self.input_size, size)
        nn.init.normal_(self.inputs.weight, std=self.input_std)
        nn.init.zeros_(self.inputs.bias)
        if self.recurrent == "low-rank":
            rank = whole("rank", max(1, size // 4) if rank is None else rank, at_least=1)
            # V₁ = -V₂ᵀ: U = I - V₂V₂ᵀ has no eigenvalue above 1, so no state grows exponentially. Independent V₁ and V₂
            # would have some, and states would grow by 1e8 in 5,000 steps.
            self.v2 = nn.Parameter(0.03 * torch.randn(size, rank))
            self.v1 = nn.Parameter(-self.v2.detach().T.clone(memory_format=torch.contiguous_format))
        else:
            # The norm of such a Gaussian matrix is close to γ / 2, so the recursion contracts.
            self.u = nn.Parameter(torch.randn(size, size) * float(self.gamma) / (4 * size**0.5))
        deeper = [nn.Linear(size, size) for _ in range(self.depth - 1)]
        for layer in deeper:
            nn.init.normal_(layer.weight, std=float(self.gamma) / (4 * size**0.5))
            nn.init.zeros_(layer.bias)
        self.deeper = nn.ModuleList(deeper)
        self.eta_steps = eta_steps
        etas = torch.full((self.K, eta_steps) if eta_steps else (self.K,), eta)
        self.eta = nn.Parameter(etas, requires_grad=self.solver == "steps")

    def initial_state(self, batch: int, like: Tensor) -> State:
        """Returns h = 0, and the step count if η depends on the step."""
        h = like.new_zeros(batch, self.hidden_size)
        return (h, counter(like, batch)) if self.eta_steps else (h,)

    def project(self, x: Tensor) -> Tensor:
        """Returns P (W x + b), which all K steps share."""
        if self.outer == "identity":
            return self.inputs(x)
        if not is_linear(self.inputs):
            return self.times_u(self.inputs(x))
        weight, bias = self.times_u(self.inputs.weight.T).T, self.times_u(self.inputs.bias.unsqueeze(0)).squeeze(0)
        return F.linear(x, weight, bias)

    def times_u(self, q: Tensor) -> Tensor:
        """Returns U q for each row."""
        return q + (q @ self.v1.T) @ self.v2.T if self.recurrent == "low-rank" else q @ self.u.T

    def times_pu(self) -> Callable[[Tensor], Tensor]:
        """Returns q -> P U q; U² = I + (2 V₂ + V₂ V₁ V₂) V₁ has as many products with q as U."""
        if self.outer == "identity":
            return self.times_u
        if self.recurrent == "full":
            square = (self.u @ self.u).T
            return lambda q: q @ square
        down, up = self.v1.T, (2 * self.v2 + self.v2 @ (self.v1 @ self.v2)).T
        return lambda q: q + (q @ down) @ up

    def transition(self, q: Tensor, x: Tensor) -> Tensor:
        """Returns f(q, x) for `x` from `project`."""
        return self._transition(self.times_pu(), q, x)

    def _transition(self, times_pu: Callable[[Tensor], Tensor], q: Tensor, x: Tensor) -> Tensor:
        phi = ACTIVATIONS[self.activation]
        f = phi(times_pu(q) + x)
        for layer in self.deeper:
            f = phi(layer(f))
        return f

    def prepare(self) -> Step:
        """Returns the step with P U computed once."""
        is_replaced = getattr(self.transition, "__func__", None) is not EquilibriumCell.transition
        return partial(self._step, self.transition if is_replaced else partial(self._transition, self.times_pu()))

    def _step(
        self, transition: Callable[[Tensor, Tensor], Tensor], x: Tensor, state: State, dt: Tensor
    ) -> tuple[Tensor, State]:
        h, *count = state
        shift = self.sign * h
        if self.solver == "equilibrium":
            g = self._equilibrium(x, h + shift) - shift
        else:
            g = h if self.start == "previous" else torch.zeros_like(h)
            for eta in self._etas(count):
                q = g + shift
                g = g + eta * (transition(q, x) - self.gamma * q)
        return g, (g, *(n + 1 for n in count))

    def _etas(self, count: list[Tensor]) -> tuple[Tensor, ...]:
        """Returns η_1..η_K, scalars or `(B, 1)` for the current step of each sequence."""
        if not count:
            return self.eta.unbind(0)
        # A product with zeros and a one: the compiler has no rule for indices that are data.
        steps = torch.arange(self.eta_steps, dtype=count[0].dtype, device=count[0].device)
        is_now = count[0].floor().clamp(max=self.eta_steps - 1) == steps
        return (is_now.to(self.eta.dtype) @ self.eta.T).split(1, dim=-1)

    def _equilibrium(self, x: Tensor, q: Tensor) -> Tensor:
        """Solves f(q, x) = γ q for q.

        Newton's method runs without a graph, followed by one Newton step whose residual has one: its gradient is that
        of the implicit function theorem, -J⁻¹ ∂F/∂(x, parameters), exactly at the root.
        """
        need_values(q, "solver='equilibrium'", "use solver='steps'")
        with torch.no_grad():
            for _ in range(self.max_iterations):
                residual = self.transition(q, x) - self.gamma * q
                if self._settled(residual, q):
                    break
                q = self._newton(q, x, residual)
        residual = self.transition(q, x) - self.gamma * q
        if not torch.compiler.is_compiling() and not self._settled(residual, q):
            raise RuntimeError(
                f"no equilibrium was found within max_iterations={self.max_iterations}: the residual is "
                f"{float(residual.detach().abs().max()):.1e}. Use solver='steps', a larger gamma, a smaller learning "
                "rate or a larger tolerance."
            )
        return self._newton(q, x, residual)

    def _settled(self, residual: Tensor, q: Tensor) -> bool:
        """Returns whether every residual is within the tolerance, relative to |γ q| where that is above 1."""
        if torch.compiler.is_compiling():
            return False
        return bool((residual.abs() <= self.tolerance * (self.gamma * q).abs().clamp(min=1)).all())

    def residual_jacobian(self, q: Tensor, x: Tensor) -> Tensor:
        """Returns ∂(f(q, x) - γ q)/∂q of each row, `(B, H, H)`: ∇φ P U - γ I for depth 1."""

        def residual(q_row: Tensor, x_row: Tensor) -> Tensor:
            return self.transition(q_row, x_row) - self.gamma * q_row

        # Forward mode: reverse mode cannot run inside a checkpoint (memory="low").
        return vmap(jacfwd(residual))(q, x)

    def _newton(self, q: Tensor, x: Tensor, residual: Tensor) -> Tensor:
        try:
            return q - torch.linalg.solve(self.residual_jacobian(q.detach(), x.detach()).detach(), residual)
        except torch.linalg.LinAlgError as error:
            raise RuntimeError(
                "no equilibrium was found: ∂f/∂q - γ I is singular, because ‖P U‖ has reached γ. "
                "Use solver='steps', a larger gamma or a smaller learning rate."
            ) from error
