"""Operators for torch: a kernel, its shapes and its gradient under one name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch._C import _functorch, _get_tracing_state, _len_torch_dispatch_stack

_LIBRARY = torch.library.Library("chronode", "FRAGMENT")


class Operator:
    """An operator `chronode::NAME`, to be called as a function.

    It does what `torch.library.custom_op` does, without importing `torch._dynamo` at the first call, which takes about
    as long as importing torch. A plain call does not pass torch's dispatcher, which takes half a millisecond for an
    operator with a gradient that is written in Python.

    Attributes:
        kernels: Device ("cpu", "cuda", or "" for every device) -> the function that runs there.
    """

    def __init__(self, function: Callable[..., Any], devices: str):
        self.name = f"chronode::{function.__name__}"
        self.kernels: dict[str, Callable[..., Any]] = {}
        self.gradient: tuple[Callable[..., Any], Callable[..., None] | None] | None = None
        schema = torch.library.infer_schema(function, mutates_args=())
        self.returns_tuple = not schema.endswith("[]")
        _LIBRARY.define(function.__name__ + schema, tags=(torch.Tag.pt2_compliant_tag,))
        self.register_kernel(devices)(function)
        self.overload = getattr(torch.ops.chronode, function.__name__).default
        self.__doc__ = function.__doc__

    def __call__(self, *inputs: Any) -> Any:
        kernel = self.kernels.get("cpu") or self.kernels[""]
        tensors = list(_tensors(inputs))
        if not _is_plain(tensors):
            return self.overload(*inputs)
        if self.gradient is None or not torch.is_grad_enabled() or not any(one.requires_grad for one in tensors):
            return kernel(*inputs)
        if self.gradient[1] is None:  # its gradient is an error, which torch raises in the backward pass
            return self.overload(*inputs)
        sizes = [len(one) if isinstance(one, (list, tuple)) else None for one in inputs]
        results = _Direct.apply(*_flat(inputs), self, sizes)
        return results if isinstance(results, Tensor) or self.returns_tuple else list(results)

    def register_kernel(self, device: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Decorates the function that runs on tensors of `device`."""

        def add(function: Callable[..., Any]) -> Callable[..., Any]:
            self.kernels[device] = function
            key = device.upper() if device else "CompositeExplicitAutograd"
            _LIBRARY.impl(self.name, lambda *inputs: self.kernels[device](*inputs), key)
            return function

        return add

    def register_fake(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Decorates the function that makes results of the right shapes without computing anything."""
        torch.library.register_fake(self.name, function, lib=_LIBRARY)
        return function

    def register_autograd(
        self, backward: Callable[..., Any], *, setup_context: Callable[..., None] | None = None
    ) -> None:
        """Sets the gradient, as `torch.library.register_autograd` takes it.

        A gradient that does not exist is None. An operator that takes lists must not read `ctx.needs_input_grad`.
        """
        self.gradient = backward, setup_context
        torch.library.register_autograd(self.name, backward, setup_context=setup_context, lib=_LIBRARY)


class _Direct(torch.autograd.Function):
    """An operator's kernel with its gradient, on plain tensors of the CPU; lists of tensors are passed one by one."""

    @staticmethod
    def forward(ctx: Any, *flat: Any) -> Any:
        *values, op, sizes = flat
        inputs = _nested(values, sizes)
        kernel = op.kernels.get("cpu") or op.kernels[""]
        results = kernel(*inputs)
        ctx.op, ctx.sizes = op, sizes
        ctx.set_materialize_grads(False)
        op.gradient[1](ctx, tuple(inputs), results)
        return results if isinstance(results, Tensor) else tuple(results)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        if all(grad is None for grad in grads):
            return (None,) * len(ctx.needs_input_grad)
        gradients = ctx.op.gradient[0](ctx, *(grads if ctx.op.returns_tuple else [list(grads)]))
        gradients = gradients if isinstance(gradients, tuple) else (gradients,)
        whole = (
            [None] * size if size is not None and one is None else one
            for one, size in zip(gradients, ctx.sizes, strict=True)
        )
        return (*_flat(whole), None, None)


def _is_plain(tensors: Sequence[Tensor]) -> bool:
    """Returns whether no compiler, transform or mode of torch has to see a call on these tensors of the CPU."""
    if torch.compiler.is_compiling() or _len_torch_dispatch_stack() or _get_tracing_state() is not None:
        return False
    if _functorch.peek_interpreter_stack() is not None:
        return False
    return all(type(one) in (Tensor, nn.Parameter) and one.is_cpu for one in tensors)


def _flat(inputs: Any) -> Iterator[Any]:
    for one in inputs:
        if isinstance(one, (list, tuple)):
            yield from one
        else:
            yield one


def _tensors(inputs: Any) -> Iterator[Tensor]:
    return (one for one in _flat(inputs) if isinstance(one, Tensor))


def _nested(values: Sequence[Any], sizes: Sequence[int | None]) -> list[Any]:
    """Puts values back into the lists that they were in; None in place of a size stands for a value alone."""
    rest = iter(values)
    return [next(rest) if size is None else [next(rest) for _ in range(size)] for size in sizes]


def operator(devices: str = "") -> Callable[[Callable[..., Any]], Operator]:
    """Decorates a function of tensors and plain values, which becomes an operator of its name.

    Args:
        devices: Device that the function is for; by default every device.

    Example:
        >>> @operator()
        ... def twice(x: torch.Tensor) -> torch.Tensor:
        ...     return 2 * x
        >>> twice(torch.ones(2))
        tensor([2., 2.])
    """
    return lambda function: Operator(function, devices)
