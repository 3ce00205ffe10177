"""The weights of fit are those of a loop written by hand."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from fit_checks import BY_HAND, by_hand, regression, small, spec_for, weights

from chronode.data import LengthBatches, from_numpy
from chronode.model._model import SequenceModel
from chronode.training import Settings, fit

OPTIONS = {
    "adam": {},
    "adamw": {"weight_decay": 0.1},
    "rmsprop": {"momentum": 0.3, "smoothing": 0.8},
    "sgd": {"momentum": 0.9},
}


class Last:
    """A store that keeps the last state."""

    def save(self, tensors, facts):
        self.tensors = {name: tensor.clone() for name, tensor in tensors.items()}

    def weights(self, data, prefix="model."):
        names = [prefix + name for name, _ in SequenceModel.build(spec_for(data)).named_parameters()]
        return torch.cat([self.tensors[name].flatten() for name in names])


@pytest.mark.parametrize("optimizer", BY_HAND)
def test_weights_are_those_of_a_loop_written_by_hand(optimizer):
    data, last = small(), Last()
    after = by_hand(data, BY_HAND[optimizer], epochs=2, clip=0.5)
    settings = Settings(
        epochs=2, batch_size=16, optimizer=optimizer, learning_rate=0.02, clip=0.5, **OPTIONS[optimizer]
    )
    fit(data, spec_for(data), settings, valid=small(16, 1), store=last)
    torch.testing.assert_close(last.weights(data), after[-1])


def test_squared_error_without_clipping_by_hand():
    data, last = regression(), Last()
    after = by_hand(data, BY_HAND["adam"])
    fit(data, spec_for(data), Settings(epochs=1, batch_size=16, learning_rate=0.02, clip=0), valid=data, store=last)
    torch.testing.assert_close(last.weights(data), after[-1])


def test_averages_by_hand():
    data, last = small(), Last()
    after = by_hand(data, BY_HAND["adam"], epochs=3, clip=1.0)
    options = {"epochs": 3, "batch_size": 16, "learning_rate": 0.02, "metric": "loss"}
    mean = after[0].clone()
    for step in after[1:]:
        mean = 0.8 * mean + 0.2 * step
    fit(data, spec_for(data), Settings(**options, average="ema", average_decay=0.8), valid=data, store=last)
    torch.testing.assert_close(last.weights(data, "average.module."), mean)
    fit(data, spec_for(data), Settings(**options, average="swa", average_start=2), valid=data, store=last)
    torch.testing.assert_close(last.weights(data, "average.module."), (after[5] + after[8]) / 2)


def test_the_average_is_what_is_measured_and_given_back():
    data, last = small(), Last()
    settings = Settings(epochs=1, batch_size=16, average="ema", average_decay=0.9)
    fitted = fit(data, spec_for(data), settings, valid=data, store=last)
    assert torch.equal(weights(fitted.model), last.weights(data, "average.module."))
    assert not torch.equal(weights(fitted.model), last.weights(data))
    assert fitted.evaluate(data)["loss"] == fitted.history[0].valid_loss


def test_truncated_gradients_by_hand():
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(8, 6, 2, generator=rng)
    data = from_numpy(x.numpy(), order="NTD", target=x.sum(-1).cumsum(1).numpy(), per_step=True)
    spec = spec_for(data, "lstm")
    torch.manual_seed(0)
    model = SequenceModel.build(spec)
    optimizer, state = torch.optim.SGD(model.parameters(), lr=0.1), None
    batch = data.batch(next(iter(LengthBatches(data.lengths, 8, seed=0))))
    for piece in (slice(0, 4), slice(4, 6)):
        state = None if state is None else tuple(part.detach() for part in state)
        output, state = model.run(batch.x[:, piece], state)
        optimizer.zero_grad()
        (output - batch.target[:, piece]).square().mean().backward()
        optimizer.step()
    settings = Settings(epochs=1, batch_size=8, optimizer="sgd", learning_rate=0.1, clip=0, tbptt=4)
    fitted = fit(data, spec, settings, valid=data)
    torch.testing.assert_close(weights(fitted.model), weights(model))


@pytest.mark.parametrize("data", [small(), regression()], ids=["classes", "values"])
def test_pieces_longer_than_the_series_change_nothing(data):
    plain = fit(data, spec_for(data), Settings(epochs=1, batch_size=16))
    whole = fit(data, spec_for(data), Settings(epochs=1, batch_size=16, tbptt=50))
    assert torch.equal(weights(plain.model), weights(whole.model))


def test_a_series_target_is_learned_where_the_series_ends():
    data = small()
    steps = []
    settings = Settings(epochs=1, batch_size=16, tbptt=3)
    fit(
        data, spec_for(data), settings, valid=data, on_event=lambda e: steps.append(e.step) if hasattr(e, "step") else 0
    )
    ends = [
        len({-(-int(n) // 3) for n in data.lengths[rows]})
        for rows in LengthBatches(data.lengths, 16, seed=settings.seed)
    ]
    assert steps == np.cumsum(ends).tolist()


def test_a_seed_repeats_a_run_bit_for_bit_and_leaves_the_callers_generator_alone():
    data = small()
    spec, settings = spec_for(data, num_layers=2, dropout=0.3), Settings(epochs=2, batch_size=16, subsample=0.8)
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    first = fit(data, spec, settings)
    assert torch.equal(torch.rand(3), expected)
    second = fit(data, spec, settings, on_event=lambda event: torch.rand(1))
    assert torch.equal(weights(first.model), weights(second.model))
    other = fit(data, spec, replace(settings, seed=1))
    assert not torch.equal(weights(first.model), weights(other.model))
