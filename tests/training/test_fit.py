import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

import chronode
from chronode.data import LengthBatches, Scaler, from_list, from_numpy
from chronode.model import ModelSpec, SequenceModel
from chronode.tasks.bitstream import bitstream
from chronode.tasks.task import Parts, Sizes, Task
from chronode.training import BatchDone, EpochDone, Note, Settings, TrainingStopped, fit
from chronode.training.loaders import evaluation_batches, subsample


def small(count=48, seed=0):
    return bitstream(count, seed, longest=6)


def spec_for(data, model="mmrnn", **told):
    return ModelSpec.for_data(data, model, **{"hidden_size": 4, **told})


def weights(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def regression(count=40, seed=0):
    dice = np.random.default_rng(seed)
    series = [dice.normal(size=(int(n), 2)) for n in dice.integers(2, 7, size=count)]
    return from_list(series, target=[float(s[:, 0].sum()) for s in series])


# ---- the same numbers as a loop written by hand --------------------------------------------------------------

BY_HAND = {
    "adam": lambda p: torch.optim.Adam(p, lr=0.02),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.02, weight_decay=0.1),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.02, momentum=0.3),
    "sgd": lambda p: torch.optim.SGD(p, lr=0.02, momentum=0.9),
}
TOLD = {"adam": {}, "adamw": {"weight_decay": 0.1}, "rmsprop": {"momentum": 0.3}, "sgd": {"momentum": 0.9}}


def by_hand(data, make, epochs=1, clip=0.0, batch_size=16):
    """What anyone would write; gives the weights after every step."""
    torch.manual_seed(0)
    model = SequenceModel.build(spec_for(data))
    optimizer, after = make(model.parameters()), []
    for epoch in range(epochs):
        order = LengthBatches(data.lengths, batch_size, seed=0)
        order.set_epoch(epoch)
        for rows in order:
            batch = data.batch(rows)
            output = model(batch.x, **batch.times)
            measure = torch.nn.functional.cross_entropy if data.classes else torch.nn.functional.mse_loss
            optimizer.zero_grad()
            measure(output, batch.target).backward()
            if clip:
                torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
            after.append(weights(model))
    return after


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
    settings = Settings(epochs=2, batch_size=16, optimizer=optimizer, learning_rate=0.02, clip=0.5, **TOLD[optimizer])
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
    told = {"epochs": 3, "batch_size": 16, "learning_rate": 0.02, "metric": "loss"}
    mean = after[0].clone()
    for step in after[1:]:
        mean = 0.8 * mean + 0.2 * step
    fit(data, spec_for(data), Settings(**told, average="ema", average_decay=0.8), valid=data, store=last)
    torch.testing.assert_close(last.weights(data, "average.module."), mean)
    fit(data, spec_for(data), Settings(**told, average="swa", average_start=2), valid=data, store=last)
    torch.testing.assert_close(last.weights(data, "average.module."), (after[5] + after[8]) / 2)


def test_the_average_is_what_is_measured_and_given_back():
    data, last = small(), Last()
    settings = Settings(epochs=1, batch_size=16, average="ema", average_decay=0.9)
    fitted = fit(data, spec_for(data), settings, valid=data, store=last)
    assert torch.equal(weights(fitted.model), last.weights(data, "average.module."))
    assert not torch.equal(weights(fitted.model), last.weights(data))
    assert fitted.evaluate(data)["loss"] == fitted.history[0].valid_loss


def test_truncated_gradients_by_hand():
    dice = torch.Generator().manual_seed(0)
    x = torch.randn(8, 6, 2, generator=dice)
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


def test_a_series_target_is_learnt_where_the_series_ends():
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


# ---- seeds -------------------------------------------------------------------------------------------------


def test_a_seed_repeats_a_run_bit_for_bit_and_leaves_the_callers_dice_alone():
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


# ---- all kinds of targets ------------------------------------------------------------------------------------


