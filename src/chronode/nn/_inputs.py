"""Checks of what goes into a layer, done once, with its conversion to the form that the driver uses, and of what comes
out.

After these checks everything is batched, time-major, finite and of one dtype; no other code checks again.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..kernels import autocasts, has_values, may_look
from ._cell import State
from .driver import valid_steps

Times = Tensor | float | int


class LayerInput(NamedTuple):
    """Checked batch: `x (T, B, D)`, `dt (T, B, 1)`, `lengths (B,)` or None; the second half of `x` is the observed
    mask.
    """

    x: Tensor
    dt: Tensor
    lengths: Tensor | None


class Call(NamedTuple):
    """Properties of a layer that the checks need; without a `dtype`, because it has no weights, x may have any."""

    input_size: int
    batch_first: bool
    dtype: torch.dtype | None
    takes_missing: bool
    one_step: bool = False
    max_gap: float | None = None

    @property
    def layout(self) -> str:
        """The axes of x in words."""
        if self.one_step:
            return "(batch, features)"
        return "(batch, time, features)" if self.batch_first else "(time, batch, features)"


def check_inputs(
    call: Call,
    x: Tensor,
    dt: Times | None,
    t: Tensor | None,
    lengths: Tensor | Sequence[int] | None,
    observed: Tensor | None,
    has_state: bool,
) -> LayerInput:
    """Checks the arguments of a layer and converts them to the form that the driver uses."""
    _check_x(call, x)
    unbatched = x.dim() == 2
    x = _time_major(x, call, unbatched)
    lengths = _lengths(lengths, x, unbatched)
    valid = valid_steps(lengths, x)
    gaps = _gaps(call, dt, t, x, valid, unbatched, has_state)
    if call.max_gap is not None:
        gaps = gaps.clamp(max=call.max_gap)
    mask = _observed(call, observed, x, unbatched)
    if valid is not None:
        # Padding may hold anything, even NaN; it is set to 0.
        x = torch.where(valid, x, torch.zeros_like(x))
        gaps = torch.where(valid, gaps, torch.zeros_like(gaps))
    if mask is not None:
        x = torch.where(mask, x, torch.zeros_like(x))
    cure = _CURE_FOR_OBSERVED_NAN if call.takes_missing else _CURE_FOR_NAN
    _refuse(~torch.isfinite(x), "x", call, unbatched, "is not finite", cure)
    if mask is not None:
        x = torch.cat([x, mask.to(x.dtype)], dim=-1)
    return LayerInput(x, gaps, lengths)


_CURE_FOR_NAN = (
    "replace it, or declare missing values: build the layer with missing=True and pass "
    "observed=x.isfinite() (True where a value was observed)"
)
_CURE_FOR_OBSERVED_NAN = (
    "replace it, or declare it missing: pass observed=x.isfinite() (True where a value was observed)"
)


def _check_x(call: Call, x: Tensor) -> None:
    if not isinstance(x, Tensor):
        raise TypeError(f"x must be a torch.Tensor of shape {call.layout}, got {type(x).__name__}.")
    if x.dim() not in (2, 3):
        raise ValueError(
            f"x must have shape {call.layout}, or (time, features) for one sequence; got {tuple(x.shape)}."
        )
    if x.shape[-1] != call.input_size:
        raise ValueError(
            f"x has {x.shape[-1]} features in its last axis, but this layer was built with "
            f"input_size={call.input_size}; x is {call.layout}."
        )
    if 0 in x.shape:
        raise ValueError(f"x is empty: shape {tuple(x.shape)}; it needs at least one sequence and one step.")
    if call.dtype is None:
        if not x.dtype.is_floating_point:
            raise TypeError(f"x is {x.dtype}, but a layer takes floating-point numbers; use x.float().")
        return
    # autocast converts between floating-point types, except float64.
    cast = autocasts(x) and x.dtype.is_floating_point
    if x.dtype != call.dtype and not (cast and torch.float64 not in (x.dtype, call.dtype)):
        other = f" or layer.to({x.dtype})" if x.dtype.is_floating_point else ""
        note = " (autocast leaves float64 as it is)" if cast else ""
        raise TypeError(
            f"x is {x.dtype}, but the weights of the layer are {call.dtype}{note}; use x.to({call.dtype}){other}."
        )


def _time_major(values: Tensor, call: Call, unbatched: bool) -> Tensor:
    if unbatched:
        return values.unsqueeze(1)
    return values.transpose(0, 1) if call.batch_first else values


def _lengths(lengths: Tensor | Sequence[int] | None, x: Tensor, unbatched: bool) -> Tensor | None:
    if lengths is None:
        return None
    steps, batch = x.shape[:2]
    if unbatched:
        raise ValueError("lengths needs a batch; for one sequence of shape (time, features), shorten x instead.")
    try:
        lengths = torch.as_tensor(lengths)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"lengths must be a tensor or a list of whole numbers, got {lengths!r}.") from error
    if lengths.dtype.is_floating_point or lengths.dtype == torch.bool:
        raise TypeError(f"lengths must be whole numbers, got {lengths.dtype}; use lengths.long().")
    if lengths.shape != (batch,):
        raise ValueError(f"lengths must have shape ({batch},), one per sequence, got {tuple(lengths.shape)}.")
    lengths = lengths.long()
    if not has_values(x) or not may_look(lengths):
        return lengths.to(x.device)
    wrong = ((lengths < 1) | (lengths > steps)).nonzero()
    if len(wrong):
        i = int(wrong[0])
        raise ValueError(
            f"lengths[{i}] is {int(lengths[i])}; each must be from 1 to {steps}, the time steps of x. "
            "Leave out empty sequences."
        )
    return None if bool((lengths == steps).all()) else lengths.to(x.device, non_blocking=True)


def _gaps(
    call: Call,
    dt: Times | None,
    t: Tensor | None,
    x: Tensor,
    valid: Tensor | None,
    unbatched: bool,
    has_state: bool,
) -> Tensor:
    """Returns the time since the previous observation, `(T, B, 1)`: from dt, from t, or 1."""
    if t is None:
        gaps = _per_step("dt", 1.0 if dt is None else dt, call, x, unbatched)
        name, what = "dt", "is negative or not finite"
        cure = "dt is the time since the previous observation and must be 0 or more"
    else:
        if dt is not None:
            raise ValueError("dt and t were both given; t holds absolute times and dt the gaps: pass only one of them.")
        if has_state:
            raise ValueError(
                "t cannot be combined with a state: the time of the last observation before this piece is not "
                "known here. Pass dt, whose first column is the time since that observation."
            )
        gaps = _differences(call, t, x, valid, unbatched)
        name, what, cure = "t", "goes back in time", "sort each sequence by time; t must not decrease"
    # In this order, because some devices do not support float64, which is common for times.
    gaps = gaps.to(x.dtype).to(x.device)
    wrong = ~((gaps >= 0) & torch.isfinite(gaps))
    _refuse(wrong if valid is None else wrong & valid, name, call, unbatched, what, cure)
    return gaps


def _differences(call: Call, t: Tensor, x: Tensor, valid: Tensor | None, unbatched: bool) -> Tensor:
    """Returns the differences of absolute times, `(T, B, 1)`; the first is 0."""
    if not isinstance(t, Tensor) or t.dim() == 0:
        raise TypeError("t must be a tensor with one time per step; for the same gap between all steps pass dt=number.")
    times = _per_step("t", t, call, x, unbatched)
    if not times.dtype.is_floating_point:
        times = times.long()  # differences of narrow or unsigned integers would overflow
    unknown = ~torch.isfinite(times)
    unknown = unknown if valid is None else unknown & valid.to(unknown.device)
    cure = "give every step a time, or leave the step out"
    _refuse(unknown, "t", call, unbatched, "is not finite", cure)
    return torch.cat([torch.zeros_like(times[:1]), times.diff(dim=0)])


def _per_step(name: str, values: Times, call: Call, x: Tensor, unbatched: bool) -> Tensor:
    """Returns one value per step and sequence, `(T, B, 1)`, in the dtype and on the device given by the user."""
    steps, batch = x.shape[:2]
    if isinstance(values, (int, float)) and not isinstance(values, bool):
        return torch.full((steps, batch, 1), float(values), dtype=x.dtype, device=x.device)
    if not isinstance(values, Tensor):
        raise TypeError(
            f"{name} must be a tensor or a number, got {type(values).__name__}; use e.g. torch.as_tensor({name})."
        )
    if values.dtype == torch.bool or values.dtype.is_complex:
        raise TypeError(f"{name} must hold numbers, got {values.dtype}; use {name}.to({x.dtype}).")
    if values.dim() == 0:
        return values.expand(steps, batch, 1)
    if unbatched:
        wanted: tuple[int, ...] = (steps,)
    else:
        wanted = (batch, steps) if call.batch_first else (steps, batch)
    if tuple(values.shape) not in (wanted, (*wanted, 1)):
        axes = "(time,)" if unbatched else call.layout.replace(", features", "")
        number = ", or be a number" if name == "dt" else ""
        raise ValueError(
            f"{name} must have shape {wanted} {axes}, or the same with a last axis of 1{number}; "
            f"got {tuple(values.shape)}."
        )
    return _time_major(values.reshape(*wanted, 1), call, unbatched)


def _observed(call: Call, observed: Tensor | None, x: Tensor, unbatched: bool) -> Tensor | None:
    if not call.takes_missing:
        if observed is not None:
            raise ValueError(
                "observed was given, but this layer was built without missing=True: build it with missing=True, or "
                "omit observed."
            )
        return None
    if observed is None:
        return torch.ones_like(x, dtype=torch.bool)
    if not isinstance(observed, Tensor) or observed.dtype != torch.bool:
        raise TypeError(
            "observed must be a bool tensor, True where a value was observed; use e.g. observed=x.isfinite()."
        )
    if observed.dim() != (2 if unbatched else 3) or _time_major(observed, call, unbatched).shape != x.shape:
        raise ValueError(f"observed must have the shape of x; got {tuple(observed.shape)}.")
    return _time_major(observed, call, unbatched).to(x.device)


def _refuse(wrong: Tensor, name: str, call: Call, unbatched: bool, what: str, cure: str) -> None:
    """Raises a ValueError that names the first wrong element, by its index in the user's tensor."""
    if not may_look(wrong) or not bool(wrong.any()):
        return
    n, b, d = (int(i) for i in wrong.nonzero()[0])
    index = [n] if unbatched else [b, n] if call.batch_first else [n, b]
    if call.one_step:
        index = [] if unbatched else [b]
    if name == "x":
        index.append(d)
    where = f"{name}[{', '.join(map(str, index))}]" if index else name
    count = int(wrong.sum())
    raise ValueError(f"{where} {what} ({count} such element{'s' if count > 1 else ''}): {cure}.")


