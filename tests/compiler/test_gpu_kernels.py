"""Kernels that are emitted for a GPU against the driver's loop: every model, setting and gradient.

Without a GPU they run on CPU tensors by Triton's interpreter, slowly: sizes are small.
"""

import pytest
import torch
from compiled_cases import CompiledCase, by_loop, cells, everything, inputs
from gpu import DEVICE, MODELS, by_gpu, check_on_gpu, gpu_kernels, interpreter, moved, needs_triton  # noqa: F401
from torch import nn

import chronode
from chronode import compiler
from chronode.compiler import triton as gpu
from chronode.nn import driver

pytestmark = [
    pytest.mark.gpu,
    needs_triton,
    pytest.mark.usefixtures("gpu_kernels"),
    pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION"),
]
every_model = pytest.mark.parametrize("model", MODELS)
SMALL = CompiledCase("small", steps=3, batch=2, hidden=3, carried=True)
CASES = [
    CompiledCase(
        "all", steps=5, batch=4, lengths=(5, 2, 5, 1), carried=True, contiguous=False, dt="irregular with zeros"
    ),
    CompiledCase("last", steps=5, batch=3, lengths=(5, 1, 4), last=True),
    CompiledCase("low memory", steps=7, batch=3, memory="low", lengths=(7, 3, 6), carried=True),
    CompiledCase("low memory, last", steps=5, batch=2, memory="low", lengths=(5, 2), last=True),
    CompiledCase("one step", steps=1, batch=1),
]


# ---- the same numbers ------------------------------------------------------------------------------------------------


@every_model
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_model_has_the_numbers_and_gradients_of_the_loop(model, case):
    (cell,) = cells(model, torch.float64, 3)
    check_on_gpu(cell, case)


@every_model
@pytest.mark.parametrize("hidden", [1, 5])
def test_remainders_of_tiles(model, hidden, monkeypatch):
    """Several sequences in a tile, a part of a tile, several tiles of a sequence, which gradients of dt add up."""
    monkeypatch.setattr(gpu, "TILE", 4)
    (cell,) = cells(model, torch.float64, hidden, features=2, **({"state_size": 2} if model == "s4d" else {}))
    check_on_gpu(cell, CompiledCase("tiles", steps=2, batch=3, hidden=hidden, lengths=(2, 1, 2)))


@pytest.mark.parametrize("model", ["unicornn", "sru", "linoss", "decay-gru"])
def test_tiles_and_chunks_as_they_are_in_use(model, monkeypatch):
    for size, number in {"TILE": 32, "CHUNK": 8}.items():
        monkeypatch.setattr(gpu, size, number)
    (cell,) = cells(model, torch.float64, 4)
    check_on_gpu(cell, CompiledCase("in use", steps=11, batch=2))


@every_model
def test_float32(model):
    (cell,) = cells(model, torch.float32, 3)
    check_on_gpu(cell, CompiledCase("float32", steps=4, batch=2, lengths=(4, 2)), torch.float32)


@pytest.mark.parametrize(
    ("model", "settings"),
    [
        ("linoss", {"discretization": "im"}),
        ("linoss", {"discretization": "imex"}),
        ("s5", {"discretization": "bilinear", "state_size": 4}),
        ("s4d", {"discretization": "bilinear", "state_size": 2}),
        ("indrnn", {"norm": "layer"}),
        ("indrnn", {"norm": "batch"}),
        ("dense-indrnn", {"norm": "batch"}),
        ("unicornn", {"train_c": False, "alpha": 2.5}),
    ],
)
def test_settings(model, settings):
    (cell,) = cells(model, torch.float64, 4, **settings)
    cell.eval()  # batch normalization over a whole sequence is for layers, see below
    check_on_gpu(cell, SMALL)


@pytest.mark.parametrize("model", ["sru", "s5", "s4d"])
def test_as_many_features_as_units(model):
    """The input itself, or a vector D, takes the place of a product."""
    (cell,) = cells(model, torch.float64, 3, features=3)
    check_on_gpu(cell, SMALL)


# ---- cells of one's own ----------------------------------------------------------------------------------------------


class Own(chronode.nn.Cell):
    """Gates from one feature for all units, constants, numbers per sequence, comparisons and many functions."""

    state_parts = 2

    def __init__(self, input_size, hidden_size):
        super().__init__(input_size, hidden_size)
        self.inputs = nn.Linear(input_size, hidden_size)
        self.scale = nn.Parameter(torch.tensor(0.7))
        self.rates = nn.Parameter(torch.rand(2, hidden_size))
        self.read = nn.Linear(2 * hidden_size, hidden_size)

    def forward(self, x, state, dt):
        h, c = state
        gate = torch.sigmoid(x[:, :1]) * torch.exp(-self.scale * dt)
        c = c * gate + self.rates[0] * torch.clamp(h, -0.5, 0.5) + torch.log1p(h * h) + self.scale
        a = torch.where(c > 0.3, torch.sin(c), torch.cos(c)) + torch.erf(h) + torch.sqrt(1 + c * c) + torch.abs(h - c)
        h = torch.tanh(self.inputs(x) + self.rates[1] * a) / (1.5 + torch.relu(c)) + torch.maximum(h, c) * 0.1
        h = h + nn.functional.softplus(c) * 0.1 + torch.expm1(-dt) * nn.functional.elu(h) + torch.floor(c) * 0.01
        return nn.functional.gelu(self.read(torch.cat([h, c], dim=-1))), (h, c)

    def initial_state(self, batch, like):
        return (like.new_zeros(batch, self.hidden_size),) * 2


