"""UnICORNN's gradients after long gaps: no memory mode is less exact than torch's own float32.

A gap stretches a step until its inverse loses digits; what the backward pass restores must not. Errors are those
against the torch path in float64, the same numbers rounded to float32 for all. A single error is luck: they are root
mean squares over several sequences and parameters, and over seeds.
"""

from __future__ import annotations

import itertools

import pytest
import torch

import chronode
from chronode.kernels import _library as library

pytestmark = [
    pytest.mark.skipif(not library.available_isas(), reason="no native kernels are built"),
    pytest.mark.filterwarnings("ignore:the outputs of UnICORNNCell"),  # they are large after a gap of 1,000
]

MEMORIES = ["fast", "auto", "low"]
FLOAT = 6e-8
"""Rounding of float32: where torch happens to be exact, this counts as its error."""


SEQUENCES = 6


def one_gap(steps, gap):
    """One gap in the middle of steps of 1."""
    return torch.ones(SEQUENCES, steps).index_fill_(1, torch.tensor([steps // 2]), gap)


def two_gaps(steps, gap):
    return torch.ones(SEQUENCES, steps).index_fill_(1, torch.tensor([steps // 3, 2 * steps // 3]), gap)


def many_gaps(steps, gap):
    """At every tenth step, at others in each sequence."""
    at = torch.arange(steps) + 3 * torch.arange(SEQUENCES)[:, None]
    return torch.where(at % 10 == 9, gap, 1.0)


def random_gaps(steps, gap):
    """From almost 0 to `gap`, evenly on a logarithmic scale."""
    return gap ** (2 * torch.rand(SEQUENCES, steps) - 1)


def gradients(layer, backend, x, dt, lengths):
    """Returns the gradients of a loss of every output and final state, in float64."""
    dtype = layer.cells[0].w.dtype
    x, dt = x.to(dtype).requires_grad_(), dt.to(dtype).requires_grad_()
    with chronode.backend(backend):
        y, final = layer(x, dt=dt, lengths=lengths)
    rng = torch.Generator().manual_seed(1)
    loss = sum((part * torch.randn(part.shape, generator=rng).to(dtype)).sum() for part in (y, *final))
    inputs = {"x": x, "dt": dt, **dict(layer.named_parameters())}
    return [grad.double() for grad in torch.autograd.grad(loss, list(inputs.values()))]


def errors(seeds, steps, gap, gaps, ragged=False, **settings):
    """Root mean square of the relative errors of the gradients: of torch in float32, and of every memory mode."""
    squares = dict.fromkeys(["torch", *MEMORIES], 0.0)
    for seed in range(seeds):
        torch.manual_seed(seed)
        single = chronode.create("unicornn", 2, 7, **settings)
        double = chronode.create("unicornn", 2, 7, **settings).double()
        double.load_state_dict(single.state_dict())
        x, dt = torch.randn(SEQUENCES, steps, 2), gaps(steps, gap)
        lengths = torch.randint(steps // 2, steps + 1, (SEQUENCES,)) if ragged else None
        wanted = gradients(double, "torch", x, dt, lengths)
        for name in squares:
            single.memory = "fast" if name == "torch" else name
            found = gradients(single, "torch" if name == "torch" else "native", x, dt, lengths)
            pairs = zip(found, wanted, strict=True)
            squares[name] += sum(float((a - b).norm() / b.norm()) ** 2 for a, b in pairs) / len(wanted) / seeds
    return {name: square**0.5 for name, square in squares.items()}


def assert_as_exact_as_torch(found):
    assert found["torch"] < 0.01, "torch has no digits left here: nothing is compared"
    for memory in MEMORIES:
        assert found[memory] <= 5 * max(found["torch"], FLOAT), (memory, found)


# At Δt = 0.4 and a gap of 1,000 a step is 200 times as large as the oscillators' own time scale.
SINGLE = list(itertools.product([1.0, 10.0, 40.0, 100.0, 1000.0], [0.1, 0.4], [0.0, 1.0, 9.0]))


@pytest.mark.parametrize(("gap", "delta_t", "alpha"), SINGLE)
@pytest.mark.parametrize("gaps", [one_gap, two_gaps])
def test_few_gaps(gaps, gap, delta_t, alpha):
    assert_as_exact_as_torch(errors(2, 60, gap, gaps, delta_t=delta_t, alpha=alpha))


# More would overflow in float32: every gap multiplies the oscillators' energy.
MANY = [(3.0, 0.1), (10.0, 0.1), (40.0, 0.1), (3.0, 0.4), (10.0, 0.4)]


@pytest.mark.parametrize(("gap", "delta_t"), MANY)
@pytest.mark.parametrize("alpha", [0.0, 1.0])
@pytest.mark.parametrize("gaps", [many_gaps, random_gaps])
def test_many_gaps(gaps, alpha, gap, delta_t):
    assert_as_exact_as_torch(errors(2, 60, gap, gaps, delta_t=delta_t, alpha=alpha))


@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("residual", [0, 1, 2])
@pytest.mark.parametrize("gap", [10.0, 100.0, 1000.0])
def test_stacks(gap, residual, ragged):
    settings = {"num_layers": 3, "residual": residual, "delta_t": [0.05, 0.1, 0.4], "alpha": [0.0, 1.0, 9.0]}
    assert_as_exact_as_torch(errors(2, 60, gap, one_gap, ragged, **settings))


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_gaps_in_long_sequences(alpha):
    """Chunks that can be inverted lie before, between and after those that cannot."""
    assert_as_exact_as_torch(errors(2, 700, 30.0, two_gaps, num_layers=2, delta_t=0.1, alpha=alpha))


def test_a_gap_costs_low_memory_the_states_of_few_samples():
    """Only the operator's own scratch memory grows: what is saved for the backward pass is the same."""
    saved = []
    for gap in (1.0, 1000.0):
        layer, sizes = chronode.create("unicornn", 2, 7, memory="low"), []
        with torch.autograd.graph.saved_tensors_hooks(lambda t, sizes=sizes: sizes.append(t.numel()) or t, lambda t: t):
            layer(torch.randn(SEQUENCES, 60, 2), dt=one_gap(60, gap))
        saved.append(sizes)
    assert saved[0] == saved[1]
