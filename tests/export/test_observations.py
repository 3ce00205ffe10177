"""Every format with observations that predict refuses, with the first dt, and with codes of texts."""

import ctypes
import json
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from commands import QUICK, chronode
from export_cases import CLASSES, SCALER, built, deployed
from test_c_programs import LOG, library
from test_windows import CASES, graph_of, series_for

from chronode.export import export
from chronode.export._c import CRunner, write_c
from chronode.export._deployment import Graph
from chronode.export._onnx import OnnxRunner, write_onnx
from chronode.export._pt2 import Pt2Runner, write_pt2
from chronode.export._verify import irregular, predictions
from chronode.runs import load

needs_compiler = pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")
WRITERS = {
    "c": (lambda graph, folder: write_c(graph, folder, int8=False, math="library"), CRunner),
    "onnx": (write_onnx, OnnxRunner),
    "pt2": (write_pt2, Pt2Runner),
}
FORMATS = [pytest.param("c", marks=needs_compiler), "onnx", pytest.param("pt2", marks=pytest.mark.slow)]
WRONG = {"log": ("x", (1, 3, 0), 0.0), "infinite": ("x", (1, 3, 1), np.inf), "dt": ("dt", (1, 3), -1.0)}


def graph_with_logarithms(window):
    if not window:
        return Graph.of(replace(deployed("gru"), scaler=LOG, unit="minute"))
    graph = graph_of(*CASES["interpolated"])
    shapes = (LOG.shapes[0], LOG.shapes[1])
    assert graph.deployment.scaler is not None
    scaler = replace(graph.deployment.scaler, shapes=shapes, mean=(1.5, 0.4), std=(0.3, 1.5))
    return Graph.of(replace(graph.deployment, scaler=scaler))


def outputs(session, inputs):
    return [np.asarray(part) for part in session.run(None, inputs)]


def spoilt(series, name, place, value):
    changed = series._replace(**{name: getattr(series, name).copy()}, observed=np.ones_like(series.observed))
    getattr(changed, name)[place] = value
    return changed


@pytest.mark.parametrize("window", [False, True], ids=["state", "window"])
def test_onnx_gives_nan_from_a_refused_observation_on(tmp_path, window):
    graph = graph_with_logarithms(window)
    write_onnx(graph, tmp_path)
    session = onnxruntime.InferenceSession(tmp_path / "sequence.onnx")
    facts = {p.key: json.loads(p.value) for p in onnx.load(tmp_path / "sequence.onnx").metadata_props}
    assert facts["no_logarithm"] == {graph.deployment.channels[0]: 0.0, **({} if window else {"spO2": -1.0})}
    series = irregular(graph.deployment, 3, 8)
    series = series._replace(observed=np.ones_like(series.observed))
    lengths = {"lengths": np.array([8, 8, 3])}
    usual = outputs(session, {**series._asdict(), **lengths})
    assert np.isfinite(usual[0]).all()
    for name, place, value in WRONG.values():
        y, last, *state = outputs(session, {**spoilt(series, name, place, value)._asdict(), **lengths})
        assert np.isnan(y[1, 3:]).all()
        assert np.isnan(last[1]).all()
        assert all(np.isnan(part[1]).all() for part in state)
        kept = np.ones((3, 8), bool)
        kept[1, 3:] = False
        assert np.array_equal(y[kept], usual[0][kept])
        assert np.array_equal(last[[0, 2]], usual[1][[0, 2]])
        padding = outputs(session, {**spoilt(series, name, (2, 5, *place[2:]), value)._asdict(), **lengths})
        assert all(np.array_equal(a, b) for a, b in zip(padding, usual, strict=True)), "padding is not read"


@pytest.mark.parametrize("window", [False, True], ids=["state", "window"])
def test_an_onnx_step_refuses_without_changing_the_state(tmp_path, window):
    graph = graph_with_logarithms(window)
    write_onnx(graph, tmp_path)
    session = onnxruntime.InferenceSession(tmp_path / "step.onnx")
    series = irregular(graph.deployment, 3, 4)
    state = {f"state{i}": np.tile(part, (3, 1)) for i, part in enumerate(graph.initial_state)}
    for name, place, value in WRONG.values():
        own = spoilt(series, name, place, value)
        y, *after = outputs(session, {**{n: part[:, 3] for n, part in own._asdict().items()}, **state})
        assert np.isnan(y[1]).all()
        assert np.isfinite(y[[0, 2]]).all()
        assert all(np.array_equal(new[1], old[1]) for new, old in zip(after, state.values(), strict=True))
        assert any((new[0] != old[0]).any() for new, old in zip(after, state.values(), strict=True))


@pytest.mark.slow  # torch.export takes seconds
@pytest.mark.parametrize("window", [False, True], ids=["state", "window"])
def test_pt2_gives_nan_from_a_refused_observation_on(tmp_path, window):
    graph = graph_with_logarithms(window)
    write_pt2(graph, tmp_path)
    run = torch.export.load(tmp_path / "sequence.pt2").module()
    series = irregular(graph.deployment, 3, 8)
    for name, place, value in WRONG.values():
        inputs = [torch.from_numpy(part) for part in spoilt(series, name, place, value)]
        y, last, state = run(*inputs, torch.tensor([8, 8, 3]))
        assert y.isnan().any(-1).tolist() == [[False] * 8, [False] * 3 + [True] * 5, [False] * 8]
        assert [part.isnan().all(1).tolist() for part in (last, *state)] == [[False, True, False]] * (1 + len(state))


