"""A model of MLflow has the predictions of `chronode predict`."""

import csv
from pathlib import Path

import pandas
import pytest
from commands import chronode

from chronode import mlflow as flavor


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [f"p{i % 30},{i // 30},{i % 7},{'yes' if i % 30 > 14 else 'no'}" for i in range(150)]
    Path("a.csv").write_text("who,t,x,ill\n" + "\n".join(rows) + "\n")
    roles = ("--id", "who", "--time", "t", "--target", "ill")
    chronode("train", "a.csv", *roles, "--model", "gru", "--hidden-size", 4, "--epochs", 1, "-o", "run")
    chronode("predict", "run", "a.csv", "-o", "out.csv")
    return Path("run")


def check(model):
    found = model.predict(pandas.read_csv("a.csv").drop(columns="ill"))
    wanted = list(csv.DictReader(Path("out.csv").read_text().splitlines()))
    assert found["who"].tolist() == [row["who"] for row in wanted]
    assert found["p_yes"].tolist() == pytest.approx([float(row["p_yes"]) for row in wanted], abs=1e-7)


def test_what_mlflow_loads_predicts_like_the_command(run):
    chronode("pack", run, "-o", "model.chronode")
    check(flavor._load_pyfunc("model.chronode"))
    check(flavor._load_pyfunc(str(run)))


def test_a_model_of_mlflow_is_saved_and_loaded(run):
    pyfunc = pytest.importorskip("mlflow.pyfunc", reason="mlflow is an extra that the development set does not have")
    flavor.save_model(run, "saved")
    check(pyfunc.load_model("saved"))


def test_without_mlflow_the_extra_is_named(run, monkeypatch):
    import builtins

    imported = builtins.__import__

    def missing(name, *given, **more):
        if name.partition(".")[0] == "mlflow":
            raise ModuleNotFoundError(name=name)
        return imported(name, *given, **more)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ImportError, match=r"chronode\[mlflow\]"):
        flavor.save_model(run, "saved")
