"""Forms of a kernel: the readout computed for the last steps alone, and one gap for all steps."""

import pytest
import torch
from compiled_cases import ALL_AT_ONCE, CASES, CompiledCase, assert_same, by_loop, everything, inputs
from torch import nn
from torch.nn import functional as F

import chronode
from chronode import compiler
from chronode.compiler._compiled import kernel_of


class Rotating(chronode.nn.Cell):
    """A linear recurrence whose output is made of products: (a, b)' = e^(-r dt) R(w dt) (a, b) + (B x, 0)."""

    def __init__(self, input_size, hidden_size):
        super().__init__(input_size, hidden_size)
        self.inputs, self.skip = nn.Linear(input_size, hidden_size), nn.Linear(input_size, hidden_size)
        self.rate, self.turn = nn.Parameter(torch.rand(hidden_size)), nn.Parameter(torch.rand(hidden_size))
        self.read, self.gates = nn.Linear(2 * hidden_size, hidden_size), nn.Linear(hidden_size, 2 * hidden_size)

    state_parts = 2

    def forward(self, x, state, dt):
        a, b = state
        decay, c, s = torch.exp(-self.rate * dt), torch.cos(self.turn * dt), torch.sin(self.turn * dt)
        a, b = decay * (c * a - s * b) + self.inputs(x), decay * (s * a + c * b)
        y = F.gelu(self.read(torch.cat([a, b], -1)) + self.skip(x) * dt)
        return F.glu(self.gates(y), -1), (a, b)


@pytest.fixture
def cell():
    torch.manual_seed(0)
    return Rotating(3, 6).double()


def with_any_gaps(cell, x, state, dt, plan):
    """The kernel for any gaps."""
    return kernel_of(cell, last=plan.last).run(cell, x, state, dt, plan)


def with_equal_gaps(cell, x, state, dt, plan):
    """The kernel for one gap."""
    return kernel_of(cell, equal_gaps=True, last=plan.last).run(cell, x, state, dt, plan)


@pytest.mark.parametrize("case", [case for case in (*CASES, ALL_AT_ONCE) if case.hidden == 6], ids=lambda c: c.name)
def test_all_forms_have_the_numbers_of_the_loop(cell, case):
    arguments = inputs(cell, case, torch.float64)
    assert_same(everything(by_loop, cell, *arguments), everything(with_any_gaps, cell, *arguments), 1e-9)
    x, state, dt, plan = arguments
    gaps = torch.full_like(dt, 0.7).requires_grad_()  # the loop gives a gradient, the kernel for one gap has none
    expected = everything(by_loop, cell, x, state, gaps, plan)
    actual = everything(with_equal_gaps, cell, x, state, gaps, plan)
    assert_same(*({k: v for k, v in one.items() if k != "gradient of dt"} for one in (expected, actual)), 1e-9)


def test_functions_of_one_gap_leave_the_loop(cell):
    operations = [
        {node.op for node in kernel_of(cell, equal_gaps=equal).step.nodes if node.op in ("sin", "cos")}
        for equal in (False, True)
    ]
    assert operations == [{"sin", "cos"}, set()]


def test_the_readout_leaves_the_loop_if_only_the_last_outputs_are_needed(cell):
    products = [
        sum(node.op == "product" for node in set(kernel_of(cell, last=last).step.nodes)) for last in (False, True)
    ]
    assert products[1] < products[0]
    assert kernel_of(cell).step.traced.readout is None
    layer = chronode.nn.Layer(Rotating, 3, 6, outputs="last").double().eval()
    x = torch.randn(2, 5, 3, dtype=torch.float64)
    expected, _ = layer(x)
    compiler.use(layer)
    torch.testing.assert_close(layer(x)[0], expected)
    stepper = layer.stepper(2)
    torch.testing.assert_close([stepper(x[:, n]) for n in range(5)][-1], expected)


def test_a_step_without_a_readout_has_one_form():
    cell = chronode.create("gru", 3, 4).cells[0]
    assert kernel_of(cell, last=True) is kernel_of(cell)


@pytest.mark.parametrize(
    ("gaps", "lengths", "expected"),
    [
        ([[1.0, 1.0], [1.0, 1.0]], None, True),
        ([[1.0, 1.0], [1.0, 2.0]], None, False),
        ([[1.0, 1.0], [1.0, 0.0]], None, False),
        ([[1.0, 1.0], [1.0, 0.0]], [2, 1], True),  # padding
        ([[1.0, 0.0], [1.0, 0.0]], [2, 1], False),  # a gap of 0, and padding
        ([[0.0, 0.0], [0.0, 0.0]], [2, 1], True),
        ([[0.0, 1.0], [1.0, 0.0]], [2, 1], False),
    ],
)
def test_gaps_are_equal_if_those_of_all_valid_steps_are(gaps, lengths, expected):
    dt = torch.tensor(gaps).unsqueeze(-1)
    lengths = None if lengths is None else torch.tensor(lengths)
    assert compiler.equal(dt, lengths) is expected
    assert not compiler.equal(dt.requires_grad_(), lengths)


def test_a_layer_takes_the_form_for_its_gaps(cell):
    layer = chronode.nn.Layer(Rotating, 3, 6).double()
    x, dt = torch.randn(3, 5, 3, dtype=torch.float64), torch.rand(3, 5, dtype=torch.float64)
    for gaps in (dt, 0.3):
        wanted = layer(x, dt=gaps, lengths=[5, 2, 4])[0]
        compiler.use(layer)
        torch.testing.assert_close(layer(x, dt=gaps, lengths=[5, 2, 4])[0], wanted)
        compiler.use(layer, compiled=False)


def test_a_step_that_needs_gaps_of_every_row_keeps_them():
    class Rows(chronode.nn.Cell):
        def __init__(self, input_size, hidden_size):
            super().__init__(input_size, hidden_size)
            self.rate, self.mix = nn.Parameter(torch.rand(hidden_size)), nn.Linear(input_size + 1, hidden_size)

        def forward(self, x, state, dt):
            h = state[0] * torch.exp(-self.rate * dt) + self.mix(torch.cat([x, dt], -1))
            return h, (h,)

    torch.manual_seed(0)
    cell = Rows(3, 4).double()
    x, state, dt, plan = inputs(cell, CompiledCase("rows", hidden=4), torch.float64)
    gaps = torch.full_like(dt, 0.5).requires_grad_()
    assert kernel_of(cell, equal_gaps=True) is kernel_of(cell)
    assert_same(
        everything(by_loop, cell, x, state, gaps, plan), everything(with_equal_gaps, cell, x, state, gaps, plan), 1e-9
    )
