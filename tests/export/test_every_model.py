"""Every model in every format against chronode."""

import shutil

import numpy as np
import pytest
from export_cases import MODELS, deployed

from chronode.export._c import CRunner
from chronode.export._c_files import CModel
from chronode.export._graph import StepGraph
from chronode.export._onnx import OnnxRunner, write_onnx
from chronode.export._reference import answers, irregular


def compiled(graph, folder):
    model = CModel(graph)
    (folder / "chronode_model.h").write_text(model.header)
    (folder / "chronode_model.c").write_text(model.source)
    return CRunner(folder)


@pytest.mark.parametrize("name", MODELS)
def test_every_model_gives_the_answers_of_chronode(name, tmp_path):
    deployment = deployed(name)
    graph = StepGraph.of(deployment)
    series = irregular(deployment, 3, 100, seed=1)
    expected = answers(deployment, series)
    runners = [compiled(graph, tmp_path)] if shutil.which("gcc") or shutil.which("clang") else []
    write_onnx(graph, tmp_path)
    runners.append(OnnxRunner(tmp_path))
    for runner in runners:
        assert np.abs(runner.run(graph, series) - expected).max() <= 1e-5, type(runner).__name__
