"""A long gap gives finite outputs and gradients, or a warning that names it, for every registered model."""

from __future__ import annotations

import re
import warnings

import pytest
import torch

import chronode

EXPLICIT = {
    "unicornn": "the symplectic step is stable while e √α < 2",
    "reciprocal-mmrnn": "4 Euler steps, as in the code of the mmRNN paper",
}
"""Models whose default step diverges after a long gap; all others must not."""

MODELS = [name for name, model in chronode.models().items() if model.cell.__module__.startswith("chronode.")]


def finite(*tensors):
    return all(bool(torch.isfinite(tensor).all()) for tensor in tensors)


def run(name, gap, **settings):
    """Three long gaps in one sequence, one in the others; (is everything finite?, the warnings)."""
    torch.manual_seed(0)
    layer = chronode.create(name, 3, 16, **settings)
    x, dt = torch.randn(4, 12, 3), torch.rand(4, 12)
    dt[:, 4] = dt[1, 7] = dt[1, 8] = gap
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        y, state = layer(x, dt=dt)
    y.mean().backward()
    gradients = [p.grad for p in layer.parameters() if p.grad is not None]
    return finite(y, *state, *gradients), [str(warning.message) for warning in caught]


@pytest.mark.parametrize("gap", [10.0, 1e2, 1e3, 1e4, 1e6])
@pytest.mark.parametrize("name", MODELS)
def test_a_long_gap_is_survived_or_reported(name, gap):
    sound, messages = run(name, gap)
    if name not in EXPLICIT:
        assert sound and not messages
    elif gap == 1e6 or messages:
        assert len(messages) == 1
        assert re.search(rf"outputs of \w+ are .*; the longest gap is dt = {re.escape(f'{gap:.2g}')}", messages[0])
        assert "max_gap" in messages[0]
    else:
        assert sound


@pytest.mark.parametrize("name", EXPLICIT)
@pytest.mark.parametrize("gap", [1e3, 1e6])
def test_max_gap_bounds_the_gaps_of_any_model(name, gap):
    sound, messages = run(name, gap, max_gap=5.0)
    assert sound and not messages


@pytest.mark.parametrize("name", ["ct-rnn", "gru-ode", "reciprocal", "cornn", "lipschitz"])
def test_papers_steps_are_still_there(name):
    """And a gap that they cannot bear is reported."""
    explicit = {"cornn": {"solver": "symplectic"}, "lipschitz": {"max_step": None}}.get(name, {"solver": "rk4"})
    assert run(name, 1.0, **explicit) == (True, [])
    _, messages = run(name, 1e6, **explicit)
    assert len(messages) == 1 and "dt = 1e+06" in messages[0]


def test_max_gap_is_the_longest_time_that_passes():
    """Shorter gaps keep their length; a carried state and single steps see the same limit."""
    limited, plain = (chronode.create("mmrnn", 2, 4, max_gap=limit) for limit in (3.0, None))
    plain.cells.load_state_dict(limited.cells.state_dict())
    x, dt = torch.randn(2, 5, 2), torch.tensor([[0.5, 2.9, 3.1, 1.0, 100.0], [0.0, 3.0, 4.0, 1e9, 2.0]])
    y, state = limited(x, dt=dt)
    wanted, after = plain(x, dt=dt.clamp(max=3.0))
    assert torch.equal(y, wanted) and all(map(torch.equal, state, after))
    torch.testing.assert_close(limited.step(x[:, 0], state, 1e6), plain.step(x[:, 0], after, 3.0))


def test_max_gap_is_checked_and_saved_with_the_weights():
    with pytest.raises(ValueError, match="max_gap must be greater than 0"):
        chronode.create("gru-d", 2, 4, max_gap=0.0)
    saved = chronode.create("ode-rnn", 2, 4, max_gap=3.0).state_dict()
    chronode.create("ode-rnn", 2, 4, max_gap=3.0).load_state_dict(saved)
    with pytest.raises(ValueError, match=r"saved with max_gap=3.0, but this layer has max_gap=None"):
        chronode.create("ode-rnn", 2, 4).load_state_dict(saved)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_other_results_than_divergence_are_not_reported(dtype):
    """Large inputs, a clock that has run for long, bounded outputs after an infinite-looking time."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        layer = chronode.create("sru", 2, 4).to(dtype)
        layer(1e12 * torch.randn(2, 5, 2, dtype=dtype))
        clock = chronode.create("phased-lstm", 2, 4).to(dtype)
        clock(torch.randn(2, 5, 2, dtype=dtype), dt=torch.full((2, 5), 1e12, dtype=dtype))


def test_a_divergence_without_a_long_gap_is_reported_too():
    """The weights may be the cause: the message gives the largest input as well."""
    layer = chronode.create("neural-ode", 2, 4)
    with torch.no_grad():
        layer.cells[0].flow.recurrent.weight.fill_(float("nan"))
    with pytest.warns(RuntimeWarning, match=r"are not finite; the longest gap is dt = 1, the largest input is 1\."):
        layer(torch.ones(2, 5, 2))


@pytest.mark.parametrize("gap", [1e3, 1e6])
def test_unicornn_with_the_max_gap_of_its_docstring(gap):
    sound, messages = run("unicornn", gap, max_gap=20.0)
    assert sound and not messages
    torch.manual_seed(0)
    layer = chronode.create("unicornn", 3, 16, max_gap=20.0)
    with torch.no_grad():
        layer.cells[0].c.fill_(5.0)  # units trained to the largest time step
        assert float(layer(torch.randn(4, 500, 3), dt=gap)[0].abs().max()) < 1e3
