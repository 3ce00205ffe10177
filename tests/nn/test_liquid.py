"""LTC: its equations in both forms, the bounds of its paper, and the numbers of the reference package ncps."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np
import oracles
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from layer_checks import assert_matches, check_gradients, make, zeros
from oracles import array

import chronode

ACTIVATIONS = ("sigmoid", "tanh", "relu", "hardtanh")
FORMS = ("synaptic", "dense")
WIRINGS = ({"wiring": "full"}, {"wiring": "sparse", "density": 0.4}, {"wiring": "ncp", "motor": 2})
property_test = settings(max_examples=40, deadline=None, derandomize=True)


# ---- the cell's parameters as the oracles take them


def softplus(a):
    return np.logaddexp(0.0, array(a))


def positive(body, raw):
    return np.clip(array(raw), 1e-5, 1e3) if body.positive.clips else softplus(raw)


def synapse_parameters(synapses):
    raw = {"w": positive(synapses, synapses.raw_w), "s": array(synapses.s), "m": array(synapses.m)}
    return raw | {"E": array(synapses.e), "mask": array(synapses.mask)}


def parameters(cell):
    body = cell.body
    if cell.form == "synaptic":
        p = {"c": positive(body, body.raw_capacity), "gl": positive(body, body.raw_g_leak), "vl": array(body.v_leak)}
        return p | {"input": synapse_parameters(body.sensory), "recurrent": synapse_parameters(body.recurrent)}
    weights = {
        "W": array(body.inputs.weight * body.input_mask),
        "Wr": array(body.recurrent.weight * body.recurrent_mask),
    }
    return weights | {"b": array(body.inputs.bias), "tau": softplus(body.raw_tau), "A": array(body.target)}


def step_of(cell, solver, n):
    p, act = parameters(cell), cell.activation
    if solver == "fused":
        whole = partial(oracles.ltc_synaptic, p=p, n=n)
        if cell.form == "dense":
            whole = partial(oracles.ltc_dense, p=p, act=act, n=n)
    else:
        field = oracles.ltc_synaptic_field
        if cell.form == "dense":
            field = partial(oracles.ltc_dense_field, act=act)

        def whole(x, state, dt):
            v = oracles.solve(lambda v: field(v, x, p), state[0], dt, solver, n)
            return v, (v,)

    def step(x, state, dt):
        if cell.input_scale is not None:
            x = array(cell.input_scale) * x + array(cell.input_offset)
        y, state = whole(x, state, dt)
        return y[:, -cell.output_size :], state  # the motor neurons are the last ones

    return step


def ltc_oracle(layer, solver="fused", n=6):
    steps = [step_of(cell, solver, n) for cell in layer.cells]
    return lambda x, dt: oracles.run_stack(steps, x, zeros(layer, len(x)), dt)


# ---- equations


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_dense_form(activation):
    layer = make("ltc", form="dense", activation=activation, num_layers=2, noise=0.2)
    assert_matches(layer, ltc_oracle(layer))


@pytest.mark.parametrize("wiring", WIRINGS, ids=lambda w: w["wiring"])
@pytest.mark.parametrize("form", FORMS)
def test_wirings(form, wiring):
    layer = make("ltc", 3, 6, num_layers=2, form=form, **wiring)
    assert layer.output_size == wiring.get("motor", 6)
    assert_matches(layer, ltc_oracle(layer))


@pytest.mark.parametrize("solver", ["fused", "euler", "midpoint", "heun", "rk4"])
@pytest.mark.parametrize("form", FORMS)
def test_solvers(form, solver):
    layer = make("ltc", form=form, solver=solver, unfolds=4)
    assert_matches(layer, ltc_oracle(layer, solver, 4))


@torch.no_grad()
@pytest.mark.parametrize("form", FORMS)
def test_all_solvers_tend_to_the_same_solution(form):
    x, dt = (torch.from_numpy(a) for a in oracles.sequences())
    exact = make("ltc", form=form, solver="rk4", unfolds=200)(x, dt=dt)[0]
    adaptive = make("ltc", form=form, solver="dopri5")(x, dt=dt)[0]
    torch.testing.assert_close(adaptive, exact, rtol=0, atol=1e-4)
    errors = [(make("ltc", form=form, unfolds=n)(x, dt=dt)[0] - exact).abs().max() for n in (50, 100)]
    assert 1.8 < errors[0] / errors[1] < 2.2  # the fused solver is of first order


@pytest.mark.parametrize("form", FORMS)
def test_each_sample_has_its_own_time_also_where_batch_equals_hidden(form):
    layer = make("ltc", 2, 4, form=form)
    assert_matches(layer, ltc_oracle(layer), batch=4)


@pytest.mark.parametrize(
    "options", [{"form": "dense", "activation": a} for a in ("sigmoid", "tanh")] + [{"wiring": "sparse"}]
)
def test_gradients(options):
    check_gradients(make("ltc", 1, 2, unfolds=2, noise=0.2, **options))


@pytest.mark.parametrize("form", FORMS)
def test_input_map(form):
    layer = make("ltc", form=form, input_map=True, num_layers=2)
    assert_matches(layer, ltc_oracle(layer))
    check_gradients(make("ltc", 1, 2, unfolds=2, form=form, input_map=True))
    scale, offset = (
        getattr(chronode.create("ltc", 3, 4, input_map=True).cells[0], f"input_{n}") for n in ("scale", "offset")
    )
    assert scale.tolist() == [1, 1, 1] and offset.tolist() == [0, 0, 0]


def test_clipped_weights():
    """Some weights of this layer are below the range."""
    layer = make("ltc", 3, 6, weights="clip", noise=0.5, num_layers=2)
    assert (layer.cells[0].body.recurrent.raw_w < 0).any()
    assert_matches(layer, ltc_oracle(layer))
    check_gradients(make("ltc", 1, 2, unfolds=2, weights="clip", noise=0.0))


@pytest.mark.parametrize(("raw", "value"), [(-0.3, 1e-5), (2e3, 1e3), (0.4, 0.4)])
def test_a_clipped_weight_is_still_trained(raw, value):
    """A weight at the end of its range has a gradient, or it would stay there forever."""
    synapses = chronode.create("ltc", 2, 3, weights="clip").cells[0].body.recurrent
    synapses.raw_w.data.fill_(raw)
    w = synapses.w()
    torch.testing.assert_close(w, torch.full((3, 3), value))
    w.sum().backward()
    assert (synapses.raw_w.grad == 1).all()


def test_the_program_of_the_paper_is_dt_6():
    """Its step, written from its equations: the whole capacity in each of 6 unfolds, mapped inputs, clipped weights."""
    layer = make("ltc", input_map=True, weights="clip")
    (cell,) = layer.cells
    p, (x, _) = parameters(cell), oracles.sequences()
    v, outputs = np.zeros((len(x), 3)), []
    for n in range(x.shape[1]):
        g_in, i_in = oracles.synapses(array(cell.input_scale) * x[:, n] + array(cell.input_offset), **p["input"])
        for _ in range(6):
            g, i = oracles.synapses(v, **p["recurrent"])
            v = (p["c"] * v + p["gl"] * p["vl"] + i + i_in) / (p["c"] + p["gl"] + g + g_in)
        outputs.append(v)
    got = layer(torch.from_numpy(x), dt=6.0)[0]
    np.testing.assert_allclose(array(got), np.stack(outputs, axis=1), rtol=1e-10)


def test_unfolds_default_and_form():
    cell = chronode.create("ltc", 2, 4).cells[0]
    assert (cell.form, cell.solver, cell.unfolds, cell.output_size) == ("synaptic", "fused", 6, 4)


# ---- initialization


def test_initialization_of_the_synaptic_form():
    torch.manual_seed(0)
    body = chronode.create("ltc", 40, 40).cells[0].body
    ranges = [(body.v_leak, -0.2, 0.2)]
    for synapses in (body.sensory, body.recurrent):
        ranges += [(synapses.w(), 0.01, 1), (synapses.m, 0.3, 0.8), (synapses.s, 3, 8)]
        assert set(array(synapses.e).flatten()) == {-1.0, 1.0} and synapses.e.requires_grad
        assert abs(float(synapses.e.detach().mean())) < 0.1
    for value, low, high in ranges:
        value, width = array(value), high - low
        assert low - 1e-6 <= value.min() < low + 0.1 * width and high - 0.1 * width < value.max() <= high + 1e-6
        np.testing.assert_allclose(value.mean(), (low + high) / 2, atol=0.1 * width)
    np.testing.assert_allclose(softplus(body.raw_g_leak), 1.0, rtol=1e-6)
    np.testing.assert_allclose(softplus(body.raw_capacity), 0.5, rtol=1e-6)


@property_test
@given(st.sampled_from(FORMS), st.floats(-50, 50))
def test_positive_by_construction(form, value):
    cell = make("ltc", 2, 4, form=form).cells[0]
    with torch.no_grad():
        for parameter in cell.parameters():
            parameter.fill_(value)  # whatever training does
    p = parameters(cell)
    positive = (p["tau"],) if form == "dense" else (p["c"], p["gl"], p["input"]["w"], p["recurrent"]["w"])
    assert all((part > 0).all() for part in positive)
    assert (cell.time_constants(torch.zeros(1, 2).double(), (torch.zeros(1, 4).double(),)) > 0).all()


# ---- theorems 1 and 2


def largest_conductance(p):
    return (
        p["gl"] + (p["input"]["w"] * p["input"]["mask"]).sum(0) + (p["recurrent"]["w"] * p["recurrent"]["mask"]).sum(0)
    )


@property_test
@given(st.sampled_from(FORMS), st.integers(0, 999), st.sampled_from([1e-3, 1.0, 1e3, 1e6]))
def test_theorem_1_time_constants(form, seed, size):
    cell = make("ltc", 2, 4, seed=seed, noise=1.0, form=form).cells[0]
    rng = torch.Generator().manual_seed(seed)
    x, v = size * torch.randn(3, 2, generator=rng).double(), torch.randn(3, 4, generator=rng).double()
    tau, p = array(cell.time_constants(x, (v,))), parameters(cell)
    if form == "dense":
        longest, shortest = p["tau"], p["tau"] / (1 + p["tau"])  # a neuron's f is below W = 1
    else:
        longest, shortest = p["c"] / p["gl"], p["c"] / largest_conductance(p)
    assert (shortest * (1 - 1e-12) <= tau).all() and (tau <= longest * (1 + 1e-12)).all()
    # And it is the rate of the field: dv/dt = J - v / τ, so a unit more of v, J held, is 1/τ less of dv/dt.
    fields = {"dense": oracles.ltc_dense_field, "synaptic": oracles.ltc_synaptic_field}
    rate = (field_drive(form, array(v), array(x), p) - fields[form](array(v), array(x), p)) / array(v)
    np.testing.assert_allclose(1 / tau, rate, rtol=1e-6)


def field_drive(form, v, x, p):
    """J of dv/dt = J - G v."""
    if form == "dense":
        return oracles.ltc_dense_gate(v, x, p, "sigmoid") * p["A"]
    currents = oracles.synapses(x, **p["input"])[1] + oracles.synapses(v, **p["recurrent"])[1]
    return (p["gl"] * p["vl"] + currents) / p["c"]


def state_range(cell):
    """Bounds of each neuron by theorem 2: between 0 and the potentials that pull at it."""
    p: dict[str, Any] = parameters(cell)
    pulls = p["A"][None] if cell.form == "dense" else np.vstack([p["input"]["E"], p["recurrent"]["E"], p["vl"]])
    return np.minimum(0, pulls.min(0)), np.maximum(0, pulls.max(0))


@property_test
@given(
    st.sampled_from([("synaptic", "sigmoid"), ("dense", "sigmoid"), ("dense", "relu")]),
    st.integers(0, 999),
    st.sampled_from([1e-2, 1.0, 1e3, 1e6]),
    st.sampled_from([1e-3, 1.0, 1e3, 1e6]),
    st.integers(1, 6),
)
def test_theorem_2_state(kind, seed, size, longest, unfolds):
    form, activation = kind
    layer = make("ltc", 2, 4, seed=seed, noise=1.0, form=form, activation=activation, unfolds=unfolds)
    rng = torch.Generator().manual_seed(seed)
    x = size * torch.randn(3, 8, 2, generator=rng).double()
    y = array(layer(x, dt=longest * torch.rand(3, 8, generator=rng).double())[0])
    low, high = state_range(layer.cells[0])
    assert (low - 1e-12 <= y).all() and (y <= high + 1e-12).all()


@property_test
@given(st.sampled_from(FORMS), st.sampled_from(["fused", "euler", "rk4"]), st.integers(0, 999))
def test_no_time_no_change(form, solver, seed):
    cell = make("ltc", 2, 4, seed=seed, form=form, solver=solver).cells[0]
    rng = torch.Generator().manual_seed(seed)
    x, v = 1e3 * torch.randn(3, 2, generator=rng).double(), torch.randn(3, 4, generator=rng).double()
    assert torch.equal(cell(x, (v,), torch.zeros(3, 1).double())[1][0], v)


# ---- the reference package


def ncps_cell(cell):
    """ncps's cell with our effective weights; its own mappings of input and output are switched off."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from ncps.torch import LTCCell
        from ncps.wirings import FullyConnected
    torch.set_default_dtype(torch.float64)
    try:
        theirs = LTCCell(FullyConnected(4), 2, input_mapping=None, output_mapping=None, epsilon=0.0)
    finally:
        torch.set_default_dtype(torch.float32)
    p = parameters(cell)
    values = {"gleak": p["gl"], "vleak": p["vl"], "cm": p["c"]}
    for prefix, part in (("sensory_", p["input"]), ("", p["recurrent"])):
        names = {"w": "w", "sigma": "s", "mu": "m", "erev": "E", "sparsity_mask": "mask"}
        values |= {prefix + theirs_name: part[ours] for theirs_name, ours in names.items()}
    with torch.no_grad():
        for name, value in values.items():
            getattr(theirs, name).copy_(torch.from_numpy(value))
    return theirs.double()


@pytest.mark.parametrize("wiring", WIRINGS[:2], ids=lambda w: w["wiring"])
def test_same_numbers_as_ncps(wiring):
    layer = make("ltc", 2, 4, **wiring)
    theirs = ncps_cell(layer.cells[0])
    x, dt = (torch.from_numpy(a) for a in oracles.sequences(batch=1, length=10))
    dt = dt + 0.05  # ncps divides by it
    ours, state = layer(x, dt=dt)[0], torch.zeros(1, 4).double()
    for n in range(10):
        _, state = theirs(x[:, n], state, float(dt[0, n]))
        torch.testing.assert_close(ours[:, n], state, rtol=1e-11, atol=1e-13)