def shape(x: object) -> str:
    """Describes the shape of a tensor, or the type of anything else, for error messages."""
    return str(tuple(x.shape)) if isinstance(x, Tensor) else type(x).__name__


def check_state(state: Any, wanted: State, device: torch.device, name: str) -> None:
    """Refuses a state that does not have the shapes and types of `wanted`; `name` is the layer's."""
    if not isinstance(state, (tuple, list)) or not all(isinstance(part, Tensor) for part in state):
        raise TypeError(f"state must be the tuple of tensors that {name} returned, got {type(state).__name__}.")
    shapes, expected = [tuple(p.shape) for p in state], [tuple(p.shape) for p in wanted]
    if shapes != expected:
        raise ValueError(
            f"state does not fit this {name}: it has shapes {shapes}, expected {expected}. "
            "Pass the state that this same layer returned for the same batch, or None to start from the initial state."
        )
    for i, part in enumerate(state):
        if part.dtype != wanted[i].dtype or part.device != device:
            message = f"state[{i}] is {part.dtype} on {part.device}, expected {wanted[i].dtype} on {device}"
            raise TypeError(f"{message}: use state[{i}].to({str(device)!r}, {wanted[i].dtype}).")


# ---- outputs ----------------------------------------------------------------------------------------------

LONG_GAP = 30.0
"""Gaps up to this length count as short: then only the final states are checked, which is cheap."""
TOO_LARGE = 1e9
"""Multiple of the largest input (or 1) beyond which outputs are useless and gradients soon overflow."""


