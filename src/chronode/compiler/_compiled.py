"""Turns a cell into a loaded kernel: traced once per cell object, shared by cells whose traced sources are equal."""

from __future__ import annotations

import copy
import functools
import hashlib
import threading
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn

from . import build, triton
from ._emit_cpu import Source, emit
from ._fingerprint import remembered
from ._lower import Step, lower
from ._node import EXPENSIVE, Node
from ._recorded import Unsupported
from ._run import Compiled, Native, loaded
from ._trace import device_of, dtype_of, keeping_buffers, trace
from ._verify import check
from ._views import View

_lock = threading.RLock()


@dataclass
class _Form:
    """A cell as it was when it was traced.

    Attributes:
        dtype: Dtype of its input.
        equal_gaps: Whether it is for steps with the same gap.
        last: Whether it is for calls of which only the last y is needed.
        step: The graph of its step, or why there is none.
        gpu: Whether it is for a GPU.
        source: The C++ source, once it was needed.
        kernel: The kernel, once it was needed, or why there is none.
    """

    dtype: torch.dtype
    equal_gaps: bool
    last: bool
    step: Step | Unsupported
    gpu: bool = False
    source: Source | None = None
    kernel: Compiled | Unsupported | None = None


def step_of(cell: nn.Module, dtype: torch.dtype | None = None) -> Step:
    """Returns the graph of a cell's step.

    Args:
        cell: The cell.
        dtype: Dtype of its input; by default that of its parameters.

    Raises:
        Unsupported: It cannot be compiled; the message gives the reason.
    """
    return _supported(_form(cell, dtype).step)


def kernel_of(
    cell: nn.Module, dtype: torch.dtype | None = None, *, equal_gaps: bool = False, last: bool = False
) -> Compiled:
    """Returns the kernel that runs exactly this cell on inputs of `dtype`, built now unless it is in the cache.

    Args:
        cell: The cell.
        dtype: Dtype of its input; by default that of its parameters.
        equal_gaps: Whether all steps have the same gap; the kernel may use that.
        last: Whether only the y of each last step is needed; the kernel may leave it to torch.

    Raises:
        Unsupported: It cannot be compiled or built; the message gives the reason.
    """
    form = _form(cell, dtype, equal_gaps, last)
    if form.kernel is None:
        with _lock:
            form.kernel = form.kernel or _built(cell, form)
    if isinstance(form.kernel, Unsupported) and (form.equal_gaps or form.last):
        return kernel_of(cell, dtype)
    return _supported(form.kernel)


def gpu_kernel_of(cell: nn.Module, dtype: torch.dtype) -> Compiled:
    """Returns the kernel that runs exactly this cell on a GPU, in float32 or float64.

    Raises:
        Unsupported: Its loop is not element-wise, or cannot be compiled; the message gives the reason.
    """
    make = functools.partial(_gpu_form, cell, dtype)
    form = remembered(cell, (dtype, torch.get_default_dtype(), "gpu"), make)
    if form.kernel is None:
        with _lock:
            form.kernel = form.kernel or _built(_in(cell, dtype), form)
    return _supported(form.kernel)


def gpu_source_of(cell: nn.Module, dtype: torch.dtype | None = None) -> triton.Source:
    """Returns the Triton source of the cell's kernel.

    Raises:
        Unsupported: Its loop is not element-wise, or cannot be compiled; the message gives the reason.
    """
    return triton.emit(_supported(_gpu_form(cell, dtype or dtype_of(cell)).step))


def _gpu_form(cell: nn.Module, dtype: torch.dtype) -> _Form:
    return _Form(dtype, False, False, _traced(_in(cell, dtype), dtype, False, False, gpu=True), gpu=True)


def _in(cell: nn.Module, dtype: torch.dtype) -> nn.Module:
    """Returns the cell, or a copy of one with weights of 16 bits, in the precision of its states."""
    return cell if dtype_of(cell) == dtype else copy.deepcopy(cell).to(dtype)


def source_of(cell: nn.Module, dtype: torch.dtype | None = None, equal_gaps: bool = False, last: bool = False) -> str:
    """Returns the C++ source of the cell's kernel, by default of the one for any gaps and all outputs.

    Raises:
        Unsupported: It cannot be compiled; the message gives the reason.
    """
    return _source(_form(cell, dtype, equal_gaps, last)).text


def is_built(cell: nn.Module, dtype: torch.dtype | None = None) -> bool:
    """Returns whether the cell's kernel is already built.

    Raises:
        BuildError: It cannot be: there is no compiler or no cache.
    """
    form = _form(cell, dtype)
    return isinstance(form.kernel, Compiled) or build.is_built(_source(form).text)


def is_prebuilt(cell: nn.Module, dtype: torch.dtype | None = None) -> bool:
    """Returns whether the cell's kernel came with the package."""
    return build.is_prebuilt(source_of(cell, dtype))


