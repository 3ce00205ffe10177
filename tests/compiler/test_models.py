"""Every model compiled, against the driver's loop: outputs, last states and all gradients."""

import pytest
import torch
from compiled_cases import ALL_AT_ONCE, CASES, by_kernel, cells, check, check_steps, everything, inputs
from layer_checks import assert_same_when_checkpointed

import chronode

FAST = ["lstm", "gru-d", "ct-gru", "phased-lstm", "cornn", "exprnn", "s5", "linoss", "mmrnn", "irnn"]
"""Models with nearly every operation: encoders, several axes, softmax, clocks, waves, prepared weights, readouts, and
repeated sub-steps."""


@pytest.mark.parametrize("model", FAST)
def test_a_compiled_model_has_the_numbers_and_gradients_of_the_loop(model):
    check(model, ALL_AT_ONCE)


@pytest.mark.slow  # a C++ compiler for each of 42 models, two precisions and two sizes
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("model", chronode.models())
def test_every_model_in_every_case(model, case, dtype):
    check(model, case, dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(("model", "missing"), [("gru", True), ("gru-d", True), ("phased-lstm", False)])
def test_steps_one_by_one_are_those_of_the_whole_sequence(model, missing, dtype):
    check_steps(model, dtype, missing=missing)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("model", chronode.models())
def test_every_model_step_by_step(model, missing, dtype):
    check_steps(model, dtype, missing=missing)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_case_in_float32(case):
    check("gru", case, torch.float32)


@pytest.mark.parametrize(
    ("model", "settings"),
    [
        ("rnn", {"activation": "relu"}),
        ("lstm", {"sees_dt": True}),
        ("cfc", {"backbone_units": 5, "backbone_layers": 2}),
        ("mmrnn", {"variant": "driven", "solver": "rk4", "steps": 2}),
        ("mmrnn", {"variant": "driven", "flow": "mlp", "solver": "heun"}),
        ("mmrnn", {"variant": "paper", "solver": "midpoint", "steps": 1}),
        ("irnn", {"recurrent": "full", "activation": "tanh", "eta_steps": 5}),
        ("irnn", {"outer": "identity", "activation": "sigmoid", "start": "zero", "sign": -1, "K": 2}),
        ("ltc", {"form": "dense", "activation": "hardtanh", "input_map": True}),
        ("ltc", {"form": "dense", "activation": "relu", "wiring": "sparse"}),
    ],
)
def test_settings_are_part_of_the_kernel(model, settings):
    check(model, ALL_AT_ONCE, **settings)


@pytest.mark.parametrize("model", ["gru", "rnn-decay", "cornn"])
def test_gradients_are_those_of_finite_differences(model):
    (cell,) = cells(model, torch.float64, 4, features=2)
    torch.manual_seed(0)
    x, dt = torch.randn(3, 2, 2, dtype=torch.float64), torch.rand(3, 2, 1, dtype=torch.float64) + 0.1
    state = tuple(torch.randn_like(s) for s in cell.initial_state(2, x[0]))
    plan = inputs(cell, CASES[0], torch.float64)[3]
    tensors = [x.requires_grad_(), dt.requires_grad_(), *(s.requires_grad_() for s in state)]

    def run(x, dt, *state):
        y, end = by_kernel(cell, x, state, dt, plan)
        return y, *end

    assert torch.autograd.gradcheck(run, tensors, eps=1e-6, atol=1e-6)


@pytest.mark.parametrize("model", ["lstm", "ct-gru", "mmrnn", "irnn"])
def test_bits_do_not_depend_on_the_number_of_threads(model):
    (cell,) = cells(model, torch.float32, 7)
    arguments = inputs(cell, ALL_AT_ONCE, torch.float32)
    before = torch.get_num_threads()
    try:
        runs = []
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            runs.append(everything(by_kernel, cell, *arguments))
    finally:
        torch.set_num_threads(before)
    for other in runs[1:]:
        assert all(torch.equal(other[name], runs[0][name]) for name in runs[0])


@pytest.mark.parametrize("model", ["lstm", "ct-gru", "cornn"])
def test_gradients_under_checkpointing(model):
    (cell,) = cells(model, torch.float64, 7)
    x, state, dt, plan = inputs(cell, ALL_AT_ONCE, torch.float64)

    def outputs(x, dt, *state):
        y, end = by_kernel(cell, x, state, dt, plan)
        return y, *end

    assert_same_when_checkpointed(outputs, (x, dt, *state), cell.parameters())


def test_random_draws_are_those_of_the_loop():
    check("rnn-vae", CASES[2])
