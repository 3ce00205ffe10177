"""Weights in 8 bits: positions stay as they are, and every check compares with the model before rounding."""

import re
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest
import torch
from commands import QUICK, chronode
from export_cases import MODELS, deployed
from test_windows import CASES, graph_of, series_for

from chronode import ModelSpec, SequenceModel
from chronode.data import Scaler
from chronode.data._shaping import Shape
from chronode.export import export
from chronode.export._c import CModel, write_c
from chronode.export._c_constants import Constants, decisive_parameters
from chronode.export._deployment import Graph
from chronode.export._verify import irregular, predictions
from chronode.runs import load

needs_compiler = pytest.mark.skipif(not shutil.which("gcc") or not shutil.which("make"), reason="needs gcc and make")


def long_window(case, weights=1.0):
    """A linear start alone, from a window that is long enough for vectors of positions to be rounded."""
    graph = graph_of(*CASES[case], alone=True, steps=33, window=36)
    graph.deployment.model.start.get_buffer("weight").mul_(weights)
    return Graph.of(graph.deployment)


def check(folder):
    return subprocess.run(["make", "check"], cwd=folder, capture_output=True, text=True)


@pytest.mark.parametrize("case", ["interpolated", "readings", "times, none missing"])
def test_the_grid_of_a_linear_start_is_not_rounded(case):
    graph = long_window(case)
    series = series_for(graph, batch=2, steps=44)
    model = CModel(graph, int8=True)
    away = graph.run(series, model.tensors) - predictions(graph.deployment, series)
    assert np.sqrt((away**2).mean(axis=(0, 1))).max() < 0.05 * predictions(graph.deployment, series).std()
    assert model.costs.flash < CModel(graph).costs.flash, "the weights are"


def test_compared_constants_are_found_by_their_use():
    """Whatever they are called: what reaches a comparison is fixed, what a product multiplies is not."""
    graph = long_window("interpolated").parts["measure"]
    nodes = graph.step.nodes
    fixed = decisive_parameters(nodes)
    positions = [
        i
        for i, own in enumerate(graph.tensors)
        if own.size >= 32 and np.isfinite(own).all() and (np.abs(np.diff(own.ravel())) == 1).all()
    ]
    assert len(positions) >= 3
    assert set(positions) <= fixed
    weights = {node.args[1].node.detail for node in nodes if node.op == "product"}
    assert weights
    assert not weights & fixed
    given = Constants(graph.tensors, nodes, True, graph.scaling()).values()
    assert all(np.array_equal(given[i], graph.tensors[i]) for i in fixed)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in ("mmrnn", "ltc") else pytest.mark.slow) for n in MODELS]
)
def test_masks_and_comparisons_of_every_model_keep_their_meaning(name):
    deployment = deployed(name, hidden=16)
    graph = Graph.of(deployment)
    series, model = irregular(deployment, 2, 40), CModel(Graph.of(deployment), int8=True)
    away = graph.run(series, model.tensors) - predictions(deployment, series)
    assert np.sqrt((away**2).mean()) < 0.06


def test_a_bias_that_equals_the_scaling_of_the_target_can_be_exported(tmp_path):
    names = tuple("abcdefgh")
    scaler = Scaler(("x", "y"), (0.0, 0.0), (1.0, 1.0), targets=names, target_mean=(0.0,) * 8, target_std=(2.0,) * 8)
    model = SequenceModel.build(ModelSpec("gru", 2, 8, hidden_size=16))
    torch.nn.init.zeros_(model.head.bias)
    assert export(model, tmp_path, scaler=scaler, weights="int8").files


@needs_compiler
def test_a_linear_start_alone_and_logarithms_check_themselves(tmp_path):
    """-Werror has nothing to say about arguments that are not used, and masks of logarithms stay masks."""
    graph = long_window("times, none missing", weights=0.1)
    shapes = (Shape(offset=1.0), Shape())
    assert graph.deployment.scaler is not None
    scaler = replace(graph.deployment.scaler, shapes=shapes, mean=(1.5, 0.4), std=(0.3, 1.5))
    graph = Graph.of(replace(graph.deployment, scaler=scaler))
    for int8 in (False, True):
        write_c(graph, tmp_path / str(int8), int8=int8, math="library")
        done = check(tmp_path / str(int8))
        assert done.returncode == 0, done.stdout + done.stderr
        assert ("before rounding: largest difference" in done.stdout) == int8


@needs_compiler
def test_the_check_fails_if_rounding_changed_the_predictions(tmp_path, monkeypatch):
    monkeypatch.setattr("chronode.export._c_constants.decisive_parameters", lambda nodes: set())
    written = write_c(long_window("interpolated", weights=4.0), tmp_path, int8=True, math="library")
    assert not written.rounding.is_small
    assert "too much" in written.rounding.text()
    done = check(tmp_path)
    assert re.search(r"steps, largest difference \S+: ok", done.stdout), "the code computes what the weights say"
    assert re.search(r"before rounding: largest difference \S+: FAILED", done.stdout)
    assert done.returncode != 0


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The default forecast of a file with dates."""
    folder, rng = tmp_path_factory.mktemp("forecast"), np.random.default_rng(0)
    sales = np.exp(2 + 0.3 * np.sin(np.arange(400) * np.pi / 6) + 0.1 * rng.normal(size=400))
    days = np.datetime64("2020-01-01") + np.arange(400)
    rows = [f"{day},{value:.4f}" for day, value in zip(days, sales, strict=True)]
    (folder / "sales.csv").write_text("\n".join(["day,sales", *rows]) + "\n")
    options = ["--time", "day", "--forecast", 6, "--window", 40, "--epochs", 1, *QUICK]
    chronode("train", folder / "sales.csv", *options, "-o", folder / "run")
    return folder / "run", folder / "sales.csv"


@needs_compiler
def test_the_metrics_of_the_default_forecast_stay_those_of_chronode(run, tmp_path):
    folder, file = run
    found = export(folder, tmp_path, weights="int8").verify(load(folder), file)
    own, other = found.metrics["rmse"]
    trained = load(folder)
    assert found.count == 200
    assert own == pytest.approx(other, rel=0.02)
    assert other == pytest.approx(trained.evaluate(trained.series(str(file), labeled=True))["rmse"], rel=0.1)


@needs_compiler
def test_the_tolerance_of_a_verification_decides_the_exit_code(run, tmp_path):
    folder, file = run
    options = ["export", folder, "--weights", "int8", "--verify", file, "--force", "-o", tmp_path]
    done = chronode(*options, "--tolerance", 10)
    difference = float(re.search(r"largest difference (\S+) in", done.out)[1])
    assert difference > 1e-6
    assert re.search(r"rmse \S+ \(chronode \S+\)", done.out)
    assert re.search(r"int8: +largest difference from float32 \S+,", done.out)
    failed = chronode(*options, "--tolerance", 0.9 * difference, code=1)
    assert "--tolerance" in failed.err
    assert "--tolerance requires --verify" in chronode("export", folder, "--tolerance", 1, code=2).err
