"""Traces a cell into torch graphs: what depends on parameters alone, and one step with its backward pass.

`trace` runs the cell's step once on a small batch and records every operation on tensors. Operations on parameters
alone (an orthogonal matrix, a softplus, a mask) become `prefix`, which torch runs once per call with its own gradients.
The rest, recorded together with its backward pass, is `joint`: the graph that `lower` turns into loops.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx
from torch.fx.experimental.proxy_tensor import make_fx

from ..kernels import backend, weight_of
from ._functional import without_writes
from ._guard import recording_functions, refuse_hooks, with_functions
from ._lift import Lifted, lifted
from ._prefix import divide
from ._recorded import COMPLEX, Draw, Unsupported
from ._separate import Separated, separated
from ._substitutes import Substituted

_SMALLEST_BATCH = 11
GAP = "the gap between all steps"
"""Name among the captured tensors; a parameter or buffer cannot have it."""


@dataclass
class Traced:
    """A step as graphs of torch operations.

    Attributes:
        batch: The batch size used for tracing.
        captured: Names of the parameters and buffers that `prefix` takes.
        prefix: Computes tensors from the captured ones; run by torch, once per call, with gradients.
        joint: (x, dt, state, draws; prefix's tensors; gradients of y and state) to (y, state; gradients of the first
            two groups); without the gradients if `backward` is False.
        x, y, states: Features of each; a part of the state with several axes is flattened.
        shapes: Shapes of the parts of the state, without the batch axis.
        draws: Random tensors of each step, in the order of drawing.
        with_project: Whether `project` is part of the step.
        tensors: The tensors of `prefix` at the time of tracing.
        backward: Whether `joint` contains the gradients.
        dtype: The only dtype of all values, if `backward`.
        readout: Computes y from the values that `joint` returns in its place, if the readout is not part of the loop.
        lead: Computes the loop's input, in place of x, and what `readout` needs besides, for all steps at once.
        reach: For y and each part of the new state, which of x, dt, state, draws and prefix's tensors it has a gradient
            for; empty if `backward` is False.
    """

    batch: int
    captured: list[str]
    prefix: fx.GraphModule
    joint: fx.GraphModule
    x: int
    y: int
    states: list[int]
    draws: list[Draw]
    tensors: list[Tensor]
    with_project: bool
    shapes: list[tuple[int, ...]]
    backward: bool = True
    dtype: torch.dtype | None = None
    reach: tuple[tuple[int, ...], ...] = ()
    readout: fx.GraphModule | None = None
    lead: fx.GraphModule | None = None


@contextmanager
def keeping_buffers(cell: Any) -> Iterator[None]:
    """Restores buffers afterwards: a batch normalization updates its statistics."""
    before = [(buffer, buffer.detach().clone()) for buffer in cell.buffers()]
    try:
        yield
    finally:
        with torch.no_grad():
            for buffer, old in before:
                # Writing the same values again would still break the backward pass of an earlier call.
                if not buffer.is_meta and not torch.equal(buffer, old):
                    buffer.copy_(old)


def dtype_of(cell: Any) -> torch.dtype:
    """Returns the dtype of a cell's weights, torch's default if it has none."""
    weight = weight_of(cell)
    return torch.get_default_dtype() if weight is None else weight.dtype


def device_of(cell: Any) -> torch.device:
    """Returns the device of a cell's weights, the CPU if it has none."""
    weight = weight_of(cell)
    return torch.device("cpu") if weight is None else weight.device


