"""Checks whether the step of a cell is exactly the one its class was written with, before a kernel runs it.

A kernel does not call the cell, so it would ignore a method replaced by a subclass, a monkeypatch or an instance
attribute, a submodule of another class, or a hook. Pruned and parametrized weights are fine: a kernel reads their
current values at each call.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Any

from torch import nn
from torch.nn.modules import module as torch_module
from torch.nn.utils import parametrize

from ..kernels import constant_to_compilers

_OF_EVERY_MODULE = frozenset(dir(nn.Module)) - {"forward", "__call__", "_call_impl", "__getattr__"}
_DESCRIPTIONS = frozenset(
    {"sequence_kernel", "written", "kernel", "why_no_kernel", "per_layer", "encoder", "for_reader"}
)
_VARIABLES_OF_EVERY_MODULE = vars(nn.Module()).keys() | _OF_EVERY_MODULE
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


class Methods:
    """Attributes that a step of a class may use: all except those common to every module and docstrings.

    Attributes:
        by_name: The attributes by name.
    """

    def __init__(self, cls: type):
        names = [name for name in dir(cls) if name not in _OF_EVERY_MODULE | _DESCRIPTIONS]
        self.by_name = {name: _attribute(cls, name) for name in names}
        self._get = attrgetter(*names)
        self._values = self._get(cls)

    def unchanged_in(self, cls: type) -> bool:
        """Returns whether `cls`, the class or a subclass, has them all; also False if only a closer check can tell."""
        return self._get(cls) == self._values


def _attribute(cls: type, name: str) -> Any:
    value = getattr(cls, name)
    return getattr(value, "__func__", value)  # a class method is a new object at every access


def why_changed(cell: nn.Module, written: Mapping[type, Methods]) -> str | None:
    """Explains why the step of `cell` is not the one that its kernel was written for; None if it is.

    Args:
        cell: The cell.
        written: The class that the kernel was written for, followed by those of its parts (submodules, and other
            callable attributes such as a solver), each with its methods.
    """
    if _surely_as_written(cell, written, next(iter(written))) and not torch_module._has_any_global_hook():
        return None
    for path, module in _modules(cell, type(cell).__name__):
        reason = _why_replaced(path, module, written, next(iter(written)) if module is cell else None)
        for name, value in vars(module).items():
            if reason is None and callable(value) and name not in _VARIABLES_OF_EVERY_MODULE:
                reason = _why_replaced(f"{path}.{name}", value, written)
        if reason is not None:
            return reason
    return why_hooked(cell)


def _surely_as_written(part: Any, written: Mapping[type, Methods], expected: type | None = None) -> bool:
    """Checks quickly, at every call of a layer, that nothing is replaced, parametrized or hooked."""
    methods = written.get(expected or type(part))
    if methods is None or not methods.unchanged_in(type(part)):
        return False
    attributes = vars(part)
    for name in attributes.keys() - _VARIABLES_OF_EVERY_MODULE:
        if name in methods.by_name or (
            callable(attributes[name]) and not _surely_as_written(attributes[name], written)
        ):
            return False
    if not isinstance(part, nn.Module):
        return True
    if (
        attributes["_forward_hooks"]
        or attributes["_forward_pre_hooks"]
        or attributes["_backward_hooks"]
        or attributes["_backward_pre_hooks"]
    ):
        return False
    return all(child is None or _surely_as_written(child, written) for child in attributes["_modules"].values())


class Code:
    """Everything but the weights that decides what a call of `module` computes, to detect later changes quickly.

    That is the attributes and hooks of the module, of its submodules and of their callable parts, and the attributes
    of their classes.
    """

    def __init__(self, module: nn.Module):
        parts = list(_parts(module))
        modules = [part for part in parts if isinstance(part, nn.Module)]
        classes = dict.fromkeys(cls for part in parts for cls in type(part).__mro__ if cls is not object)
        hooks = [vars(part)[kind] for part in modules for kind in _HOOKS]
        self._no_hooks = [mapping for mapping in hooks if not mapping]
        members = (*map(vars, parts), *map(vars, classes), *filter(None, hooks))
        self._members = [(mapping, tuple(mapping.values())) for mapping in members]
        places = [table for part in modules for table in (part._parameters, part._buffers, part._modules)]
        self._places = [(table, name, value) for table in places for name, value in table.items()]

    def holds(self) -> bool:
        """Returns whether nothing has changed."""
        if any(self._no_hooks) or torch_module._has_any_global_hook():
            return False
        for table, name, value in self._places:
            if table.get(name) is not value:
                return False
        try:
            for mapping, values in self._members:
                if tuple(mapping.values()) != values:
                    return False
        except Exception:  # two values whose comparison is not a boolean, such as tensors, are not the same object
            return False
        return True


def _parts(part: Any) -> Iterator[Any]:
    """Yields a module, its submodules, and the objects among their attributes that can be called, such as a solver."""
    yield part
    attributes = vars(part)
    for name in attributes.keys() - _VARIABLES_OF_EVERY_MODULE:
        if (
            callable(attributes[name])
            and hasattr(attributes[name], "__dict__")
            and not isinstance(attributes[name], type)
        ):
            yield from _parts(attributes[name])
    for child in attributes.get("_modules", {}).values():
        if child is not None:
            yield from _parts(child)


def _why_replaced(place: str, part: Any, written: Mapping[type, Methods], expected: type | None = None) -> str | None:
    """Explains why `part` is not an unchanged object of the expected class, by default one of those in `written`."""
    cls = type(part)
    if isinstance(part, nn.Module) and cls not in written:
        cls = parametrize.type_before_parametrizations(part)
    methods = written.get(expected or cls)
    if methods is None:
        return f"{place} is a {cls.__name__}, which its kernel does not support"
    attributes = vars(part)
    for name, method in methods.by_name.items():
        # torch.export temporarily replaces __call__ of every module: that does not change this class.
        same = _attribute(cls, name) is method or getattr(cls, name) is getattr(nn.Module, name, None)
        if name in attributes or not same:
            return f"{place} has its own {name}"
    return None


def _modules(module: nn.Module, place: str) -> Iterator[tuple[str, nn.Module]]:
    """Yields the module and its submodules with their names, except those of parametrized weights."""
    yield place, module
    for name, child in module._modules.items():
        if child is not None and name != "parametrizations":
            yield from _modules(child, f"{place}.{name}")


@constant_to_compilers
def why_hooked(module: nn.Module) -> str | None:
    """Names the hook that observes calls of `module` or a submodule; None if there is none.

    Pre-hooks that only compute a weight (torch.nn.utils.prune and weight_norm) are ignored: see `remake_weights`.
    """
    if torch_module._has_any_global_hook():
        return "a hook on all modules is registered"
    for path, part in _modules(module, type(module).__name__):
        attributes = vars(part)
        for kind in _HOOKS:
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
