"""ONNX: checked, run by onnxruntime, with any batch, length and state."""

import json
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
from export_cases import CLASSES, SCALER, built, deployed

import chronode
from chronode.export._deployment import Graph
from chronode.export._onnx import OnnxRunner, sequence_model, step_model, write_onnx
from chronode.export._verify import irregular, predictions


@pytest.fixture(scope="module")
def graph():
    return Graph.of(deployed("mmrnn"))


def session(model):
    return onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])


def outputs(run, inputs):
    return [np.asarray(part) for part in run.run(None, inputs)]


@pytest.mark.parametrize("make", [step_model, sequence_model])
def test_the_checker_accepts_it(graph, make):
    model = make(graph)
    onnx.checker.check_model(model, full_check=True)
    assert model.opset_import[0].version == 18
    assert "Loop" not in {node.op_type for node in model.graph.node}


@pytest.mark.parametrize(("batch", "steps"), [(1, 1), (1, 40), (5, 7), (13, 2)])
def test_any_batch_and_length(graph, tmp_path, batch, steps):
    write_onnx(graph, tmp_path)
    series = irregular(graph.deployment, batch, steps, seed=2)
    assert np.abs(OnnxRunner(tmp_path).run(graph, series) - predictions(graph.deployment, series)).max() < 1e-5


def test_padding_is_not_read(graph):
    series, lengths = irregular(graph.deployment, 4, 12, seed=3), np.array([12, 1, 7, 4])
    series.x[1, 1:], series.dt[1, 1:] = np.nan, -5.0
    run = session(sequence_model(graph))
    y, last, *state = outputs(run, {**series._asdict(), "lengths": lengths})
    for row, length in enumerate(lengths):
        alone = type(series)(*(part[row : row + 1, :length] for part in series))
        own_y, own_last, *own = outputs(run, {**alone._asdict(), "lengths": np.array([length])})
        assert np.allclose(y[row, :length], own_y[0], atol=1e-6)
        assert (y[row, length:] == 0).all()
        assert np.allclose(last[row], own_y[0, -1], atol=1e-6)
        assert np.array_equal(own_last, own_y[:, -1])
        assert all(np.allclose(a[row], b[0], atol=1e-6) for a, b in zip(state, own, strict=True))


def test_steps_carry_the_state_as_the_sequence_does(graph):
    model = step_model(graph)
    facts = {prop.key: json.loads(prop.value) for prop in model.metadata_props}
    series, run = irregular(graph.deployment, 3, 20, seed=4), session(model)
    state = [np.tile(np.array(part, np.float32), (3, 1)) for part in facts["initial_state"]]
    whole = outputs(session(sequence_model(graph)), {**series._asdict(), "lengths": np.full(3, 20)})
    for step in range(20):
        now = {name: part[:, step] for name, part in series._asdict().items()}
        y, *state = outputs(run, {**now, **{f"state{i}": part for i, part in enumerate(state)}})
        assert np.allclose(y, whole[0][:, step], atol=1e-6)
    assert all(np.allclose(a, b, atol=1e-6) for a, b in zip(state, whole[2:], strict=True))


def test_the_metadata_names_channels_classes_and_units(graph):
    facts = {prop.key: json.loads(prop.value) for prop in sequence_model(graph).metadata_props}
    assert facts["inputs"] == list(SCALER.channels)
    assert facts["outputs"] == list(CLASSES)
    assert (facts["time_unit"], facts["classes"], facts["missing"]) == ("minute", True, True)


@pytest.mark.parametrize("name", ["onnx", "onnxruntime"])
def test_a_missing_package_is_named_with_its_cure(name, tmp_path, monkeypatch):
    done = chronode.export(built("gru"), tmp_path, format="onnx")
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"pip install 'chronode\[export\]'"):
        done.runner() if name == "onnxruntime" else chronode.export(built("gru"), tmp_path / "new", format="onnx")
