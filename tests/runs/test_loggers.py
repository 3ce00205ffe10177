"""Loggers: files of csv and TensorBoard read back, wandb and mlflow through stand-ins, resumes, missing packages."""

import csv
import sys
from types import ModuleType, SimpleNamespace

import pytest
from commands import QUICK, VITALS, chronode, write_vitals

from chronode.runs import Config, resume_run, train_run

SMALL = {
    "data": {"source": "bitstream", "options": {"train": 24, "valid": 8, "test": 8}},
    "model": {"model": "mmrnn", "hidden": 4},
}


def asked(epochs=2):
    return Config.from_dict({**SMALL, "training": {"epochs": epochs}})


def rows_of(path):
    with path.open(newline="") as file:
        return [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]


def test_csv_holds_the_lines_of_the_run_after_a_resume_too(tmp_path):
    run = train_run(asked(), tmp_path / "run", loggers=["csv"]).run
    assert rows_of(run.path / "metrics.csv") == run.metrics()
    resume_run(run.path, changes={"epochs": 4}, loggers=["csv"])
    rows = rows_of(run.path / "metrics.csv")
    assert [row["epoch"] for row in rows] == [1, 2, 3, 4]
    assert rows == run.metrics()


def test_a_resume_with_a_logger_that_was_not_there_before_has_all_epochs(tmp_path):
    run = train_run(asked(), tmp_path / "run").run
    resume_run(run.path, changes={"epochs": 3}, loggers=["csv"])
    assert rows_of(run.path / "metrics.csv") == run.metrics()


def test_tensorboard_reads_the_scalars(tmp_path):
    pytest.importorskip("tensorboard", reason="the optional package tensorboard is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = train_run(asked(), tmp_path / "run", loggers=["tensorboard"]).run
    resume_run(run.path, changes={"epochs": 3}, loggers=["tensorboard"])
    events = EventAccumulator(str(run.path / "tensorboard")).Reload()
    rows = run.metrics()
    for name in ("loss", "valid_loss", "accuracy", "rate"):
        found = events.Scalars(name)
        assert [one.step for one in found] == [1, 2, 3]
        assert [one.value for one in found] == pytest.approx([row[name] for row in rows])
    assert events.Scalars("test/accuracy")[-1].value == pytest.approx(run.summary().test["accuracy"])


class FakeWandb(ModuleType):
    """As much of wandb as is called, in its names."""

    def __init__(self):
        super().__init__("wandb")
        self.sessions = []

    def init(self, *, project, resume, name, dir, config, id):
        session = SimpleNamespace(about={"project": project, "name": name, "config": config, "id": id}, rows=[])
        session.summary, session.finished = {}, False
        session.log = lambda numbers, step: session.rows.append((step, numbers))
        session.finish = lambda: setattr(session, "finished", True)
        self.sessions.append(session)
        return session


def test_wandb_gets_config_epochs_and_test_and_continues_the_same_run(tmp_path, monkeypatch):
    fake = FakeWandb()
    monkeypatch.setitem(sys.modules, "wandb", fake)
    run = train_run(asked(), tmp_path / "run", loggers=["wandb"]).run
    resume_run(run.path, changes={"epochs": 3}, loggers=["wandb"])
    first, second = fake.sessions
    assert first.about["id"] == second.about["id"]
    assert first.about["config"]["model"]["hidden_size"] == 4
    assert [step for one in fake.sessions for step, _ in one.rows] == [1, 2, 3]
    assert first.rows[0][1]["loss"] == run.metrics()[0]["loss"]
    assert "epoch" not in first.rows[0][1]
    assert second.summary["test/accuracy"] == run.summary().test["accuracy"]
    assert first.finished
    assert second.finished


class FakeMlflow(ModuleType):
    """As much of mlflow as is called, in its names."""

    def __init__(self):
        super().__init__("mlflow")
        self.started, self.params, self.logged, self.ended = [], {}, [], 0

    def start_run(self, run_id=None, run_name=None):
        self.started.append((run_id, run_name))
        return SimpleNamespace(info=SimpleNamespace(run_id=run_id or "abc"))

    def log_params(self, params):
        assert all(len(value) <= 500 for value in params.values())
        self.params |= params

    def log_metrics(self, numbers, step=None):
        self.logged.append((step, numbers))

    def end_run(self):
        self.ended += 1


def test_mlflow_gets_parameters_epochs_and_test_and_continues_the_same_run(tmp_path, monkeypatch):
    fake = FakeMlflow()
    monkeypatch.setitem(sys.modules, "mlflow", fake)
    run = train_run(asked(), tmp_path / "run", loggers=["mlflow"]).run
    resume_run(run.path, changes={"epochs": 3}, loggers=["mlflow"])
    assert fake.started == [(None, "run"), ("abc", None)]
    assert fake.params["model.hidden_size"] == "4"
    assert [step for step, _ in fake.logged if step] == [1, 2, 3]
    assert fake.logged[-1] == (None, {f"test_{name}": value for name, value in run.summary().test.items()})
    assert fake.ended == 2


def test_loggers_are_closed_when_training_is_interrupted(tmp_path, monkeypatch):
    fake = FakeWandb()
    monkeypatch.setitem(sys.modules, "wandb", fake)

    def stop(event):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        train_run(asked(), tmp_path / "run", on_event=stop, loggers=["wandb"])
    assert fake.sessions[0].finished


@pytest.mark.parametrize("name", ["wandb", "mlflow", "tensorboard"])
def test_a_missing_package_is_named_with_the_command_before_anything_is_trained(tmp_path, monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, None)
    data = write_vitals(tmp_path / "vitals.csv")
    output = chronode("train", data, *VITALS, *QUICK, "-o", tmp_path / "run", "--logger", f"csv,{name}", code=2)
    assert f"pip install 'chronode[{name}]'" in output.err
    assert not (tmp_path / "run").exists()


def test_an_unknown_logger_is_refused(tmp_path):
    output = chronode("train", "bitstream", "--logger", "cvs", "-o", tmp_path / "run", code=2)
    assert "Did you mean 'csv'" in output.err
    assert not (tmp_path / "run").exists()
