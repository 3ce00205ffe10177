"""Linear starts in every format, against the summaries of whole series in float64."""

import shutil

import numpy as np
import pytest
import torch
from export_cases import CLASSES, SCALER, built, started

from chronode.data import Scaler
from chronode.export import export
from chronode.export._verify import irregular, predictions, tolerances

needs_compiler = pytest.mark.skipif(not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="needs a C compiler")
FORMATS = [pytest.param("c", marks=needs_compiler), "onnx", "pt2"]
VALUES = Scaler(
    *(SCALER.channels, SCALER.mean, SCALER.std), dt=2.0, targets=("stay",), target_mean=(50.0,), target_std=(20.0,)
)


def exported(folder, format, steps, model="gru", classes=None, seed=1, alone=False, **options):
    """The largest difference, in tolerances, over all steps of a series."""
    network = started(model, len(CLASSES) if classes else 1)
    if alone:
        without_network(network)
    done = export(network, folder, format=format, classes=classes, scaler=SCALER if classes else VALUES, **options)
    return difference(done, steps, seed)


def without_network(network):
    """Sets the head to 0, as it is if no epoch improved on the linear start."""
    for parameter in network.head.parameters():
        torch.nn.init.zeros_(parameter)


def difference(done, steps, seed=1):
    deployment = done.graph.deployment
    series = irregular(deployment, 1 if steps > 500 else 3, steps, seed=seed)
    away = np.abs(done.runner().run(done.graph, series) - predictions(deployment, series))
    return float((away / tolerances(deployment)).max())


# torch.export takes seconds; tests/export/test_export_runs.py has a forecast in this format.
QUICK = [pytest.param(own, marks=pytest.mark.slow) if own == "pt2" else own for own in FORMATS]


@pytest.mark.parametrize("format", QUICK)
@pytest.mark.parametrize("classes", [pytest.param(None, marks=pytest.mark.slow), CLASSES], ids=["numbers", "classes"])
def test_the_answers_are_those_of_chronode(tmp_path, format, classes):
    assert exported(tmp_path, format, 60, classes=classes) <= 1


@pytest.mark.slow  # 60 steps in every `make test`
@pytest.mark.parametrize("format", [pytest.param("c", marks=needs_compiler), "onnx"])
def test_ten_thousand_steps_of_numbers(tmp_path, format):
    """Sums over all steps keep their digits in float32."""
    assert exported(tmp_path, format, 10_000) <= 1


@needs_compiler
def test_without_missing_values_and_times(tmp_path):
    network = built("gru", start={"kind": "summaries", "channels": 3}, missing=False)
    network.start.get_buffer("weight").copy_(torch.randn(37, 4, generator=torch.Generator().manual_seed(0)) / 10)
    done = export(network, tmp_path)
    series = irregular(done.graph.deployment, 2, 80)
    assert np.abs(done.runner().run(done.graph, series) - predictions(done.graph.deployment, series)).max() <= 1e-5


@needs_compiler
@pytest.mark.parametrize("math", ["library", "builtin"])
def test_in_eight_bits_the_scaling_of_features_stays_as_it_is(tmp_path, math):
    """The check of the folder compares with the rounded weights; the answers stay near those of float32."""
    assert exported(tmp_path, "c", 60, classes=CLASSES, weights="int8", math=math) * 1e-5 <= 0.02


@pytest.mark.parametrize("format", QUICK)
def test_a_linear_start_alone_gives_the_answers_of_chronode(tmp_path, format):
    assert exported(tmp_path, format, 60, classes=CLASSES, alone=True) <= 1


@needs_compiler
def test_a_linear_start_alone_is_exported_without_the_network(tmp_path):
    """Files of a large network are as large as those of a small one; with a head, they grow."""
    sizes = {}
    for hidden in (2, 64):
        for alone in (True, False):
            network = started("gru", hidden=hidden)
            if alone:
                without_network(network)
            folder = tmp_path / f"{hidden} {alone}"
            export(network, folder, classes=CLASSES, scaler=SCALER)
            sizes[hidden, alone] = (folder / "chronode_model.c").stat().st_size
    assert sizes[2, True] == sizes[64, True] < sizes[2, False] < sizes[64, False]
