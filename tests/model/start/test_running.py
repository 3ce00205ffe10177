"""Summaries that are updated step by step are those of the whole series."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from test_summaries import random_batch

from chronode.data import from_list
from chronode.judge import fit_start, summaries
from chronode.model import RunningStart
from chronode.model.start._start import LinearStart
from chronode.model.start._summaries import RunningSummaries, summary_names
from chronode.nn import Plan, run_cell


def running(x, dt, observed, dtype=torch.float64):
    """The summaries at every step, NaN where there are none."""
    kept = RunningSummaries(x.shape[2])
    state, found = kept.initial_state(len(x), torch.zeros(1, dtype=dtype)), []
    for values, seen, gap in zip(x.unbind(1), observed.unbind(1), dt.unbind(1), strict=True):
        state = kept.step(values.to(dtype), seen, gap[:, None].to(dtype), state)
        values, known = kept.columns(state)
        found.append(values.masked_fill(~known, torch.nan))
    return torch.stack(found, dim=1)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), holes=st.floats(0, 1), same_time=st.booleans())
def test_at_every_step_they_are_those_of_the_steps_so_far(seed, holes, same_time):
    x, _, dt, observed = random_batch(seed, holes=holes)
    dt = torch.where(torch.rand(dt.shape) < 0.5, 0.0, dt) if same_time else dt
    wanted = summaries(x, None, dt, observed, every_step=True)
    torch.testing.assert_close(running(x, dt, observed), wanted, rtol=1e-9, atol=1e-9, equal_nan=True)


@pytest.mark.parametrize("steps", [1_000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_float32_keeps_its_digits_over_many_steps(steps):
    """A drifting channel, one whose first value is an outlier, and one that is rarely read."""
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(1, steps, 3, generator=rng)
    x[..., 0] += torch.linspace(0, 20, steps)
    x[:, 0, 1] = 100
    dt = torch.empty(1, steps).exponential_(generator=rng)
    observed = torch.rand(1, steps, 3, generator=rng) > torch.tensor([0.3, 0.3, 0.99])
    observed[:, 0] = True
    wanted = summaries(x, None, dt, observed, every_step=True)
    found = running(x, dt, observed, torch.float32).double()
    assert bool((found.isnan() == wanted.isnan()).all())
    away = ((found - wanted).abs() / wanted.abs().clamp(min=1)).nan_to_num(nan=0)
    assert away.max() < 2e-6


def test_outputs_of_a_start_in_pieces_are_those_of_the_whole():
    x, lengths, dt, observed = random_batch(3)
    start = LinearStart({"kind": "summaries", "channels": 2, "every_step": True}, 3)
    start.get_buffer("weight").normal_()
    cell = RunningStart(start)
    begin = cell.initial_state(4, start.get_buffer("bias"))
    rows = torch.cat([torch.where(observed, x, 0), observed], dim=-1).double().transpose(0, 1)
    gaps = dt.double().T[..., None]
    whole = start(x, lengths=lengths, dt=dt, observed=observed)
    outputs, _ = run_cell(cell, rows, begin, gaps, Plan(lengths))
    inside = torch.arange(7) < lengths[:, None]
    torch.testing.assert_close(outputs.transpose(0, 1)[inside], whole[inside])
    first, kept = run_cell(cell, rows[:3], begin, gaps[:3], Plan())
    second, _ = run_cell(cell, rows[3:], kept, gaps[3:], Plan())
    unpadded = start(x, dt=dt, observed=observed)
    torch.testing.assert_close(torch.cat([first, second]).transpose(0, 1), unpadded)
    last, _ = run_cell(cell, rows, begin, gaps, Plan(lengths, last=True))
    torch.testing.assert_close(last, whole[torch.arange(4), lengths - 1])


@pytest.mark.parametrize("kind", [{"kind": "values", "steps": 4}, {"kind": "patterns", "dilations": [1]}])
def test_features_that_need_whole_series_have_no_state(kind):
    with pytest.raises(ValueError, match=f"sees {kind['kind']} needs whole series: train with start='summaries'"):
        RunningStart(LinearStart({"channels": 2, **kind}, 3))


def test_a_start_of_the_newest_readings_is_chosen_if_only_these_matter_and_runs_step_by_step():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(900, 2)) + np.linspace(0, 3, 900)[:, None]
    labels = np.where(values[:, 0] > values[:, 1], "first", "second")
    past, later = (from_list([values[part]], target=[labels[part]]) for part in (slice(0, 600), slice(600, 900)))
    fitted = fit_start(past, later)
    assert fitted.description["newest"]
    both = fitted.refitted(past, later)
    for start in (fitted.start, both.start):
        batch = later.batch()
        whole = start(batch.x)
        assert (whole.argmax(-1) == batch.target).double().mean() > 0.97
        cell, x = RunningStart(start), batch.x.double().transpose(0, 1)
        rows, gaps = torch.cat([x, torch.ones_like(x)], dim=-1), torch.ones_like(x[..., :1])
        steps, _ = run_cell(cell, rows, cell.initial_state(1, rows), gaps, Plan())
        torch.testing.assert_close(steps.transpose(0, 1), whole)
        used = (start.get_buffer("weight") != 0).any(1)
        assert [name for name, is_used in zip(summary_names(("a", "b")), used, strict=True) if is_used] == [
            "a last",
            "b last",
        ]
