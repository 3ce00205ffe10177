"""Operations of ordinary code in a step, compiled, against the loop: outputs, last states and float64 gradients."""

import pytest
import torch
from compiled_cases import CompiledCase, assert_same, by_kernel, by_loop, everything, inputs
from torch import nn
from torch.nn import functional as F

import chronode
from chronode import compiler
from chronode.compiler._compiled import step_of
from chronode.compiler._recorded import Unsupported

CASE = CompiledCase("ordinary", steps=4, hidden=6, lengths=(4, 2, 3, 4, 1), carried=True)


def heads(a):
    return a.unflatten(-1, (3, 2))


def written(a, b):
    """A fresh value, changed in place as a whole and in parts."""
    h = a * 1
    h += b
    h[:, 0] = b[:, 1]
    h[:, 2:4] = 0.5
    h[:, ::3].mul_(2).add_(b[:, :2])
    part = h.view(-1, 3, 2)
    part[:, 1] -= 1
    return h.tanh_()


GROUPS = {
    "parts of torch": {
        "GRUCell": lambda cell, a, b: cell.gru(a, b),
        "LSTMCell": lambda cell, a, b: sum(cell.lstm(a, (b, a))),
        "RNNCell": lambda cell, a, b: cell.rnn(a, b),
        "PReLU": lambda cell, a, b: cell.prelu(a) + cell.prelus(b),
        "GroupNorm": lambda cell, a, b: cell.group_norm(a),
        "Bilinear": lambda cell, a, b: cell.bilinear(a, b),
        "written": lambda cell, a, b: written(a, b),
    },
    "matrices": {
        "bmm": lambda cell, a, b: torch.bmm(heads(a).transpose(0, 1), cell.heads).transpose(0, 1).flatten(1),
        "baddbmm": lambda cell, a, b: (
            torch.baddbmm(heads(b).transpose(0, 1), heads(a).transpose(0, 1), cell.heads, beta=0.5)
            .transpose(0, 1)
            .flatten(1)
        ),
        "einsum": lambda cell, a, b: torch.einsum("bhi,hij->bhj", heads(a), cell.heads).flatten(1),
        "einsum of three": lambda cell, a, b: torch.einsum("bi,bj,ij->bj", a, b, cell.square),
        "one matrix for all heads": lambda cell, a, b: (heads(a) @ cell.heads[0]).flatten(1),
        "Linear on heads": lambda cell, a, b: torch.tanh(cell.narrow(heads(a)).flatten(0, 1)).view(-1, 6) * b,
        "attention": lambda cell, a, b: F.scaled_dot_product_attention(heads(a), heads(b), heads(a)).flatten(1),
        "outer product": lambda cell, a, b: torch.einsum("bi,bj->bij", a, b).triu(1).mean(-1),
        "diagonal": lambda cell, a, b: (a.unsqueeze(-1) * b.unsqueeze(-2)).diagonal(dim1=1, dim2=2),
    },
    "order": {
        "stride": lambda cell, a, b: torch.cat([a[:, ::2], b[:, 1::2]], -1),
        "long stride": lambda cell, a, b: a[:, 1::4].sum(-1, True) * b,
        "roll": lambda cell, a, b: a.roll(2, -1) * torch.roll(b, -1, 1),
        "flip": lambda cell, a, b: a.flip(-1) * b,
        "repeat": lambda cell, a, b: a[:, :2].repeat(1, 3) * b[:, :3].tile(2),
        "repeat_interleave": lambda cell, a, b: a[:, :2].repeat_interleave(3, -1) * b,
        "pad": lambda cell, a, b: F.pad(a[:, :4], (1, 1), value=0.3) * b,
        "index_select": lambda cell, a, b: a.index_select(1, cell.order) * b,
        "cumsum": lambda cell, a, b: a.cumsum(-1) + heads(b).cumsum(1).flatten(1),
        "cumprod": lambda cell, a, b: a.cumprod(-1) * b,
        "prod": lambda cell, a, b: a.prod(-1, keepdim=True) * b + heads(b).prod(-1).repeat(1, 2),
        "amin": lambda cell, a, b: a.amin(-1, keepdim=True) * b,
    },
    "functions": {
        "atan": lambda cell, a, b: torch.atan(a) + torch.atan2(a, b) - torch.atan2(b, -a),
        "arc": lambda cell, a, b: torch.asin(a.tanh()) + torch.acos(b.tanh()) + torch.asinh(a) + torch.atanh(b.tanh()),
        "hyperbolic": lambda cell, a, b: torch.sinh(a) - torch.cosh(b) + torch.tan(0.3 * a.tanh()),
        "powers": lambda cell, a, b: torch.exp2(a) + torch.log2(b * b + 1) + torch.log10(a * a + 1) + torch.hypot(a, b),
        "erfc": lambda cell, a, b: torch.erfc(a) + torch.fmod(b, 0.7) + torch.frac(a) + torch.trunc(b),
        "addcmul": lambda cell, a, b: torch.addcmul(a, b, cell.rate, value=0.5),
        "addcdiv": lambda cell, a, b: torch.addcdiv(a, b, cell.rate.square() + 1, value=0.5),
        "lerp": lambda cell, a, b: torch.lerp(a, b, torch.sigmoid(cell.rate)) + a.lerp(b, 0.3),
        "softplus": lambda cell, a, b: F.softplus(a, beta=2) + F.mish(b) + F.threshold(a, 0.1, 0.2),
        "xor": lambda cell, a, b: torch.where((a > 0) ^ (b > 0), a, b.nan_to_num()),
        "spread": lambda cell, a, b: sum(torch.var_mean(a, -1, keepdim=True)) * b + a.std(-1, keepdim=True),
        "std_mean": lambda cell, a, b: (a - torch.std_mean(a, -1, keepdim=True)[1]) * b,
        "cosine": lambda cell, a, b: F.cosine_similarity(a, b, dim=-1).unsqueeze(-1) * F.rms_norm(b, (6,), cell.rate),
    },
    "random numbers": {
        "bernoulli": lambda cell, a, b: torch.bernoulli(torch.sigmoid(a)) * b,
        "bernoulli_": lambda cell, a, b: torch.empty_like(a).bernoulli_(0.3) * b,
        "dropout": lambda cell, a, b: F.dropout(a, 0.3) + cell.dropout(b),
        "exponential": lambda cell, a, b: torch.empty_like(a).exponential_(2.0) * b,
        "uniform": lambda cell, a, b: torch.empty_like(a).uniform_(-1, 2) * b,
        "normal": lambda cell, a, b: torch.normal(a, 0.1) * b + torch.empty_like(a).normal_(1, 2),
        "gumbel": lambda cell, a, b: F.gumbel_softmax(a) * b,
        "randint": lambda cell, a, b: torch.randint(0, 3, a.shape).to(a.dtype) * b,
    },
}


