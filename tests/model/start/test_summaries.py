"""Summaries against loops over each series; the grid against np.interp; patterns against their definition."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from chronode.data import from_list
from chronode.judge import fit_start, on_grid, summaries, summary_names
from chronode.model.start._features import (
    _PATTERNS,
    ChangePatterns,
    Patterns,
    RankedSummaries,
    Values,
    dilations_for,
)


def random_batch(seed, size=4, steps=7, channels=2, holes=0.4):
    rng = torch.Generator().manual_seed(seed)
    x = torch.randn(size, steps, channels, generator=rng, dtype=torch.float64) * 3 + 5
    dt = torch.rand(size, steps, generator=rng, dtype=torch.float64) * 2 + 0.01
    observed = torch.rand(size, steps, channels, generator=rng) > holes
    lengths = torch.randint(1, steps + 1, (size,), generator=rng)
    return x, lengths, dt, observed


def by_hand(x, t, seen):
    """Summaries of one channel: values, times since the first step, which are there."""
    v, s = x[seen], t[seen]
    nothing = np.full(6, np.nan)
    values_seen = [v.mean(), v.std(), v.min(), v.max(), v[0], v[-1]] if len(v) else nothing
    slope = gap = np.nan
    if len(v) > 1:
        slope, gap = np.polyfit(s, v, 1)[0], np.log1p((s[-1] - s[0]) / (len(v) - 1))
    age = np.log1p(t[-1] - s[-1]) if len(v) else np.nan
    return [*values_seen, slope, seen.mean(), np.log1p(len(v)), gap, age]


@pytest.mark.parametrize("seed", range(6))
def test_summaries_are_those_of_a_loop(seed):
    x, lengths, dt, observed = random_batch(seed)
    found = summaries(x, lengths, dt, observed).numpy()
    for row, length in enumerate(lengths.tolist()):
        gaps = dt[row, :length].numpy()
        t = np.cumsum(gaps) - gaps[0]
        channels = [by_hand(x[row, :length, c].numpy(), t, observed[row, :length, c].numpy()) for c in (0, 1)]
        expected = [value for pair in zip(*channels, strict=True) for value in pair]
        later = gaps[1:] if length > 1 else np.zeros(1)
        overall = [length, t[-1], t[-1] / max(length - 1, 1), later.max()]
        np.testing.assert_allclose(found[row], [*expected, *np.log1p(overall)], rtol=1e-7, atol=1e-9)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), at=st.integers(1, 7))
def test_at_every_step_they_are_the_summaries_of_the_steps_so_far(seed, at):
    x, _, dt, observed = random_batch(seed)
    running = summaries(x, None, dt, observed, every_step=True)[:, at - 1]
    cut = summaries(x[:, :at], None, dt[:, :at], observed[:, :at])
    torch.testing.assert_close(running, cut, rtol=1e-9, atol=1e-9, equal_nan=True)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_padding_changes_nothing(seed):
    x, lengths, dt, observed = random_batch(seed)
    whole = summaries(x, lengths, dt, observed)
    for row, length in enumerate(lengths.tolist()):
        part = slice(row, row + 1)
        alone = summaries(x[part, :length], None, dt[part, :length], observed[part, :length])
        torch.testing.assert_close(whole[part], alone, rtol=1e-9, atol=1e-9, equal_nan=True)


def test_every_summary_has_a_name():
    x, *_ = random_batch(0, channels=3)
    names = summary_names(("a", "b", "c"))
    assert len(names) == summaries(x).shape[1] == len(set(names))


def test_large_values_keep_the_digits_of_their_spread():
    x = 1e7 + torch.randn(1, 500, 1, dtype=torch.float64)
    found = dict(zip(summary_names(("x",)), summaries(x)[0].tolist(), strict=True))
    assert found["x std"] == pytest.approx(x.std(correction=0).item(), rel=1e-9)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), gap=st.sampled_from([0.25, 1.0, 3.0]))
def test_the_grid_is_that_of_linear_interpolation(seed, gap):
    x, lengths, dt, observed = random_batch(seed)
    values, counts = on_grid(x, lengths, dt, observed, gap=gap)
    for row, length in enumerate(lengths.tolist()):
        gaps = dt[row, :length].numpy()
        t = np.cumsum(gaps) - gaps[0]
        count = min(int(np.floor(t[-1] / gap + 0.499)) + 1, 4 * length)
        assert counts[row] == count
        grid = t[-1] - gap * np.arange(count)[::-1]
        ages = (t[-1] - t) / gap
        if (np.abs(ages - np.floor(ages + 0.499)) <= 0.125).all():
            t = t[-1] - gap * np.floor(ages + 0.499)
        for c in range(2):
            seen = observed[row, :length, c].numpy()
            got = values[row, :count, c].numpy()
            if not seen.any():
                assert np.isnan(got).all()
                continue
            expected = np.interp(grid, t[seen], x[row, :length, c].numpy()[seen])
            np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


def test_months_are_not_interpolated():
    days = (np.datetime64("1999-03") + np.arange(60)).astype("datetime64[D]").astype(np.float64)
    x, dt = torch.randn(1, 60, 1), torch.tensor(np.diff(days, prepend=days[0]))[None]
    values, counts = on_grid(x, dt=dt, gap=float(dt.sum() / 59))
    assert counts.tolist() == [60]
    torch.testing.assert_close(values, x)


def test_a_regular_series_is_its_own_grid():
    x = torch.randn(3, 9, 2)
    values, counts = on_grid(x, dt=torch.full((3, 9), 0.5), gap=0.5)
    torch.testing.assert_close(values, x)
    assert counts.tolist() == [9, 9, 9]


def test_values_are_the_last_steps_and_unknown_before_the_first():
    features = Values(1, 3)(torch.arange(8.0).reshape(2, 4, 1), lengths=torch.tensor([4, 2]))
    assert features[0].tolist() == [1.0, 2.0, 3.0]
    assert features[1, 0].isnan()
    assert features[1, 1:].tolist() == [4.0, 5.0]


def test_ranked_summaries_are_ranks_between_quantiles_their_squares_and_whether_they_are_known():
    x, observed = torch.randn(30, 6, 2), torch.rand(30, 6, 2) < 0.3
    features = RankedSummaries(2)
    features.fit(x, observed=observed)
    plain = summaries(x, observed=observed).numpy()
    found = features(x, observed=observed).numpy()
    count = plain.shape[1]
    assert found.shape == (30, features.size) == (30, 3 * count)
    levels = np.linspace(0, 1, 9)
    for column in range(count):
        own, known = plain[:, column], ~np.isnan(plain[:, column])
        quantiles = np.quantile(own[known], levels)
        # Of equal quantiles, np.interp takes one end; from the other side, it takes the other.
        upper, lower = np.interp(own, quantiles, levels), 1 - np.interp(-own, -quantiles[::-1], levels)
        ranks = np.where(known, (upper + lower) / 2 - 0.5, np.nan)
        np.testing.assert_allclose(found[:, column], ranks, atol=1e-9)
        np.testing.assert_allclose(found[:, count + column], ranks**2, atol=1e-9)
        np.testing.assert_array_equal(found[:, 2 * count + column], known)


def test_ranks_are_bounded_and_an_outlier_is_the_highest_rank():
    features = RankedSummaries(1)
    features.fit(torch.linspace(0, 1, 50)[:, None, None].expand(50, 3, 1))
    found = features(torch.tensor([-1e9, 0.0, 0.5, 1.0, 1e9])[:, None, None].expand(5, 3, 1))
    np.testing.assert_allclose(found[:, 0], [-0.5, -0.5, 0.0, 0.5, 0.5], atol=1e-6)


def test_a_linear_model_of_ranked_summaries_learns_that_both_extremes_matter():
    x = np.random.default_rng(0).normal(size=400)
    s = from_list([[value, value] for value in x], target=[float(abs(value)) for value in x])
    plain, ranked = (fit_start(s, s[:0], kinds=(kind,)) for kind in ("summaries", "ranked summaries"))
    assert ranked.losses["ranked summaries"] < 0.2 * plain.losses["summaries"]
    assert fit_start(s, s[:0]).description["kind"] == "ranked summaries"


@pytest.mark.parametrize("channels", [1, 3])
def test_patterns_count_what_their_definition_says(channels):
    x = torch.randn(5, 30, channels)
    features = Patterns(channels, (1, 3))
    features.fit(x)
    found = features(x).reshape(5, 2, 84, 2)
    for place, dilation in enumerate((1, 3)):
        for pattern in (0, 17, 83):
            mixed = (x * features.mix[place, pattern]).sum(-1).numpy()
            padded = np.pad(mixed, [(0, 0), (4 * dilation, 4 * dilation)])
            weights = _PATTERNS[pattern].numpy()
            response = sum(weights[i] * padded[:, i * dilation : i * dilation + 30] for i in range(9))
            for level in (0, 1):
                share = (response > features.levels[place, pattern, level].item()).mean(1)
                np.testing.assert_allclose(found[:, place, pattern, level].numpy(), share, atol=0.034)


def test_patterns_of_changes_are_patterns_of_the_differences():
    lengths = torch.tensor([30, 12, 2, 1])
    x = torch.randn(4, 30, 2).masked_fill((torch.arange(30) >= lengths[:, None])[..., None], 0.0)
    changes, plain = ChangePatterns(2, (1, 2)), Patterns(2, (1, 2))
    changes.fit(x, lengths=lengths)
    plain.load_state_dict(changes.state_dict())
    for i, length in enumerate(lengths.tolist()):
        own = x[i : i + 1, :length]
        expected = plain(own.diff(dim=1) if length > 1 else torch.zeros(1, 1, 2))
        torch.testing.assert_close(changes(x, lengths=lengths)[i], expected[0])
        torch.testing.assert_close(changes(own), expected)


@pytest.mark.parametrize("kind", [Patterns, ChangePatterns])
def test_patterns_of_a_padded_series_are_those_of_the_series(kind):
    x = torch.randn(2, 30, 1)
    features = kind(1, (1, 2))
    features.fit(x)
    assert kind(1, (1, 2), levels=6).size == 3 * features.size
    padded = torch.cat([x, torch.zeros(2, 8, 1)], dim=1)
    torch.testing.assert_close(features(padded, lengths=torch.tensor([30, 30])), features(x))


@given(steps=st.integers(1, 5_000))
def test_dilated_patterns_fit_into_the_series(steps):
    found = dilations_for(steps)
    assert 1 <= len(found) <= 6 and len(set(found)) == len(found) and found[0] == 1
    assert len(found) == 1 or 8 * found[-1] <= steps - 1
