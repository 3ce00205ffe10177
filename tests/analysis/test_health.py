"""Health: each illness is found, and a healthy model is called so."""

import json

import numpy as np
import pytest
import torch

import chronode
from chronode.analysis import health, health_report
from chronode.data import from_numpy
from chronode.model import SequenceModel


def data(steps=60, gap=1.0, seed=0):
    values = np.random.default_rng(seed).normal(size=(6, steps, 2)).astype(np.float32)
    return from_numpy(values, order="NTD", dt=np.full((6, steps), gap), target=np.array(["a", "b"] * 3))


def model(name, **settings):
    torch.manual_seed(0)
    return SequenceModel(chronode.create(name, 2, 8, outputs="last", **settings), 2)


def test_a_vanishing_gradient_is_found_where_it_is():
    sick, well = health(model("rnn"), data()), health(model("unicornn"), data())
    assert sick.log10_ratio < -4 and "out of reach" in sick.findings[0]
    assert abs(well.log10_ratio) < 2 and "healthy" in well.findings[0]


def test_dead_and_saturated_units_are_found():
    built = model("rnn")
    cell = built.layer.cells[0]
    with torch.no_grad():
        for parameter in cell.parameters():
            parameter[:3] = 0
            parameter[3:] *= 50
    found = health(built, data())
    assert found.dead == (0, 1, 2) and "3 of 8" in found.findings[2] and "try" in found.findings[2]
    assert found.saturated > 0.3 and "weight decay" in found.findings[1]


def test_the_effect_of_time_is_measured():
    assert health(model("gru"), data()).time_effect == 0
    assert "does not see time" in health(model("gru"), data()).findings[4]
    slow = health(model("ltc"), data(gap=1e-5))
    assert slow.time_effect > 0 and slow.gaps[1] == pytest.approx(1e-5, rel=1e-3)


def test_padding_does_not_count():
    values = np.random.default_rng(0).normal(size=(2, 30, 2)).astype(np.float32)
    short = from_numpy(values, order="NTD", lengths=np.array([30, 3]), target=np.array(["a", "b"]))
    found = health(model("lstm"), short)
    assert np.isnan(found.flow.log10_norms[1, 4:]).all()


def test_the_report_writes_a_page_and_numbers(tmp_path):
    found = health_report(model("mmrnn"), data(20), tmp_path)
    assert len(found.findings) == 5
    assert json.loads((tmp_path / "health.json").read_text())["findings"] == list(found.findings)
    assert (tmp_path / "health.png").read_bytes().startswith(b"\x89PNG")


def test_no_data_is_refused():
    with pytest.raises(ValueError, match="at least one sequence"):
        health(model("gru"), data()[:0])
