"""Forecasts from windows in every format, against chronode on the window that ends at each step."""

import json
import shutil
import subprocess

import numpy as np
import pytest
import torch

from chronode import ModelSpec, SequenceModel
from chronode.data import Scaler
from chronode.export._c import CRunner, write_c
from chronode.export._deployment import Deployment, Graph, exportable
from chronode.export._onnx import OnnxRunner, write_onnx
from chronode.export._pt2 import Pt2Runner, write_pt2
from chronode.export._verify import irregular, predictions, tolerances
from chronode.model import Link

WINDOW, CHANNELS = 7, ("load", "price")
OUTPUTS = ("price+1", "price+2", "price+3")
SCALER = Scaler(
    CHANNELS, (5.0, 0.4), (2.0, 1.5), dt=2.0, targets=OUTPUTS, target_mean=(0.4,) * 3, target_std=(1.5,) * 3
)
STRICT = ["-std=c99", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-pedantic"]
needs_compiler = pytest.mark.skipif(not shutil.which("gcc"), reason="needs a C compiler")
WRITERS = {
    "c": (lambda graph, folder: write_c(graph, folder, int8=False, math="library"), CRunner),
    "onnx": (write_onnx, OnnxRunner),
    "pt2": (write_pt2, Pt2Runner),
}
CASES = {
    "interpolated": ({"kind": "values"}, True, "hour", "gru"),
    "readings": ({"kind": "readings"}, True, "hour", "mmrnn"),
    "times, none missing": ({"kind": "values"}, False, "hour", "lstm-dt"),
    "regular": ({"kind": "values"}, False, "step", "unicornn"),
    "network alone": (None, True, "hour", "gru-d"),
}


def graph_of(features, missing, unit, model, alone=False, steps=6, window=WINDOW):
    """A model with random weights; the price is continued from both channels, `alone` by the linear start only."""
    torch.manual_seed(0)
    start = (
        None if features is None else {**features, "channels": 2, "steps": steps, "gap": 1.0 if unit == "step" else 0.8}
    )
    spec = ModelSpec(model, 2, 3, hidden_size=5, missing=missing, relative=(1,), start=start)
    network = SequenceModel.build(spec).eval()
    assert network.relative is not None
    network.relative.get_buffer("floor").fill_(0.1)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
        if network.start is not None:
            network.start.get_buffer("weight").normal_().mul_(0.2 * (6 / steps) ** 0.5)
            network.start.get_buffer("bias").normal_()
        for parameter in network.head.parameters() if alone else ():
            parameter.zero_()
    about = {"scaler": SCALER, "unit": unit, "gap": 2.0, "window": window}
    links = (Link(len(OUTPUTS), scaler=SCALER),)
    return Graph.of(Deployment(exportable(network), CHANNELS, OUTPUTS, links, **about))


def series_for(graph, batch=2, steps=20):
    series = irregular(graph.deployment, batch, steps, seed=1)
    if graph.deployment.unit == "step":
        series = series._replace(dt=np.full_like(series.dt, SCALER.dt))
    return series


def check(graph, found, series):
    away = np.abs(found - predictions(graph.deployment, series)) / tolerances(graph.deployment)
    assert away.max() <= 1


@needs_compiler
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_c_gives_the_answers_of_chronode(tmp_path, case):
    graph = graph_of(*case)
    write_c(graph, tmp_path, int8=False, math="library")
    series = series_for(graph)
    check(graph, CRunner(tmp_path, "gcc", STRICT).run(graph, series), series)


@needs_compiler
@pytest.mark.parametrize("int8", [False, True])
def test_the_folder_checks_itself(tmp_path, int8):
    model = write_c(graph_of(*CASES["interpolated"]), tmp_path, int8=int8, math="builtin")
    done = subprocess.run(["make", "check"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert model.costs.state == 4 * (WINDOW * (2 * 2 + 2) + 1)


def test_onnx_gives_the_answers_of_chronode(tmp_path):
    graph = graph_of(*CASES["interpolated"])
    write_onnx(graph, tmp_path)
    series = series_for(graph)
    check(graph, OnnxRunner(tmp_path).run(graph, series), series)


def test_an_onnx_step_carries_the_window(tmp_path):
    import onnxruntime

    graph = graph_of(*CASES["readings"])
    write_onnx(graph, tmp_path)
    series, session = series_for(graph), onnxruntime.InferenceSession(tmp_path / "step.onnx")
    whole = onnxruntime.InferenceSession(tmp_path / "sequence.onnx")
    facts = session.get_modelmeta().custom_metadata_map
    state, found = np.tile(np.array(json.loads(facts["initial_state"])[0], np.float32), (2, 1)), []
    for step in range(20):
        now = {name: part[:, step] for name, part in series._asdict().items()}
        y, state = (np.asarray(part) for part in session.run(None, {**now, "state0": state}))
        found.append(y)
    check(graph, np.stack(found, axis=1), series)
    inputs = {**series._asdict(), "lengths": np.array([20, 12])}
    y, last, after = (np.asarray(part) for part in whole.run(None, inputs))
    np.testing.assert_allclose(after[0], state[0], atol=1e-5)
    np.testing.assert_allclose(last, [found[19][0], found[11][1]], atol=1e-5)
    assert (y[1, 12:] == 0).all()


def test_pt2_gives_the_answers_of_chronode(tmp_path):
    graph = graph_of(*CASES["times, none missing"])
    write_pt2(graph, tmp_path)
    series = series_for(graph, batch=3, steps=12)
    check(graph, Pt2Runner(tmp_path).run(graph, series), series)


@pytest.mark.parametrize("format", [pytest.param("c", marks=needs_compiler), "onnx", "pt2"])
def test_a_linear_start_alone_needs_no_network(tmp_path, format):
    graph = graph_of(*CASES["regular"], alone=True)
    assert sum(tensor.size for tensor in graph.parts["network"].tensors) < 20, "the rest is scaling"
    series, (write, runner) = series_for(graph), WRITERS[format]
    write(graph, tmp_path)
    check(graph, runner(tmp_path).run(graph, series), series)
