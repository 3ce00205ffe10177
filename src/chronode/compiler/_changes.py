"""Checks whether the step of a cell is exactly the one its class was written with, and whether hooks observe it.

A kernel does not call the cell, so it would ignore a method replaced by a subclass, a monkeypatch or an instance
attribute, a submodule of another class, or a hook. Pruned and parametrized weights are fine: a kernel reads their
current values at each call.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from torch import nn
from torch.nn.modules import module as torch_module
from torch.nn.utils import parametrize

from ..kernels import constant_to_compilers
from ._fingerprint import HOOKS, METHODS, VARIABLES, remembered

_DESCRIPTIONS = frozenset(
    {"sequence_kernel", "written", "kernel", "why_no_kernel", "per_layer", "encoder", "for_reader"}
)
Methods = Mapping[str, Any]
"""Attributes of a class that its step may use, by name."""


def methods_of(cls: type) -> Methods:
    """Returns all attributes of a class except those common to every module and descriptions."""
    return {name: _attribute(cls, name) for name in dir(cls) if name not in METHODS | _DESCRIPTIONS}


def why_changed(cell: nn.Module, written: Mapping[type, Methods]) -> str | None:
    """Explains why the step of `cell` is not the one that its kernel was written for; None if it is.

    Args:
        cell: The cell.
        written: The class that the kernel was written for, followed by those of its parts (submodules, and other
            callable attributes such as a solver), each with its methods.
    """
    return remembered(cell, "as written", lambda: _why_not_as_written(cell, written)) or why_hooked(cell)


def _why_not_as_written(cell: nn.Module, written: Mapping[type, Methods]) -> str | None:
    for path, module in _modules(cell, type(cell).__name__):
        reason = _why_replaced(path, module, written, next(iter(written)) if module is cell else None)
        for name, value in vars(module).items():
            if reason is None and callable(value) and name not in VARIABLES:
                reason = _why_replaced(f"{path}.{name}", value, written)
        if reason is not None:
            return reason
    return None


def _why_replaced(path: str, part: Any, written: Mapping[type, Methods], expected: type | None = None) -> str | None:
    """Explains why `part` is not an unchanged object of the expected class, by default one of those in `written`."""
    cls = type(part)
    if isinstance(part, nn.Module) and cls not in written:
        cls = parametrize.type_before_parametrizations(part)
    methods = written.get(expected or cls)
    if methods is None:
        return f"{path} is a {cls.__name__}, which its kernel does not support"
    attributes = vars(part)
    for name, method in methods.items():
        # torch.export temporarily replaces __call__ of every module: that does not change this class.
        same = _attribute(cls, name) is method or getattr(cls, name) is getattr(nn.Module, name, None)
        if name in attributes or not same:
            return f"{path} has its own {name}"
    return None


def _attribute(cls: type, name: str) -> Any:
    value = getattr(cls, name)
    return getattr(value, "__func__", value)  # a class method is a new object at every access


def _modules(module: nn.Module, path: str) -> Iterator[tuple[str, nn.Module]]:
    """Yields the module and its submodules with their names, except those of parametrized weights."""
    yield path, module
    for name, child in module._modules.items():
        if child is not None and name != "parametrizations":
            yield from _modules(child, f"{path}.{name}")


@constant_to_compilers
def why_hooked(module: nn.Module) -> str | None:
    """Names the hook that observes calls of `module` or a submodule; None if there is none.

    Pre-hooks that only compute a weight (torch.nn.utils.prune and weight_norm) are ignored: see `remake_weights`.
    """
    if torch_module._has_any_global_hook():
        return "a hook on all modules is registered"
    for path, part in _modules(module, type(module).__name__):
        attributes = vars(part)
        for kind in HOOKS:
            if attributes[kind] and not all(map(_makes_a_weight, attributes[kind].values())):
                return f"{path} has {kind.strip('_').replace('_', ' ')}"
    return None


def remake_weights(modules: Iterable[nn.Module]) -> None:
    """Recomputes pruned and weight-normed weights, as calling the module would, because they may be read without a
    call.
    """
    for module in modules:
        if _has_made_weights(module):
            for part in module.modules():
                for hook in part._forward_pre_hooks.values():
                    if _makes_a_weight(hook):
                        hook(part, None)


@constant_to_compilers
def _has_made_weights(module: nn.Module) -> bool:
    return any(any(map(_makes_a_weight, part._forward_pre_hooks.values())) for _, part in _modules(module, ""))


def _makes_a_weight(hook: Any) -> bool:
    from torch.nn.utils.prune import BasePruningMethod  # imported here because such hooks are rare
    from torch.nn.utils.weight_norm import WeightNorm

    return isinstance(hook, (BasePruningMethod, WeightNorm))
