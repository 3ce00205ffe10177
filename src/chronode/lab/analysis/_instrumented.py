"""Instrumented layers: the state after every step can be read and perturbed; products of its Jacobians."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...model import SequenceModel
from ...nn import Call, Cell, Layer, State, Step, check_inputs, create, driver
from ...settings import whole


class Inputs(NamedTuple):
    """Inputs of the first cell: `x (T, B, D)`, `dt (T, B, 1)`, `lengths (B,)` or None if all are full."""

    x: Tensor
    dt: Tensor
    lengths: Tensor | None


class Inside(NamedTuple):
    """A cell of a stack, its inputs `(T, B, D)`, and its states after every step `(T, B, all parts)`."""

    cell: Cell
    inputs: Tensor
    states: Tensor


class InstrumentedCell(Cell):
    """Cell that adds a perturbation to its new state and also outputs it.

    Input: the result of `project` of the cell, then the perturbations of its state. Output: y, then the new state. The
    gradient with respect to the perturbation of a step is the gradient with respect to the state after that step.
    """

    def __init__(self, cell: Cell, parts: list[int]):
        super().__init__(cell.input_size, cell.hidden_size)
        self.cell = cell
        self.parts = parts

    def prepare(self) -> Step:
        """Returns the instrumented step of the cell."""
        inner = self.cell.prepare()

        def step(x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
            inputs, nudge = x.split([x.shape[-1] - sum(self.parts), sum(self.parts)], dim=-1)
            y, new = inner(inputs, state, dt)
            moved = tuple(part + move for part, move in zip(new, nudge.split(self.parts, dim=-1), strict=True))
            # Most cells output a part of their state as y, which must be perturbed too.
            y = next((after for before, after in zip(new, moved, strict=True) if before is y), y)
            return torch.cat([y, *moved], dim=-1), moved

        return step


class Instrumented:
    """Frozen copy of a layer in double precision that records the state after every step.

    The state is one flat vector: the parts of the first cell, then those of the next cell.

    Attributes:
        layer: The copy, in evaluation mode.
        parts: Sizes of the parts of the state, by cell.
        size: Size of the whole state.
    """

    def __init__(self, layer: Layer):
        if layer.bidirectional:
            raise ValueError(
                "a bidirectional layer has no single flow of time, so ∂h_T/∂h_t is not defined: analyze the same "
                "model with bidirectional=False."
            )
        if layer.block:
            raise ValueError(
                f"a layer with block={layer.block!r} has skip connections around its cells, so ∂h_T/∂h_t does not tell "
                "what it remembers: analyze the same model without block."
            )
        self.layer = copy.deepcopy(layer).double().eval().requires_grad_(False)
        self.cells = cast(list[Cell], list(self.layer.cells))
        like = torch.zeros(1, dtype=torch.float64)
        self.parts = [[part.shape[1] for part in cell.initial_state(1, like)] for cell in self.cells]
        self.size = sum(map(sum, self.parts))

    def columns(self, part: int | None) -> Tensor:
        """Returns the indices of a part of the state of every cell; all indices if None."""
        if part is None:
            return torch.arange(self.size)
        count = min(map(len, self.parts))
        if whole("part", part, at_least=0) >= count:
            sizes = ", ".join(f"{i}: {size} numbers" for i, size in enumerate(self.parts[0]))
            raise ValueError(f"part={part}: the state of {self.cells[0].__class__.__name__} has the parts {sizes}.")
        picked, start = [], 0
        for sizes in self.parts:
            begin = start + sum(sizes[:part])
            picked.append(torch.arange(begin, begin + sizes[part]))
            start += sum(sizes)
        return torch.cat(picked)

    def enter(
        self,
        x: Tensor,
        dt: Tensor | float | None = None,
        t: Tensor | None = None,
        lengths: Tensor | Sequence[int] | None = None,
        observed: Tensor | None = None,
    ) -> Inputs:
        """Checks the arguments of a layer; missing values are filled in by its encoder."""
        layer = self.layer
        call = Call(layer.input_size, layer.batch_first, torch.float64, layer.missing)
        x = x.double() if isinstance(x, Tensor) and x.dtype.is_floating_point else x
        batch = check_inputs(call, x, dt, t, lengths, observed, has_state=False)
        values = batch.x
        for encoder in cast(list[Cell], list(layer.encoders)):
            start = encoder.initial_state(values.shape[1], values)
            values, _ = driver.run(encoder, values, start, batch.dt, driver.Plan(batch.lengths))
        return Inputs(values.detach(), batch.dt, batch.lengths)

    def start(self, batch: int) -> Tensor:
        """Returns the state before the first step, `(batch, size)`."""
        like = torch.zeros(1, dtype=torch.float64)
        return torch.cat([part for cell in self.cells for part in cell.initial_state(batch, like)], dim=-1)

    def run(self, inputs: Inputs, start: Tensor, perturbations: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Returns the outputs `(T, B, output_size)` and the states after every step `(T, B, size)`."""
        y, inside = self._pass(inputs, start, perturbations)
        return y, torch.cat([one.states for one in inside], dim=-1)

    @torch.no_grad()
    def inside(self, inputs: Inputs) -> list[Inside]:
        """Returns the inputs and states of every cell."""
        return self._pass(inputs, self.start(inputs.x.shape[1]), None)[1]

    def _pass(self, inputs: Inputs, start: Tensor, perturbations: Tensor | None) -> tuple[Tensor, list[Inside]]:
        steps, batch = inputs.x.shape[:2]
        perturbations = start.new_zeros(steps, batch, self.size) if perturbations is None else perturbations
        sizes = [sum(parts) for parts in self.parts]
        levels, inside = [inputs.x], []
        pieces = zip(self.cells, self.parts, start.split(sizes, -1), perturbations.split(sizes, -1), strict=True)
        for index, (cell, parts, state, nudge) in enumerate(pieces):
            layer_input = levels[index]
            if 0 < self.layer.residual <= index:
                layer_input = torch.cat([layer_input, levels[index - self.layer.residual]], dim=-1)
            x = torch.cat([cell.project(layer_input), nudge], dim=-1)
            first = tuple(state.split(parts, dim=-1))
            out, _ = driver.run(InstrumentedCell(cell, parts), x, first, inputs.dt, driver.Plan(inputs.lengths))
            _check_finite(out, cell)
            levels.append(out[..., : -sum(parts)])
            inside.append(Inside(cell, layer_input, out[..., -sum(parts) :]))
        return levels[-1], inside


