"""Health: each illness is found, and a healthy model is called so."""

import json

import numpy as np
import pytest
import torch

import chronode
from chronode.data import from_numpy
from chronode.lab.analysis import effective_steps, health, health_report, time_constants, time_scales
from chronode.lab.analysis._health import STEPS_AT_MOST, STEPS_EXACT, _rows
from chronode.model._model import SequenceModel


def data(steps=60, gap=None, seed=0):
    """Six series of noise; gap None: steps of 1."""
    values = np.random.default_rng(seed).normal(size=(6, steps, 2)).astype(np.float32)
    gap = 1.0 if gap is None else gap
    return from_numpy(values, order="NTD", dt=np.full((6, steps), gap), target=np.array(["a", "b"] * 3))


def model(name, **settings):
    torch.manual_seed(0)
    return SequenceModel(chronode.create(name, 2, 8, outputs="last", **settings), 2)


def test_a_vanishing_gradient_is_found_where_it_is():
    sick, well = health(model("rnn"), data()), health(model("unicornn"), data())
    assert sick.log10_ratio < -4 and "cannot be learned" in sick.findings[0]
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


def test_an_exploding_gradient_is_found():
    built = model("neural-ode")
    with torch.no_grad():
        for parameter in built.layer.parameters():
            parameter.zero_()
        built.layer.cells[0].flow.recurrent.weight.copy_(0.3 * torch.eye(8))  # at h = 0: dh/dt = 0.3 h
    found = health(built, data())
    assert found.log10_ratio == pytest.approx(58 * 0.3 * np.log10(np.e), rel=1e-4)
    assert "1e+8 times" in found.findings[0] and "gradient clipping" in found.findings[0]


def test_large_outputs_are_found():
    built = model("neural-ode")
    with torch.no_grad():
        for parameter in built.layer.parameters():
            parameter.zero_()
        built.layer.cells[0].flow.recurrent.bias.fill_(50.0)  # dh/dt = tanh(50) = 1
    found = health(built, data(gap=3.0))
    assert found.high == pytest.approx(np.full(8, 180), rel=0.02)
    assert "bounded model" in found.findings[3]


def test_the_effect_of_time_is_measured_where_a_model_has_no_scales():
    blind = health(model("gru"), data())
    assert blind.scales is None and blind.time_effect == 0 and "ignores time" in blind.findings[4]
    fine, coarse = health(model("mmrnn"), data(gap=1e-5)), health(model("neural-ode"), data(steps=10, gap=50.0))
    assert 0 < fine.time_effect < 0.01 and "smaller time unit" in fine.findings[4]
    assert "larger time unit" in coarse.findings[4]


@pytest.mark.parametrize("name", ["ltc", "unicornn", "cornn", "rnn-decay", "gru-d", "ct-lstm", "ct-gru"])
def test_gaps_are_held_against_the_models_own_scales(name):
    tiny, good, huge = (health(model(name), data(steps=10, gap=gap)) for gap in (1e-6, None, 1e6))
    assert "time hardly changes the state, so try a smaller time unit" in tiny.findings[4]
    assert tiny.gaps[1] == pytest.approx(1e-6, rel=1e-3) and tiny.span < 1e-4
    assert "each gap is long for this model, so try a larger time unit" in huge.findings[4]
    assert good.findings[4].endswith(", which is healthy.") and good.scales.what in good.findings[4]


def test_gaps_that_a_solver_cannot_bridge_are_reported():
    assert "larger time unit" in health(model("ct-rnn"), data(steps=5, gap=50.0)).findings[4]
    explicit = model("ct-rnn", solver="rk4")
    with pytest.raises(ValueError, match="not finite after step .*Try a larger time unit"):
        health(explicit, data(steps=10, gap=1e30))


def scales(name, hidden=5, x=None, **settings):
    torch.manual_seed(0)
    layer = chronode.create(name, 2, hidden, **settings).double()
    x = torch.randn(2, 7, 2, dtype=torch.float64) if x is None else x
    return layer, x, time_scales(layer, x, dt=0.3)


@pytest.mark.parametrize(
    ("name", "settings", "expected"),
    [
        ("ct-rnn", {}, [1] * 5),
        ("reciprocal", {}, [1] * 5),
        ("mmrnn", {"flow": "ctrnn"}, [1] * 5),
        ("rnn-decay", {"rate": 0.2, "num_layers": 2}, [5] * 10),
        ("cornn", {"delta_t": 0.25}, [4] * 5),
        ("ct-gru", {"scales": 3}, [1, 10**0.5, 10]),
        ("phased-lstm", {"shortest": 7.0, "longest": 7.0}, [7] * 5),
    ],
)
def test_fixed_time_scales_are_those_of_the_equations(name, settings, expected):
    np.testing.assert_allclose(scales(name, **settings)[2].values, expected, rtol=1e-6)


@pytest.mark.parametrize("name", ["mmrnn", "lstm", "irnn", "ode-rnn", "cfc"])
def test_other_models_have_none(name):
    assert scales(name)[2] is None


def test_scales_that_data_move_are_medians_over_them():
    layer, x, found = scales("ltc")
    by_step = time_constants(layer, x, dt=0.3).values.reshape(-1, 5)
    lower, upper = (np.quantile(by_step, 0.5, axis=0, method=how) for how in ("lower", "higher"))
    assert (np.sort(lower) <= found.values).all() and (found.values <= np.sort(upper)).all()
    layer, x, found = scales("ct-lstm", x=torch.randn(1, 1, 2, dtype=torch.float64))
    with chronode.backend("torch"):
        _, (_, _, rate, _) = layer(x, dt=0.3)
    np.testing.assert_allclose(found.values, np.sort(1 / rate.detach().flatten()), rtol=1e-9)


def test_the_effective_steps_of_unicornn_are_its_rates():
    layer, _, found = scales("unicornn", delta_t=0.2)
    np.testing.assert_allclose(found.values, 1 / effective_steps(layer).steps[0][::-1], rtol=1e-6)


def test_a_decay_rate_below_zero_never_ends():
    torch.manual_seed(0)
    layer = chronode.create("gru-d", 2, 3, missing=False)
    with torch.no_grad():
        layer.cells[0].decay.weight.copy_(torch.tensor([[0.5], [-1.0], [2.0]]))
    found = time_scales(layer, torch.zeros(1, 2, 2))
    assert found.values.tolist() == [0.5, 2.0, np.inf] and found.high == np.inf
    assert json.loads(found.to_json())["values"][2] is None


def test_long_series_are_probed_and_few():
    long = data(steps=STEPS_AT_MOST // 4 + 1)
    assert len(_rows(long, 16)) == 3
    short = data(steps=STEPS_EXACT // 6 + 1)
    assert health(model("rnn"), short).flow.method == "probes"
    assert health(model("rnn"), short, most=5).flow.method == "exact"


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
