"""Training with compiled cells: decided before the first batch, said in a line, kept when a run is resumed."""

import os
import tempfile
from pathlib import Path

import pytest
import torch

from chronode import compiler
from chronode.lab.tasks.bitstream import bitstream
from chronode.model._spec import ModelSpec
from chronode.runs._checkpoints import Store
from chronode.training import Settings, fit


@pytest.fixture(autouse=True)
def shared_cache(monkeypatch):
    monkeypatch.setenv("CHRONODE_CACHE", str(Path(tempfile.gettempdir()) / f"chronode-tests-{os.getuid()}"))
    monkeypatch.setenv("CHRONODE_CXXFLAGS", "-O1")


@pytest.fixture
def plan(monkeypatch):
    """Decides for compiling, whatever the work; `plan.answer = False` decides against it."""

    class Plan:
        answer = True

        def __call__(self, model, steps):
            self.steps = steps
            return compiler.Decision(self.answer, "the step runs compiled")

    made = Plan()
    monkeypatch.setattr(compiler, "plan", made)
    return made


def train(epochs, **how):
    data = bitstream(48, seed=0, longest=4)
    spec = ModelSpec.for_data(data, "ugrnn", hidden_size=5)
    return fit(data, spec, Settings(epochs=epochs, batch_size=16), **how)


def weights(fitted):
    return torch.cat([parameter.detach().flatten() for parameter in fitted.model.parameters()])


def test_the_decision_is_reported_and_taken_from_the_work_ahead(plan):
    events = []
    fitted = train(2, on_event=events.append)
    assert any("UGRNNCell: the step runs compiled." in str(getattr(event, "text", event)) for event in events)
    assert plan.steps > 4
    assert all(cell.runs_compiled for cell in compiler.cells_of(fitted.model))


def test_a_resumed_run_keeps_the_decision_and_its_bits(plan, tmp_path):
    whole = weights(train(3))
    train(2, store=Store(tmp_path))
    plan.answer = False
    resumed = train(3, store=Store(tmp_path), resume=True)
    assert torch.equal(weights(resumed), whole)
    assert all(cell.runs_compiled for cell in compiler.cells_of(resumed.model))


def test_a_run_begun_without_compiling_continues_without(plan, tmp_path):
    plan.answer = False
    train(1, store=Store(tmp_path))
    plan.answer = True
    resumed = train(2, store=Store(tmp_path), resume=True)
    assert not any(cell.runs_compiled for cell in compiler.cells_of(resumed.model))


def test_a_small_job_is_not_compiled():
    assert not any(cell.runs_compiled for cell in compiler.cells_of(train(1).model))
