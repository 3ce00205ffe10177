"""Integrated gradients: they sum to the output's change, and equal a plain sum over many small steps."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from chronode import ModelSpec, SequenceModel
from chronode.data import from_list
from chronode.judge import fit_start
from chronode.lab.analysis import integrated_gradients
from chronode.training._start import put_start

MODELS = ("mmrnn", "unicornn", "ltc", "irnn", "gru", "lstm-dt", "cfc", "rnn-decay", "gru-d", "ode-rnn")


def random_series(rng, channels, *, missing, target):
    values = [rng.normal(size=(length, channels)) for length in rng.integers(3, 12, size=3)]
    if missing:
        for one in values:
            one[rng.random(one.shape) < 0.3] = np.nan
    times = [np.cumsum(rng.exponential(size=len(one))) for one in values]
    return from_list(values, times=times, target=target, dtype=np.float64)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(MODELS), st.integers(0, 10_000), st.booleans(), st.booleans())
def test_contributions_sum_to_the_change_of_the_output(name, seed, missing, classes):
    rng = np.random.default_rng(seed)
    target = ["a", "b", "c"] if classes else [0.5, -1.0, 2.0]
    s = random_series(rng, 3, missing=missing, target=target)
    torch.manual_seed(seed)
    model = SequenceModel.build(ModelSpec.for_data(s, name, 6)).double()
    row, output = seed % 3, seed % 3 if classes else 0
    found = integrated_gradients(model, s, row, output=output, probability=classes)
    change = found.output - found.reference
    assert found.values.shape == s[row].values.shape
    assert abs(found.values.sum() - change) <= 1e-3 * max(1.0, abs(change))
    assert not found.values[np.isnan(s[row].values)].any()
    batch = s.batch([row])
    with torch.no_grad():
        prediction = model(batch.x, **batch.times)
    assert found.output == pytest.approx(
        float((prediction.softmax(-1) if classes else prediction)[0, output]), abs=1e-9
    )


@pytest.mark.parametrize("name", ["gru", "mmrnn"])
def test_they_equal_a_sum_over_many_small_steps(name):
    rng = np.random.default_rng(1)
    s = random_series(rng, 2, missing=False, target=[0.5, -1.0, 2.0])
    model = SequenceModel.build(ModelSpec.for_data(s, name, 5)).double()
    found = integrated_gradients(model, s, 1, tolerance=1e-9)
    batch = s.batch([1])
    places = ((torch.arange(2000, dtype=torch.float64) + 0.5) / 2000)[:, None, None]
    x = (places * batch.x).requires_grad_(True)
    times = {name: one.expand(2000, *one.shape[1:]) for name, one in batch.times.items()}
    slope = torch.autograd.grad(model(x, **times).sum(), x)[0].mean(0)
    assert found.values == pytest.approx((slope * batch.x[0]).numpy(), abs=1e-6)


def sudden(s, row):
    """A model whose answer for a series changes within a short stretch of the way, about 0.3 from the reference."""
    torch.manual_seed(0)
    model = SequenceModel.build(ModelSpec.for_data(s, "gru", 4)).double()
    batch = s.batch([row])
    with torch.no_grad():
        model.head.weight.mul_(3000)
        model.head.bias.sub_(model(0.3 * batch.x, **batch.times)[0])
    return model


def test_a_sudden_change_on_the_way_is_found():
    s = random_series(np.random.default_rng(2), 2, missing=False, target=["a", "b", "a"])
    model = sudden(s, 2)
    changes = []
    for output in (0, 1):
        found = integrated_gradients(model, s, 2, output=output, probability=True)
        changes.append(found.output - found.reference)
        assert found.values.sum() == pytest.approx(changes[-1], abs=1e-3)
        assert found.points > 16
    assert abs(changes[0]) > 0.4
    assert changes[0] == pytest.approx(-changes[1])


def test_a_channel_that_the_model_does_not_read_contributes_nothing():
    s = random_series(np.random.default_rng(0), 2, missing=False, target=[0.5, -1.0, 2.0])
    model = SequenceModel.build(ModelSpec.for_data(s, "rnn", 5)).double()
    with torch.no_grad():
        for name, weight in model.layer.named_parameters():
            if weight.dim() == 2 and weight.shape[1] == 2:
                weight[:, 1] = 0
                assert "hh" not in name
    found = integrated_gradients(model, s)
    assert not found.values[:, 1].any()
    assert found.values[:, 0].any()


def test_one_step_of_many_outputs_and_the_steps_after_it():
    values = [np.random.default_rng(0).normal(size=(6, 2))]
    s = from_list(values, target=[np.arange(6.0)], per_step=True, dtype=np.float64)
    model = SequenceModel.build(ModelSpec.for_data(s, "gru", 4)).double()
    found = integrated_gradients(model, s, step=2)
    assert found.values[:3].any()
    assert not found.values[3:].any()


def test_symbols_have_one_contribution_each():
    s = from_list([np.array([[0], [2], [1], [2]])], target=[1.0], dtype=np.int64)
    model = SequenceModel.build(ModelSpec.for_data(s, "gru", 4, embedding_size=3)).double()
    found = integrated_gradients(model, s)
    assert found.values.shape == (4, 1)
    assert found.values.sum() == pytest.approx(found.output - found.reference, abs=1e-3)


def test_the_model_stays_as_it_was():
    s = random_series(np.random.default_rng(0), 2, missing=False, target=[0.5, -1.0, 2.0])
    model = SequenceModel.build(ModelSpec.for_data(s, "gru", 4)).double().train()
    model.head.bias.requires_grad_(False)
    integrated_gradients(model, s)
    assert model.training
    assert [name for name, one in model.named_parameters() if not one.requires_grad] == ["head.bias"]
    assert all(one.grad is None for one in model.parameters())


def test_too_few_points_are_reported_by_the_error():
    s = random_series(np.random.default_rng(2), 2, missing=False, target=["a", "b", "a"])
    found = integrated_gradients(sudden(s, 0), s, probability=True, most=16)
    assert found.points == 16
    assert found.error == pytest.approx(abs(found.values.sum() - (found.output - found.reference)))
    assert found.error > 1e-3


def test_contributions_to_a_linear_start_at_every_step_are_finite():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(60, 2))
    s = from_list([values], target=[np.where(values[:, 0] > 0, "up", "down")], dtype=np.float64)
    model = SequenceModel.build(ModelSpec.for_data(s, "gru", 4)).double()
    put_start(model, fit_start(s, s))
    found = integrated_gradients(model, s, 0, output=1, step=30)
    assert np.isfinite(found.values).all()
    assert found.values.sum() == pytest.approx(found.output - found.reference, abs=1e-3)