def test_regression_is_learnt_and_told_in_the_targets_units():
    raw = regression(300)
    raw = replace(raw, target=replace(raw.target, values=1000 + 50 * raw.target.values))
    scaler = Scaler.fit(raw)
    data = scaler.transform(raw)
    fitted = fit(
        data[:240],
        spec_for(data, "gru", hidden_size=16),
        Settings(epochs=30, batch_size=16),
        valid=data[240:],
        scaler=scaler,
    )
    found, said = fitted.evaluate(data[240:]), fitted.predict(data[240:])
    gaps = np.concatenate(said.values) - raw[240:].target.values[:, 0]
    assert found["rmse"] == pytest.approx(np.sqrt((gaps**2).mean()), rel=1e-3)
    assert found["rmse"] < 0.4 * raw.target.values.std()
    assert found["r2"] > 0.8


def test_every_step_is_classified():
    dice = np.random.default_rng(0)
    series = [dice.normal(size=(int(n), 1)) for n in dice.integers(3, 9, size=150)]
    data = from_list(
        series,
        target=[np.where(s[:, 0] > 0.4, "high", np.where(s[:, 0] < -0.4, "low", "mid")) for s in series],
        per_step=True,
    )
    fitted = fit(data, spec_for(data, "gru", hidden_size=8), Settings(epochs=15, batch_size=8, learning_rate=0.02))
    assert fitted.best.metrics["accuracy"] > 0.9
    said = fitted.predict(data)
    assert [v.shape for v in said.values] == [(len(s), 3) for s in series]
    assert said.labels[4] == [fitted.objective.classes[i] for i in said.values[4].argmax(1)]


def test_a_language_of_one_sentence_is_learnt():
    words = np.tile(np.arange(5), 8)
    texts = [words[i : i + 12, None] for i in range(20)]
    data = from_list(
        [t[:-1] for t in texts], target=[t[1:, 0] for t in texts], per_step=True, classes=list("abcde"), dtype=np.int64
    )
    fitted = fit(
        data,
        spec_for(data, "gru", hidden_size=16),
        Settings(epochs=25, batch_size=4, metric="perplexity", learning_rate=0.02),
    )
    assert fitted.spec.symbols == 5
    assert fitted.best.metrics["perplexity"] < 1.1


def test_several_steps_ahead_are_forecast():
    wave = np.sin(0.4 * np.arange(400))
    windows = np.stack([wave[i : i + 20] for i in range(0, 360, 2)])
    data = from_numpy(windows[:, :16, None], order="NTD", target=windows[:, 16:])
    fitted = fit(data, spec_for(data, "lstm", hidden_size=16), Settings(epochs=25, batch_size=16, learning_rate=0.02))
    assert fitted.model.head.out_features == 4
    assert fitted.best.metrics["rmse"] < 0.15


def test_missing_values_and_unknown_targets_are_taken():
    dice = np.random.default_rng(0)
    values = dice.normal(size=(30, 6, 2))
    values[dice.random(values.shape) < 0.3] = np.nan
    target = dice.normal(size=(30, 2))
    target[3, 1] = np.nan
    data = from_numpy(values, order="NTD", target=target)
    fitted = fit(data, "gru-d", Settings(epochs=1, batch_size=8))
    assert fitted.spec.missing
    assert np.isfinite(fitted.history[0].loss)


# ---- tasks -----------------------------------------------------------------------------------------------


def test_a_task_is_trained_by_name_with_its_own_metric():
    fitted = fit("bitstream", "sirnn", Settings(epochs=1), options={"train": 100, "valid": 20, "test": 20})
    assert list(fitted.history[0].metrics) == ["accuracy"]
    assert fitted.objective.metric == "accuracy"


def test_fresh_series_come_every_epoch_and_steps_end_the_run():
    asked = []

    def fresh(epoch):
        asked.append(epoch)
        return small(32, seed=epoch)

    parts = Parts(small(32), small(16, 90), small(16, 91), fresh=fresh)
    fitted = fit(parts, spec_for(parts.train), Settings(epochs=50, batch_size=8, steps=10))
    assert fitted.stopped == "steps"
    assert [e.number for e in fitted.history] == [1, 2, 3]
    assert asked == [1, 2]  # the training part is that of epoch 0
    still = fit(replace(parts, fresh=None), spec_for(parts.train), Settings(epochs=50, batch_size=8, steps=10))
    assert not torch.equal(weights(fitted.model), weights(still.model))


