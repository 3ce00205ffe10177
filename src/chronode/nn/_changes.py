"""Is a cell's step exactly the one its class was written with? Asked of every cell before a kernel runs it.

A kernel does not call the cell: it would not see a method that a subclass, a monkeypatch or an instance attribute
replaced, a submodule of another class, or a hook. Pruned and parametrised weights are no change: a kernel reads what
they are at the call.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Any

from torch import nn
from torch.nn.modules import module as torch_module
from torch.nn.utils import parametrize

from ..kernels._backend import constant_to_compilers

_OF_EVERY_MODULE = frozenset(dir(nn.Module)) - {"forward", "__call__", "_call_impl", "__getattr__"}
_DESCRIPTIONS = frozenset(
    {"sequence_kernel", "written", "kernel", "why_no_kernel", "per_layer", "encoder", "for_reader", "older_settings"}
)
_VARIABLES_OF_EVERY_MODULE = vars(nn.Module()).keys() | _OF_EVERY_MODULE
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


class Methods:
    """What a step of a class may use, as it is now: all attributes but those of every module and descriptions.

    Attributes:
        by_name: the attributes.
    """

    def __init__(self, cls: type):
        names = [name for name in dir(cls) if name not in _OF_EVERY_MODULE | _DESCRIPTIONS]
        self.by_name = {name: _attribute(cls, name) for name in names}
        self._get = attrgetter(*names)
        self._values = self._get(cls)

    def unchanged_in(self, cls: type) -> bool:
        """Whether a class, the same or a subclass, has them all; false also where only a closer look can tell."""
        return self._get(cls) == self._values


def _attribute(cls: type, name: str) -> Any:
    value = getattr(cls, name)
    return getattr(value, "__func__", value)  # a class method is a new object at every access


def why_changed(cell: nn.Module, written: Mapping[type, Methods]) -> str | None:
    """Why a step of `cell` is not the one that its kernel was written for, in words; None if it is.

    Args:
        cell: the cell.
        written: the class that the kernel was written for, then those of its parts (submodules, and other callable
            attributes such as a solver), each with its methods.
    """
    if _surely_as_written(cell, written, next(iter(written))) and not torch_module._has_any_global_hook():
        return None
    for place, module in _modules(cell, type(cell).__name__):
        reason = _why_replaced(place, module, written, next(iter(written)) if module is cell else None)
        for name, value in vars(module).items():
            if reason is None and callable(value) and name not in _VARIABLES_OF_EVERY_MODULE:
                reason = _why_replaced(f"{place}.{name}", value, written)
        if reason is not None:
            return reason
    return why_hooked(cell)


def _surely_as_written(part: Any, written: Mapping[type, Methods], expected: type | None = None) -> bool:
    """A quick look, for every call of a layer: whether nothing is replaced, parametrised or hooked."""
    methods = written.get(expected or type(part))
    if methods is None or not methods.unchanged_in(type(part)):
        return False
    own = vars(part)
    for name in own.keys() - _VARIABLES_OF_EVERY_MODULE:
        if name in methods.by_name or (callable(own[name]) and not _surely_as_written(own[name], written)):
            return False
    if not isinstance(part, nn.Module):
        return True
    if own["_forward_hooks"] or own["_forward_pre_hooks"] or own["_backward_hooks"] or own["_backward_pre_hooks"]:
        return False
    return all(child is None or _surely_as_written(child, written) for child in own["_modules"].values())


def _why_replaced(place: str, part: Any, written: Mapping[type, Methods], expected: type | None = None) -> str | None:
    """Why `part` is not an unchanged object of the expected class, by default of one of those in `written`."""
    cls = type(part)
    if isinstance(part, nn.Module) and cls not in written:
        cls = parametrize.type_before_parametrizations(part)
    methods = written.get(expected or cls)
    if methods is None:
        return f"{place} is a {cls.__name__}, which its kernel does not know"
    own = vars(part)
    for name, method in methods.by_name.items():
        # torch.export puts its own __call__ into every module meanwhile: that is no change of this class.
        same = _attribute(cls, name) is method or getattr(cls, name) is getattr(nn.Module, name, None)
        if name in own or not same:
            return f"{place} has its own {name}"
    return None


def _modules(module: nn.Module, place: str) -> Iterator[tuple[str, nn.Module]]:
    """The module and its submodules with their places, but for those that make parametrised weights."""
    yield place, module
    for name, child in module._modules.items():
        if child is not None and name != "parametrizations":
            yield from _modules(child, f"{place}.{name}")


@constant_to_compilers
def why_hooked(module: nn.Module) -> str | None:
    """Which hook wants to see the calls of `module` or of a submodule, in words; None if there is none.

    Pre-hooks that only make a weight (torch.nn.utils.prune and weight_norm) do not count: see `remake_weights`.
    """
    if torch_module._has_any_global_hook():
        return "a hook on all modules is registered"
    for place, part in _modules(module, type(module).__name__):
        own = vars(part)
        for kind in _HOOKS:
            if own[kind] and not all(map(_makes_a_weight, own[kind].values())):
                return f"{place} has {kind.strip('_').replace('_', ' ')}"
    return None


def remake_weights(modules: Iterable[nn.Module]) -> None:
    """Makes pruned and weight-normed weights anew, as calling the module would: they may be read without a call."""
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
    from torch.nn.utils.prune import BasePruningMethod  # here: few have such hooks
    from torch.nn.utils.weight_norm import WeightNorm

    return isinstance(hook, (BasePruningMethod, WeightNorm))
