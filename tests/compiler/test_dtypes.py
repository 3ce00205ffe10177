"""A compiled kernel is that of its input's dtype, also for cells without parameters, and takes no other."""

import subprocess
import sys

import pytest
import torch
from torch import nn

import chronode
from chronode import compiler
from chronode.compiler import _run as run
from chronode.compiler._compiled import kernel_of
from chronode.nn import Layer
from chronode.nn._cell import ForwardFill

DTYPES = [torch.float32, torch.float64]
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12}


class Decay(chronode.nn.Cell):
    """h' = h e^(-dt) + x: a cell without parameters."""

    def __init__(self, input_size, hidden_size):
        super().__init__(input_size, hidden_size)
        self.output_size = hidden_size

    def forward(self, x, state, dt):
        h = state[0] * torch.exp(-dt) + x.sum(-1, keepdim=True)
        return h, (h,)


def both(layer, x, **arguments):
    """y and the gradient of x on the torch path and by kernels."""
    found = []
    for backend in ("torch", "native"):
        leaf = x.detach().requires_grad_()
        with chronode.backend(backend):
            y, _ = layer(leaf, **arguments)
        found.append((y.detach(), *torch.autograd.grad(y.square().sum(), leaf)))
    return found


@pytest.fixture(params=DTYPES, ids=str)
def default(request):
    """The default dtype meanwhile."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(request.param)
    yield request.param
    torch.set_default_dtype(before)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("model", ["mmrnn", pytest.param("lstm", marks=pytest.mark.slow)])
def test_missing_values_in_either_precision(model, dtype, default):
    torch.manual_seed(0)
    layer = chronode.create(model, 3, 5, missing=True).to(dtype)
    x, observed = torch.randn(4, 6, 3, dtype=dtype), torch.rand(4, 6, 3) < 0.6
    plain, native = both(layer, x, observed=observed, dt=torch.rand(4, 6, dtype=dtype))
    for want, got in zip(plain, native, strict=True):
        assert got.dtype == dtype
        torch.testing.assert_close(got, want, rtol=0, atol=TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_layer_of_a_cell_without_parameters(dtype, default):
    layer = Layer(Decay, 2, 3)
    x = torch.randn(4, 6, 2, dtype=dtype)
    plain, native = both(layer, x, dt=torch.rand(4, 6, dtype=dtype), lengths=[6, 2, 1, 5])
    for want, got in zip(plain, native, strict=True):
        assert got.dtype == dtype
        torch.testing.assert_close(got, want, rtol=0, atol=TOLERANCE[dtype])
    assert [part.shape for part in layer.initial_state(4)] == [(1, 4, 3)]
    y, state = layer.step(x[:, 0])
    again, _ = layer.step(x[:, 1], state)
    torch.testing.assert_close(torch.stack([y, again], dim=1), layer(x[:, :2])[0])
    with pytest.raises(TypeError, match="x is torch.int64"):
        layer(torch.ones(4, 6, 2, dtype=torch.int64))


def test_a_stepper_of_a_cell_without_parameters():
    layer = Layer(Decay, 2, 3).eval()
    x = torch.randn(5, 2)
    stepper = layer.stepper()
    got = torch.stack([stepper(row) for row in x])
    torch.testing.assert_close(got, layer(x)[0])


def arguments_of(kernel, dtype):
    """Arguments of both operators for ForwardFill(2)."""
    rows = [torch.randn(3, 4, 4, dtype=dtype), torch.rand(3, 4, 1, dtype=dtype)]
    states = [torch.zeros(4, 2, dtype=dtype), torch.zeros(4, 2, dtype=dtype)]
    y, *rest = run.compiled_forward(kernel.key, rows, states, [], None, False, True, 0)
    forward = [kernel.key, rows, states, [], None, False, True, 0]
    backward = [kernel.key, rows, states, [], None, False, 0, rest[2:], torch.ones_like(y), [None, None], True, True]
    return forward, backward


@pytest.mark.parametrize("own", DTYPES, ids=str)
@pytest.mark.parametrize("other", [torch.float16, torch.float32, torch.float64, torch.int64], ids=str)
def test_operators_reject_every_other_dtype(own, other):
    if own == other:
        return
    kernel = kernel_of(ForwardFill(2), own)
    names = ("compiled_forward", "compiled_backward")
    for name, arguments in zip(names, arguments_of(kernel, own), strict=True):
        operator = getattr(run, name)
        operator(*arguments)
        for place, argument in enumerate(arguments):
            tensors = argument if isinstance(argument, list) else [argument]
            for index, tensor in enumerate(tensors):
                if not isinstance(tensor, torch.Tensor):
                    continue
                changed = [*tensors[:index], tensor.to(other), *tensors[index + 1 :]]
                spoilt = [*arguments[:place], changed if isinstance(argument, list) else changed[0]]
                with pytest.raises(ValueError, match=f"{own}.*{other}"):
                    operator(*spoilt, *arguments[place + 1 :])


def test_a_kernel_of_one_dtype_never_reads_arrays_of_another():
    """A call that once overwrote the heap: in a child, because that ends the process."""
    code = """
import torch, chronode
torch.set_default_dtype(torch.float64)
layer = chronode.create("gru", 3, 5, missing=True).float()
chronode.compiler.use(layer)
for _ in range(20):
    layer(torch.randn(40, 30, 3, dtype=torch.float32), observed=torch.rand(40, 30, 3) < 0.5)
print("end")
"""
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (child.returncode, child.stdout) == (0, "end\n")


def test_states_and_buffers_of_another_dtype_are_a_reason():
    class Clock(chronode.nn.Cell):
        def initial_state(self, batch, like):
            return like.new_zeros(batch, 3), torch.zeros(batch, 1, dtype=torch.float64)

        def forward(self, x, state, dt):
            h = state[0] + x.sum(-1, keepdim=True)
            return h, (h, state[1] + dt)

    class Scaled(Decay):
        def __init__(self, input_size, hidden_size):
            super().__init__(input_size, hidden_size)
            self.register_buffer("scale", torch.ones(3, dtype=torch.float64))
            self.weight = nn.Parameter(torch.ones(3))

        def forward(self, x, state, dt):
            h = (state[0] * self.weight * self.scale).to(x.dtype) + x.sum(-1, keepdim=True)
            return h, (h,)

    for cell in (Clock(2, 3), Scaled(2, 3)):
        path = compiler.explain(cell)
        assert path.name == "loop"
        assert "float64" in path.reason
