"""A linear start: epoch 0 is the linear model, saving keeps it, resuming gives the same bits."""

import numpy as np
import pytest
import torch

from chronode import ModelSpec, SequenceModel
from chronode.data import LengthBatches, forecast_windows, from_list
from chronode.judge import fit_start
from chronode.runs import Store
from chronode.training import Settings, fit
from chronode.training._loop import Training
from chronode.training._start import put_start


def waves(rows=40, seed=0):
    rng = np.random.default_rng(seed)
    labels = np.arange(rows) % 2
    x = [np.cumsum(rng.normal(0.4 if label else -0.4, 1, size=12))[:, None] for label in labels]
    return from_list(x, target=[str(label) for label in labels])


def trained(**changes):
    s = waves()
    spec = ModelSpec.for_data(s, "gru", 4)
    settings = Settings(**{"epochs": 2, "batch_size": 8, "metric": "loss", **changes})
    return fit(s[:30], spec, settings, valid=s[30:], start="linear"), s


def test_epoch_0_is_the_linear_model():
    fitted, s = trained()
    linear = fit_start(s[:30], s[30:])
    logits = linear.outputs(s[30:])
    expected = torch.nn.functional.cross_entropy(logits, torch.tensor(s[30:].target.values).long())
    assert fitted.record.start.number == 0
    assert fitted.record.start.valid_loss == pytest.approx(expected.item(), rel=1e-5)


def test_a_training_that_helps_nothing_gives_the_linear_model_back():
    fitted, s = trained(learning_rate=1e-12)
    assert fitted.best_epoch == 0 and fitted.best is fitted.record.start
    linear = fit_start(s[:30], s[30:])
    expected = torch.nn.functional.cross_entropy(linear.outputs(s[30:]), torch.tensor(s[30:].target.values).long())
    assert fitted.best.valid_loss == pytest.approx(expected.item(), rel=1e-5)
    # Nothing but a linear model is left, so the validation series are of use for it too.
    torch.testing.assert_close(fitted.model(s.batch().x), linear.refitted(s).outputs(s).float())


def test_training_goes_on_while_the_validation_loss_falls_although_chance_could_explain_it(monkeypatch):
    # With the standard error of the differences, 1.5% of the loss here, the second epoch would be good enough already.
    monkeypatch.setattr("chronode.training._loop.standard_error", lambda gaps: 10.0)
    fitted, _ = trained(learning_rate=2e-3, early_stop=2, epochs=12)
    losses = [fitted.record.start.valid_loss, *(epoch.valid_loss for epoch in fitted.history)]
    gains = [1 - loss / losses[0] for loss in losses[1:]]
    assert 0.01 < gains[1] < gains[5] < fitted.record.chance  # epochs that fell, but do not beat the linear start
    assert len(fitted.history) == 12 and fitted.best_epoch == 0
    idle, _ = trained(learning_rate=1e-12, early_stop=2, epochs=12)
    assert (idle.stopped, len(idle.history)) == ("early", 2)


def test_a_network_has_to_beat_the_linear_start_by_the_standard_error_of_the_differences():
    fitted, _ = trained(learning_rate=2e-3, early_stop=2, epochs=12)
    gain = 1 - fitted.best.valid_loss / fitted.record.start.valid_loss
    assert fitted.best_epoch == 12 and 0 < fitted.record.chance < gain


def test_a_start_that_a_network_adds_to_is_fitted_to_the_validation_series_too():
    fitted, s = trained(learning_rate=2e-3, early_stop=2, epochs=12)  # the network was trained on out-of-fold outputs
    assert fitted.best_epoch > 0
    expected = fit_start(s[:30], s[30:]).refitted(s).start
    torch.testing.assert_close(fitted.model.start.state_dict(), expected.state_dict())


@pytest.mark.parametrize("kind", ["summaries", "values"])
def test_a_start_fitted_to_the_same_series_again_is_the_same(kind):
    s = waves()
    linear = fit_start(s[:30], s[30:], kinds=(kind,))
    again = linear.refitted(s[:30])
    torch.testing.assert_close(again.outputs(s), linear.outputs(s), rtol=0.01, atol=0.01)
    assert not torch.equal(linear.refitted(s).outputs(s), linear.outputs(s))


def test_the_network_learns_from_outputs_that_did_not_see_the_series(monkeypatch):
    seen = []
    forward = SequenceModel.forward

    def watched(self, x, *, started=None, **times):
        if self.training:
            seen.append(started)
        return forward(self, x, started=started, **times)

    monkeypatch.setattr(SequenceModel, "forward", watched)
    _, s = trained(epochs=1, batch_size=30)
    held_out = fit_start(s[:30], s[30:]).held_out
    assert sorted(seen[0][:, 0].tolist()) == pytest.approx(sorted(held_out[:, 0].tolist()))


def test_a_saved_model_gives_the_same_predictions(tmp_path):
    fitted, s = trained()
    fitted.model.save(tmp_path / "model")
    again = SequenceModel.load(tmp_path / "model")
    x = s.batch().x
    assert torch.equal(again(x), fitted.model(x))
    assert again.spec.start == fitted.model.spec.start


def test_a_resumed_run_ends_with_the_same_bits(tmp_path):
    s, store = waves(), Store(tmp_path)
    spec = ModelSpec.for_data(s, "gru", 4)
    options = {"valid": s[30:], "start": "linear"}
    whole = fit(s[:30], spec, Settings(epochs=4, batch_size=8), **options)
    fit(s[:30], spec, Settings(epochs=2, batch_size=8), **options, store=store)
    resumed = fit(s[:30], spec, Settings(epochs=4, batch_size=8), **options, store=store, resume=True)
    for name, tensor in whole.model.state_dict().items():
        if isinstance(tensor, torch.Tensor):
            assert torch.equal(tensor, resumed.model.state_dict()[name]), name
    assert resumed.record.start.valid_loss == whole.record.start.valid_loss


