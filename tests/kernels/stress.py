"""Calls with large weights, states and gaps, and how far float32 is from float64 there on each path."""

from __future__ import annotations

from copy import deepcopy

import torch
from helpers import results
from hypothesis import strategies as st
from kernel_cases import called, calls, choice, together

EPS = torch.finfo(torch.float32).eps
FACTOR = 8
"""How many times the torch path's error a kernel's may be ..."""
FLOOR = 16
"""... beside this many roundings of the largest element ..."""
TINY = 1e-20
"""... and this: what is exactly 0 on one path may be a rounding of something small on the other."""

IN_RANGE = 1e34
"""Larger states and gradients are not compared: so near the end of float32 one path may overflow in an intermediate
result (20 k₁ before k₁ + k₂ cancel, say) where the other, in another order, does not."""

MAGNITUDES = {
    "weights": choice(0.3, 1.0, 5.0, 14.0, 50.0),
    "states": choice(0.0, 1.0, 1e4, 1e30),
    "inputs": choice(1.0, 30.0, 1e6),
    "gaps": choice(0.01, 1.0, 20.0),
}


def stressful_calls(name):
    """A strategy of random calls, as `stressed` takes them."""
    drawn = calls(name).map(lambda call: {**call, "dtype": torch.float32, "dropout": 0.0})
    return st.tuples(drawn, together(**MAGNITUDES))


def stressed(name, drawn):
    """The layer of such a call, and its x, dt, lengths and state."""
    call, magnitude = drawn
    layer, x, dt, lengths, state = called(name, call)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.mul_(magnitude["weights"])
        for tensor, factor in ((x, magnitude["inputs"]), (dt, magnitude["gaps"])):
            tensor.mul_(factor)
        for part in state:
            part.mul_(magnitude["states"])
    return layer, x, dt, lengths, state


def leaf(tensor, dtype):
    return tensor.detach().to(dtype).requires_grad_()


def nudged(tensor, rng):
    """Each element moved by at most one rounding."""
    return tensor * (1 + EPS / 2 * torch.randint(-1, 2, tensor.shape, generator=rng))


def errors(layer, x, dt, lengths, state, nudges):
    """Of each result by name: the native path's error, the torch path's, and the largest element of the exact one.

    The torch path's is the largest of several runs whose arguments differ by a rounding: where a rounding changes the
    result much, a single run may be right by luck. Errors are taken where the torch path's result is finite; where the
    native path's is not finite there, its error is infinite. Nothing is returned for results out of `IN_RANGE`.
    """

    def run(layer, backend, dtype=torch.float32, rng=None):
        change = (lambda tensor: tensor) if rng is None else (lambda tensor: nudged(tensor.detach(), rng))
        parts = tuple(leaf(change(part), dtype) for part in state)
        return results(layer, backend, leaf(change(x), dtype), leaf(change(dt), dtype), lengths, parts)

    exact = run(deepcopy(layer).double(), "torch", torch.float64)
    largest = {name: float(wanted.detach().abs().max()) for name, wanted in exact.items()}
    if not all(size <= IN_RANGE for name, size in largest.items() if not name.startswith("gradient")):
        return {}
    plain, native = run(layer, "torch"), run(layer, "native")
    others = []
    for seed in range(nudges):
        rng = torch.Generator().manual_seed(seed)
        other = deepcopy(layer)
        with torch.no_grad():
            for parameter in other.parameters():
                parameter.copy_(nudged(parameter, rng))
        others.append(run(other, "torch", rng=rng))
    found = {}
    for name, wanted in exact.items():
        finite = plain[name].isfinite()
        if not finite.any() or not largest[name] <= IN_RANGE:
            continue

        def error(result, finite=finite, wanted=wanted):
            distance = (result.detach().double() - wanted.detach()).abs()[finite]
            return float(torch.where(distance.isnan(), torch.inf, distance).max())

        usual = [error(plain[name]), *(e for other in others if (e := error(other[name])) != torch.inf)]
        found[name] = error(native[name]), max(usual), largest[name]
    return found