class Ordinary(chronode.nn.Cell):
    """The sum of what several operations make of the state and the input."""

    state_parts = 2

    def __init__(self, input_size, hidden_size, group=""):
        super().__init__(input_size, hidden_size)
        self.group = group
        self.inputs = nn.Linear(input_size, hidden_size)
        self.gru, self.lstm = nn.GRUCell(hidden_size, hidden_size), nn.LSTMCell(hidden_size, hidden_size)
        self.rnn = nn.RNNCell(hidden_size, hidden_size)
        self.prelu, self.prelus, self.group_norm = nn.PReLU(), nn.PReLU(hidden_size), nn.GroupNorm(2, hidden_size)
        self.bilinear, self.narrow = nn.Bilinear(hidden_size, hidden_size, hidden_size), nn.Linear(2, 2)
        self.heads = nn.Parameter(torch.randn(3, 2, 2))
        self.square = nn.Parameter(torch.randn(hidden_size, hidden_size))
        self.rate = nn.Parameter(torch.randn(hidden_size))
        self.dropout = nn.Dropout(0.2)
        self.register_buffer("order", torch.arange(hidden_size - 1, -1, -1))

    def forward(self, x, state, dt):
        h, c = state
        a, b = self.inputs(x) + h, torch.tanh(c) + 0.1 * dt
        y = torch.stack([torch.tanh(operation(self, a, b)) for operation in GROUPS[self.group].values()]).sum(0)
        return y, (torch.tanh(y), 0.5 * c + 0.1 * y)


def compare(cell):
    arguments = inputs(cell, CASE, torch.float64)
    assert_same(everything(by_loop, cell, *arguments), everything(by_kernel, cell, *arguments), 1e-9)


@pytest.mark.parametrize("group", GROUPS)
def test_operations_have_the_numbers_and_gradients_of_the_loop(group):
    torch.manual_seed(0)
    compare(Ordinary(3, 6, group).double())


class Spike(torch.autograd.Function):
    """1 above 0; its gradient is that of a smooth step."""

    @staticmethod
    def forward(ctx, voltage, slope):
        ctx.save_for_backward(voltage)
        ctx.slope = slope
        return (voltage > 0).to(voltage.dtype)

    @staticmethod
    def backward(ctx, *grads):
        (voltage,) = ctx.saved_tensors
        return grads[0] / (1 + ctx.slope * voltage.abs()) ** 2, None


class Halves(torch.autograd.Function):
    """Two results, in the newer style with `setup_context`."""

    @staticmethod
    def forward(value):
        return value.clone(), 2 * value

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, *grads):
        return grads[0].clamp(-1, 1) + 2 * grads[1]