@pytest.mark.parametrize("format", FORMATS)
def test_a_value_that_must_not_be_missing_is_refused(tmp_path, format):
    graph = Graph.of(deployed("gru", missing=False))
    series, (write, runner) = irregular(graph.deployment, 2, 5), WRITERS[format]
    series.observed[0, 2, 1], series.x[0, 2, 1] = False, np.nan
    write(graph, tmp_path)
    if format == "c":
        with pytest.raises(ValueError, match="series 0, step 2"):
            runner(tmp_path).run(graph, series)
    else:
        found = runner(tmp_path).run(graph, series)
        assert np.isnan(found).any(-1).tolist() == [[False, False, True, True, True], [False] * 5]


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("window", [False, True], ids=["state", "window"])
def test_the_time_before_the_first_observation_does_not_count(tmp_path, format, window):
    """As in `predict`, where a series begins with its first observation; dt of later observations counts."""
    graph = graph_of(*CASES["times, none missing"]) if window else Graph.of(deployed("lstm-dt"))
    series, (write, runner) = series_for(graph) if window else irregular(graph.deployment, 2, 20), WRITERS[format]
    later = series._replace(dt=series.dt.copy())
    later.dt[:, 0] = 1e3
    write(graph, tmp_path)
    run = runner(tmp_path)
    found, other = run.run(graph, series), run.run(graph, later)
    assert np.array_equal(found, other)
    assert np.abs(found - predictions(graph.deployment, later)).max() < 5e-5
    later.dt[:, 1] = 1e3
    assert np.abs(run.run(graph, later) - found).max() > 1e-3
    assert graph.facts()["first_dt"] == "ignored"


@needs_compiler
def test_without_times_every_dt_counts(tmp_path):
    """A step is 1 in `predict`, also the first one."""
    done = export(built("lstm-dt"), tmp_path, classes=CLASSES)
    series = irregular(done.graph.deployment, 2, 20)
    series.dt[:] = 1.0
    assert np.abs(done.runner().run(done.graph, series) - predictions(done.graph.deployment, series)).max() < 1e-5
    assert done.graph.facts()["first_dt"] == "used"


@pytest.mark.parametrize("opset", [18, 21, 26])
def test_every_opset_gives_the_predictions_of_chronode(tmp_path, opset):
    done = export(built("ltc"), tmp_path, format="onnx", opset=opset, classes=CLASSES, scaler=SCALER, unit="minute")
    for name in done.files:
        model = onnx.load(tmp_path / name)
        assert [own.version for own in model.opset_import] == [opset]
    series = irregular(done.graph.deployment, 2, 20)
    assert np.abs(done.runner().run(done.graph, series) - predictions(done.graph.deployment, series)).max() < 1e-5


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"format": "onnx", "opset": 17}, "opset must be at least 18"),
        ({"format": "onnx", "opset": 27}, "opset=27 must be at most 26"),
        ({"opset": 20}, "opset requires format onnx"),
        ({"format": "onnx", "name": "pulse"}, "name requires format c"),
    ],
)
def test_options_of_other_formats_are_refused(tmp_path, options, text):
    with pytest.raises(ValueError, match=text):
        export(built("gru"), tmp_path / "none", **options)


@pytest.fixture(scope="module")
def coded(tmp_path_factory):
    """A run whose inputs are the texts of a column."""
    folder, rng = tmp_path_factory.mktemp("coded"), np.random.default_rng(0)
    kinds = ["café", "a", "ab", "it's 5*/", "b"]
    rows = [
        f"{i},{t},{kind},{rng.normal():.3f},{'u' if i % 2 else 'v'}"
        for i in range(30)
        for t, kind in enumerate(rng.choice(kinds, 5))
    ]
    (folder / "events.csv").write_text("\n".join(["id,t,kind,value,outcome", *rows]) + "\n")
    options = ["--id", "id", "--time", "t", "--target", "outcome", "--categorical", "codes", "--model", "gru"]
    chronode("train", folder / "events.csv", *options, "--epochs", 1, *QUICK, "-o", folder / "run")
    return folder / "run", folder / "events.csv", kinds


@needs_compiler
def test_codes_are_looked_up_in_c_as_they_are_read(coded, tmp_path):
    run, _, kinds = coded
    export(run, tmp_path, name="events")
    assert "0 (kind)" in (tmp_path / "events.h").read_text()
    strict = ["gcc", "-std=c99", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-pedantic", "-c", "events.c"]
    subprocess.run(strict, cwd=tmp_path, check=True)
    code = library(tmp_path, "events").events_code
    code.argtypes = [ctypes.c_int, ctypes.c_char_p]
    reading = load(run).reading
    assert reading is not None
    texts = {"id": [0] * 5, "t": [*range(5)], "kind": kinds, "value": [0.0] * 5}
    values = replace(reading, scaler=None).read(texts, labeled=False).values
    column = values[:, reading.channels.index("kind")].tolist()
    assert sorted(column) == [0.0, 1.0, 2.0, 3.0, 4.0]
    place = reading.channels.index("kind")
    assert [code(place, kind.encode()) for kind in kinds] == column
    assert {code(place, text) for text in (b"", b"abc", b"caf", b"A")} == {-1}
    assert code(1 - place, b"a") == -1


def test_codes_are_in_the_metadata_of_onnx(coded, tmp_path):
    run, file, kinds = coded
    done = export(run, tmp_path, format="onnx")
    facts = {p.key: json.loads(p.value) for p in onnx.load(tmp_path / "step.onnx").metadata_props}
    assert set(facts["codes"]) == {"kind"}
    assert sorted(facts["codes"]["kind"]) == sorted(kinds)
    assert done.verify(load(run), file).difference < 1e-5
