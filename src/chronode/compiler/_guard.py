"""Watches a step while it runs: refuses what a recording would lose, and keeps backward rules of its own.

A recording has the operations of the forward pass and is differentiated again. It knows nothing of hooks, nor of
numbers that Python reads from tensors. A `torch.autograd.Function` is recorded as one operator, which runs the function
again when the recording is differentiated, so that its own backward rule is recorded.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, fx
from torch.autograd import function as torch_function
from torch.overrides import TorchFunctionMode

from ..kernels import operator
from ._recorded import Unsupported

_GRAD_FN = vars(torch._C.TensorBase)["grad_fn"].__get__  # nodes of the backward pass have hooks too
_HOOKS = {Tensor.register_hook, Tensor.register_post_accumulate_grad_hook, _GRAD_FN}
_BRANCHES = {Tensor.__bool__, Tensor.is_nonzero, Tensor.equal, Tensor.allclose, torch.equal, torch.allclose}
_READS = {
    *(Tensor.item, Tensor.tolist, Tensor.numpy, Tensor.__array__, Tensor.__float__, Tensor.__int__, Tensor.__index__),
    *(Tensor.__complex__, Tensor.__dlpack__, Tensor.data_ptr),
}
_TENSOR = object()  # stands for a tensor among arguments
_names: dict[Any, str] = {}  # functions with their other arguments -> unique names in recordings
_calls: dict[str, tuple[Any, tuple[Any, ...]]] = {}
_SINGLE: set[str] = set()  # those that return one tensor, not a tuple


class _Guard(TorchFunctionMode):
    """Raises `Unsupported` where the step looks at the values of tensors or hooks onto their gradients."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _HOOKS:
            raise Unsupported("changes or observes gradients with a hook, which only torch can run")
        if func in _BRANCHES:
            raise Unsupported("branches on the values of tensors")
        if func in _READS:
            raise Unsupported(f"reads the values of tensors into Python ({func.__name__})")
        return func(*args, **(kwargs or {}))


def refuse_hooks(step: Callable[..., Iterable[Tensor]], *inputs: Tensor) -> None:
    """Runs a step and raises `Unsupported` if a recording would not have its gradients or its numbers."""
    leaves = [tensor.detach().clone().requires_grad_() for tensor in inputs]
    with _Guard():
        step(*(leaf.view_as(leaf) for leaf in leaves))


@contextmanager
def recording_functions(active: bool = True) -> Iterator[None]:
    """Records calls of `torch.autograd.Function`s, except torch's own, as single operators."""
    thread, base = threading.get_ident(), torch_function._SingleLevelFunction
    before, plain = vars(base).get("apply"), vars(torch._C._FunctionBase)["apply"]

    def apply(cls: Any, *args: Any, **options: Any) -> Any:
        # Torch's own functions save memory, or belong to registered operators, which are recorded as such.
        if not active or threading.get_ident() != thread or f"{cls.__module__}.".startswith("torch."):
            return plain.__get__(None, cls)(*args, **options)
        return _recorded(cls, args)

    base.apply = classmethod(apply)  # every call passes here, also one through a saved `Function.apply`
    try:
        yield
    finally:
        del base.apply
        if before is not None:
            base.apply = before


def _recorded(function: Any, args: Sequence[Any]) -> Any:
    template = tuple(_TENSOR if isinstance(arg, Tensor) else arg for arg in args)
    try:
        key = _names.setdefault((function, template), f"{function.__name__}_{len(_names)}")
    except TypeError:  # an argument that cannot be compared
        key = _names.setdefault((function, object()), f"{function.__name__}_{len(_names)}")
    _calls[key] = function, template
    results = recorded_function(key, [arg for arg in args if isinstance(arg, Tensor)])
    return results[0] if key in _SINGLE else tuple(results)


def run_recorded(key: str, tensors: Sequence[Tensor]) -> list[Tensor]:
    """Calls a function that was recorded, with its own gradient."""
    function, template = _calls[key]
    rest = iter(tensors)
    results = function.apply(*(next(rest) if arg is _TENSOR else arg for arg in template))
    if isinstance(results, Tensor):
        _SINGLE.add(key)
        return [results]
    if not all(isinstance(result, Tensor) for result in results):
        raise Unsupported(f"has a torch.autograd.Function ({function.__name__}) that returns more than tensors")
    return list(results)


@operator()
def recorded_function(key: str, tensors: Sequence[Tensor]) -> list[Tensor]:
    """Stands for a function in a recording."""
    with torch.no_grad(), recording_functions(active=False):
        return [result.clone() for result in run_recorded(key, tensors)]


def with_functions(recorded: fx.GraphModule) -> fx.GraphModule:
    """Lets a recording call the functions that it has as operators."""
    for node in recorded.graph.nodes:
        if node.target is recorded_function.overload:
            node.target = run_recorded
    recorded.recompile()
    return recorded