class Sign(torch.autograd.Function):
    """The sign of a weight; the gradient passes unless the weight is large."""

    @staticmethod
    def forward(ctx, weight):
        ctx.save_for_backward(weight)
        return weight.sign()

    @staticmethod
    def backward(ctx, *grads):
        return grads[0] * (ctx.saved_tensors[0].abs() < 0.2)


spike = Spike.apply  # as libraries of spiking networks do it


class Spiking(chronode.nn.Cell):
    state_parts = 2

    def __init__(self, input_size, hidden_size, slope=2.5):
        super().__init__(input_size, hidden_size)
        self.slope = slope
        self.inputs, self.recurrent = nn.Linear(input_size, hidden_size), nn.Linear(hidden_size, hidden_size)

    def forward(self, x, state, dt):
        v, z = state
        v = v * torch.exp(-dt) + self.inputs(x) + F.linear(z, Sign.apply(self.recurrent.weight), self.recurrent.bias)
        half, twice = Halves.apply(v)
        z = spike(half + 0.1 * twice - 0.3, self.slope)
        return z + v, (v - z, z)


def test_functions_with_a_backward_of_their_own_keep_it():
    torch.manual_seed(0)
    for slope in (2.5, 0.5):
        compare(Spiking(3, 6, slope).double())


def test_the_rule_of_a_function_that_is_replaced_later_is_the_one_that_runs(monkeypatch):
    torch.manual_seed(0)
    cell = Spiking(3, 6).double()
    compare(cell)
    monkeypatch.setattr(Spike, "backward", staticmethod(lambda ctx, *grads: (3 * grads[0], None)))
    compare(cell)


class FastWeights(chronode.nn.Cell):
    """A matrix as the state."""

    def __init__(self, input_size, hidden_size):
        super().__init__(input_size, hidden_size)
        self.key, self.value = nn.Linear(input_size, hidden_size), nn.Linear(input_size, hidden_size)

    def initial_state(self, batch, like):
        return like.new_zeros(batch, self.hidden_size, self.hidden_size), like.new_zeros(batch, self.hidden_size)

    def forward(self, x, state, dt):
        matrix, total = state
        key = torch.tanh(self.key(x))
        error = self.value(x) - torch.einsum("bij,bj->bi", matrix, key)
        matrix = matrix * torch.exp(-dt).unsqueeze(-1) + error.unsqueeze(-1) * key.unsqueeze(-2)
        return torch.einsum("bij,bj->bi", matrix, key), (matrix, total + key)


def test_a_state_of_matrices():
    torch.manual_seed(0)
    compare(FastWeights(3, 6).double())


def test_a_layer_with_a_state_of_matrices_goes_on_from_it_compiled_and_step_by_step():
    torch.manual_seed(0)
    layer = chronode.nn.Layer(FastWeights, 3, 4, num_layers=2).eval()
    x, lengths = torch.randn(2, 6, 3), torch.tensor([6, 4])
    with torch.no_grad():
        whole, end = layer(x, lengths=lengths)
        assert [part.shape for part in end] == [(2, 2, 4, 4), (2, 2, 4)]
        compiler.use(layer)
        compiled, compiled_end = layer(x, lengths=lengths)
        torch.testing.assert_close(compiled, whole)
        torch.testing.assert_close(compiled_end, end)
        _, state = layer(x[:, :3])
        rest, _ = layer(x[:, 3:], state, lengths=lengths - 3)
        torch.testing.assert_close(rest, whole[:, 3:])
        stepper = layer.stepper(2)
        torch.testing.assert_close(torch.stack([stepper(x[:, n]) for n in range(4)], 1), whole[:, :4])


def test_complex_states_run_as_a_loop_and_the_reason_has_the_recipe():
    class Turning(chronode.nn.Cell):
        def initial_state(self, batch, like):
            return (like.new_zeros(batch, self.hidden_size, dtype=torch.complex64),)

        def forward(self, x, state, dt):
            h = state[0] * torch.exp(1j * dt) + x[:, :1]
            return h.real, (h,)

    layer = chronode.nn.Layer(Turning, 3, 4)
    y, _ = layer(torch.ones(2, 3, 3))
    torch.testing.assert_close(y[:, 1], torch.full((2, 4), 1 + torch.cos(torch.tensor(1.0)).item()))
    assert "two real tensors" in compiler.explain(layer.cells[0]).reason


def test_a_step_that_writes_to_its_state_is_refused():
    class Writing(chronode.nn.Cell):
        def forward(self, x, state, dt):
            h = state[0].mul_(0.5)
            return h, (h,)

    with pytest.raises(Unsupported, match="in.place"):
        step_of(Writing(3, 4))
