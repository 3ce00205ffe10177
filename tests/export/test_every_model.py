"""Every model in every format against chronode."""

import shutil
import subprocess

import numpy as np
import pytest
from export_cases import MODELS, deployed

from chronode.export._c import CModel, CRunner
from chronode.export._deployment import Graph
from chronode.export._onnx import OnnxRunner, write_onnx
from chronode.export._pt2 import Pt2Runner, write_pt2
from chronode.export._verify import irregular, predictions
from chronode.kernels import backend

STRICT = ["-std=c99", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-pedantic"]


def compiled(graph, folder):
    model = CModel(graph)
    (folder / "chronode_model.h").write_text(model.header)
    (folder / "chronode_model.c").write_text(model.source)
    if shutil.which("clang"):
        subprocess.run(["clang", "-O1", *STRICT, "-c", "chronode_model.c"], cwd=folder, check=True)
    return CRunner(folder, "gcc", STRICT)


def differences(deployment, graph, runners, series):
    expected = predictions(deployment, series)
    return {type(runner).__name__: float(np.abs(runner.run(graph, series) - expected).max()) for runner in runners}


@pytest.mark.parametrize("name", MODELS)
def test_c_and_onnx_give_the_answers_of_chronode(name, tmp_path):
    deployment = deployed(name)
    graph = Graph.of(deployment)
    write_onnx(graph, tmp_path)
    runners = [compiled(graph, tmp_path)] if shutil.which("gcc") else []
    found = differences(deployment, graph, [*runners, OnnxRunner(tmp_path)], irregular(deployment, 3, 100, seed=1))
    assert max(found.values()) <= 1e-5, found


# torch.export takes seconds for each model; these have gates, gaps, solvers and skips.
QUICK = ("gru-d", "latent-ode", "ltc", "mmrnn", "skip-gru")


@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n in QUICK else pytest.mark.slow) for n in MODELS])
def test_pt2_gives_the_answers_of_chronode(name, tmp_path):
    deployment = deployed(name, hidden=4)
    graph = Graph.of(deployment)
    write_pt2(graph, tmp_path)
    found = differences(deployment, graph, [Pt2Runner(tmp_path)], irregular(deployment, 2, 30, seed=1))
    assert max(found.values()) <= 1e-5, found


@pytest.mark.slow  # minutes: 10,000 steps of the loop for each model
@pytest.mark.parametrize("name", MODELS)
def test_ten_thousand_steps(name, tmp_path):
    """Exports are within 1e-5 of float64, or within twice the error of float32 where that is larger.

    Norm-preserving models (urnn, exprnn, unicornn) add up the rounding of all steps, expanding ones (antisymmetric,
    gated-antisymmetric) multiply it, in chronode as in an export; docs/edge.md has their numbers. The untrained
    lipschitz diverges: its answers are not numbers after some steps, in chronode as in an export.
    """
    deployment = deployed(name)
    graph = Graph.of(deployment)
    write_onnx(graph, tmp_path)
    write_pt2(graph, tmp_path)
    runners = [compiled(graph, tmp_path), OnnxRunner(tmp_path), Pt2Runner(tmp_path)]
    series = irregular(deployment, 1, 10_000, seed=1)
    found = differences(deployment, graph, runners, series)
    if not max(found.values()) <= 1e-5:
        exact, own = predictions(deployment, series, double=True), [predictions(deployment, series)]
        with backend("torch"):
            own.append(predictions(deployment, series))
        known = np.isfinite(exact).all(-1)
        known &= np.minimum.accumulate(np.stack([np.isfinite(one).all(-1) for one in own]).all(0), axis=1)
        rounding = max(np.abs(one - exact)[known].max() for one in own)
        away = {type(one).__name__: np.abs(one.run(graph, series) - exact)[known].max() for one in runners}
        assert max(away.values()) <= 1e-5 + 2 * rounding, (found, rounding, away)
