"""Missing values: what a model without an own way with them is shown, against a plain NumPy transcription."""

import numpy as np
import torch

import chronode
from chronode.nn._cell import ForwardFill


def forward_fill(x, observed, dt):
    """Per step: the last seen values (0 before the first), the mask, and the time since each value was seen."""
    filled, since, rows = np.zeros(x.shape[1]), np.zeros(x.shape[1]), []
    for n in range(len(x)):
        for d in range(x.shape[1]):
            if observed[n, d]:
                filled[d], since[d] = x[n, d], 0.0
            else:
                since[d] += dt[n]
        rows.append(np.concatenate([filled, observed[n], since]))
    return np.stack(rows)


def data(seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(6, 3)), rng.random((6, 3)) < 0.5, rng.random(6)


def test_forward_fill_steps():
    x, observed, dt = data()
    encoder = ForwardFill(3)
    state = encoder.initial_state(1, torch.zeros(1, dtype=torch.float64))
    for n, expected in enumerate(forward_fill(x, observed, dt)):
        seen = np.where(observed[n], x[n], 0.0)
        row = torch.from_numpy(np.concatenate([seen, observed[n]])).unsqueeze(0)
        y, state = encoder(row, state, torch.full((1, 1), dt[n], dtype=torch.float64))
        np.testing.assert_allclose(y[0].numpy(), expected, rtol=1e-12)


def test_the_cell_sees_the_filled_values():
    """A layer with missing=True is its cell over the filled sequence."""
    x, observed, dt = data(1)
    layer = chronode.create("lstm", 3, 4, missing=True).double()
    plain = chronode.create("lstm", 9, 4).double()
    plain.cells.load_state_dict(layer.cells.state_dict())
    gaps = torch.from_numpy(dt)
    got, _ = layer(torch.from_numpy(x), dt=gaps, observed=torch.from_numpy(observed))
    expected, _ = plain(torch.from_numpy(forward_fill(x, observed, dt)), dt=gaps)
    torch.testing.assert_close(got, expected)


def test_both_directions_fill_from_their_own_past():
    """Going back, the values seen later in time are the past."""
    layer = chronode.create("rnn", 1, 4, missing=True, bidirectional=True)
    shown = []
    for encoder in layer.encoders:
        encoder.register_forward_hook(lambda _, __, output: shown.append(output[0].flatten().tolist()))
    observed = torch.tensor([[True], [False], [True]])
    layer(torch.tensor([[1.0], [0.0], [3.0]]), dt=torch.tensor([0.5, 1.0, 2.0]), observed=observed)
    # (filled, observed, since): forward step by step, then backward, whose gap before the middle is 2.
    assert shown[:3] == [[1, 1, 0], [1, 0, 1], [3, 1, 0]]
    assert shown[3:] == [[3, 1, 0], [3, 0, 2], [1, 1, 0]]
