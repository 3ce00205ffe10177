"""Ways in which a step can hold a number: each makes a function `z -> number * tanh(z)` and a way to change it."""

from __future__ import annotations

import contextvars
import enum
import functools
import threading
import types
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import nn

WAYS = {}


def way(make):
    """Registers a way by its name."""
    WAYS[make.__name__] = make
    return make


@way
def closure(number):
    def scaled(z):
        return number * torch.tanh(z)

    def change(new):
        nonlocal number
        number = new

    return scaled, change


@way
def closure_in_a_closure(number):
    def factor():
        return number

    def change(new):
        nonlocal number
        number = new

    return (lambda z: factor() * torch.tanh(z)), change


@way
def default_argument(number):
    def scaled(z, factor=number):
        return factor * torch.tanh(z)

    return scaled, lambda new: setattr(scaled, "__defaults__", (new,))


@way
def keyword_default(number):
    def scaled(z, *, factor=number):
        return factor * torch.tanh(z)

    return scaled, lambda new: scaled.__kwdefaults__.update(factor=new)


@way
def mutable_default(number):
    def scaled(z, factors=[number]):  # noqa: B006 - that is the point
        return factors[0] * torch.tanh(z)

    return scaled, lambda new: scaled.__defaults__[0].__setitem__(0, new)


def _times(factor, z, more=1.0):
    return factor * more * torch.tanh(z)


@way
def partial(number):
    held = [number]
    return functools.partial(lambda factors, z: factors[0] * torch.tanh(z), held), lambda new: held.__setitem__(0, new)


@way
def partial_keyword(number):
    scaled = functools.partial(_times, 1.0, more=number)
    return scaled, lambda new: scaled.keywords.update(more=new)


@way
def partial_of_a_partial(number):
    inner = functools.partial(_times, more=number)
    return functools.partial(inner, 1.0), lambda new: None  # a partial copies the keywords of the inner one


class Slotted:
    __slots__ = ("__private", "factor")

    def __init__(self, number):
        self.factor = number
        self.__private = 1.0

    def __call__(self, z):
        return self.factor * self.__private * torch.tanh(z)


@way
def slot(number):
    scaled = Slotted(number)
    return scaled, lambda new: setattr(scaled, "factor", new)


@way
def private_slot(number):
    scaled = Slotted(1.0)
    change = lambda new: setattr(scaled, "_Slotted__private", new)  # noqa: E731
    change(number)
    return scaled, change


def notebook(source, **names):
    """A namespace in which cells of a notebook are run."""
    scope = {"torch": torch, "__name__": "__main__", **names}
    exec(source, scope)
    return scope


@way
def global_number(number):
    scope = notebook("def scaled(z): return FACTOR * torch.tanh(z)", FACTOR=number)
    return scope["scaled"], lambda new: scope.update(FACTOR=new)


@way
def edited_helper(number):
    helper = "def helper(z): return {} * torch.tanh(z)"
    scope = notebook(f"def scaled(z): return helper(z)\n{helper.format(number)}")
    return scope["scaled"], lambda new: exec(helper.format(new), scope)


@way
def edited_code(number):
    helper = "def helper(z): return {} * torch.tanh(z)"
    scope = notebook(f"def scaled(z): return [helper(z) for _ in range(1)][0]\n{helper.format(number)}")
    return scope["scaled"], lambda new: setattr(
        scope["helper"], "__code__", notebook(helper.format(new))["helper"].__code__
    )


@way
def attribute_of_a_module(number):
    settings = types.ModuleType("settings_of_a_user")
    settings.factor = number
    scope = notebook("def scaled(z): return settings.factor * torch.tanh(z)", settings=settings)
    return scope["scaled"], lambda new: setattr(settings, "factor", new)


@way
def nested_containers(number):
    held = {"a": [({"b": [number]}, 2)]}
    return (lambda z: held["a"][0][0]["b"][0] * torch.tanh(z)), lambda new: held["a"][0][0]["b"].__setitem__(0, new)


@way
def a_set(number):
    held = {number}

    def change(new):
        held.clear()
        held.add(new)

    return (lambda z: sum(held) * torch.tanh(z)), change


class Plain:
    def __init__(self, number):
        self.factor = number

    def scale(self, z):
        return self.factor * torch.tanh(z)


@way
def bound_method(number):
    owner = Plain(number)
    return owner.scale, lambda new: setattr(owner, "factor", new)


