"""Results of fit for all kinds of targets and data."""

import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from fit_checks import regression, small, spec_for, weights

import chronode
from chronode.data import LengthBatches, Scaler, from_list, from_numpy
from chronode.model._model import SequenceModel
from chronode.system._torch import are_flushed
from chronode.training import BatchDone, EpochDone, Note, Settings, fit
from chronode.training._assembly import notes_on
from chronode.training._objective import Objective
from chronode.training._task import Parts, Sizes, Task


def test_regression_is_learned_in_the_units_of_the_target():
    raw = regression(300)
    assert raw.target is not None
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


def test_vanished_gradients_do_not_slow_training_down():
    data, inside = regression(20), []
    spec = spec_for(data, "gru", hidden_size=4)
    fit(data, spec, Settings(epochs=1), on_event=lambda event: inside.append((type(event), are_flushed())))
    assert {(BatchDone, True), (EpochDone, True)} <= set(inside)
    assert not are_flushed()


def test_every_step_is_classified():
    rng = np.random.default_rng(0)
    series = [rng.normal(size=(int(n), 1)) for n in rng.integers(3, 9, size=150)]
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


def test_a_language_of_one_sentence_is_learned():
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
    rng = np.random.default_rng(0)
    values = rng.normal(size=(30, 6, 2))
    values[rng.random(values.shape) < 0.3] = np.nan
    target = rng.normal(size=(30, 2))
    target[3, 1] = np.nan
    data = from_numpy(values, order="NTD", target=target)
    fitted = fit(data, "gru-d", Settings(epochs=1, batch_size=8))
    assert fitted.spec.missing
    assert np.isfinite(fitted.history[0].loss)


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


def test_a_task_object_brings_its_class_weights():
    def make(protocol, seed):
        return Parts(small(32), small(16, 1), small(16, 2))

    facts = {"loss": "cross_entropy", "metric": "f1", "protocols": {"clean": "all"}, "class_weights": (1.0, 3.0)}
    task = Task("parity-test", "parity", make, Sizes(32, 16, 16, 6, 1, 2), **facts)
    fitted = fit(task, settings=Settings(epochs=1))
    assert fitted.objective.class_weights == (1.0, 3.0)
    assert list(fitted.history[0].metrics) == ["f1"]


def test_the_best_epoch_is_given_back():
    data, valid = small(64), small(40, 1)
    settings = Settings(epochs=8, batch_size=8, learning_rate=0.05, optimizer="sgd", clip=0)
    fitted = fit(data, spec_for(data), settings, valid=valid)
    accuracies = [e.metrics["accuracy"] for e in fitted.history]
    assert len(set(accuracies)) > 1
    assert fitted.best_epoch == 1 + int(np.argmax(accuracies))
    assert fitted.evaluate(valid)["accuracy"] == max(accuracies)
    assert not fitted.model.training


def test_training_ends_where_next_to_no_loss_is_left():
    data = from_list([[1.0, 2.0], [2.0, 1.0]] * 20, target=["up", "down"] * 20)
    settings = Settings(epochs=400, learning_rate=0.05, batch_size=10)
    fitted = fit(data, spec_for(data, "gru"), settings, valid=data)
    assert fitted.stopped == "early" and fitted.best_epoch == len(fitted.history) < 400
    assert fitted.history[-1].valid_loss < 1e-3 < fitted.history[-2].valid_loss
    longer = replace(settings, epochs=len(fitted.history) + 2, early_stop=0)
    again = fit(data, spec_for(data, "gru"), longer, valid=data)
    assert again.stopped == "epochs"


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
    *batches, epoch = (event for event in events if not isinstance(event, Note))
    assert epoch.epoch.loss == pytest.approx(np.average([b.loss for b in batches], weights=sizes(data)), rel=1e-6)


@pytest.mark.parametrize(
    ("changes", "steps"),
    [({}, 6), ({"epochs": 99}, 297), ({"tbptt": 4}, 12), ({"steps": 5}, 5), ({"epochs": 100}, None)],
)
def test_a_training_of_few_optimizer_steps_is_noted(changes, steps):
    parts = Parts(small(40), small(8, 1), small(8, 1))
    settings = Settings(**{"epochs": 2, "batch_size": 16, **changes})
    wanted = () if steps is None else (f"this training takes {steps} optimizer steps",)
    assert (
        tuple(note.partition(";")[0] for note in notes_on(Objective.for_data(parts.train), parts, settings)) == wanted
    )


def sizes(data):
    return [len(rows) for rows in LengthBatches(data.lengths, 16, seed=0)]


def test_a_model_put_together_by_hand_is_trained_in_place():
    model = SequenceModel(chronode.create("lstm-dt", 1, 4, outputs="last"), 2)
    before = weights(model).clone()
    fitted = fit(small(), model, Settings(epochs=1))
    assert fitted.model is model
    assert fitted.spec is None
    assert not torch.equal(weights(model), before)


def test_class_weights_move_the_predictions():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(200, 3, 1))
    data = from_numpy(values, order="NTD", target=(rng.random(200) < 0.15).astype(int))
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


def run_python(*arguments):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)


def test_training_prints_nothing_and_imports_neither_torchmetrics_nor_scipy():
    script = (
        "import sys, chronode.training as t\n"
        "from chronode.lab.tasks.bitstream import bitstream\n"
        "t.fit(bitstream(32, 0), settings=t.Settings(epochs=2))\n"
        "assert not {'torchmetrics', 'matplotlib', 'scipy'} & sys.modules.keys()"
    )
    done = run_python("-c", script)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
