"""Faults in training are named, with the cure."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from fit_checks import BY_HAND, by_hand, regression, small, spec_for, weights

from chronode.data import LengthBatches, from_list
from chronode.model._model import SequenceModel
from chronode.model._spec import ModelSpec
from chronode.training import EpochDone, Note, Settings, TrainingStopped, fit
from chronode.training._events import Diverged
from chronode.training._loop import Training
from chronode.training._schedule import MOST_SETBACKS, exploded


def test_a_loss_that_is_not_finite_names_the_place_and_keeps_the_weights_before():
    data = regression(32)
    assert data.target is not None
    target = data.target.values.copy()
    target[5] = 1e30
    bad = replace(data, target=replace(data.target, values=target))
    order = [rows.tolist() for rows in LengthBatches(bad.lengths, 4, seed=0)]
    at = next(i for i, rows in enumerate(order) if 5 in rows)
    assert at > 0
    with pytest.raises(TrainingStopped) as caught:
        fit(bad, spec_for(bad), Settings(epochs=1, batch_size=4, learning_rate=0.02, clip=0), valid=data)
    message = str(caught.value)
    assert f"epoch 1, batch {at + 1}, step {at + 1}" in message
    assert all(str(bad.ids[row]) in message for row in order[at])
    assert "learning_rate" in message
    before = by_hand(data, BY_HAND["adam"], batch_size=4)[at - 1]
    torch.testing.assert_close(weights(caught.value.fitted.model), before)


def test_a_gradient_whose_square_overflows_is_clipped():
    data, one = regression(32), regression(1)
    assert one.target is not None
    far = replace(one, target=replace(one.target, values=np.full((1, 1), 1.2e19, dtype=np.float32)))
    settings = Settings(epochs=1, batch_size=1, learning_rate=0.02, optimizer="sgd", momentum=0, clip=0.5)
    torch.manual_seed(0)
    model = SequenceModel.build(spec_for(data))
    before = weights(model)
    fitted = fit(far, model, settings, valid=data)
    assert fitted.stopped == "epochs"
    assert float((weights(model) - before).norm()) == pytest.approx(0.02 * 0.5, rel=1e-3)
    with pytest.raises(Diverged, match="a gradient is not finite"):
        fit(far, spec_for(data), replace(settings, clip=0), valid=data)


def overflowing(monkeypatch, *batches):
    """Makes the gradient of some batches of the run infinite, as that of a chaotic network is; the loss is finite."""
    seen, rates = [0], []
    learn = Training._learn

    def spoiled(run, loss, batch):
        seen[0] += 1
        rates.append(run.optimizer.param_groups[0]["lr"])
        if seen[0] in batches:
            weight = run.model.head.weight
            loss = loss._replace(sum=loss.sum + (weight - weight.detach()).sum() * 3e38 * 10)
        return learn(run, loss, batch)

    monkeypatch.setattr(Training, "_learn", spoiled)
    return rates


def test_a_gradient_that_overflows_takes_the_run_back_to_its_best_weights_at_half_the_rate(monkeypatch):
    data, settings = regression(32), Settings(epochs=3, batch_size=8, learning_rate=0.01)
    rates = overflowing(monkeypatch, 6)  # the second batch of the second epoch
    saved = []

    class Store:
        def save(self, tensors, facts):
            saved.append(({name: t.clone() for name, t in tensors.items()}, json.loads(json.dumps(facts))))

        def latest(self):
            return saved[1]

    fitted = fit(data, spec_for(data), settings, valid=data, store=Store())
    assert fitted.stopped == "epochs" and fitted.record.steps == 11
    assert rates == pytest.approx([0.01] * 6 + [0.005] * 6)
    assert "not finite once" in fitted.notes[-1]
    del rates[:], saved[2:]
    overflowing(monkeypatch)  # a resumed run continues at the lower rate
    again = fit(data, spec_for(data), settings, valid=data, store=Store(), resume=True)
    torch.testing.assert_close(weights(again.model), weights(fitted.model), rtol=0, atol=0)


def test_the_first_epoch_has_no_weights_to_return_to_and_leaves_the_step_out(monkeypatch):
    data, settings = regression(32), Settings(epochs=1, batch_size=8, learning_rate=0.01, optimizer="sgd")
    overflowing(monkeypatch, 1, 2, 3, 4)
    torch.manual_seed(0)
    model = SequenceModel.build(spec_for(data))
    before = weights(model)
    fit(data, model, settings, valid=data)
    torch.testing.assert_close(weights(model), before, rtol=0, atol=0)


def test_a_gradient_that_overflows_again_and_again_ends_the_run(monkeypatch):
    data = regression(32)
    rates = overflowing(monkeypatch, *range(6, 99))
    with pytest.raises(Diverged, match="a gradient is not finite"):
        fit(data, spec_for(data), Settings(epochs=9, batch_size=8), valid=data)
    assert len(rates) == 5 + MOST_SETBACKS + 1


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "sgd", "rmsprop"])
@pytest.mark.parametrize("rate", [1e3, 1e5, 9e5])
def test_an_explosion_is_reported_with_the_rate(optimizer, rate):
    """Whether the loss stays finite or not: the run does not count as finished."""
    data = regression()
    with pytest.raises(Diverged, match=r"learning_rate( than |=)") as caught:
        fit(data, spec_for(data, "gru"), Settings(epochs=4, learning_rate=rate, optimizer=optimizer), valid=data)
    assert f"{rate:g}" in str(caught.value) and caught.value.fitted.stopped == "fault"


def test_the_best_weights_before_an_explosion_are_kept():
    """Two good epochs, then a step that is far too long."""
    data = regression()
    schedule = Settings(epochs=3, learning_rate=5e3, optimizer="sgd", warmup_epochs=3, clip=0.001, batch_size=40)
    good = fit(data, spec_for(data), replace(schedule, learning_rate=0.1), valid=data)
    assert good.stopped == "epochs"
    events = []

    def spoil(event):
        """The weights are multiplied by 1e4 while the second epoch is reported."""
        events.append(event)
        if isinstance(event, EpochDone) and event.epoch.number == 2:
            with torch.no_grad():
                model.head.weight.mul_(1e6)

    torch.manual_seed(0)
    model = SequenceModel.build(spec_for(data))
    with pytest.raises(Diverged, match=r"exploded: .* after epoch 3, .* the weights of epoch [12] are kept") as caught:
        fit(data, model, Settings(epochs=9, learning_rate=1e-3), valid=data, on_event=spoil)
    best = caught.value.fitted
    assert best.best_epoch <= 2 and best.evaluate(data)["loss"] == pytest.approx(best.best.valid_loss)


def test_hard_data_are_not_an_explosion():
    """A target with one extreme value has a large loss from the start; a loss that falls may do so from any height."""
    data = regression()
    assert data.target is not None
    values = data.target.values.copy()
    values[3] = 1e6
    hard = replace(data, target=replace(data.target, values=values))
    fitted = fit(hard, spec_for(hard), Settings(epochs=2), valid=hard)
    assert fitted.stopped == "epochs" and fitted.history[-1].valid_loss > 1e9


@pytest.mark.parametrize(
    ("loss", "untrained", "wanted"),
    [
        (4e29, 0.7, True),
        (float("nan"), 0.7, True),
        (float("inf"), 0.7, True),
        (6999.0, 0.7, False),
        (7001.0, 0.7, True),
        (50.0, 1e-9, False),  # nearly nothing to learn: no ratio is taken of that
        (1e30, None, False),  # a run that began before this was measured
        (1e30, float("nan"), False),
    ],
)
def test_what_counts_as_an_explosion(loss, untrained, wanted):
    assert exploded(loss, untrained) is wanted


def test_the_measure_of_an_explosion_survives_a_stop():
    """It is the loss before training, not that before the resumed part."""
    data = regression()
    saved = {}

    class Store:
        def save(self, tensors, facts):
            saved["last"] = {name: t.clone() for name, t in tensors.items()}, dict(facts)

        def latest(self):
            return saved.get("last")

    settings = Settings(epochs=1, learning_rate=0.01)
    fit(data, spec_for(data), settings, valid=data, store=Store())
    untrained = saved["last"][1]["untrained_loss"]
    assert untrained > saved["last"][1]["history"][0]["valid_loss"]
    fit(data, spec_for(data), replace(settings, epochs=2), valid=data, store=Store(), resume=True)
    assert saved["last"][1]["untrained_loss"] == untrained


def test_an_absurd_rate_is_refused_at_once():
    with pytest.raises(ValueError, match=r"learning_rate must be less than 1000000.0, got 1e\+38"):
        Settings(learning_rate=1e38)


def test_a_fault_names_the_longest_gap():
    series, times = [[1.0, 2.0, 0.5, 1.5], [3.0, 4.0, 2.5, 0.0]] * 4, [[0.0, 1.0, 2.0, 1e9]] * 8  # the median gap is 1
    train = from_list(series, times=times, target=[0.5, 1.0] * 4)
    with (
        pytest.raises(Diverged, match=r"the longest gap here is 1e\+09"),
        pytest.warns(RuntimeWarning, match="dt = 1e"),
    ):
        fit(train, spec_for(train, "ct-rnn", solver="rk4"), Settings(epochs=1), valid=train)


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory: 9 bytes")])
def test_too_little_memory_says_what_to_try(monkeypatch, error):
    def forward(self, x, **times):
        raise error

    monkeypatch.setattr(SequenceModel, "forward", forward)
    data = small()
    with pytest.raises(TrainingStopped, match=r"batch 1: try batch_size=8 \(it is 16\), or settings=.*'low'"):
        fit(data, spec_for(data), Settings(batch_size=16))


def test_other_errors_are_not_taken_for_memory(monkeypatch):
    def forward(self, x, **times):
        raise RuntimeError("something else")

    monkeypatch.setattr(SequenceModel, "forward", forward)
    with pytest.raises(RuntimeError, match="something else"):
        fit(small(), spec_for(small()))


def test_a_class_without_training_series_is_noted():
    data = from_list([[float(i)] for i in range(12)], target=[0, 1, 2] * 4, classes=["a", "b", "c"])
    events = []
    train = data[data.target.values != 2]
    fitted = fit(train, spec_for(train), Settings(epochs=1), valid=data, on_event=events.append)
    assert fitted.notes[0] == "no training series has the class 'c': the model cannot learn it."
    assert events[0] == Note(fitted.notes[0])


def test_a_class_that_training_does_not_know_is_refused():
    train = from_list([[0.0], [1.0]], target=["a", "b"])
    with pytest.raises(ValueError, match="classes that did not occur in training: 'c'"):
        fit(train, spec_for(train), valid=from_list([[0.0], [1.0]], target=["a", "c"]))


def texts(highest):
    return from_list([[0, 1], [highest]], target=["a", "b"], dtype=np.int64)


def with_a_gap():
    return from_list([[1.0, np.nan], [2.0]], target=["a", "b"])


MISTAKES = {
    "no such task": (lambda: fit("bitsream"), "Did you mean 'bitstream'"),
    "no target": (lambda: fit(from_list([[1.0], [2.0]])), "no series has a target"),
    "sizes": (lambda: fit(small(), ModelSpec("gru", 1, 3)), "num_outputs=3, but the target has 2 classes"),
    "channels": (lambda: fit(small(), ModelSpec("gru", 2, 2)), "input_size=2, but the data have 1 channels"),
    "missing": (lambda: fit(with_a_gap(), ModelSpec("gru", 1, 2), valid=with_a_gap()), "missing=True"),
    "symbols": (
        lambda: fit(texts(2), spec_for(texts(2)), valid=texts(7)),
        "0 to 2; these data contain symbol 7",
    ),
    "jitter of symbols": (lambda: fit(texts(2), spec_for(texts(2)), Settings(jitter=0.1)), "jitter cannot be used"),
    "shift of steps": (
        lambda: fit("walker2d", settings=Settings(shift=2), options={"source": "scripted"}),
        "shift cannot",
    ),
    "other channels": (
        lambda: fit(small(), spec_for(small()), valid=from_list([[1.0]], target=["odd"], classes=["even", "odd"])),
        "bit in training",
    ),
    "steps": (lambda: fit(small(), ModelSpec("gru", 1, 2, per_step=True)), "per_step=False"),
    "directions": (
        lambda: fit(small(), spec_for(small(), "gru", bidirectional=True), Settings(tbptt=3)),
        "tbptt does not support a bidirectional",
    ),
    "valid of a task": (lambda: fit("bitstream", valid=small()), "not with a task"),
    "options of series": (lambda: fit(small(), options={"train": 3}), "can only be given with a task"),
    "what is this": (lambda: fit([1, 2, 3]), "got list"),
    "no model": (lambda: fit(small(), 3), "got int"),
    "metric": (lambda: fit(small(), settings=Settings(metric="rmse")), "metric='rmse'"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_named(name):
    call, message = MISTAKES[name]
    with pytest.raises((ValueError, TypeError), match=message):
        call()


@pytest.mark.skipif(torch.cuda.is_available() or torch.backends.mps.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_named_with_what_to_use_instead():
    with pytest.raises(ValueError, match="accelerator='gpu': torch cannot find a GPU.*'cpu' or 'auto'"):
        fit(small(32), settings=Settings(epochs=1, accelerator="gpu"))
    assert fit(small(32), settings=Settings(epochs=1, accelerator="auto")).stopped == "epochs"
