"""Every kernel, form by form: one line in `CASES`, and the checks that all kernels must pass run for it."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from types import ModuleType
from typing import Any

import pytest
import torch
from helpers import batch
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from torch.utils._pytree import tree_map_only

import chronode
from chronode.kernels import elementwise, ltc, ops, unicornn


@dataclass(frozen=True)
class KernelCase:
    """A form of a kernel, and what of it differs from other kernels.

    Attributes:
        model: the name that `chronode.create` takes.
        module: where its operators are.
        operator: the name there of the one that a layer calls.
        settings: what makes this form.
        drawn: a strategy of further settings, or of other sizes than `SIZES`, for random calls.
        noise: added to the parameters, so that none hides behind an initial 0 or 1.
        length: steps of a short sequence; more where a kernel cuts time into chunks.
        long: steps of a long one, over which weight gradients are gathered in several pieces.
        kept: how many tensors of a state's size training on 4 steps keeps for the backward pass.
        fills_padding: whether the operator writes all that it returns; opcheck, which looks at all of it, gets no
            padding if not.
    """

    model: str
    module: ModuleType
    operator: str
    settings: dict[str, Any] = field(default_factory=dict)
    drawn: SearchStrategy[dict[str, Any]] = field(default_factory=lambda: st.just({}))
    noise: float = 0.1
    length: int = 3
    long: int = 60
    kept: int = 4
    fills_padding: bool = True


def choice(*values):
    """A strategy that takes one of the values."""
    return st.sampled_from(values)


def together(**strategies):
    """A strategy of dictionaries with these keys."""
    return st.fixed_dictionaries(strategies)


INDRNN = together(bound=choice(0.4, 1.0), norm=choice("none", "layer"))
SRU = together(highway_bias=choice(0.0, -1.0))
WIRED = {"wiring": choice("full", "sparse", "ncp"), "unfolds": st.integers(1, 7), "hidden": st.integers(4, 20)}
LTC = together(input_map=st.booleans(), weights=choice("softplus", "clip"), **WIRED)
UNICORNN = st.integers(1, 5).flatmap(
    lambda layers: together(
        num_layers=st.just(layers),
        residual=st.integers(0, layers - 1),
        delta_t=st.just([0.1 + 0.2 * layer for layer in range(layers)]),
        alpha=choice(0.0, 2.5),
        train_c=st.booleans(),
        bidirectional=st.booleans(),
        length=st.integers(1, 40),
        hidden=st.integers(1, 40),
    )
)

elementwise_case = partial(
    KernelCase,
    module=elementwise,
    operator="elementwise_forward",
    noise=0.5,  # recurrent weights of both signs, some beyond IndRNN's bound
    long=300,
)
ltc_case = partial(KernelCase, "ltc", ltc)
unicornn_case = partial(KernelCase, "unicornn", unicornn, "unicornn_forward", drawn=UNICORNN, length=18)
STACK = {"num_layers": 2, "residual": 1, "delta_t": 0.5}

CASES = {
    "indrnn": elementwise_case("indrnn", drawn=INDRNN),
    "dense-indrnn": elementwise_case("dense-indrnn", drawn=INDRNN),
    "sru": elementwise_case("sru", drawn=SRU),
    "ltc-synaptic": ltc_case("ltc_synaptic_forward", {"form": "synaptic"}, LTC),
    "unicornn-fast": unicornn_case({"memory": "fast", **STACK}, kept=8, fills_padding=False),
    "unicornn-low": unicornn_case({"memory": "low", **STACK}),
    "unicornn-auto": unicornn_case({"memory": "auto", **STACK}),
}

SIZES = {
    "dtype": choice(torch.float64, torch.float32),
    "size": st.integers(1, 19),
    "length": st.integers(1, 8),
    "inputs": st.integers(1, 9),
    "hidden": st.integers(1, 20),
    "num_layers": st.integers(1, 2),
    "dropout": choice(0.0, 0.4),
    "outputs": choice("all", "last"),
    "ragged": st.booleans(),
    "seed": st.integers(0, 99),
}


def make(name, inputs=3, hidden=5, dtype=torch.float64, **chosen):
    """A layer of that case, with `chosen` settings on top of the case's own."""
    case = CASES[name]
    torch.manual_seed(0)
    layer = chronode.create(case.model, inputs, hidden, **{**case.settings, **chosen}).to(dtype)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter += case.noise * torch.randn_like(parameter)
    return layer


def calls(name):
    """A strategy of random calls, as `called` takes them."""
    drawn = st.tuples(together(**SIZES), CASES[name].drawn).map(lambda drawn: {**drawn[0], **drawn[1]})
    # Normalized over units, one is 0 and two are 1 and -1 whatever they were: their gradients are roundings alone.
    return drawn.filter(lambda call: call.get("norm") != "layer" or call["hidden"] > 2)


def called(name, call, **chosen):
    """The layer of a random call, and its x, dt, lengths and state."""
    call = call.copy()
    size, length, ragged, seed = (call.pop(key) for key in ("size", "length", "ragged", "seed"))
    layer = make(name, **call, **chosen)
    return layer, *batch(layer, size, length, call["dtype"], seed, ragged)


@contextmanager
def watched(name):
    """Collects what the layers of that case give to their operator and get from it, as (arguments, results)."""
    case, seen = CASES[name], []
    operator = getattr(case.module, case.operator)

    def watch(*arguments):
        results = operator(*arguments)
        seen.append((arguments, results))
        return results

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(case.module, case.operator, watch)
        yield seen


def native_calls(layer, x, dt, lengths, state):
    """Every call into the library, as `ops.call` takes it, of a forward and a backward pass."""
    found, call = [], ops.call

    def record(*arguments):
        found.append(arguments)
        call(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ops, "call", record)
        y, final = layer(x, state, dt=dt, lengths=lengths)
        sum(part.sum() for part in (y, *final)).backward()
    return found


def assert_sound_operator(name, layer, x, dt, lengths, state):
    """The operator of that case, with the arguments that the layer gives it, is what autograd and compilers expect."""
    with watched(name) as seen:
        layer(x, state, dt=dt, lengths=lengths)
    ((arguments, _),) = seen
    leaves = tree_map_only(torch.Tensor, lambda t: t.detach().requires_grad_(t.requires_grad), arguments)
    torch.library.opcheck(getattr(CASES[name].module, CASES[name].operator).overload, leaves)
