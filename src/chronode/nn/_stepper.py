"""Processing of live data one step at a time: checked inputs, weights prepared once, the state kept inside."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor

from .. import kernels
from ..settings import whole
from . import _changes as changes
from ._cell import Cell, State
from ._inputs import LayerInput, check_inputs, shape
from ._states import unpack

if TYPE_CHECKING:
    from ._layer import Layer


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
        self._gap = 1.0  # current value of dt
        self._initial = [cell.initial_state(size, self._like) for cell in layer.all_cells()]
        self.reset()

    def reset(self) -> None:
        """Resets the state to the initial state."""
        self._set_states(self._initial)

    def refresh(self) -> None:
        """Prepares the weights again; the state is kept."""
        self._set_states(self._states())

    @property
    def state(self) -> State:
        """The state after the last step, in the form that the layer uses."""
        return self.layer.pack(self._states(), self._unbatched)

    @state.setter
    def state(self, state: State) -> None:
        states = self.layer.unpack(state, self._like, self._unbatched)
        self._set_states(states)

    def resume(self, state: State) -> None:
        """Continues from a state, which is not checked, with the weights as they are prepared."""
        states = unpack(state, self._initial, len(self.layer.encoders), self._unbatched)
        for unit in self._units:
            unit.put([states.pop(0) for _ in range(unit.count)])

    def is_one_call(self) -> bool:
        """Returns whether a step is a single kernel call whose arrays are the state of the layer."""
        return len(self._units) == 1 and isinstance(self._units[0], _NativeUnit)

    def load(self, state: State | None) -> bool:
        """If `is_one_call`: continues from this state, or from the initial one; returns False if it does not fit."""
        return cast(_NativeUnit, self._units[0]).load(state, self._unbatched)

    def arrays(self) -> State:
        """If `is_one_call`: returns `state` without going through the cells."""
        parts = tuple(part.clone() for part in cast(_NativeUnit, self._units[0]).current())
        return tuple(part.squeeze(1) for part in parts) if self._unbatched else parts

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
            inputs, gap = x if observed is None else _with_mask(x, observed), cast(float, dt)
            if gap != self._gap:
                self._dt.fill_(gap)
                self._gap = gap
        else:
            entered = enter_step(self.layer, x, dt, observed)
            if x.shape != self._shape:
                raise ValueError(f"x must have shape {self._shape}, for which this stepper was made; got {shape(x)}.")
            inputs, self._gap = entered.x[0], math.nan
            self._dt.copy_(entered.dt[0])
        y = self._run(inputs.view(self._dt.shape[0], -1))
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

    def _states(self) -> list[State]:
        return [state for unit in self._units for state in unit.states()]

    def _set_states(self, states: Sequence[State]) -> None:
        """Builds the steps of all cells from these states with the current weights."""
        changes.remake_weights(self.layer.all_cells())
        encoders = cast(list[Cell], list(self.layer.encoders))
        cells = cast(list[Cell], list(self.layer.cells))
        with torch.inference_mode(False), torch.no_grad():
            self._encoders = [_LoopUnit(cell, state, self._dt) for cell, state in zip(encoders, states, strict=False)]
            cell_states = list(states[len(encoders) :])
            whole_stack = self._on_cpu and kernels.find_stack(cells, self._like) is not None
            groups = [cells] if whole_stack else [[cell] for cell in cells]
            self._stack = [
                _unit(group, [cell_states.pop(0) for _ in group], self._dt, self.layer.residual) for group in groups
            ]
        self._units = [*self._encoders, *self._stack]
        self._whole_stack = whole_stack
        self._tensors = [*self.layer.parameters(), *self.layer.buffers()]
        self._version = self._versions()

    def _run(self, x: Tensor) -> Tensor:
        for encoder in self._encoders:
            x = encoder.step(x)
        if self._whole_stack or not self.layer.residual:
            for unit in self._stack:
                x = unit.step(x)
            return x.clone()
        levels, skip = [x], self.layer.residual
        for index, unit in enumerate(self._stack):
            inputs = torch.cat([levels[index], levels[index - skip]], dim=-1) if index >= skip else levels[index]
            levels.append(unit.step(inputs))
        return levels[-1].clone()


class _LoopUnit:
    """Cell whose step is called directly."""

    count = 1  # cells

    def __init__(self, cell: Cell, state: State, dt: Tensor):
        self._project, self._state, self._dt = cell.project, state, dt
        self._step = cell.prepare() if changes.why_hooked(cell) is None else cell

    def step(self, x: Tensor) -> Tensor:
        # Copies, because a cell may keep its arguments in its state and the caller may reuse x.
        y, self._state = self._step(self._project(x.clone()), self._state, self._dt.clone())
        return y

    def states(self) -> list[State]:
        return [self._state]

    def put(self, states: list[State]) -> None:
        (self._state,) = states


class _NativeUnit:
    """Cells whose step is a single kernel call; two sets of arrays alternate as the state before and after it."""

    def __init__(self, x: Tensor, arrays: tuple[State, State], calls: list[kernels.Bound]):
        self._x, self._arrays, self._calls, self._turn = x, arrays, calls, 0
        self.count = len(arrays[0][0])

    def step(self, x: Tensor) -> Tensor:
        self._x.copy_(x)
        call, y = self._calls[self._turn]
        call()
        self._turn = 1 - self._turn
        return y

    def current(self) -> State:
        return self._arrays[self._turn]

    def load(self, state: State | None, unbatched: bool) -> bool:
        arrays = tuple(part.squeeze(1) for part in self.current()) if unbatched else self.current()
        if state is None:
            for array in arrays:
                array.zero_()
            return True
        if type(state) is not tuple or [*map(_kind, state)] != [*map(_kind, arrays)]:
            return False
        for array, part in zip(arrays, state, strict=True):
            array.copy_(part)
        return True

    def states(self) -> list[State]:
        return list(zip(*(part.clone().unbind(0) for part in self.current()), strict=True))

    def put(self, states: list[State]) -> None:
        for layer, state in enumerate(states):
            for array, part in zip(self.current(), state, strict=True):
                array[layer].copy_(part)


def _with_mask(x: Tensor, observed: Tensor) -> Tensor:
    return torch.cat([torch.where(observed, x, 0.0), observed.to(x.dtype)], dim=-1)


def _unit(cells: list[Cell], states: list[State], dt: Tensor, residual: int) -> _LoopUnit | _NativeUnit:
    x = dt.new_zeros(dt.shape[0], cells[0].input_size)
    kernel = kernels.find(cells[0], x)
    if x.is_cpu and kernel is not None and kernel.bind is not None:
        reads = [cell.kernel_reads() for cell in cells]
        now = tuple(torch.stack(parts) for parts in zip(*states, strict=True))
        then = tuple(torch.empty_like(part) for part in now)
        calls = [kernel.bind(reads, x, dt, *turn, residual) for turn in ((now, then), (then, now))]
        if all(call is not None for call in calls):
            return _NativeUnit(x, (now, then), cast(list[kernels.Bound], calls))
    return _LoopUnit(cells[0], states[0], dt)


def _kind(part: object) -> tuple[object, ...] | None:
    return (part.shape, part.dtype, part.device) if isinstance(part, Tensor) else None