def _check_finite(states: Tensor, cell: Cell) -> None:
    finite = states.isfinite().all(-1).all(-1)
    if not finite.all():
        step = int(finite.int().argmin()) + 1
        raise ValueError(
            f"the state of {type(cell).__name__} is not finite after step {step}: the gaps are too long for its "
            f"solver, "
            "or inputs or weights are too large. Try a larger time unit, more solver steps or scaled inputs."
        )


def as_layer(
    model: str | Layer | SequenceModel, input_size: int, hidden_size: int, seed: int, **settings: Any
) -> Layer:
    """Returns the layer to analyze: of a model, itself, or created from a registered name with a seed."""
    if isinstance(model, str):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return create(model, input_size, hidden_size, **settings)
    if settings:
        raise ValueError(f"settings ({', '.join(settings)}) need the name of a model, not a model object.")
    layer = model.layer if isinstance(model, SequenceModel) else model
    if not isinstance(layer, Layer):
        raise TypeError(f"model must be a registered name, a chronode layer or model, got {type(model).__name__}.")
    return layer


def name_of(layer: Layer) -> str:
    """Returns the name of a layer for tables and plots: its registered name if unambiguous, else the class of its
    cell.
    """
    from ...nn import models

    fitting = [
        name
        for name, model in models().items()
        if model.cell is layer.cell_class and model.settings.items() <= layer.settings.items()
    ]
    # Of several names, the one with the most presets is the most specific.
    return max(fitting, key=lambda name: len(models()[name].settings), default=layer.cell_class.__name__)


