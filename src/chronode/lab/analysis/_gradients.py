"""Gradient flow: the effect of a change of the state at step t on the last step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...model import SequenceModel
from ...nn import Layer
from ...settings import flag, one_of, whole
from ...storage import Result
from ._instrumented import GradedProduct, Inputs, Instrumented, as_layer, name_of

EXACT_LIMIT = 160
"""Size of the state up to which `method="auto"` computes exact Jacobians: 1000 steps then take seconds. The cost grows
with the cube of the size; an LSTM has a state of 2 H numbers, a CT-GRU of 8 H."""

_ROWS_AT_ONCE = 128
_NUMBERS_AT_ONCE = 2_000_000  # numbers in the states of all steps and probes: a graph of about 300 MB


@dataclass(frozen=True)
class GradientFlow(Result):
    """‖∂h_T/∂h_t‖ of each sequence for t = 0 (the initial state) to T (1 for the spectral norm).

    Attributes:
        model: Name of the model.
        norm: "spectral" or "frobenius".
        method: "exact" or "probes" (an estimate).
        part: Part of the state that is analyzed; None for all of it.
        lengths: `(B,)` length T of each sequence.
        log10_norms: `(B, longest T + 1)` base-10 logarithms, which do not under- or overflow; NaN beyond T.
        step_singular_values: `(B, longest T, n)` of ∂h_t/∂h_{t-1} for t = 1..T, or None.
        log10_singular_values: `(B, longest T + 1, n)` of ∂h_T/∂h_t, as logarithms, or None; all of them are exact,
            however far below the largest. Directions that a step loses entirely (below 1e-14 of its largest singular
            value) have -inf.
    """

    model: str
    norm: str
    method: str
    part: int | None
    lengths: NDArray[np.int64]
    log10_norms: NDArray[np.float64]
    step_singular_values: NDArray[np.float64] | None = None
    log10_singular_values: NDArray[np.float64] | None = None

    @property
    def norms(self) -> NDArray[np.float64]:
        """`(B, T + 1)` norms: 0 or infinite beyond the range of float64."""
        with np.errstate(over="ignore", under="ignore"):
            return 10.0**self.log10_norms

    @property
    def log10_ratio(self) -> NDArray[np.float64]:
        """`(B,)` logarithm of `ratio`; NaN where both norms are 0."""
        before_last = np.take_along_axis(self.log10_norms, self.lengths[:, None] - 1, axis=1)[:, 0]
        with np.errstate(invalid="ignore"):
            return self.log10_norms[:, 1] - before_last

    @property
    def ratio(self) -> NDArray[np.float64]:
        """`(B,)` ‖∂h_T/∂h_1‖ / ‖∂h_T/∂h_{T-1}‖: 1 if nothing vanishes or explodes."""
        with np.errstate(over="ignore", under="ignore"):
            return 10.0**self.log10_ratio


def gradient_flow(
    model: str | Layer | SequenceModel,
    x: Tensor,
    *,
    dt: Tensor | float | None = None,
    t: Tensor | None = None,
    lengths: Tensor | Sequence[int] | None = None,
    observed: Tensor | None = None,
    part: int | None = None,
    norm: str = "auto",
    method: str = "auto",
    probes: int = 16,
    singular_values: bool = False,
    hidden_size: int = 64,
    seed: int = 0,
    **settings: Any,
) -> GradientFlow:
    """Computes ‖∂h_T/∂h_t‖ for all t, for any registered model.

    The whole state counts (for an LSTM: h and c), of all layers of a stack; `part` selects one of the parts, in the
    order in which the layer returns them. The analysis uses a copy in double precision and evaluation mode.

    Args:
        model: A registered name, a layer, or a `SequenceModel` (whose layer is analyzed).
        x: Input of the layer: `(B, T, D)` or `(T, D)`.
        dt: As for the layer.
        t: As for the layer.
        lengths: As for the layer.
        observed: As for the layer.
        part: Index of a part of the state; None for all.
        norm: "spectral" (the largest singular value), "frobenius" (the root of the sum of squares), or "auto":
            spectral if the method is exact. The result contains the choice.
        method: "exact" (product of all step Jacobians), "probes" (random vectors propagated back through time: an
            estimate of the Frobenius norm), or "auto": exact for states of up to `EXACT_LIMIT` numbers, and if the
            spectral norm or singular values are requested.
        probes: Number of random vectors of the estimate; it is exact with as many as the state has numbers.
        singular_values: Whether to return all singular values, of the steps and of ∂h_T/∂h_t (exact method only).
        hidden_size: Units of a model given by name.
        seed: Random seed of a model given by name, and of the probes.
        settings: Settings of a model given by name.

    Example:
        >>> import torch
        >>> x = torch.randn(2, 30, 3, generator=torch.Generator().manual_seed(0))
        >>> flow = gradient_flow("irnn", x, hidden_size=8, recurrent="full", solver="equilibrium")
        >>> flow.norms.shape, flow.ratio.round(3).tolist()
        ((2, 31), [1.0, 1.0])
    """
    one_of("norm", norm, ("auto", "spectral", "frobenius"))
    one_of("method", method, ("auto", "exact", "probes"))
    flag("singular_values", singular_values)
    instrumented = Instrumented(as_layer(model, x.shape[-1], hidden_size, seed, **settings))
    inputs = instrumented.enter(x, dt, t, lengths, observed)
    columns = instrumented.columns(part)
    method, norm = _choose(method, norm, instrumented.size, singular_values)
    steps, batch = inputs.x.shape[:2]
    ends = torch.full((batch,), steps) if inputs.lengths is None else inputs.lengths
    extras: dict[str, Any] = {}
    if method == "exact":
        norms, extras = _exact(instrumented, inputs, columns, norm, singular_values)
    else:
        norms = _by_probes(instrumented, inputs, columns, whole("probes", probes, at_least=1), seed)
    beyond = torch.arange(steps + 1) > ends[:, None]
    norms = torch.where(beyond, torch.nan, norms)
    name = model if isinstance(model, str) else name_of(instrumented.layer)
    return GradientFlow(name, norm, method, part, ends.numpy(), norms.numpy(), **extras)


def noise_flows(
    models: Sequence[str] = ("ode-rnn", "rnn-decay", "mmrnn"), *, steps: int = 100, hidden_size: int = 64, seed: int = 0
) -> list[GradientFlow]:
    """Computes the gradient flow of each model on two sequences of noise with gaps from U[0, 1] (mmRNN Fig. 1).

    Example:
        >>> vanishing, kept = noise_flows(["rnn", "unicornn"], steps=30, hidden_size=8)
        >>> bool(vanishing.log10_norms[:, 1].max() < -2 < kept.log10_norms[:, 1].min())
        True
    """
    rng = torch.Generator().manual_seed(seed)
    size = whole("steps", steps, at_least=2)
    x, dt = torch.randn(2, size, 1, generator=rng), torch.rand(2, size, generator=rng)
    return [gradient_flow(name, x, dt=dt, hidden_size=hidden_size, seed=seed) for name in models]


def _choose(method: str, norm: str, size: int, all_values: bool) -> tuple[str, str]:
    if method == "auto":
        method = "exact" if size <= EXACT_LIMIT or norm == "spectral" or all_values else "probes"
    if method == "exact":
        return method, "spectral" if norm == "auto" else norm
    if all_values:
        raise ValueError("singular_values=True needs method='exact': probes only estimate the norm.")
    if norm == "spectral":
        raise ValueError("random probes estimate the Frobenius norm only: pass norm='frobenius', or method='exact'.")
    return method, "frobenius"


def unit_norms(model: Layer, x: Tensor, dt: Tensor | float | None = None, part: int | None = None) -> Tensor:
    """Returns ‖∂h_T/∂h_0[i]‖ of each unit i, `(B, n)`: the effect of its initial state on the final state."""
    instrumented = Instrumented(model)
    columns = instrumented.columns(part)
    product = torch.eye(instrumented.size, dtype=torch.float64)[columns]
    for jacobian in _step_jacobians(instrumented, instrumented.enter(x, dt)):
        product = product @ jacobian
    return product[..., columns].norm(dim=-2)


# ---- exact ----------------------------------------------------------------------------------------------


def _exact(
    instrumented: Instrumented, inputs: Inputs, columns: Tensor, norm: str, all_values: bool
) -> tuple[Tensor, dict[str, NDArray[np.float64]]]:
    """Returns log10 norms `(B, T + 1)` from the product of the step Jacobians, last step first."""
    batch = inputs.x.shape[1]
    product = torch.eye(instrumented.size, dtype=torch.float64)[columns].expand(batch, -1, -1)
    scale = torch.zeros(batch, dtype=torch.float64)  # log10 of the factors divided out of the product
    norms, values, step_values = [_measured(product[..., columns], norm)], [], []
    graded = GradedProduct(product.mT) if all_values else None
    if all_values:
        values = [torch.zeros(batch, len(columns), dtype=torch.float64)]
    for jacobian in _step_jacobians(instrumented, inputs):
        product = product @ jacobian
        largest = product.abs().amax((1, 2)).clamp(min=torch.finfo(torch.float64).tiny)
        product = product / largest[:, None, None]
        scale = scale + largest.log10()
        norms.append(scale + _measured(product[..., columns], norm))
        if graded is not None:
            graded.multiply(jacobian.mT)
            values.append(graded.log10_singular_values(columns))
            step_values.append(torch.linalg.svdvals(jacobian[:, columns][..., columns]))
    norms_by_step = torch.stack(norms[::-1], dim=1)
    if not all_values:
        return norms_by_step, {}
    return norms_by_step, {
        "step_singular_values": torch.stack(step_values[::-1], dim=1).numpy(),
        "log10_singular_values": torch.stack(values[::-1], dim=1).numpy(),
    }


def _measured(matrix: Tensor, norm: str) -> Tensor:
    """Returns log10 of the norm of each matrix `(B, n, n)` with entries of about 1 or less."""
    if norm == "frobenius":
        return torch.linalg.matrix_norm(matrix).log10()
    # The largest singular value from the eigenvalues of M Mᵀ: several times faster than an SVD and as exact.
    return 0.5 * torch.linalg.eigvalsh(matrix @ matrix.mT)[:, -1].clamp(min=0).log10()


def _step_jacobians(instrumented: Instrumented, inputs: Inputs) -> Iterator[Tensor]:
    """Yields ∂h_t/∂h_{t-1}, `(B, S, S)`, for t = T..1.

    Given the states, the steps are independent, so many of them form the rows of one batch.
    """
    steps, batch = inputs.x.shape[:2]
    start = instrumented.start(batch)
    with torch.no_grad():
        _, states = instrumented.run(inputs, start)
    before = torch.cat([start[None], states[:-1]])
    size = max(1, _ROWS_AT_ONCE // batch)
    eye = torch.eye(instrumented.size, dtype=torch.float64)
    for end in range(steps, 0, -size):
        some = slice(max(0, end - size), end)
        rows = Inputs(inputs.x[some].flatten(0, 1)[None], inputs.dt[some].flatten(0, 1)[None], None)
        jacobians = jacobians_of(lambda h, rows=rows: instrumented.run(rows, h)[1][0], before[some].flatten(0, 1))
        jacobians = jacobians.unflatten(0, (-1, batch))
        if inputs.lengths is not None:
            valid = torch.arange(steps)[some, None] < inputs.lengths
            jacobians = torch.where(valid[..., None, None], jacobians, eye)
        yield from jacobians.flip(0).unbind(0)


def jacobians_of(step: Callable[[Tensor], Tensor], h: Tensor) -> Tensor:
    """Returns the Jacobian of each row, `(N, out, in)`: rows are independent, so one backward pass gives a row of all
    N.

    Example:
        >>> import torch
        >>> jacobians_of(lambda h: h * h, torch.tensor([[1.0, 2.0]])).tolist()
        [[[2.0, 0.0], [0.0, 4.0]]]
    """
    h = h.detach().requires_grad_()
    with torch.enable_grad():
        columns = step(h).sum(0)
    rows = [
        torch.autograd.grad(column, h, retain_graph=True, materialize_grads=True, allow_unused=True)[0]
        for column in columns
    ]
    return torch.stack(rows, dim=1)


# ---- by random probes -------------------------------------------------------------------------------------


def _by_probes(instrumented: Instrumented, inputs: Inputs, columns: Tensor, probes: int, seed: int) -> Tensor:
    """Returns log10 of an estimate of the Frobenius norms, `(B, T + 1)`.

    For n / k times the squares of k random orthonormal vectors v, the mean of ‖v ∂h_T/∂h_t‖² is ‖∂h_T/∂h_t‖².
    """
    steps, batch = inputs.x.shape[:2]
    count = min(probes, len(columns))
    rng = torch.Generator().manual_seed(seed)
    vectors = torch.linalg.qr(torch.randn(len(columns), count, dtype=torch.float64, generator=rng)).Q.T
    squares = torch.zeros(steps + 1, batch, dtype=torch.float64)
    for some in vectors.split(max(1, _NUMBERS_AT_ONCE // (steps * batch * instrumented.size))):
        squares += _squares(instrumented, inputs, columns, some)
    return 0.5 * (squares * len(columns) / count).log10().T


def _squares(instrumented: Instrumented, inputs: Inputs, columns: Tensor, vectors: Tensor) -> Tensor:
    """Returns Σ ‖v ∂h_T/∂h_t‖² over the vectors v, `(T + 1, B)`, in one backward pass with a copy of the batch for
    each.
    """
    steps, batch = inputs.x.shape[:2]
    copies = len(vectors)
    lengths = None if inputs.lengths is None else inputs.lengths.repeat(copies)
    rows = Inputs(inputs.x.repeat(1, copies, 1), inputs.dt.repeat(1, copies, 1), lengths)
    start = instrumented.start(copies * batch).requires_grad_()
    nudges = torch.zeros(steps, copies * batch, instrumented.size, dtype=torch.float64, requires_grad=True)
    with torch.enable_grad():
        _, states = instrumented.run(rows, start, nudges)
        last = states[-1] if lengths is None else states[lengths - 1, torch.arange(copies * batch)]
        wanted = (last[:, columns] * vectors.repeat_interleave(batch, 0)).sum()
    first, rest = torch.autograd.grad(wanted, (start, nudges))
    squares = torch.cat([first[None], rest])[..., columns].square().sum(-1)
    return squares.unflatten(1, (copies, batch)).sum(1)
