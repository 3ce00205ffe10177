"""torch.export: programs for any batch and length, without chronode's classes."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from export_cases import CLASSES, SCALER, deployed

from chronode.export._deployment import Graph
from chronode.export._pt2 import FACTS, FILE, Pt2Runner, write_pt2
from chronode.export._verify import irregular, predictions


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """lstm-dt: its loop over time was unrolled by torch.export before."""
    folder, graph = tmp_path_factory.mktemp("pt2"), Graph.of(deployed("lstm-dt"))
    write_pt2(graph, folder)
    return folder, graph


@pytest.mark.parametrize(("batch", "steps"), [(1, 1), (1, 40), (5, 1), (13, 7)])
def test_any_batch_and_length(exported, batch, steps):
    folder, graph = exported
    series = irregular(graph.deployment, batch, steps, seed=2)
    assert np.abs(Pt2Runner(folder).run(graph, series) - predictions(graph.deployment, series)).max() < 1e-5


def test_padding_is_not_read(exported):
    folder, graph = exported
    series, lengths = irregular(graph.deployment, 3, 9, seed=3), torch.tensor([9, 1, 4])
    series.x[1, 1:] = np.nan
    run = torch.export.load(folder / FILE).module()
    x, observed, dt = map(torch.from_numpy, series)
    y, last, state = run(x, observed, dt, lengths)
    for row, length in enumerate(lengths.tolist()):
        own = [part[row : row + 1, :length] for part in (x, observed, dt)]
        own_y, _, own_state = run(*own, torch.tensor([length]))
        assert torch.allclose(y[row, :length], own_y[0], atol=1e-6)
        assert (y[row, length:] == 0).all()
        assert torch.allclose(last[row], own_y[0, -1], atol=1e-6)
        assert all(torch.allclose(a[row], b[0], atol=1e-6) for a, b in zip(state, own_state, strict=True))


def test_names_and_units_go_with_it(exported):
    extra = {FACTS: ""}
    torch.export.load(exported[0] / FILE, extra_files=extra)
    facts = json.loads(extra[FACTS])
    assert facts["inputs"] == list(SCALER.channels)
    assert facts["outputs"] == list(CLASSES)
    assert facts["time_unit"] == "minute"


@pytest.mark.slow  # a new process imports torch.export
def test_it_runs_where_chronode_is_not_installed(exported):
    code = f"""
import sys
sys.modules["chronode"] = None
import torch
run = torch.export.load({str(exported[0] / FILE)!r}).module()
seen = torch.ones(2, 6, 3, dtype=torch.bool)
y, last, state = run(torch.zeros(2, 6, 3), seen, torch.ones(2, 6), torch.tensor([6, 2]))
print(tuple(y.shape), tuple(last.shape))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "(2, 6, 4) (2, 4)\n", done.stderr
