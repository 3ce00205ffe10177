"""The way a cell runs on a GPU, as far as that can be known without one: emitted sources, captured loops, notes."""

import pytest
import torch
from compiled_cases import TOLERANCE, CompiledCase, assert_same, by_loop, cells, everything, inputs
from gpu import MODELS, moved

import chronode
from chronode import compiler, kernels
from chronode.compiler import _captured, _gpu
from chronode.compiler import triton as gpu
from chronode.compiler._captured import Captured

OTHERS = {
    "gru": "mixes units within a step (product)",
    "ltc": "mixes units within a step (sum)",
    "phased-lstm": "parts of a state of different sizes (1, 4)",
    "latent-ode": "draws random numbers",
}


@pytest.fixture
def on_gpu(monkeypatch):
    """CPU tensors count as tensors on a GPU."""
    monkeypatch.setenv("CHRONODE_COMPILE", "auto")
    monkeypatch.setattr(gpu, "takes", lambda x: True)
    monkeypatch.setattr(gpu, "installed", lambda: True)
    monkeypatch.setattr(kernels, "find", lambda cell, x: None)
    monkeypatch.setattr(_gpu, "_noted", set())


# ---- emitted sources -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", MODELS)
def test_element_wise_loops_are_emitted(model):
    """On the meta device, where a tensor that is made on the CPU in passing is an error."""
    (cell,) = chronode.create(model, 3, 4).to("meta").cells
    source = compiler.gpu_source_of(cell)
    compile(source.text, model, "exec")
    assert "def forward" in source.text and "def backward" in source.text


@pytest.mark.parametrize(("model", "reason"), OTHERS.items())
def test_other_loops_are_not(model, reason):
    assert reason in compiler.gpu_path(chronode.create(model, 3, 4).cells[0])


def test_only_what_the_loop_reads_enters_it():
    """D x and the readout are products over all steps, and states that are outputs are not kept twice."""
    (cell,) = chronode.create("linoss", 3, 4).cells
    source = compiler.gpu_source_of(cell)
    assert "x + step * (B * 8)" in source.text  # B u, two numbers per unit
    assert source.in_y == {2: 0, 3: 4}


# ---- captured loops --------------------------------------------------------------------------------------------------


def by_capture(cell, x, state, dt, plan):
    """Pieces of the loop over fixed memory; off a GPU they are repeated instead of replayed."""
    return Captured().run(cell, x, state, dt, plan)


CAPTURED = [
    CompiledCase("pieces", steps=7, batch=3, hidden=4, lengths=(7, 2, 5), carried=True),
    CompiledCase("last", steps=5, batch=2, hidden=4, lengths=(5, 2), last=True),
]


@pytest.mark.parametrize("case", CAPTURED, ids=lambda case: case.name)
@pytest.mark.parametrize("model", ["gru", "cfc", "mmrnn", "skip-gru"])
def test_captured_loops_have_the_numbers_and_gradients_of_the_loop(model, case, monkeypatch):
    monkeypatch.setattr(_captured, "STEPS", 3)
    (cell,) = cells(model, torch.float64, 4)
    arguments = inputs(cell, case, torch.float64)
    expected = everything(by_loop, cell, *arguments)
    assert_same(expected, everything(by_capture, cell, *arguments), TOLERANCE[torch.float64])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("case", CAPTURED, ids=lambda case: case.name)
@pytest.mark.parametrize("model", ["gru", "cfc", "mmrnn", "ltc", "gru-d"])
def test_captured_graphs_on_a_gpu(model, case, monkeypatch):
    monkeypatch.setattr(_captured, "STEPS", 3)
    for cell in cells(model, torch.float64, 4):
        arguments = moved(*inputs(cell, case, torch.float64))
        cell.to("cuda")
        for _ in range(2):  # recorded, then replayed
            expected = everything(by_loop, cell, *arguments)
            assert_same(expected, everything(by_capture, cell, *arguments), TOLERANCE[torch.float64])


@pytest.mark.usefixtures("on_gpu")
def test_loops_are_captured_if_asked_for(monkeypatch):
    (gru,), (noisy,) = (chronode.create(model, 3, 4).cells for model in ("gru", "latent-ode"))
    x = torch.zeros(5, 2, 3)
    assert compiler.find(gru, x) is None
    monkeypatch.setenv("CHRONODE_CUDA_GRAPHS", "on")
    assert isinstance(compiler.find(gru, x), Captured)
    assert compiler.find(noisy, x) is None  # a graph would repeat its random numbers
    monkeypatch.setenv("CHRONODE_CUDA_GRAPHS", "yes")
    with pytest.raises(ValueError, match="CHRONODE_CUDA_GRAPHS"):
        compiler.find(gru, x)


# ---- notes -----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("on_gpu")
def test_a_loop_is_noted_once_with_its_launches():
    (cell,) = chronode.create("mmrnn", 3, 4).cells
    words = "MixedMemoryCell runs as a Python loop on the GPU: the step mixes.*"
    with pytest.warns(UserWarning, match=words + r"launches \d+ \+ \d+ kernels.*CPU is likely faster"):
        compiler.note_loop(cell, torch.zeros(5, 32, 3))
    compiler.note_loop(cell, torch.zeros(5, 32, 3))  # a second one would be an error here


@pytest.mark.usefixtures("on_gpu")
def test_large_batches_are_not_sent_to_the_cpu():
    (cell,) = chronode.create("mmrnn", 3, 64).cells
    with pytest.warns(UserWarning, match=r"kernels \(forward \+ backward\); CHRONODE_CUDA_GRAPHS=on"):
        compiler.note_loop(cell, torch.zeros(1, 1, 3).expand(1, 100_000, 3))


@pytest.mark.usefixtures("on_gpu")
def test_without_triton_one_note_says_what_to_install(monkeypatch):
    monkeypatch.setattr(gpu, "installed", lambda: False)
    (cell,), x = chronode.create("unicornn", 3, 4).cells, torch.zeros(5, 2, 3)
    assert compiler.find(cell, x) is None
    with pytest.warns(UserWarning, match="UnICORNNCell runs as a Python loop.*pip install 'chronode\\[gpu\\]'"):
        compiler.note_loop(cell, x)
    with chronode.backend("native"), pytest.raises(ValueError, match="triton"):
        compiler.find(cell, x)


@pytest.mark.usefixtures("on_gpu")
def test_the_choice_can_be_turned_off(monkeypatch):
    (cell,), x = chronode.create("mingru", 3, 4).cells, torch.zeros(5, 2, 3)
    compiler.use(cell, False)
    assert compiler.find(cell, x) is None
    compiler.use(cell, None)
    monkeypatch.setenv("CHRONODE_COMPILE", "off")
    assert compiler.find(cell, x) is None


def test_nothing_is_noted_on_the_cpu():
    compiler.note_loop(chronode.create("mmrnn", 3, 4).cells[0], torch.zeros(5, 2, 3))  # a warning would be an error


@pytest.mark.usefixtures("on_gpu")
def test_native_says_why_there_is_no_kernel():
    (cell,) = chronode.create("gru", 3, 4).cells
    with chronode.backend("native"), pytest.raises(ValueError, match="GRUCell has no kernel for a GPU: .*product"):
        compiler.find(cell, torch.zeros(5, 2, 3))
