"""Processing of live data one step at a time: checked inputs, weights prepared once, the state kept inside."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor

from .. import compiler, kernels
from ..compiler import remake_weights, why_hooked
from ..settings import whole
from ._cell import Cell, ForwardFill, State
from ._inputs import LayerInput, check_inputs, shape

if TYPE_CHECKING:
    from ._layer import Layer

_LOOK_STEPS = 500  # steps after which it is decided again whether cells run compiled


def enter_step(
    layer: Layer, x: Tensor, dt: Tensor | float, observed: Tensor | None, has_state: bool = True
) -> LayerInput:
    """Checks the arguments of a step, `x (B, D)` or `(D,)`, and converts them to the form that the driver uses."""
    if layer.bidirectional:
        raise ValueError("step does not support a bidirectional layer, which needs the whole sequence; use forward.")
    if not isinstance(x, Tensor) or x.dim() not in (1, 2):
        raise ValueError(f"x must have shape (batch, features) or (features,), got {shape(x)}.")
    axis = 0 if x.dim() == 1 or not layer.batch_first else 1
    if isinstance(dt, Tensor) and dt.dim() > 0:
        if tuple(dt.shape) not in ((x[..., 0].shape), (*x.shape[:-1], 1)):
            raise ValueError(f"dt must be a number or have shape {(*x.shape[:-1], 1)}, got {shape(dt)}.")
        dt = dt.reshape(x.shape[:-1]).unsqueeze(axis)
    mask = observed.unsqueeze(axis) if isinstance(observed, Tensor) else observed
    call = layer.call()._replace(one_step=True)
    return check_inputs(call, x.unsqueeze(axis), dt, None, None, mask, has_state)


class Stepper:
    """Trained layer that processes one step of live data per call, with the results of `layer.step`.

    It prepares the weights once, and again when an optimizer or `load_state_dict` has changed them (call `refresh`
    after changes that torch does not track, such as through `parameter.data`). Each call checks x and dt; gradients
    are not recorded. The backend is the one in use at construction. A stepper must be used by one thread at a time.

    Args:
        layer: Layer in evaluation mode, not bidirectional.
        batch: Number of sequences processed together, `x (batch, D)`; None for one, `x (D,)`.

    Attributes:
        state: State after the last step, in the form that the layer uses; it can be set.

    Example:
        >>> import torch, chronode
        >>> layer = chronode.create("mmrnn", input_size=3, hidden_size=8).eval()
        >>> stepper = layer.stepper()
        >>> for reading, seconds in [(torch.ones(3), 1.0), (torch.zeros(3), 0.5)]:
        ...     y = stepper(reading, seconds)
        >>> y.shape
        torch.Size([8])
    """

    def __init__(self, layer: Layer, batch: int | None = None):
        if layer.bidirectional:
            raise ValueError(
                "a bidirectional layer cannot run step by step, because it needs the whole sequence; use forward."
            )
        if layer.training:
            raise ValueError("a stepper runs a trained layer: call layer.eval() first.")
        self.layer = layer
        self._unbatched = batch is None
        size = 1 if batch is None else whole("batch", batch, at_least=1)
        like = layer.like().detach()
        self._shape = (layer.input_size,) if batch is None else (size, layer.input_size)
        self._dtype, self._on_cpu = like.dtype, like.device.type == "cpu"
        with torch.inference_mode(False), torch.no_grad():
            self._like = like.new_zeros(1, size, layer.input_size)
            self._dt = like.new_ones(size, 1)
            self._initial = layer.initial_state(size)
            self._memory = _Memory(self._initial), _Memory(self._initial)
        self._gap = 1.0  # current value of dt
        self._turn = 0  # the memory that holds the state
        self._prepare()
        self.reset()

    def reset(self) -> None:
        """Resets the state to the initial state."""
        self._put(self._initial)

    def refresh(self) -> None:
        """Prepares the weights again; the state is kept."""
        state = [part.clone() for part in self._parts()]
        self._prepare()
        self._put(state)

    @property
    def state(self) -> State:
        """The state after the last step, in the form that the layer uses."""
        parts = tuple(part.clone() for part in self._parts())
        return tuple(part.squeeze(1) for part in parts) if self._unbatched else parts

    @state.setter
    def state(self, state: State) -> None:
        self.layer.unpack(state, self._like, self._unbatched)  # which refuses what does not fit
        self._prepare()
        self._put([part.unsqueeze(1) for part in state] if self._unbatched else state)

    def load(self, state: State | None) -> bool:
        """Continues from this state, or from the initial one, with the weights as they are prepared; returns False if
        it does not fit.
        """
        if state is None:
            self._put(self._initial)
            return True
        if type(state) is not tuple:
            return False
        parts = self._memory[0].parts
        given = [part.unsqueeze(1) if self._unbatched and isinstance(part, Tensor) else part for part in state]
        if [*map(_kind, given)] != [*map(_kind, parts)]:
            return False
        self._put(given)
        return True

    def is_one_call(self) -> bool:
        """Returns whether a step is a single kernel call."""
        return len(self._units) == 1 and isinstance(self._units[0], _NativeUnit) and not self.layer.block

    @property
    def vector(self) -> Tensor | None:
        """The state as one vector `(size,)`, part after part, which is valid until the next step; None if its parts
        have different types. It can be set.
        """
        self._parts()
        return self._memory[self._turn].vector

    @vector.setter
    def vector(self, vector: Tensor) -> None:
        memory = self._memory[self._turn]
        assert memory.vector is not None
        memory.vector.copy_(vector)
        for unit in self._units:
            unit.load(self._turn)

    @torch.no_grad()
    def __call__(self, x: Tensor, dt: Tensor | float = 1.0, *, observed: Tensor | None = None) -> Tensor:
        """Returns y, `(batch, output_size)` or `(output_size,)`, for the next `x`, at time `dt` after the previous
        one.
        """
        if self._version != self._versions():
            self.refresh()
        return self.advance(x, dt, observed)

    def advance(self, x: Tensor, dt: Tensor | float, observed: Tensor | None = None) -> Tensor:
        """Performs a step as a call does, in a block without gradients and for weights that are known to be the
        prepared ones.
        """
        if self._plain(x, dt, observed):
            gap = cast(float, dt)
            if gap != self._gap:
                self._dt.fill_(gap)
                self._gap = gap
            x = x[None] if self._unbatched else x
            observed = observed[None] if self._unbatched and observed is not None else observed
        else:
            entered = enter_step(self.layer, x, dt, observed)
            if x.shape != self._shape:
                raise ValueError(f"x must have shape {self._shape}, for which this stepper was made; got {shape(x)}.")
            self._dt.copy_(entered.dt[0])
            self._gap, x = math.nan, entered.x[0]
            if self.layer.missing:
                x, mask = x.chunk(2, dim=-1)
                observed = mask > 0
        y = self._run(x, observed).clone()
        self._turn = 1 - self._turn
        self._until_look -= 1
        if not self._until_look:
            self._look()
        return y[0] if self._unbatched else y

    def _plain(self, x: Tensor, dt: Tensor | float, observed: Tensor | None) -> bool:
        """Returns whether the arguments need no checks or conversion; a sum shows that no value is infinite or NaN."""
        return (
            type(x) is Tensor
            and x.shape == self._shape
            and x.dtype is self._dtype
            and x.is_cpu is self._on_cpu
            and type(dt) is float
            and 0.0 <= dt < math.inf
            and self._plain_mask(observed)
            and (self.layer.max_gap is None or dt <= self.layer.max_gap)
            and (not self._on_cpu or math.isfinite(x.sum().item()))
        )

    def _plain_mask(self, observed: Tensor | None) -> bool:
        if observed is None or not self.layer.missing:
            return observed is None and not self.layer.missing
        return (
            type(observed) is Tensor
            and observed.shape == self._shape
            and observed.dtype is torch.bool
            and observed.is_cpu is self._on_cpu
        )

    # ---- the stack --------------------------------------------------------------------------------------

    def _versions(self) -> int:
        return sum([tensor._version for tensor in self._tensors])

    def _parts(self) -> State:
        for unit in self._units:
            unit.save(self._turn)
        return self._memory[self._turn].parts

    def _put(self, parts: Sequence[Tensor]) -> None:
        for memory, part in zip(self._memory[self._turn].parts, parts, strict=True):
            memory.copy_(part)
        for unit in self._units:
            unit.load(self._turn)

    def _prepare(self) -> None:
        """Builds the steps of all cells with the current weights."""
        layer = self.layer
        remake_weights(layer.all_cells())
        cells = cast(list[Cell], list(layer.cells))
        with torch.inference_mode(False), torch.no_grad():
            whole_stack = self._on_cpu and not layer.block and kernels.find_stack(cells, self._like) is not None
            encoders = [self._encoder_unit(cast(Cell, encoder)) for encoder in layer.encoders]
            first = sum(len(cast(Cell, encoder).initial_state(1, self._like)) for encoder in layer.encoders)
            groups = [range(len(cells))] if whole_stack else [range(i, i + 1) for i in range(len(cells))]
            self._stack = [self._unit(cells, group, first) for group in groups]
        self._encoder = encoders[0] if encoders else None
        self._units = [*encoders, *self._stack]
        self._whole_stack = whole_stack
        self._tensors = [*layer.parameters(), *layer.buffers()]
        self._version = self._versions()
        self._until_look = _LOOK_STEPS

    def _look(self) -> None:
        """Runs cells compiled from here on, once their steps have cost enough."""
        self._until_look = _LOOK_STEPS
        loops = [unit for unit in self._units if isinstance(unit, _LoopUnit)]
        paying = [unit for unit in loops if compiler.pays(unit.cell, self._like[0], unit.spent())]
        if paying:
            self.refresh()

    def _run(self, x: Tensor, observed: Tensor | None) -> Tensor:
        turn = self._turn
        if self._encoder is not None:
            x = self._encoder.fill(x, cast(Tensor, observed), turn)
        if self._whole_stack or not (self.layer.residual or self.layer.block):
            for unit in self._stack:
                x = unit.step(x, turn)
            return x
        return self.layer.through([x], lambda index, x: self._stack[index].step(x, turn))

    def _unit(self, cells: list[Cell], group: range, first: int) -> _LoopUnit | _NativeUnit:
        """Returns the step of consecutive cells, whose parts of the state begin at part `first`."""
        cell = cells[group.start]
        widths = [part.shape[1] for part in cell.initial_state(1, self._like)]
        before, after = (
            tuple(
                part[group.start : group.stop, :, :width]
                for part, width in zip(memory.parts[first : first + len(widths)], widths, strict=True)
            )
            for memory in self._memory
        )
        x = self._dt.new_zeros(self._dt.shape[0], cell.input_size)
        if x.is_cpu and all(part.is_contiguous() for part in before):
            chosen, kernel = [cells[index] for index in group], kernels.find(cell, x)
            calls = [self._bound(kernel, chosen, x, *turn) for turn in ((before, after), (after, before))]
            if all(call is not None for call in calls):
                return _NativeUnit(x, cast(list[kernels.Bound], calls))
        return _LoopUnit(cell, (before, after), self._dt)

    def _bound(
        self, kernel: kernels.Kernel | None, cells: list[Cell], x: Tensor, before: State, after: State
    ) -> kernels.Bound | None:
        """Returns a step over fixed arrays, written by hand or compiled; None if there is none."""
        if kernel is not None and kernel.native:
            if kernel.bind is None:
                return None
            return kernel.bind([cell.kernel_reads() for cell in cells], x, self._dt, before, after, self.layer.residual)
        return compiler.bind(cells[0], x, self._dt, before, after)

    def _encoder_unit(self, encoder: Cell) -> _LoopUnit | _NativeUnit | _FillUnit:
        count = len(encoder.initial_state(1, self._like))
        before, after = (tuple(memory.parts[:count]) for memory in self._memory)
        same_type = all(part.dtype is self._dtype for part in before)
        if type(encoder) is ForwardFill and same_type and why_hooked(encoder) is None:
            return _FillUnit((before, after), self._dt)
        return self._unit([encoder], range(1), 0)


class _Memory:
    """Parts of a state, which are views of one vector if they have the same type."""

    def __init__(self, like: State):
        self.vector = None
        self.parts = tuple(part.detach().clone() for part in like)
        if len({part.dtype for part in like}) == 1:
            self.vector = torch.cat([part.reshape(-1) for part in self.parts])
            pieces = self.vector.split([part.numel() for part in like])
            self.parts = tuple(piece.view(part.shape) for piece, part in zip(pieces, like, strict=True))


class _LoopUnit:
    """Cell whose step is called directly."""

    def __init__(self, cell: Cell, arrays: tuple[State, State], dt: Tensor):
        self.cell, self._seconds = cell, 0.0
        self._project, self._arrays, self._dt = cell.project, arrays, dt
        self._step = cell.prepare() if why_hooked(cell) is None else cell
        self.load(0)

    def step(self, x: Tensor, turn: int) -> Tensor:
        start = time.perf_counter()
        # Copies, because a cell may keep its arguments in its state and the caller may reuse x.
        y, self._state = self._step(self._project(x.clone()), self._state, self._dt.clone())
        self._seconds += time.perf_counter() - start
        return y

    def spent(self) -> float:
        """Returns the seconds that the steps since the last call have taken."""
        seconds, self._seconds = self._seconds, 0.0
        return seconds

    def fill(self, x: Tensor, observed: Tensor, turn: int) -> Tensor:
        values = torch.where(observed, x, 0.0)
        return self.step(torch.cat([values, observed.to(x.dtype)], dim=-1), turn)

    def save(self, turn: int) -> None:
        for array, part in zip(self._arrays[turn], self._state, strict=True):
            array[0].copy_(part)

    def load(self, turn: int) -> None:
        self._state = tuple(part[0].clone() for part in self._arrays[turn])


class _NativeUnit:
    """Cells whose step is a single kernel call; two sets of arrays alternate as the state before and after it."""

    def __init__(self, x: Tensor, calls: list[kernels.Bound]):
        self._x, self._calls = x, calls

    def step(self, x: Tensor, turn: int) -> Tensor:
        self._x.copy_(x)
        return self._called(turn)

    def fill(self, x: Tensor, observed: Tensor, turn: int) -> Tensor:
        torch.cat([torch.where(observed, x, 0.0), observed.to(x.dtype)], dim=-1, out=self._x)
        return self._called(turn)

    def _called(self, turn: int) -> Tensor:
        call, y = self._calls[turn]
        call()
        return y

    def save(self, turn: int) -> None:
        """The arrays are the memory of the stepper."""

    load = save


class _FillUnit:
    """`ForwardFill` with few operations, on the memory of the stepper."""

    def __init__(self, arrays: tuple[State, State], dt: Tensor):
        self._arrays, self._dt = [tuple(part[0] for part in turn) for turn in arrays], dt

    def fill(self, x: Tensor, observed: Tensor, turn: int) -> Tensor:
        (filled, since), (next_filled, next_since) = self._arrays[turn], self._arrays[1 - turn]
        torch.where(observed, x, filled, out=next_filled)
        torch.add(since, self._dt, out=next_since).masked_fill_(observed, 0.0)
        return torch.cat([next_filled, observed.to(x.dtype), next_since], dim=-1)

    def save(self, turn: int) -> None:
        """The arrays are the memory of the stepper."""

    load = save


def _kind(part: object) -> tuple[object, ...] | None:
    return (part.shape, part.dtype, part.device) if isinstance(part, Tensor) else None