# ---- choosing --------------------------------------------------------------------------------------------


def test_the_best_epoch_is_given_back():
    data, valid = small(64), small(40, 1)
    settings = Settings(epochs=8, batch_size=8, learning_rate=0.05, optimizer="sgd", clip=0)
    fitted = fit(data, spec_for(data), settings, valid=valid)
    accuracies = [e.metrics["accuracy"] for e in fitted.history]
    assert len(set(accuracies)) > 1
    assert fitted.best_epoch == 1 + int(np.argmax(accuracies))
    assert fitted.evaluate(valid)["accuracy"] == max(accuracies)
    assert not fitted.model.training


def test_early_stopping_counts_the_epochs_without_a_better_one():
    data = small()
    fitted = fit(data, spec_for(data), Settings(epochs=20, learning_rate=1e-12, early_stop=3))
    assert (fitted.stopped, len(fitted.history), fitted.best_epoch) == ("early", 4, 1)


def test_events_tell_of_every_batch_and_epoch():
    data, events = small(40), []
    fitted = fit(data, spec_for(data), Settings(epochs=2, batch_size=16), valid=small(8, 1), on_event=events.append)
    batches = [e for e in events if isinstance(e, BatchDone)]
    assert [(e.epoch, e.batch, e.batches, e.step) for e in batches] == [
        (epoch, batch, 3, 3 * (epoch - 1) + batch) for epoch in (1, 2) for batch in (1, 2, 3)
    ]
    assert [e.epoch for e in events if isinstance(e, EpochDone)] == list(fitted.history)


def test_the_loss_of_an_epoch_is_the_mean_over_its_series():
    data, events = small(40), []
    fit(data, spec_for(data), Settings(epochs=1, batch_size=16), valid=data, on_event=events.append)
    *batches, epoch = events
    assert epoch.epoch.loss == pytest.approx(np.average([b.loss for b in batches], weights=sizes(data)), rel=1e-6)


def sizes(data):
    return [len(rows) for rows in LengthBatches(data.lengths, 16, seed=0)]


# ---- faults ----------------------------------------------------------------------------------------------


def test_a_loss_that_is_not_finite_names_the_place_and_keeps_the_weights_before():
    data = regression(32)
    target = data.target.values.copy()
    target[5] = 1e30
    bad = replace(data, target=replace(data.target, values=target))
    order = [rows.tolist() for rows in LengthBatches(bad.lengths, 4, seed=0)]
    at = next(i for i, rows in enumerate(order) if 5 in rows)
    assert at > 0
    with pytest.raises(TrainingStopped) as caught:
        fit(bad, spec_for(bad), Settings(epochs=1, batch_size=4, learning_rate=0.02, clip=0), valid=data)
    told = str(caught.value)
    assert f"epoch 1, batch {at + 1}, step {at + 1}" in told
    assert all(str(bad.ids[row]) in told for row in order[at])
    assert "learning_rate" in told
    before = by_hand(data, BY_HAND["adam"], batch_size=4)[at - 1]
    torch.testing.assert_close(weights(caught.value.fitted.model), before)


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory: 9 bytes")])
def test_too_little_memory_says_what_to_try(monkeypatch, error):
    def forward(self, x, **times):
        raise error

    monkeypatch.setattr(SequenceModel, "forward", forward)
    data = small()
    with pytest.raises(TrainingStopped, match=r'epoch 1, batch 1: try batch_size=8 \(it is 16\), or memory="low"'):
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
    assert fitted.notes == ("no training series has the class 'c': the model cannot learn it.",)
    assert events[0] == Note(fitted.notes[0])


def test_a_class_that_training_does_not_know_is_refused():
    train = from_list([[0.0], [1.0]], target=["a", "b"])
    with pytest.raises(ValueError, match="classes that training did not see: 'c'"):
        fit(train, spec_for(train), valid=from_list([[0.0], [1.0]], target=["a", "c"]))