def warn_of_divergence(cell: str, y: Tensor, states: Iterable[State], batch: LayerInput) -> None:
    """Emits a RuntimeWarning with the longest gap if the outputs are not finite or far larger than the inputs.

    An explicit step is only stable for short gaps, and the states of some models grow with time by design.
    """
    if not may_look(y):
        return
    gap = _largest(batch.dt)
    suspicious = gap > LONG_GAP or any(_largest(part) >= TOO_LARGE for state in states for part in state)
    if not suspicious or (largest := _largest(y)) < TOO_LARGE:
        return
    inputs = _largest(batch.x)
    if largest < TOO_LARGE * max(1.0, inputs):
        return
    what = "are more than 1e9 times larger than its inputs" if largest < float("inf") else "are not finite"
    warnings.warn(
        f"the outputs of {cell} {what}; the longest gap is dt = {gap:.2g}, the largest input is {inputs:.2g}. If the "
        "gap is the cause, divide all times by a constant so that a typical gap is about 1, build the layer with "
        "max_gap=..., or choose a step that stays bounded (solver='exponential' or discretization='exact', where the "
        "model has it). Otherwise scale the inputs, or train with a lower learning rate.",
        RuntimeWarning,
        stacklevel=6,
    )


def _largest(values: Tensor) -> float:
    """Returns the largest magnitude; infinity if a value is NaN."""
    values = values.detach()
    low, high = (values.abs() if values.is_complex() else values).aminmax()
    largest = max(abs(float(low)), abs(float(high)))
    return largest if largest == largest else float("inf")