def test_without_a_start_nothing_is_added():
    s = waves()
    fitted = fit(s[:30], ModelSpec.for_data(s, "gru", 4), Settings(epochs=1), valid=s[30:])
    assert fitted.record.start is None and fitted.model.start is None
    assert not any("start" in name for name in fitted.model.state_dict())


def at_every_step(count=6):
    """Series of 5 to 10 steps; the target is tanh of the running mean of the first channel."""
    rng = np.random.default_rng(0)
    values = [rng.normal(size=(5 + i, 2)) for i in range(count)]
    target = [np.tanh(own[:, 0].cumsum() / np.arange(1, len(own) + 1)) for own in values]
    return from_list(values, target=target, per_step=True)


def test_pieces_of_series_learn_what_the_linear_start_leaves(monkeypatch):
    """The weights are those of a loop by hand, in which the start sees whole series and the network pieces."""
    s, steps = at_every_step(), []
    spec = ModelSpec.for_data(s, "gru", 4)
    settings = Settings(epochs=1, batch_size=6, optimizer="sgd", learning_rate=0.1, clip=0, tbptt=4)
    learn = Training._learn

    def watched(self, loss, batch):
        mean = learn(self, loss, batch)
        steps.append({name: tensor.detach().clone() for name, tensor in self.model.named_parameters()})
        return mean

    monkeypatch.setattr(Training, "_learn", watched)
    torch.manual_seed(0)
    model = SequenceModel.build(spec)
    fitted = fit_start(s, s)
    put_start(model, fitted)
    fit(s, spec, settings, valid=s, start="linear")

    batch = s.batch(next(iter(LengthBatches(s.lengths, 6, seed=0))))
    started, optimizer, state = fitted.start(batch.x, **batch.times), torch.optim.SGD(model.parameters(), lr=0.1), None
    for place, found in zip((slice(0, 4), slice(4, 8), slice(8, 10)), steps, strict=True):
        state = None if state is None else tuple(part.detach() for part in state)
        lengths = (batch.lengths - place.start).clamp(0, place.stop - place.start)
        y, state = model.layer(batch.x[:, place], state, lengths=lengths.clamp(min=1))
        error = model.head(y) + started[:, place].float() - batch.target[:, place]
        inside = torch.arange(error.shape[1]) < lengths[:, None]
        optimizer.zero_grad()
        error[inside].square().mean().backward()
        optimizer.step()
        for name, parameter in model.named_parameters():
            torch.testing.assert_close(found[name], parameter.detach(), msg=name)


def test_pieces_of_series_with_one_target_and_symbols_are_refused():
    s = waves()
    with pytest.raises(ValueError, match="tbptt cannot train a model with a linear start"):
        fit(s[:30], ModelSpec.for_data(s, "gru", 4), Settings(tbptt=4), valid=s[30:], start="linear")
    words = from_list([[0, 1, 2], [2, 1]] * 4, target=["a", "b"] * 4, dtype=np.int64)
    with pytest.raises(ValueError, match="symbols have no linear start"):
        fit(words, ModelSpec.for_data(words, "gru", 4), Settings(epochs=1), start="linear")


def trends(count=60):
    rng = np.random.default_rng(0)
    return from_list([5 + 0.2 * np.arange(count) + np.sin(np.arange(count)) + 0.05 * rng.normal(size=count)])


def test_a_forecast_does_not_depend_on_the_level_and_scale_of_its_window():
    w = forecast_windows(trends(), 4, window=12)
    spec = ModelSpec.for_data(w, "gru", 4, relative=(0,))
    fitted = fit(w[:20], spec, Settings(epochs=2, batch_size=8), valid=w[20:], start="linear")
    x = w.batch([3]).x
    with torch.no_grad():
        plain, moved = fitted.model(x), fitted.model(7 * x - 100)
    torch.testing.assert_close(moved, 7 * plain - 100, rtol=1e-4, atol=1e-3)


def test_a_forecast_continues_trend_and_season():
    w = forecast_windows(trends(), 4, window=12)
    spec = ModelSpec.for_data(w, "gru", 4, relative=(0,))
    fitted = fit(w[:20], spec, Settings(epochs=2, batch_size=8), valid=w[20:30], start="linear")
    batch = w[30:].batch()
    with torch.no_grad():
        error = (fitted.model(batch.x) - batch.target).abs().mean()
    last = (batch.x[:, -1] - batch.target).abs().mean()
    assert error < 0.4 * last


def test_errors_of_a_forecast_are_measured_in_the_scale_of_the_window():
    small, large = trends()[0].values, 1000 * trends()[0].values
    w = forecast_windows(from_list([small, large]), 4, window=12)
    spec = ModelSpec.for_data(w, "gru", 4, relative=(0,))
    model = SequenceModel.build(spec)
    unit = model.unit(w.batch().x)
    half = len(w) // 2
    torch.testing.assert_close(unit[half:], 1000 * unit[:half], rtol=1e-4, atol=1e-4)


def test_a_linear_start_is_beaten_by_more_than_chance_allows():
    from chronode.training import Objective

    objective = Objective.for_data(waves())
    assert objective.gain(0.95, 0.9) == pytest.approx(0.5)
    loss = objective.with_settings("loss", None, waves())
    assert loss.gain(0.8, 1.0) == pytest.approx(0.2) and loss.gain(float("nan"), 1.0) == 0
    fitted, s = trained(epochs=1)
    gained = fitted.objective.gain(fitted.history[0].valid_loss, fitted.record.start.valid_loss)
    assert (fitted.best_epoch == 1) == (gained > len(s[30:]) ** -0.5)