def with_a_gap():
    return from_list([[1.0, np.nan], [2.0]], target=["a", "b"])


MISTAKES = {
    "no such task": (lambda: fit("bitsream"), "Did you mean 'bitstream'"),
    "no target": (lambda: fit(from_list([[1.0], [2.0]])), "no series has a target"),
    "sizes": (lambda: fit(small(), ModelSpec("gru", 1, 3)), "num_outputs=3, the target 2 classes"),
    "channels": (lambda: fit(small(), ModelSpec("gru", 2, 2)), "input_size=2, the data 1 channels"),
    "missing": (lambda: fit(with_a_gap(), ModelSpec("gru", 1, 2), valid=with_a_gap()), "missing=True"),
    "other channels": (
        lambda: fit(small(), spec_for(small()), valid=from_list([[1.0]], target=["odd"], classes=["even", "odd"])),
        "bit to train",
    ),
    "steps": (lambda: fit(small(), ModelSpec("gru", 1, 2, per_step=True)), "per_step=False"),
    "directions": (
        lambda: fit(small(), spec_for(small(), "gru", bidirectional=True), Settings(tbptt=3)),
        "tbptt cannot train a bidirectional",
    ),
    "valid of a task": (lambda: fit("bitstream", valid=small()), "a task brings its own"),
    "options of series": (lambda: fit(small(), options={"train": 3}), "go with a task"),
    "what is this": (lambda: fit([1, 2, 3]), "got list"),
    "no model": (lambda: fit(small(), 3), "got int"),
    "metric": (lambda: fit(small(), settings=Settings(metric="rmse")), "metric='rmse'"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_named(name):
    call, told = MISTAKES[name]
    with pytest.raises((ValueError, TypeError), match=told):
        call()


# ---- models ----------------------------------------------------------------------------------------------


def test_a_model_put_together_by_hand_is_trained_in_place():
    model = SequenceModel(chronode.create("lstm-dt", 1, 4, outputs="last"), 2)
    before = weights(model).clone()
    fitted = fit(small(), model, Settings(epochs=1))
    assert fitted.model is model
    assert fitted.spec is None
    assert not torch.equal(weights(model), before)


def test_class_weights_move_the_answers():
    dice = np.random.default_rng(0)
    values = dice.normal(size=(200, 3, 1))
    data = from_numpy(values, order="NTD", target=(dice.random(200) < 0.15).astype(int))
    settings = Settings(epochs=10, batch_size=32, metric="loss")
    plain = fit(data, spec_for(data), settings)
    even = fit(data, spec_for(data), replace(settings, class_weights="balanced"))
    chances = [np.mean([v[1] for v in fitted.predict(data).values]) for fitted in (plain, even)]
    assert chances[0] < 0.3
    assert chances[1] > 0.35


def test_low_precision_trains():
    data = small()
    fitted = fit(data, spec_for(data, "gru"), Settings(epochs=1, precision="bf16"))
    assert np.isfinite(fitted.history[0].loss)


# ---- batches ---------------------------------------------------------------------------------------------


def test_subsampling_keeps_the_times_of_what_it_keeps():
    data = from_list(
        [np.arange(1.0, n + 1) for n in (9, 4, 1)],
        times=[np.cumsum(np.arange(1.0, n + 1)) for n in (9, 4, 1)],
        target=[np.arange(1.0, n + 1) for n in (9, 4, 1)],
        per_step=True,
    )
    batch, seen = data.batch(), set()
    for seed in range(30):
        kept = subsample(batch, 0.5, torch.Generator().manual_seed(seed), per_step=True)
        for row, length in enumerate(kept.lengths.tolist()):
            steps = kept.x[row, :length, 0]
            assert (steps.diff() > 0).all()
            seen.add(tuple(steps.tolist()))
            whole = batch.dt[row].cumsum(0)[steps.long() - 1]
            torch.testing.assert_close(kept.dt[row].cumsum(0)[:length], whole)
            torch.testing.assert_close(kept.target[row, :length, 0], steps)
            assert kept.target[row, length:].isnan().all()
            assert (kept.x[row, length:] == 0).all()
            assert (kept.dt[row, length:] == 0).all()
    assert len(seen) > 20


def test_subsampling_of_steps_without_times_makes_the_gaps_known():
    batch = from_list([np.arange(10.0)], target=["a"], classes=["a", "b"]).batch()
    kept = subsample(batch, 0.4, torch.Generator().manual_seed(0), per_step=False)
    assert torch.equal(kept.dt[0].cumsum(0) - 1, kept.x[0, :, 0])
    assert torch.equal(kept.target, batch.target)


def test_evaluation_batches_hold_all_series_once_and_are_small():
    data = from_list([np.zeros(n) for n in (5, 1, 30, 2, 7, 7)])
    batches = list(evaluation_batches(data, 14))
    assert sorted(row for b in batches for row in b.rows.tolist()) == list(range(6))
    assert all(b.x.shape[0] * b.x.shape[1] <= 14 or len(b.x) == 1 for b in batches)
    assert len(batches) == 4


def test_predictions_come_in_the_order_of_the_series():
    data = small(60)
    fitted = fit(data, spec_for(data), Settings(epochs=1))
    said = fitted.predict(data)
    for row in (0, 17, 59):
        batch = data.batch([row])
        with torch.no_grad():
            alone = fitted.model(batch.x, **batch.times).softmax(-1)[0].numpy()
        np.testing.assert_allclose(said.values[row], alone, rtol=1e-5)
    assert said.ids.tolist() == data.ids.tolist()
    assert set(said.labels) <= {"even", "odd"}


# ---- processes -------------------------------------------------------------------------------------------


def run_python(*arguments):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)


def test_training_says_nothing_and_loads_lightning_only_when_it_trains():
    script = (
        "import sys, chronode.training as t\n"
        "assert 'pytorch_lightning' not in sys.modules and 'torchmetrics' not in sys.modules\n"
        "from chronode.tasks.bitstream import bitstream\n"
        "t.fit(bitstream(32, 0), settings=t.Settings(epochs=2))"
    )
    done = run_python("-c", script)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


SHARED = """
import os, sys
import torch
torch.set_num_threads(1)
from chronode.model import ModelSpec
from chronode.tasks.bitstream import bitstream
from chronode.training import Settings, fit
data = bitstream(70, seed=0, longest=6)
spec = ModelSpec.for_data(data, "mmrnn", hidden_size=4)
settings = Settings(epochs=2, batch_size=16, devices=2, strategy="ddp", optimizer="sgd", clip=0)
fitted = fit(data[:64], spec, settings, valid=data[64:])
fitted.model.save(f"{sys.argv[1]}/rank{os.environ.get('LOCAL_RANK', '0')}")
"""


@pytest.mark.slow
def test_two_processes_end_with_the_weights_of_one(tmp_path):
    script = tmp_path / "shared.py"
    script.write_text(SHARED)
    done = run_python(str(script), str(tmp_path))
    assert done.returncode == 0, done.stderr
    first, second = (SequenceModel.load(tmp_path / f"rank{rank}") for rank in (0, 1))
    assert torch.equal(weights(first), weights(second))
    data = bitstream(70, seed=0, longest=6)
    alone = fit(data[:64], first.spec, Settings(epochs=2, batch_size=16, optimizer="sgd", clip=0), valid=data[64:])
    # Both halves of every batch are equally large, so their mean gradient is that of the batch.
    torch.testing.assert_close(weights(first), weights(alone.model))


def test_a_task_object_brings_its_class_weights():
    def make(protocol, seed):
        return Parts(small(32), small(16, 1), small(16, 2))

    facts = {"loss": "cross_entropy", "metric": "f1", "protocols": {"clean": "all"}, "class_weights": (1.0, 3.0)}
    task = Task("parity-test", "parity", make, Sizes(32, 16, 16, 6, 1, 2), **facts)
    fitted = fit(task, settings=Settings(epochs=1))
    assert fitted.objective.class_weights == (1.0, 3.0)
    assert list(fitted.history[0].metrics) == ["f1"]
