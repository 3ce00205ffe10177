"""Training on another device than the CPU, as far as that can be known without one."""

import pytest
import torch
from device_checks import Looks, as_on_a_gpu  # noqa: F401
from fit_checks import regression, small, spec_for

from chronode.model._model import SequenceModel
from chronode.model._spec import ModelSpec
from chronode.runs._checkpoints import Store
from chronode.training import EpochDone, Settings, fit
from chronode.training._loop import Training
from chronode.training._objective import Objective
from chronode.training._schedule import LOOK_EVERY, not_finite

CASES = {
    "classes": (small, {}, 0),
    "class weights": (small, {"class_weights": "balanced"}, 0),
    "values": (regression, {}, 0),
    "pieces": (small, {"tbptt": 3}, 0),
    "average": (small, {"average": "ema", "clip": 0.0}, 2),  # torch's AveragedModel looks at its count of steps
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.usefixtures("as_on_a_gpu")
def test_a_training_step_does_not_wait_for_the_device(case, monkeypatch):
    """No number is looked at from the batch to the new weights.

    With SGD: Adam counts its steps in tensors that stay on the CPU, and looks at them there.
    """
    make, options, expected = CASES[case]
    looks, step = [], Training.step
    monkeypatch.setattr(Training, "_reads_loss", lambda self: False)

    def counted(self, batch):
        with Looks(but=("pieces", "_any_known")) as mode:
            step(self, batch)
        looks.append(mode.count)

    monkeypatch.setattr(Training, "step", counted)
    data = make()
    fit(data, spec_for(data), Settings(epochs=1, batch_size=16, optimizer="sgd", **options), valid=data)
    assert looks == [expected] * 3


def test_on_a_gpu_the_loss_is_looked_at_now_and_then(monkeypatch):
    """At every batch on the CPU, at every 20th elsewhere: a loss that is not finite is found there."""
    data, runs, end = small(), [], Training.end_epoch
    monkeypatch.setattr(Training, "end_epoch", lambda self: runs.append(self) or end(self))
    fit(data, spec_for(data), Settings(epochs=1, batch_size=16), valid=data)
    (run,) = runs
    assert [run._reads_loss() for run.place.batch in range(3)] == [True] * 3
    run.device = torch.device("cuda")
    assert [run.place.batch for run.place.batch in range(50) if run._reads_loss()] == [0, 20, 40]
    found = str(not_finite(run, torch.tensor(torch.nan), data.batch([0, 1])))
    assert f"or in the previous {LOOK_EVERY - 1} batches" in found and "are kept" not in found


SPECS = {
    "classes": ModelSpec("mmrnn", 3, 4, 5),
    "every step": ModelSpec("unicornn", 3, 4, 5, per_step=True),
    "missing": ModelSpec("gru", 3, 1, 5, missing=True),
    "symbols": ModelSpec("lstm", 1, 2, 5, symbols=7, embedding_size=3, word_dropout=0.3),
}


@pytest.mark.parametrize("case", SPECS)
@pytest.mark.parametrize("weighted", [False, True])
def test_a_whole_model_and_its_loss_stay_on_their_device(case, weighted):
    """On the meta device a CPU tensor in between is an error."""
    spec = SPECS[case]
    model = SequenceModel.build(spec).to("meta")
    there = {"device": "meta"}
    x = torch.empty(2, 6, 3, **there) if spec.symbols is None else torch.zeros(2, 6, 1, dtype=torch.int64, **there)
    times = {"dt": torch.empty(2, 6, **there), "lengths": torch.empty(2, dtype=torch.int64, **there)}
    if case == "missing":
        times["observed"] = torch.empty(2, 6, 3, dtype=torch.bool, **there)
    output = model(x, **times)
    if spec.num_outputs == 1:
        objective = Objective("value", 1, False, "rmse", ("rmse",), "squared")
        target = torch.empty(output.shape, **there)
    else:
        weights = tuple(range(1, spec.num_outputs + 1)) if weighted else None
        objective = Objective("class", spec.num_outputs, False, "loss", (), "cross_entropy", weights)
        target = torch.zeros(output.shape[:-1], dtype=torch.int64, **there)
    loss = objective.loss_of(output, target)
    loss.mean.backward()
    found = [output, *loss, *(p.grad for p in model.parameters())]
    assert {tensor.device.type for tensor in found} == {"meta"}


def test_class_weights_of_known_targets():
    """The weight of the loss is the sum over known targets."""
    objective = Objective("class", 3, False, "loss", (), "cross_entropy", (1.0, 2.0, 4.0))
    output, target = torch.randn(5, 3), torch.tensor([0, 2, -100, 1, 2])
    loss = objective.loss_of(output, target)
    assert float(loss.weight) == 1 + 4 + 2 + 4
    wanted = torch.nn.functional.cross_entropy(output, target, torch.tensor([1.0, 2.0, 4.0]))
    torch.testing.assert_close(loss.mean, wanted)


GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device on this machine")


@pytest.mark.parametrize(
    "accelerators", [("cpu", "auto", "cpu"), pytest.param(("gpu", "cpu", "gpu"), marks=GPU)], ids="-".join
)
def test_a_run_moves_to_another_device_and_back(tmp_path, accelerators):
    data, store, trained = small(), Store(tmp_path), []
    for epochs, accelerator in enumerate(accelerators, 1):
        settings = Settings(epochs=epochs, accelerator=accelerator)
        fit(data, spec_for(data), settings, valid=data, store=store, resume=True, on_event=trained.append)
    assert [event.epoch.number for event in trained if isinstance(event, EpochDone)] == [1, 2, 3]
