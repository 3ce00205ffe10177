"""Optimizers of torch that start fast."""

from __future__ import annotations

import functools
import inspect
from typing import Any, TypeVar

import torch
from torch.optim import Optimizer

Kind = TypeVar("Kind", bound=Optimizer)

_WRAPPED = ("add_param_group", "load_state_dict", "state_dict", "step", "zero_grad")


def without_compiler(kind: type[Kind]) -> type[Kind]:
    """Returns an optimizer class whose methods do not import torch's compiler.

    torch wraps the methods of its optimizers for `torch.compile`. At the first call, the wrappers import
    `torch._dynamo`, which takes longer than a short training. The numbers are the same without them.

    Example:
        >>> weight = torch.nn.Parameter(torch.ones(1))
        >>> optimizer = without_compiler(torch.optim.SGD)([weight], lr=0.5)
        >>> (2 * weight).backward()
        >>> optimizer.step()
        >>> weight.item(), isinstance(optimizer, torch.optim.SGD)
        (0.0, True)
    """
    return _plain(kind)


@functools.cache
def _plain(kind: type[Any]) -> Any:
    methods = {name: inspect.unwrap(getattr(kind, name)) for name in _WRAPPED}
    return type(kind.__name__, (kind,), methods | {"step": torch.no_grad()(methods["step"])})
