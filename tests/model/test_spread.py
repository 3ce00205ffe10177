"""Margins that depend on the window: learned where errors differ, left alone where they do not."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from chronode.data import from_list
from chronode.judge import Margins
from chronode.model._relative import Relative
from chronode.model._spread import traits_of


def drawn(seed, windows=400, outputs=3, *, depends):
    """Traits of windows, and errors whose size depends on the second trait, or on none."""
    rng = torch.Generator().manual_seed(seed)
    traits = torch.randn(windows, 1, 3, generator=rng, dtype=torch.float64)
    size = traits[:, :, 1].exp() if depends else torch.ones(windows, 1, dtype=torch.float64)
    return traits, size * torch.randn(windows, outputs, generator=rng, dtype=torch.float64)


@given(st.integers(0, 1_000))
def test_calm_and_rough_windows_are_covered_alike(seed):
    margins = Margins(3)
    margins.fit(*reversed(drawn(seed, depends=True)))
    traits, errors = drawn(seed + 10_000, 2_000, depends=True)
    half = margins.at([90])[0] * margins.spread(traits, 3)
    inside = (errors.abs() <= half).double().mean(1)
    rough = traits[:, 0, 1] > 0.5
    calm = traits[:, 0, 1] < -0.5
    assert 0.8 < inside[rough].mean() < 0.97 and 0.8 < inside[calm].mean() < 0.97
    assert half[rough].mean() > 2 * half[calm].mean()


@given(st.integers(0, 1_000))
def test_errors_that_depend_on_nothing_have_the_same_margins(seed):
    plain, given_traits = Margins(3), Margins(3)
    traits, errors = drawn(seed, depends=False)
    plain.fit(errors)
    given_traits.fit(errors, traits)
    assert torch.equal(given_traits.get_buffer("table"), plain.get_buffer("table"))
    assert bool((given_traits.spread(traits, 3) == 1).all())


def test_few_windows_are_not_learned_from():
    margins = Margins(3)
    traits, errors = drawn(0, 40, depends=True)
    margins.fit(errors, traits)
    assert bool((margins.spread(traits, 3) == 1).all())


def test_channels_have_their_own_spread():
    traits, errors = drawn(0, outputs=1, depends=True)
    _, others = drawn(1, outputs=1, depends=False)
    margins = Margins(2, 2)
    margins.fit(torch.cat([errors, others], 1), traits.expand(-1, 2, -1))
    first, second = margins.spread(traits.expand(-1, 2, -1), 2).log().std(0).tolist()
    assert first > 0.5 > 0.2 > second


@given(st.integers(0, 1_000))
def test_padding_and_missing_values_change_no_trait(seed):
    rng = np.random.default_rng(seed)
    windows = [rng.normal(size=(length, 2)) for length in (9, 4, 6)]
    windows[2][2, 1] = np.nan
    relative, s = Relative([0, 1]), from_list(windows, target=[0.0, 1.0, 2.0])
    batch = s.batch()
    together = traits_of(relative.view(batch.x, batch.lengths, batch.observed), [0, 1], batch)
    for row in range(3):
        one = s[[row]].batch()
        alone = traits_of(relative.view(one.x, one.lengths, one.observed), [0, 1], one)
        torch.testing.assert_close(alone[0], together[row], rtol=1e-5, atol=1e-6)
    moves = np.abs(np.diff(windows[1][:, 0])) / float(relative.view(batch.x, batch.lengths, batch.observed).scale[1, 0])
    weights = 0.7 ** np.arange(len(moves))[::-1]
    np.testing.assert_allclose(
        together[1, 0, 2], np.log((moves * weights).sum() / weights.sum() + 1e-3), rtol=1e-4, atol=1e-5
    )
