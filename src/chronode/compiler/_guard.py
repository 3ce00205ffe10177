"""Refuses steps whose gradients or numbers a recording would lose.

A recording has the operations of the forward pass and is differentiated again. It knows nothing of backward rules that
the step brings itself, nor of numbers that Python reads from tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import BackwardCFunction
from torch.overrides import TorchFunctionMode

from ._recorded import Unsupported

_GRAD_FN = vars(torch._C.TensorBase)["grad_fn"].__get__  # nodes of the backward pass have hooks too
_HOOKS = {Tensor.register_hook, Tensor.register_post_accumulate_grad_hook, _GRAD_FN}
_BRANCHES = {Tensor.__bool__, Tensor.is_nonzero, Tensor.equal, Tensor.allclose, torch.equal, torch.allclose}
_READS = {
    *(Tensor.item, Tensor.tolist, Tensor.numpy, Tensor.__array__, Tensor.__float__, Tensor.__int__, Tensor.__index__),
    *(Tensor.__complex__, Tensor.__dlpack__, Tensor.data_ptr),
}


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


def refuse_own_gradients(step: Callable[..., Iterable[Tensor]], *inputs: Tensor) -> None:
    """Runs a step and raises `Unsupported` if it has backward rules of its own."""
    leaves = [tensor.detach().clone().requires_grad_() for tensor in inputs]
    with _Guard():
        outputs = step(*(leaf.view_as(leaf) for leaf in leaves))
    todo, visited = [out.grad_fn for out in outputs], set()
    while todo:
        node = todo.pop()
        if node is None or node in visited:
            continue
        visited.add(node)
        if isinstance(node, BackwardCFunction) and not _is_recorded(node):
            name = type(node).__name__.removesuffix("Backward")
            raise Unsupported(f"has a torch.autograd.Function ({name}), whose own backward rule only torch can run")
        todo.extend(following for following, _ in node.next_functions)


def _is_recorded(node: BackwardCFunction) -> bool:
    """Returns whether a recording keeps the gradient: of registered operators, which it contains as such, and of
    torch's own functions, which only save memory.
    """
    function = getattr(type(node), "_forward_cls", None)
    return type(node).__name__.startswith("GeneratedBackwardFor_") or f"{function.__module__}.".startswith("torch.")