def key_of(cell: nn.Module, dtype: torch.dtype | None = None) -> str:
    """Returns the hash of all that was traced of a cell: cells with the same hash share a kernel."""
    form = _form(cell, dtype)
    return _key(_supported(form.step), _source(form))


def _supported(result: Any) -> Any:
    if isinstance(result, Unsupported):
        raise result.with_traceback(None)
    return result


def _form(cell: nn.Module, dtype: torch.dtype | None, equal_gaps: bool = False, last: bool = False) -> _Form:
    """Returns the cell as it is now, traced unless it was already; forms for special calls only where they help."""
    dtype = dtype or dtype_of(cell)
    if equal_gaps or last:
        plain = _form(cell, dtype)
        if isinstance(plain.step, Unsupported):
            return plain
        equal_gaps, last = equal_gaps and _depends_on_gaps(plain.step), last and _reads_out(plain.step)
    key = (dtype, torch.get_default_dtype(), equal_gaps, last)
    return remembered(cell, key, lambda: _Form(dtype, equal_gaps, last, _traced(cell, dtype, equal_gaps, last)))


def _reads_out(step: Step) -> bool:
    """Returns whether y needs a product that no new state needs."""
    y, *new = step.outputs
    return any(node.op == "product" for node in _needed_by([y]) - _needed_by(new))


def _needed_by(views: list[View]) -> set[Node]:
    needed: set[Node] = set()
    pending = [view.node for view in views]
    while pending:
        node = pending.pop()
        if node not in needed:
            needed.add(node)
            pending += [arg.node for arg in node.args]
    return needed


def _depends_on_gaps(step: Step) -> bool:
    """Returns whether a step computes anything expensive per unit from dt and parameters alone."""
    alone: set[Node] = set()
    for node in step.nodes:
        is_gap = node.op == "input" and node.detail == "dt"
        from_gap = any(arg.node in alone for arg in node.args)
        if is_gap or (from_gap and all(arg.node in alone or arg.node.is_parameter for arg in node.args)):
            alone.add(node)
    return any(node.op in EXPENSIVE and node.size > 1 for node in alone)


def _traced(cell: Any, dtype: torch.dtype, equal_gaps: bool, last: bool, gpu: bool = False) -> Step | Unsupported:
    try:
        if dtype not in (torch.float32, torch.float64):
            raise Unsupported(f"has parameters of {dtype}, not float32 or float64")
        with _lock, keeping_buffers(cell):
            with torch.no_grad():
                x = torch.zeros(2, 2, cell.input_size, dtype=dtype, device=device_of(cell))
                projected = cell.project_sequence(x, None)
            # A projection in which steps or sequences depend on each other is not part of the step.
            features = cell.input_size if projected is None else projected.shape[-1]
            form = {"with_project": projected is None, "equal_gaps": equal_gaps, "lift": last, "separate": gpu}
            return lower(trace(cell, features, dtype, **form))
    except Unsupported as reason:
        return reason


def _source(form: _Form) -> Source:
    if form.source is None:
        form.source = emit(_supported(form.step), str(form.dtype).removeprefix("torch."))
    return form.source


def _built(cell: nn.Module, form: _Form) -> Compiled | Unsupported:
    try:
        step = _supported(form.step)
        if form.gpu:
            on_gpu = triton.emit(step)
            key = f"{_key(step, on_gpu)} on a GPU in {form.dtype}"
            kernel = loaded(key) or triton.OnGpu(key, step, on_gpu, form.dtype)
        else:
            source = _source(form)
            key = _key(step, source)
            kernel = loaded(key) or Native(key, step, source, form.dtype, build.load(source.text))
        with keeping_buffers(cell):
            check(cell, kernel, form.equal_gaps)
        return kernel
    except build.BuildError as error:
        return Unsupported(str(error))
    except Unsupported as reason:
        return Unsupported(f"the step {reason}")


def _key(step: Step, source: Source | triton.Source) -> str:
    """Returns a hash of everything that was traced: the source, and what torch runs before and after it."""
    text = hashlib.sha256(f"{source.text}{step.traced.captured}{step.traced.with_project}{step.traced.reach}".encode())
    for draw in step.draws:
        text.update(repr(draw).encode())
    for graph in filter(None, (step.traced.prefix, step.derived, step.finish, step.traced.readout, step.traced.lead)):
        text.update(graph.code.encode())
        for name, tensor in _constants(graph).items():
            text.update(f"{name}{tensor.dtype}{tuple(tensor.shape)}".encode())
            text.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return text.hexdigest()[:16]


def _constants(graph: fx.GraphModule) -> dict[str, Tensor]:
    """Returns the tensors that a graph reads besides its arguments, such as `torch.tensor(0.5)` in a step."""
    named = [node.target for node in graph.graph.nodes if node.op == "get_attr"]
    return {name: getattr(graph, name) for name in named}