def trace(
    cell: Any,
    features: int,
    dtype: torch.dtype | None = None,
    *,
    with_project: bool = True,
    backward: bool = True,
    equal_gaps: bool = False,
    lift: bool = False,
    separate: bool = False,
) -> Traced:
    """Records one step of a cell whose input has `features` features.

    Args:
        cell: The cell, on the CPU.
        features: Features of the input, or of the output of `project` if that is not part of the step.
        dtype: Dtype of the input, float32 or float64; by default that of the parameters.
        with_project: Whether `project` is part of the step.
        backward: Whether to trace the gradients too.
        equal_gaps: Whether dt is one number: what depends on it and on parameters alone is part of `prefix`.
        lift: Whether the readout leaves the loop over time, if it has a product.
        separate: Whether everything that is not element-wise leaves the loop over time, where possible.
    """
    batch, dtype, device = _batch_size(cell), dtype or dtype_of(cell), device_of(cell)
    # The compiler has rules for torch's products, not for those of chronode's kernels.
    with torch.random.fork_rng(devices=[]), torch.enable_grad(), backend("torch"):
        x = torch.empty(batch, features, dtype=dtype).normal_().to(device)
        dt = torch.empty(batch, 1, dtype=dtype).uniform_(0.1, 1).to(device)
        gap = dt[:1].clone() if equal_gaps else dt
        state = tuple(part.detach().clone() for part in cell.initial_state(batch, x))
        _check_state(state, batch, dtype if backward else None)
        shapes = [tuple(part.shape[1:]) for part in state]
        state = tuple(part.flatten(1) for part in state)

        def step(x: Tensor, dt: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
            parts = tuple(part.unflatten(1, shape) for part, shape in zip(state, shapes, strict=True))
            with Substituted(batch):
                y, new = cell.prepare()(cell.project(x) if with_project else x, parts, dt)
            return (y, *(part.flatten(1) for part in new))

        if backward:
            with reasons():
                refuse_hooks(step, x, gap, *state)
        with recording_functions():
            recorded = with_functions(_recorded(step, x, gap, *state))
        _name_captured(recorded, cell, equal_gaps)
        captured, prefix, rest, draws = divide(recorded, batch)
        tensors = [tensor.detach() for tensor in prefix(*(named(cell, name, gap) for name in captured))]
        samples = [draw.sample(batch, x.dtype) for draw in draws]
        rows = [x, dt, *state, *samples]
        apart: Lifted | Separated | None = lifted(rest, len(state), len(draws), batch) if lift else None
        if separate:
            if draws:
                raise Unsupported("draws random numbers")
            apart = separated(rest, len(state), batch)
            rows[0] = torch.empty(batch, apart.features, dtype=dtype).normal_().to(device)
        rest = rest if apart is None else apart.loop
        joint, y = _joint(rest, rows, tensors, backward)
        reach = _reach(rest, [*rows, *tensors]) if backward else ()
    sizes = [part.shape[1] for part in state]
    readout = None if apart is None else apart.readout
    lead = apart.lead if isinstance(apart, Separated) else None
    recorded_as = (with_project, shapes, backward, dtype if backward else None, reach, readout, lead)
    return Traced(batch, captured, prefix, joint, rows[0].shape[1], y, sizes, draws, tensors, *recorded_as)


def _batch_size(cell: Any) -> int:
    """Returns a prime that divides no size of the cell, so the batch axis can be recognized by its size."""
    sizes = {size for tensor in (*cell.parameters(), *cell.buffers()) for size in tensor.shape}
    sizes |= {value for value in vars(cell).values() if type(value) is int}
    prime = _SMALLEST_BATCH
    while any(size % prime == 0 for size in sizes if size) or any(prime % n == 0 for n in range(2, prime)):
        prime += 2
    return prime


def _check_state(state: tuple[Tensor, ...], batch: int, dtype: torch.dtype | None) -> None:
    for part in state:
        if part.is_complex():
            raise Unsupported(COMPLEX)
        if part.dim() < 2 or part.shape[0] != batch or not part.dtype.is_floating_point:
            raise Unsupported(f"has a state of shape {tuple(part.shape)} and {part.dtype}, not (batch, size) of floats")
        if dtype is not None and part.dtype != dtype:
            raise Unsupported(f"has a state of {part.dtype} for inputs of {dtype}")


@functools.cache
def _decompositions() -> dict[Any, Callable[..., Any]]:
    from torch._decomp import get_decompositions

    aten = torch.ops.aten
    names = """native_layer_norm_backward gelu gelu_backward silu silu_backward elu elu_backward
        leaky_relu leaky_relu_backward hardtanh hardtanh_backward hardsigmoid hardsigmoid_backward hardswish
        hardswish_backward log_sigmoid_forward log_sigmoid_backward addcmul addcdiv lerp square
        logit mish softshrink softshrink_backward hardshrink celu selu addmv norm linalg_vector_norm dot mv rsqrt
        _log_softmax _log_softmax_backward_data nan_to_num frac trunc native_group_norm select_backward unfold_backward
        masked_fill logsumexp logaddexp glu glu_backward"""
    return dict(get_decompositions([getattr(aten, name) for name in names.split() if hasattr(aten, name)]))


def _recorded(function: Callable[..., Any], *args: Any, decomposed: bool = False) -> fx.GraphModule:
    with reasons():
        return without_writes(make_fx(function, decomposition_table=_decompositions() if decomposed else None)(*args))


@contextmanager
def reasons() -> Iterator[None]:
    """Turns the errors of a step that the compiler runs into reasons."""
    try:
        yield
    except Unsupported:
        raise
    except Exception as error:
        text = str(error)
        if "data-dependent" in text or "tracing tensor" in text or "item()" in text:
            raise Unsupported("branches on the values of tensors") from error
        first = text.strip().split("\n")[0][:200]
        raise Unsupported(f"cannot be traced ({type(error).__name__}: {first})") from error


def _name_captured(recorded: fx.GraphModule, cell: Any, equal_gaps: bool) -> None:
    """Finds the name in the cell of every tensor that the step reads from it."""
    if equal_gaps:
        inputs = [node for node in recorded.graph.nodes if node.op == "placeholder"]
        inputs[1].meta["captured"] = GAP
    names = {id(tensor): name for name, tensor in (*cell.named_parameters(), *cell.named_buffers())}
    for node in recorded.graph.nodes:
        if node.op != "get_attr":
            continue
        tensor = getattr(recorded, node.target)
        if isinstance(tensor, Tensor) and id(tensor) in names:
            node.meta["captured"] = names[id(tensor)]
        elif isinstance(tensor, Tensor) and all("lift_fresh" in str(user.target) for user in node.users):
            node.meta["literal"] = tensor
        else:
            raise Unsupported("reads a tensor that is neither a parameter nor a buffer of the cell: register it there")


def _joint(
    rest: fx.GraphModule, rows: list[Tensor], tensors: list[Tensor], backward: bool
) -> tuple[fx.GraphModule, int]:
    with torch.no_grad():
        example = rest(*rows, *tensors)
    for out in example:
        if out.dim() != 2 or out.shape[0] != rows[0].shape[0]:
            raise Unsupported(f"gives a tensor of shape {tuple(out.shape)}, not (batch, size)")

    def forward(rows: list[Tensor], tensors: list[Tensor]) -> Any:
        return list(rest(*rows, *tensors))

    def joint(rows: list[Tensor], tensors: list[Tensor], grads: list[Tensor]) -> Any:
        inputs = [tensor.detach().requires_grad_(tensor.dtype.is_floating_point) for tensor in (*rows, *tensors)]
        outputs = rest(*inputs)
        pairs = [(out, grad) for out, grad in zip(outputs, grads, strict=True) if out.requires_grad]
        wanted = [tensor for tensor in inputs if tensor.requires_grad]
        if not pairs:
            return list(outputs), [None] * len(inputs)
        gradients = iter(torch.autograd.grad([o for o, _ in pairs], wanted, [g for _, g in pairs], allow_unused=True))
        return list(outputs), [next(gradients) if tensor.requires_grad else None for tensor in inputs]

    if not backward:
        with torch.no_grad():
            return _recorded(forward, rows, tensors, decomposed=True), example[0].shape[1]
    grads = [torch.randn_like(out) for out in example]
    # Only here, because the operators that decompositions consist of have no gradients.
    return _recorded(joint, rows, tensors, grads, decomposed=True), example[0].shape[1]


def _reach(rest: fx.GraphModule, inputs: list[Tensor]) -> tuple[tuple[int, ...], ...]:
    """Returns for each output the inputs that it has a gradient for, be it 0."""
    leaves = [tensor.detach().requires_grad_(tensor.dtype.is_floating_point) for tensor in inputs]
    wanted = [index for index, leaf in enumerate(leaves) if leaf.requires_grad]
    reached = []
    for out in rest(*leaves):
        grads: tuple[Tensor | None, ...] = (None,) * len(wanted)
        if out.requires_grad:
            asked, ones = [leaves[index] for index in wanted], torch.ones_like(out)
            grads = torch.autograd.grad(out, asked, ones, retain_graph=True, allow_unused=True)
        reached.append(tuple(index for index, grad in zip(wanted, grads, strict=True) if grad is not None))
    return tuple(reached)


def named(cell: Any, name: str, gap: Tensor) -> Tensor:
    """Returns a parameter or buffer by its dotted name, or the gap between all steps."""
    if name == GAP:
        return gap
    owner, _, last = name.rpartition(".")
    return getattr(cell.get_submodule(owner), last)