def frozen(model: SequenceModel) -> SequenceModel:
    """Returns a copy in double precision and evaluation mode."""
    return copy.deepcopy(model).double().eval()


NEGLIGIBLE = 1e-14
"""Below this share of the largest number of a factor, a row is a rounding error, and counts as 0."""
_DECADES = 110.0  # of the singular values found at once; LAPACK is exact over 150
_MARGIN = 20.0  # decades of others around them: those further away have no effect in double precision


class GradedProduct:
    """A batch of products ... J₃ J₂ J₁, to which factors are added on the left."""

    def __init__(self, start: Tensor):
        batch, _, size = start.shape
        self.scales = start.new_zeros(batch, size)
        self.rows = torch.eye(size, dtype=start.dtype).expand(batch, -1, -1)
        self.columns = torch.eye(size, dtype=start.dtype).expand(batch, -1, -1)
        self.multiply(start)

    def multiply(self, factor: Tensor) -> None:
        """Adds a factor on the left, `(B, k, n)`."""
        self.columns, self.scales, self.rows = self._multiplied(factor @ self.columns)

    def log10_singular_values(self, wanted: Tensor) -> Tensor:
        """Returns the logarithms of the singular values of the rows `seen` of the product, `(B, m)`, largest first."""
        _, scales, rows = self._multiplied(self.columns[:, wanted])
        logarithms = [_log10_singular_values(*pair) for pair in zip(scales.numpy(), rows.numpy(), strict=True)]
        return torch.from_numpy(np.stack(logarithms))

    def _multiplied(self, factor: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Returns `factor` diag(10^scales) rows as columns, scales and rows."""
        lengths = torch.linalg.vector_norm(factor, dim=1).log10() + self.scales
        order = lengths.argsort(dim=1, descending=True, stable=True)
        factor = factor.gather(2, order[:, None].expand_as(factor))
        rows = self.rows.gather(1, order[:, :, None].expand_as(self.rows))
        scales = self.scales.gather(1, order)
        columns, triangle = torch.linalg.qr(factor)
        size = triangle.abs()
        kept = size > NEGLIGIBLE * size.amax((1, 2), keepdim=True)
        exponents = torch.where(kept, size.log10() + scales[:, None], -torch.inf)
        largest = exponents.amax(2)
        shift = torch.where(largest.isfinite(), largest, 0)
        mixed = (triangle.sign() * 10 ** (exponents - shift[..., None])) @ rows
        norms = torch.linalg.vector_norm(mixed, dim=2)
        return columns, largest + norms.log10(), mixed / torch.where(norms > 0, norms, 1)[..., None]


def _log10_singular_values(scales: NDArray[Any], rows: NDArray[Any]) -> NDArray[Any]:
    """Returns the logarithms of the singular values of diag(10^scales) `rows`, largest first.

    They are found in groups of similar size: what is much larger or smaller has no effect on them.
    """
    from scipy.linalg import get_lapack_funcs

    order = np.argsort(-scales, kind="stable")
    scales, triangle = scales[order], np.linalg.qr(rows[order].T).R.T  # rows = triangle × orthonormal rows
    (rotate,) = get_lapack_funcs(("gejsv",), (triangle,))
    count = int(np.isfinite(scales).sum())
    values_log10 = np.full(len(scales), -np.inf)
    first = 0
    while first < count:
        below = scales[first] - scales[:count]
        last, start, end = (np.searchsorted(below, limit) for limit in (_DECADES, -_MARGIN, _DECADES + _MARGIN))
        block = 10.0 ** (scales[start:end, None] - scales[first]) * triangle[start:end, start:end]
        # Column by column of the transpose, however different they are, one-sided rotations keep all digits.
        values, _, _, work, *_ = rotate(np.asfortranarray(block.T), joba=0, jobu=3, jobv=3, jobr=1, jobt=0, jobp=0)
        with np.errstate(divide="ignore"):
            logs = np.log10(values) + np.log10(work[0] / work[1]) + scales[first]
        values_log10[first:last] = logs[first - start : last - start]
        first = last
    return values_log10