@pytest.mark.parametrize("case", CASES[:3], ids=lambda case: case.name)
@pytest.mark.parametrize("tile", [4, 128])
def test_a_cell_of_ones_own(case, tile, monkeypatch):
    monkeypatch.setattr(gpu, "TILE", tile)
    torch.manual_seed(0)
    check_on_gpu(Own(3, 5).double(), case)


class Doubled(chronode.nn.Cell):
    """Reads x without a product; its y contains x."""

    def forward(self, x, state, dt):
        h = state[0] * 0.5 + x
        return torch.cat([x, h], dim=-1), (h,)


def test_without_parameters():
    check_on_gpu(Doubled(3, 3).double(), SMALL)


# ---- in layers -------------------------------------------------------------------------------------------------------


def assert_layer_is_same(layer, x, dt, lengths=None):
    """A layer runs kernels by itself, with the results of the torch path."""
    layer, x, dt = layer.to(DEVICE), x.to(DEVICE), dt.to(DEVICE)
    found = []
    for backend in ("auto", "torch"):
        torch.manual_seed(1)
        with chronode.backend(backend):
            y, state = layer(x, dt=dt, lengths=lengths)
        loss = sum((part**2).sum() for part in (y, *state))
        gradients = torch.autograd.grad(loss, list(layer.parameters()), allow_unused=True)
        found.append([y, *state, *(part for part in gradients if part is not None)])
    torch.testing.assert_close(*found)


@pytest.mark.parametrize(
    ("model", "settings"),
    [
        ("unicornn", {"num_layers": 3, "residual": 1, "dropout": 0.3}),
        ("unicornn", {"num_layers": 2, "bidirectional": True, "outputs": "last"}),
        ("dense-indrnn", {"num_layers": 2, "norm": "batch"}),
        ("s5", {"num_layers": 2, "block": "residual"}),
    ],
)
def test_layers(model, settings, monkeypatch):
    calls = []
    monkeypatch.setattr(compiler.triton.OnGpu, "_run", _counted(calls, compiler.triton.OnGpu._run))
    torch.manual_seed(0)
    layer = chronode.create(model, 3, 4, **settings).double()
    x, dt = torch.randn(2, 4, 3, dtype=torch.float64), torch.rand(2, 4, dtype=torch.float64)
    assert_layer_is_same(layer, x, dt, torch.tensor([4, 2], device=DEVICE))
    assert len(calls) == len(layer.cells)


def _counted(calls, run):
    return lambda *arguments: calls.append(1) or run(*arguments)


def test_a_state_carried_on():
    """Two halves of a sequence give what the whole gives."""
    layer = chronode.create("lru", 3, 4).double().to(DEVICE)
    x, dt = torch.randn(2, 5, 3, dtype=torch.float64, device=DEVICE), torch.rand(2, 5, device=DEVICE).double()
    whole, wanted = layer(x, dt=dt)
    first, state = layer(x[:, :3], dt=dt[:, :3])
    second, state = layer(x[:, 3:], state, dt=dt[:, 3:])
    torch.testing.assert_close(torch.cat([first, second], dim=1), whole)
    torch.testing.assert_close(state, wanted)


def test_second_derivatives_run_on_the_torch_path():
    layer = chronode.create("mingru", 2, 3).double().to(DEVICE)
    x = torch.randn(2, 3, 2, dtype=torch.float64, device=DEVICE, requires_grad=True)
    found = []
    for backend in ("auto", "torch"):
        with chronode.backend(backend):
            y, _ = layer(x)
            (first,) = torch.autograd.grad((y**2).sum(), x, create_graph=True)
            found.append(torch.autograd.grad((first**2).sum(), x)[0])
    torch.testing.assert_close(*found)


# ---- in other precision ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["unicornn", "sru", "s5"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.bfloat16, 0.04), (torch.float16, 0.005)])
def test_inputs_of_16_bits(model, dtype, tolerance):
    """Everything is computed in float32: the errors are those of inputs, weights and outputs, each rounded once."""
    (cell,) = cells(model, torch.float32, 5)
    cell = cell.to(dtype)
    (exact,) = cells(model, torch.float64, 5)
    exact.load_state_dict(cell.state_dict())
    case = CompiledCase("16 bits", steps=6, batch=3, hidden=5, lengths=(6, 2, 4), carried=True)
    x, state, dt, plan = inputs(exact, case, torch.float64)
    x, dt, *state = (one.detach().to(dtype).double().requires_grad_() for one in (x, dt, *state))
    wanted = everything(by_loop, exact, x, tuple(state), dt, plan)
    short = moved(x.to(dtype), tuple(part.to(dtype) for part in state), dt.to(dtype), plan)
    found = everything(by_gpu, cell.to(DEVICE), *short)
    assert {tensor.dtype for tensor in found.values()} == {dtype}
    for key, tensor in wanted.items():
        if not key.startswith("gradient"):
            error = (found[key].double().cpu() - tensor).norm() / tensor.norm().clamp(min=0.1)
            assert error < tolerance, (key, float(error))


