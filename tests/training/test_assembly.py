"""One assembly per training: the series are loaded, the network is built and all is checked once."""

import torch
from commands import run

from chronode import ModelSpec, SequenceModel
from chronode.data import from_list
from chronode.lab.experiments.jobs import TableJob
from chronode.lab.experiments.recipe import find_recipe
from chronode.lab.tasks import Task
from chronode.runs import Config, resume_run, train_run
from chronode.training import Settings, _assembly, fit
from chronode.training._assembly import assemble

FEW = {"train": 64, "valid": 16, "test": 16}
SMALL = [word for name, value in FEW.items() for word in ("--option", f"{name}={value}")]
ASKED = {
    "data": {"source": "bitstream", "options": FEW},
    "model": {"model": "mmrnn", "hidden": 4},
    "training": {"epochs": 1},
}


def counted(monkeypatch):
    """Counts how often series are loaded, networks are built and runs are checked."""
    counts = dict.fromkeys(("load", "build", "check"), 0)

    def counting(name, function):
        def call(*arguments, **options):
            counts[name] += 1
            return function(*arguments, **options)

        return call

    monkeypatch.setattr(Task, "load", counting("load", Task.load))
    monkeypatch.setattr(SequenceModel, "__init__", counting("build", SequenceModel.__init__))
    monkeypatch.setattr(_assembly, "check_fits", counting("check", _assembly.check_fits))
    return counts


def test_the_command_line_builds_one_network(monkeypatch, tmp_path):
    counts = counted(monkeypatch)
    run("train", "bitstream", *SMALL, "--model", "mmrnn", "--hidden", "4", "--epochs", "1", "-o", str(tmp_path / "run"))
    assert counts == {"load": 1, "build": 1, "check": 1}


def test_a_run_folder_builds_one_network_and_a_resumed_one_too(monkeypatch, tmp_path):
    counts = counted(monkeypatch)
    train_run(Config.from_dict(ASKED), tmp_path / "run")
    assert counts == {"load": 1, "build": 1, "check": 1}
    resume_run(tmp_path / "run", changes={"epochs": 2})
    assert counts == {"load": 2, "build": 2, "check": 2}


def test_a_linear_start_builds_no_other_network(monkeypatch):
    counts = counted(monkeypatch)
    s = from_list([[1.0, 2.0], [3.0, 1.0]] * 20, target=["up", "down"] * 20)
    spec = ModelSpec.for_data(s, "gru", 4)
    begun = assemble(s, spec, Settings(epochs=1), start="linear", valid=s)
    assert counts == {"load": 0, "build": 1, "check": 1}
    alone = assemble(s, spec, Settings(epochs=1), valid=s)
    for name, tensor in alone.network.layer.state_dict().items():
        assert torch.equal(tensor, begun.network.layer.state_dict()[name])
    assert begun.network.spec.start is not None and not begun.network.head.weight.any()
    assert begun.network.head.weight.requires_grad


def test_a_run_of_a_table_builds_one_network(monkeypatch):
    counts = counted(monkeypatch)
    cell = next(cell for cell in find_recipe("mmrnn/table3").cells("smoke") if cell.model == "mmrnn")
    TableJob(cell, 0).execute()
    assert counts == {"load": 1, "build": 1, "check": 1}


def test_a_training_draws_the_same_numbers_whenever_it_begins():
    """Whatever is drawn between the assembly and the training, and whether `fit` does both."""
    settings, sizes = Settings(epochs=2, seed=3), {"hidden_size": 4, "num_layers": 2, "dropout": 0.5}
    assembly = assemble("bitstream", "gru", settings, network=sizes, options=FEW)
    torch.manual_seed(99)
    before = torch.get_rng_state()
    later = assembly.fit().model.state_dict()
    assert torch.equal(torch.get_rng_state(), before)
    again = assemble("bitstream", "gru", settings, network=sizes, options=FEW)
    at_once = fit("bitstream", again.network.spec, settings, options=FEW).model.state_dict()
    for name, tensor in at_once.items():
        assert torch.equal(tensor, later[name])