@way
def object_in_an_object(number):
    owner = types.SimpleNamespace(inner=Plain(number))
    return (lambda z: owner.inner.scale(z)), lambda new: setattr(owner.inner, "factor", new)


@way
def dynamic_attribute(number):
    owner = types.SimpleNamespace(factor_1=[number])
    return (lambda z: getattr(owner, f"factor_{1}")[0] * torch.tanh(z)), lambda new: owner.factor_1.__setitem__(0, new)


@way
def class_attribute(number):
    class Scaled:
        factor = number

        def __call__(self, z):
            return self.factor * torch.tanh(z)

    return Scaled(), lambda new: setattr(Scaled, "factor", new)


@way
def shadowed_class_attribute(number):
    class Base:
        factor = number

        def __call__(self, z):
            return self.factor * torch.tanh(z)

    class Scaled(Base):
        pass

    return Scaled(), lambda new: setattr(Scaled, "factor", new)


@way
def a_property(number):
    class Scaled:
        factor = property(lambda self: number)

        def __call__(self, z):
            return self.factor * torch.tanh(z)

    return Scaled(), lambda new: setattr(Scaled, "factor", property(lambda self: new))


@way
def missing_attribute(number):
    class Scaled:
        def __getattr__(self, name):
            if name == "factor":
                return number
            raise AttributeError(name)

        def __call__(self, z):
            return self.factor * torch.tanh(z)

    scaled = Scaled()
    return scaled, lambda new: setattr(scaled, "factor", new)


@way
def static_method(number):
    class Scaled:
        @staticmethod
        def factor(values=[number]):  # noqa: B006
            return values[0]

        @classmethod
        def scale(cls, z):
            return cls.factor() * torch.tanh(z)

    return Scaled.scale, lambda new: Scaled.factor.__defaults__[0].__setitem__(0, new)


class Activation(nn.Module):
    def __init__(self, number):
        super().__init__()
        self.factor = number

    def forward(self, z):
        return self.factor * torch.tanh(z)


@way
def module_activation(number):
    scaled = Activation(number)
    return scaled, lambda new: setattr(scaled, "factor", new)


@way
def module_inside_a_list(number):
    held = [Activation(number)]
    return (lambda z: held[0](z)), lambda new: setattr(held[0], "factor", new)


@way
def threshold_of_torch(number):
    bound = nn.Hardtanh(-50.0, 50.0)
    scaled = nn.Sequential(Activation(number), bound)
    return scaled, lambda new: setattr(scaled[0], "factor", new)


@way
def function_attribute(number):
    def scaled(z):
        return scaled.factor * torch.tanh(z)

    scaled.factor = number
    return scaled, lambda new: setattr(scaled, "factor", new)


@way
def decorated(number):
    @functools.wraps(torch.relu)
    def scaled(z):
        return number * torch.tanh(z)

    def change(new):
        nonlocal number
        number = new

    return torch.enable_grad()(scaled), change


@way
def cached(number):
    @functools.cache
    def factor():
        return held[0]

    def change(new):
        held[0] = new
        factor.cache_clear()

    held = [number]
    return (lambda z: factor() * torch.tanh(z)), change


@dataclass(frozen=True)
class Options:
    factor: float


@way
def frozen_dataclass(number):
    options = Options(number)

    def change(new):
        nonlocal options
        options = replace(options, factor=new)

    return (lambda z: options.factor * torch.tanh(z)), change


@way
def enumeration(number):
    kind = enum.Enum("kind", {"factor": number})

    def change(new):
        nonlocal kind
        kind = enum.Enum("kind", {"factor": new})

    return (lambda z: kind.factor.value * torch.tanh(z)), change


@way
def numpy_array(number):
    held = np.array([0.0, number])
    return (lambda z: float(held[1]) * torch.tanh(z)), lambda new: held.__setitem__(1, new)


@way
def literal_tensor(number):
    held = [number]
    return (lambda z: torch.tensor(held[0], dtype=z.dtype) * torch.tanh(z)), lambda new: held.__setitem__(0, new)


@way
def context_variable(number):
    held = contextvars.ContextVar("held", default=number)
    return (lambda z: held.get() * torch.tanh(z)), held.set


@way
def thread_local(number):
    held = threading.local()
    held.factor = number
    return (lambda z: held.factor * torch.tanh(z)), lambda new: setattr(held, "factor", new)


@way
def a_generator(number):
    def numbers():
        while True:
            yield held[0]

    held = [number]
    source = numbers()
    return (lambda z: next(source) * torch.tanh(z)), lambda new: held.__setitem__(0, new)