def test_states_do_not_lose_small_steps():
    """400 steps of 2⁻¹⁰ would be lost in bfloat16, whose numbers around 1 are 2⁻⁷ apart."""
    layer = chronode.create("indrnn", 1, 1).to(DEVICE)
    with torch.no_grad():
        layer.cells[0].inputs.weight.fill_(1)
        layer.cells[0].u.fill_(1)
    layer = layer.to(torch.bfloat16)
    x = torch.full((1, 400, 1), 2.0**-10, dtype=torch.bfloat16, device=DEVICE)
    y, _ = layer(x, (torch.ones(1, 1, 1, dtype=torch.bfloat16, device=DEVICE),))
    assert y[0, -1, 0].item() == pytest.approx(1 + 400 / 1024, abs=2**-7)


def test_autocast():
    layer = chronode.create("decay-gru", 3, 4).to(DEVICE)
    x = torch.randn(2, 3, 3, device=DEVICE)
    wanted, _ = layer(x)
    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        found, _ = layer(x)
    torch.testing.assert_close(found, wanted)


# ---- what autograd and careless callers see --------------------------------------------------------------------------


@every_model
def test_the_same_bits_at_every_call(model):
    (cell,) = cells(model, torch.float32, 3)
    arguments = moved(*inputs(cell, SMALL, torch.float32))
    cell.to(DEVICE)
    first, second = (everything(by_gpu, cell, *arguments) for _ in range(2))
    assert all(torch.equal(first[key], second[key]) for key in first)


@pytest.mark.parametrize("model", ["linoss", "sru"])
@pytest.mark.parametrize("wanted", ["x", "dt", "state", "parameters"])
def test_only_what_wants_gradients_gets_them(model, wanted):
    (cell,) = cells(model, torch.float64, 3)
    cell.requires_grad_(wanted == "parameters").to(DEVICE)
    x, state, dt, plan = moved(*inputs(cell, SMALL, torch.float64))
    x, dt = x.detach().requires_grad_(wanted == "x"), dt.detach().requires_grad_(wanted == "dt")
    state = tuple(part.detach().requires_grad_(wanted == "state") for part in state)
    leaves = [leaf for leaf in (x, dt, *state, *cell.parameters()) if leaf.requires_grad]
    found = []
    for run in (by_gpu, by_loop):
        y, _ = run(cell, x, state, dt, plan)
        if not y.requires_grad:
            assert (model, wanted) == ("sru", "dt")
            return
        found.append(torch.autograd.grad((y**2).sum(), leaves, allow_unused=True))
    for got, want in zip(*found, strict=True):
        assert (got is None) == (want is None)
        if got is not None:
            torch.testing.assert_close(got, want)


@pytest.mark.parametrize("lengths", [[7, 99], [-3, 5], [0, 2**40]])
@pytest.mark.parametrize("last", [False, True])
def test_wrong_lengths_touch_no_other_memory(lengths, last):
    """They count as 0 and as all steps; the interpreter, and a sanitizer, would notice an address outside."""
    (cell,) = cells("lru", torch.float64, 3)
    x, state, dt, _ = moved(*inputs(cell, CompiledCase("wrong", steps=5, batch=2), torch.float64))
    lengths = torch.tensor(lengths, device=DEVICE)
    found, wanted = (
        by_gpu(cell.to(DEVICE), x, state, dt, driver.Plan(lengths=given, last=last))
        for given in (lengths, lengths.clamp(0, 5))
    )
    assert all(torch.equal(*pair) for pair in zip((found[0], *found[1]), (wanted[0], *wanted[1]), strict=True))


def test_the_check_of_a_new_kernel_compares_it_with_the_step(monkeypatch):
    """A kernel with other numbers is not used."""
    from chronode.compiler import _compiled
    from chronode.compiler._verify import check
    from chronode.compiler.triton import _emit

    monkeypatch.setattr(_compiled, "check", check)
    compiler.use(layer := chronode.create("indrnn", 2, 3).to(DEVICE))
    assert compiler.find(layer.cells[0], torch.zeros(3, 2, 2, device=DEVICE)) is not None
    monkeypatch.setitem(_emit.OPERATIONS, "relu", "{0}")
    other = chronode.create("indrnn", 2, 3).to(DEVICE)
    with chronode.backend("native"), pytest.raises(ValueError, match="different outputs or gradients"):
        other(torch.ones(2, 3, 2, device=DEVICE))
