"""Calls with large weights, states and gaps, and how far each path is from the exact result there."""

from __future__ import annotations

from copy import deepcopy

import torch
from helpers import results
from hypothesis import strategies as st
from kernel_cases import called, calls, choice, together
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

from chronode.system import flushed

FACTOR = 8
"""Largest error of a kernel as a multiple of the torch path's ..."""
FLOORS = {
    torch.float32: lambda largest: 16 * torch.finfo(torch.float32).eps * largest + 1e-20,
    torch.float64: lambda largest: 1e-9 * max(largest, 1.0),
}
"""... beside this, of the largest element. In float32: some roundings, and what is exactly 0 on one path may be a
rounding of something small on the other. In float64 nothing more exact is known: where a tanh saturates, 1 - tanh² is
exactly 0 on the torch path."""

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
    drawn = st.tuples(calls(name), choice(False, False, True)).map(lambda drawn: stressful(*drawn))
    return st.tuples(drawn, together(**MAGNITUDES))


def stressful(call, missing):
    """A call without dropout; with missing values it has few sizes of input, each of which is compiled once."""
    call = {**call, "dropout": 0.0, "missing": missing}
    return {**call, "inputs": 1 + call["inputs"] % 3} if missing else call


def stressed(name, drawn):
    """The layer of such a call, and its x, dt, lengths and state."""
    call, magnitude = drawn
    layer, x, dt, lengths, state = called(name, call)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.mul_(magnitude["weights"])
        for tensor, factor in ((x, magnitude["inputs"]), (dt, magnitude["gaps"])):
            tensor.mul_(factor)
        encoded = len(state) - len(layer.cells[0].initial_state(1, x))
        for place, part in enumerate(state):
            part.mul_(magnitude["inputs" if place < encoded else "states"])  # an encoder hands its state on as input
    return layer, x, dt, lengths, state


def leaf(tensor, dtype):
    return tensor.detach().to(dtype).requires_grad_()


def nudged(tensor, rng):
    """Each element, or the next number above or below it; 0 stays 0."""
    side = torch.randint(-1, 2, tensor.shape, generator=rng)
    return torch.where(
        (side == 0) | (tensor == 0),
        tensor,
        torch.nextafter(tensor, torch.where(side > 0, torch.inf, -torch.inf).to(tensor)),
    )


class Roundings(TorchDispatchMode):
    """Moves the result of every operation, forward and backward, by at most one rounding.

    Other orders of summation and other approximations of tanh differ in this way. To nudge the arguments alone is not
    enough: where a tanh saturates, its result and 1 - tanh² do not change with them.
    """

    def __init__(self, rng):
        super().__init__()
        self.rng = rng

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if func.is_view or func._schema.is_mutable:
            return result
        return tree_map_only(torch.Tensor, self.moved, result)

    def moved(self, tensor):
        return nudged(tensor, self.rng) if tensor.is_floating_point() else tensor


def errors(layer, x, dt, lengths, state, nudges):
    """For each result by name: the native path's error, the torch path's, and the largest element of the exact one.

    The exact result is the torch path's in float64. The torch path's error is the largest of several runs whose
    operations differ by a rounding, and of one that rounds the smallest numbers to 0: where a rounding changes the
    result much, a single run may be right by luck. Errors are taken where the torch path's result is finite; where the
    native path's is not finite there, its error is infinite. Nothing is returned for results out of `IN_RANGE`.
    """

    def run(layer, backend, dtype=x.dtype):
        return results(
            layer, backend, leaf(x, dtype), leaf(dt, dtype), lengths, tuple(leaf(part, dtype) for part in state)
        )

    exact = run(deepcopy(layer).double(), "torch", torch.float64)
    largest = {name: float(wanted.detach().abs().max()) for name, wanted in exact.items()}
    if not all(size <= IN_RANGE for name, size in largest.items() if not name.startswith("gradient")):
        return {}
    plain, native = run(layer, "torch"), run(layer, "native")
    with flushed():  # as kernels do, and `fit` on both paths
        others = [run(layer, "torch")]
    for seed in range(nudges):
        rng = torch.Generator().manual_seed(seed)
        with Roundings(rng):
            others.append(run(layer, "torch"))
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
