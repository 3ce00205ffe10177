"""Latent ODE and RNN-VAE."""

from __future__ import annotations

import numpy as np
import oracles
import oracles_gated as models
import pytest
import torch
from layer_checks import assert_matches, check_gradients, make, zeros
from oracles import array
from test_flow_jump import jump_of, mlp_flow

import chronode

NAMES = ["latent-ode", "rnn-vae"]


def pieces(cell, name):
    """Encoder and latent dynamics, as the oracle takes them."""
    if name == "latent-ode":
        flow, jump, latent_flow = mlp_flow(cell.encoder_cell.flow), jump_of(cell.encoder_cell.jump), mlp_flow(cell.flow)
        return lambda x, h, dt: jump(x, oracles.solve(flow, h, dt)), lambda z, dt: oracles.solve(latent_flow, z, dt)
    # dt is the last input of the encoder.
    encoder = cell.encoder_cell
    wide = chronode.nn.GRUCell(encoder.input_size + 1, encoder.hidden_size).double()
    with torch.no_grad():
        wide.inputs.weight.copy_(torch.cat([encoder.inputs.weight, encoder.elapsed.weight], 1))
        wide.inputs.bias.copy_(encoder.inputs.bias)
        wide.recurrent.load_state_dict(encoder.recurrent.state_dict())
    encode, mover = jump_of(wide), jump_of(cell.mover)
    return lambda x, h, dt: encode(np.concatenate([x, dt], axis=1), h), lambda z, dt: mover(dt, z)


@pytest.mark.parametrize("name", NAMES)
def test_equations(name):
    layer = make(name, 2, 4, latent_size=3).eval()
    (cell,) = layer.cells
    names = ("W_mean", "W_var"), ("b_mean", "b_var")
    p = models.split(array(cell.posterior.weight), names[0]) | models.split(array(cell.posterior.bias), names[1])
    p |= {"W_y": array(cell.decoder.weight), "b_y": array(cell.decoder.bias)}
    encode, move = pieces(cell, name)
    assert_matches(
        layer,
        lambda x, dt: oracles.run_stack([lambda *a: models.latent(*a, p, encode, move)], x, zeros(layer, len(x)), dt),
    )
    check_gradients(make(name, 1, 2).eval())


@pytest.mark.parametrize("name", NAMES)
def test_training_samples_and_evaluation_does_not(name):
    layer = make(name)
    x, dt = (torch.from_numpy(a) for a in oracles.sequences())
    assert not torch.equal(layer(x, dt=dt)[0], layer(x, dt=dt)[0])
    layer.eval()
    assert torch.equal(layer(x, dt=dt)[0], layer(x, dt=dt)[0])


def test_samples_have_the_posterior_mean_and_deviation():
    torch.manual_seed(0)
    layer = make("rnn-vae", 2, 3, latent_size=2)
    (cell,) = layer.cells
    cell.move = lambda z, dt: z
    x = torch.randn(1, 2).double().expand(20_000, 2)
    h = cell.encode(cell.project(x), torch.zeros(1, 3).double().expand(20_000, 3), torch.ones(1, 1).double())
    mean, log_variance = cell.posterior(h)[0].chunk(2)
    z = layer.step(x)[1][1][0]
    np.testing.assert_allclose(array(z.mean(0)), array(mean), atol=0.05)
    np.testing.assert_allclose(array(z.std(0)), array((0.5 * log_variance).exp()), rtol=0.05)


@pytest.mark.parametrize("name", NAMES)
def test_divergence(name):
    """It is torch's own, summed over the valid steps, and trains the encoder."""
    layer = make(name).eval()
    (cell,) = layer.cells
    x, dt = (torch.from_numpy(a) for a in oracles.sequences())
    _, state = layer(x, dt=dt, lengths=[6, 1, 3])
    h, total = torch.zeros(1, 3).double(), 0.0
    for n in range(3):
        h = cell.encode(cell.project(x[2:, n]), h, dt[2:, n : n + 1])
        mean, log_variance = cell.posterior(h).chunk(2, -1)
        posterior = torch.distributions.Normal(mean, (0.5 * log_variance).exp())
        total = total + torch.distributions.kl_divergence(posterior, torch.distributions.Normal(0.0, 1.0)).sum()
    torch.testing.assert_close(cell.kl(state)[0, 2, 0], total)
    cell.kl(state).sum().backward()
    assert all(p.grad.abs().max() > 0 for p in (*cell.posterior.parameters(), *cell.encoder_cell.parameters()))


@pytest.mark.parametrize("name", NAMES)
def test_decoding_at_later_times(name):
    """At the time of the last observation it is the last output; an ODE may go there in two leaps."""
    layer = make(name, solver="rk4", steps=50).eval() if name == "latent-ode" else make(name).eval()
    (cell,) = layer.cells
    x, dt = (torch.from_numpy(a) for a in oracles.sequences())
    y, state = layer(x, dt=dt)
    state = tuple(part[0] for part in state)
    now, later = torch.zeros(3, 1).double(), torch.full((3, 1), 0.7).double()
    assert cell.decode(state, later).shape == (3, 3)
    if name == "latent-ode":
        torch.testing.assert_close(cell.decode(state, now), y[:, -1])
        halfway = (state[0], cell.move(state[1], later), state[2])
        torch.testing.assert_close(cell.decode(halfway, later), cell.decode(state, 2 * later), rtol=1e-6, atol=1e-8)


def test_latent_size():
    assert chronode.create("latent-ode", 2, 9).cells[0].latent_size == 4
    with pytest.raises(ValueError, match="latent_size must be at least 1"):
        chronode.create("rnn-vae", 2, 9, latent_size=0)
