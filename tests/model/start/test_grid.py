"""Features of the window of an exported forecast: the features of training, from operations that can be exported."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_summaries import random_batch

from chronode.model._relative import Relative
from chronode.model.start._features import Readings, Values
from chronode.model.start._grid import Recent


def right_aligned(x, lengths, dt, observed):
    """The padded series with their last step last."""
    size, steps, _ = x.shape
    shift = steps - lengths[:, None]
    at = (torch.arange(steps) - shift).clamp(min=0)
    rows = torch.arange(size)[:, None]
    inside = torch.arange(steps) >= shift
    gaps = torch.where(inside & (torch.arange(steps) > shift), dt[rows, at], 0.0)
    ages = gaps.flip(1).cumsum(1).flip(1) - gaps
    seen = observed[rows, at] & inside[..., None]
    return Recent(x[rows, at], seen, gaps, ages, inside, lengths[:, None].double())


def compare(features, recent, wanted, **options):
    found, known = features.of_window(recent, **options)
    torch.testing.assert_close(found.masked_fill(~known, torch.nan), wanted, rtol=1e-6, atol=1e-6, equal_nan=True)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), steps=st.integers(1, 9), gap=st.floats(0.3, 3), holes=st.floats(0, 1))
def test_values_are_those_of_the_grid(seed, steps, gap, holes):
    x, lengths, dt, observed = random_batch(seed, holes=holes)
    dt[:, 0] = 0
    features = Values(2, min(steps, 7), gap)
    wanted = features(x, lengths=lengths, dt=dt, observed=observed)
    compare(features, right_aligned(x, lengths, dt, observed), wanted, regular=False)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), steps=st.integers(1, 7))
def test_regular_steps_are_the_grid(seed, steps):
    x, lengths, dt, observed = random_batch(seed)
    seen = torch.ones_like(observed)
    features = Values(2, steps)
    wanted = features(x, lengths=lengths)
    compare(features, right_aligned(x, lengths, torch.ones_like(dt), seen), wanted, regular=True)
    compare(features, right_aligned(x, lengths, torch.ones_like(dt), seen), wanted, regular=False)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), steps=st.integers(1, 7), gap=st.floats(0.3, 3))
def test_readings_are_those_of_training(seed, steps, gap):
    x, lengths, dt, observed = random_batch(seed)
    dt[:, 0] = 0
    features = Readings(2, steps, gap)
    wanted = features(x, lengths=lengths, dt=dt, observed=observed)
    compare(features, right_aligned(x, lengths, dt, observed), wanted, regular=False)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), holes=st.floats(0, 1))
def test_level_and_scale_are_those_of_a_loop(seed, holes):
    x, lengths, _, observed = random_batch(seed, channels=3, holes=holes)
    x = torch.where(observed, x, 0.0)
    relative = Relative([2, 0])
    view = relative.view(x, lengths, observed)
    for row, length in enumerate(lengths.tolist()):
        wanted = x[row].numpy().copy()
        for place, channel in enumerate(relative.channels):
            seen = observed[row, :length, channel].numpy()
            own = x[row, :length, channel].numpy()[seen]
            level, scale = (own[-1], max(own.std(), 1e-6)) if len(own) else (0.0, 1e-6)
            np.testing.assert_allclose([view.level[row, place], view.scale[row, place]], [level, scale], atol=1e-6)
            wanted[:, channel] = 0
            wanted[:length, channel][seen] = (own - level) / float(view.scale[row, place])
        inside = np.arange(x.shape[1]) < length
        np.testing.assert_allclose(view.x[row][inside], wanted[inside], rtol=1e-6, atol=1e-9)


def test_a_short_series_does_not_depend_on_the_padding_of_its_batch():
    x, dt = torch.randn(1, 2, 1).double(), torch.tensor([[0.0, 40.0]]).double()
    alone = Values(1, 30)(x, dt=dt)
    padded = torch.cat([x, torch.zeros(1, 28, 1)], dim=1), torch.cat([dt, torch.ones(1, 28)], dim=1)
    torch.testing.assert_close(Values(1, 30)(padded[0], dt=padded[1], lengths=torch.tensor([2])), alone, equal_nan=True)
