"""Expressivity: closed forms of length and fields, the papers' orders, theorems by hand, time constants."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import chronode
from chronode.lab.analysis import _circle as circle
from chronode.lab.analysis import _expressivity as expressivity
from chronode.lab.analysis import _liquid as liquid
from chronode.lab.analysis import plot
from chronode.lab.analysis._circle import MODELS, Setting
from chronode.nn.cells.ltc import LTCCell

few = settings(max_examples=20, deadline=None)
SMALL = Setting(width=20)


def ring(points=2000):
    t = np.linspace(0, 2 * np.pi, points)
    return np.stack([np.sin(t), np.cos(t)], axis=1)


# ---- length and components -------------------------------------------------------------------------------


def test_a_circle_has_length_two_pi():
    assert expressivity.arc_length(ring()) == pytest.approx(2 * np.pi, rel=1e-6)


@few
@given(st.integers(2, 8), st.floats(0.1, 10), st.integers(0, 1000))
def test_a_circle_in_any_plane_is_found_again(dimensions, radius, seed):
    rng = np.random.default_rng(seed)
    plane = np.linalg.qr(rng.normal(size=(dimensions, 2)))[0]
    states = radius * ring() @ plane.T + rng.normal(size=dimensions)
    latent, explained = expressivity.principal(states)
    assert expressivity.arc_length(latent) == pytest.approx(2 * np.pi * radius, rel=1e-5)
    assert explained[:2].sum() == pytest.approx(1)
    assert explained.sum() == pytest.approx(1)


def test_components_are_those_of_the_covariance():
    states = np.random.default_rng(0).normal(size=(50, 4)) @ np.diag([5.0, 3.0, 1.0, 0.1])
    _, explained = expressivity.principal(states)
    values = np.sort(np.linalg.eigvalsh(np.cov(states.T)))[::-1]
    np.testing.assert_allclose(explained, values / values.sum(), rtol=1e-10)


def test_a_constant_trajectory_has_no_length():
    latent, explained = expressivity.principal(np.ones((10, 3)))
    assert expressivity.arc_length(latent) == 0
    assert (explained == 0).all()


# ---- the random networks ---------------------------------------------------------------------------------


@pytest.mark.parametrize("activation", ["tanh", "sigmoid", "relu", "hardtanh"])
def test_the_texts_ltc_is_the_dense_ltc_of_the_registry(activation):
    setting = Setting(activation, width=6, recipe="text")
    (weights,) = circle.draw(setting, seed=1)
    cell = LTCCell(2, 6, form="dense", activation=activation, solver="rk4").double()
    body = cell.body
    body.inputs.weight.data, body.inputs.bias.data = map(torch.from_numpy, (weights.inputs, weights.bias))
    body.recurrent.weight.data, body.target.data = map(torch.from_numpy, (weights.recurrent, weights.target))
    x = np.random.default_rng(0).normal(size=6)
    u = torch.tensor([[np.sin(0.7), np.cos(0.7)]])
    wanted = cell._field(torch.from_numpy(x)[None], *body.held(u))[0]
    found = circle.field("ltc", setting, [weights])(0.7, x)
    np.testing.assert_allclose(found, wanted.detach(), rtol=1e-6)  # τ = softplus(float32)


def test_ltc_of_the_authors_by_hand():
    setting = Setting("tanh", width=3)
    (w,) = circle.draw(setting, seed=0)
    gates = []
    x, u = np.array([1.0, -2.0, 0.5]), np.array([np.sin(1.0), np.cos(1.0)])
    found = circle.field("ltc", setting, [w])(1.0, x)
    for i in range(3):
        f = np.tanh(sum(w.inputs[i, j] * u[j] for j in range(2)) + w.bias[i])
        r = np.tanh(sum(w.recurrent[i, j] * x[j] for j in range(3)) + w.recurrent_bias[i])
        wanted = -x[i] * (w.rate[i] + abs(f) + abs(r)) + f * w.target[i] + r * w.recurrent_target[i]
        assert found[i] == pytest.approx(wanted)
        gates += [f, r]
    assert min(gates) < 0 < max(gates)


def test_solutions_are_the_integrals_they_should_be():
    from scipy.integrate import quad

    setting = Setting("sigmoid", width=4)
    (w,) = weights = circle.draw(setting, seed=2)

    def f(t, i):
        return 1 / (1 + np.exp(-(w.inputs[i] @ [np.sin(t), np.cos(t)] + w.bias[i])))

    ends = {m: circle.solve(circle.field(m, setting, weights), 4, setting).states[-1] for m in MODELS[:2]}
    for i in range(4):
        assert ends["neural-ode"][i] == pytest.approx(quad(f, 0, 2 * np.pi, args=(i,))[0], rel=1e-2)

        def decayed(t, i=i):
            return f(t, i) * np.exp(-(2 * np.pi - t) * w.rate[i])

        assert ends["ct-rnn"][i] == pytest.approx(quad(decayed, 0, 2 * np.pi, limit=500)[0], rel=3e-2)


def test_upper_layers_are_driven_by_the_layer_below():
    setting = Setting(width=5, depth=2)
    layers = circle.draw(setting, seed=0)
    x = np.random.default_rng(1).normal(size=10)
    for model in MODELS:
        found = circle.field(model, setting, layers)(0.3, x)
        one = Setting(width=5)
        np.testing.assert_allclose(found[:5], circle.field(model, one, layers[:1])(0.3, x[:5]))
    np.testing.assert_allclose(
        circle.field("neural-ode", setting, layers)(0.3, x)[5:], np.tanh(layers[1].inputs @ x[:5] + layers[1].bias)
    )


def test_the_solver_hardly_matters():
    found = expressivity.sweep("solver", list(circle.SOLVERS), setting=SMALL, tries=2)
    spread = found.lengths.max(axis=1) / found.lengths.min(axis=1)
    assert spread.max() < 1.1
    assert (found.depth > 0).all()


def test_a_solver_that_takes_too_long_is_stopped():
    setting = Setting(width=4)
    path = circle.solve(lambda t, x: -1e5 * x + 1, 4, setting, points=50, steps_at_most=100)
    assert not path.finished
    assert path.steps == 100
    assert np.isnan(path.states[-1]).all()
    assert np.isfinite(path.states[0]).all()


def test_tries_that_were_stopped_are_reported(monkeypatch):
    solve = circle.solve
    monkeypatch.setattr(expressivity, "solve", lambda *args: solve(*args, steps_at_most=20))
    found = expressivity.depth_table(2, setting=SMALL, activations=["tanh"])
    assert found.stopped.tolist() == [[0], [2], [2]]
    assert np.isfinite(found.lengths[0]).all()
    assert np.isnan(found.lengths[1:]).all()
    assert (found.depth[1:] == 0.2).all()


# ---- what the paper says ---------------------------------------------------------------------------------


def test_the_papers_order_of_lengths_and_depths():
    found = expressivity.depth_table(3, setting=Setting(width=30))
    lengths = dict(zip(MODELS, np.median(found.lengths, axis=-1), strict=True))
    assert (lengths["ltc"][:2] > lengths["neural-ode"][:2]).all()  # tanh and sigmoid
    assert (lengths["ltc"][:2] > lengths["ct-rnn"][:2]).all()
    depths = expressivity.REFINE * np.median(found.depth, axis=-1)
    assert (np.diff(depths, axis=0) > 0).all()  # Neural ODE < CT-RNN < LTC, with every activation
    np.testing.assert_allclose(depths[0, [0, 1, 3]], [0.56, 0.56, 0.61], atol=0.03)  # as in Table 2
    assert (found.explained > 0.5).all()


def test_length_grows_with_the_width_and_the_weights():
    for over, values in (("width", [10, 40]), ("sigma_w", [1.0, 4.0])):
        found = expressivity.sweep(over, values, models=["ltc"], setting=SMALL, tries=3)
        assert np.diff(np.median(found.lengths[0], axis=-1)) > 0


def test_lower_bounds_by_hand():
    setting = Setting(width=100, depth=2, sigma_w=3.0, sigma_b=1.0, samples=50)
    base = 10 / np.sqrt(10 + 100 * np.sqrt(10))
    assert expressivity.lower_bound("neural-ode", setting, 1.5) == pytest.approx(2 * np.pi * (3 * base) ** 3)
    assert expressivity.lower_bound("ct-rnn", setting, 1.5) == pytest.approx(2 * np.pi * (2 * base) ** 3)
    ltc = expressivity.lower_bound("ltc", setting, 1.5, latent_norm=2.0)
    assert ltc == pytest.approx(2 * np.pi * (3 * base) ** 3 * (3 + 2 / (2 * np.pi / 50)))
    assert expressivity.lower_bound("ct-rnn", Setting(sigma_w=1.0, sigma_b=2.0), 1.0) == 0


def test_a_recipe_brings_its_own_weights():
    found = expressivity.sweep("recipe", ["authors", "text"], models=["ltc"], tries=1, setting=Setting(width=10))
    alone = [expressivity.trajectory("ltc", Setting(width=10, recipe=recipe)).lengths[0] for recipe in circle.RECIPES]
    np.testing.assert_array_equal(found.lengths[0, :, 0], alone)


@pytest.mark.slow
def test_more_processes_give_the_same_numbers():
    seen = []
    one, two = (
        expressivity.sweep(
            "activation", ["tanh"], setting=SMALL, tries=3, workers=workers, progress=lambda *done: seen.append(done)
        )
        for workers in (1, 2)
    )
    np.testing.assert_array_equal(one.lengths, two.lengths)
    np.testing.assert_array_equal(one.depth, two.depth)
    assert seen == 2 * [(i, 9) for i in range(1, 10)]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"over": "color", "values": [1]}, "over='color' is not supported"),
        ({"over": "width", "values": []}, "values is empty"),
        ({"over": "solver", "values": ["euler"]}, "solver='euler' is not supported"),
        ({"over": "width", "values": [10], "models": ["lstm"]}, "models='lstm' is not supported"),
        ({"over": "width", "values": [10], "tries": 0}, "tries must be at least 1"),
    ],
)
def test_mistakes_are_named(wrong, message):
    with pytest.raises(ValueError, match=message):
        expressivity.sweep(**wrong)


# ---- models of the registry ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(chronode.models()))
def test_every_model_of_the_registry_draws_a_path(name):
    found = liquid.layer_trajectory(name, samples=12, hidden_size=6)
    assert found.latent.shape == (12, 2)
    assert np.isfinite(found.length)
    assert found.length > 0
    assert found.explained.sum() == pytest.approx(1)


def test_a_layer_that_copies_the_circle_gives_it_back():
    layer = chronode.create("rnn", 2, 2).double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.zero_()
        for parameter in layer.parameters():
            if parameter.shape == (2, 2):
                parameter.copy_(1e-3 * torch.eye(2))  # small: tanh is then linear
                break
    found = liquid.layer_trajectory(layer, samples=400)
    assert found.length == pytest.approx(2e-3 * np.pi, rel=1e-3)


def test_a_layer_with_other_inputs_is_refused():
    with pytest.raises(ValueError, match="input_size=2"):
        liquid.layer_trajectory(chronode.create("gru", 3, 4))


def test_time_constants_of_a_constant_gate():
    layer = chronode.create("ltc", 1, 3, form="dense").double()
    body = layer.cells[0].body
    for parameter in (body.inputs.weight, body.recurrent.weight):
        torch.nn.init.zeros_(parameter)
    body.inputs.bias.data = torch.tensor([-2.0, 0.0, 2.0], dtype=torch.float64)
    found = liquid.time_constants(layer, torch.randn(2, 4, 1), dt=0.5)
    wanted = 1 / (1 + 1 / (1 + np.exp([2.0, 0.0, -2.0])))
    np.testing.assert_allclose(found.values, np.broadcast_to(wanted, (2, 4, 3)), rtol=1e-6)
    np.testing.assert_allclose(found.lower, 0.5, rtol=1e-6)
    np.testing.assert_allclose(found.upper, 1, rtol=1e-6)
    assert found.time.tolist() == [0.5, 1.0, 1.5, 2.0]


@few
@given(st.integers(0, 1000), st.sampled_from(["full", "sparse"]), st.sampled_from(["synaptic", "dense"]))
def test_time_constants_stay_within_theorem_1(seed, wiring, form):
    x = 10 * torch.randn(2, 5, 2, generator=torch.Generator().manual_seed(seed))
    found = liquid.time_constants("ltc", x, seed=seed, wiring=wiring, form=form, hidden_size=5, num_layers=2, index=1)
    assert (found.lower <= found.values).all()
    assert (found.values <= found.upper * (1 + 1e-12)).all()


def test_tanh_gates_have_no_bounds_and_other_models_no_time_constants():
    found = liquid.time_constants("ltc", torch.randn(1, 3, 2), form="dense", activation="tanh")
    assert np.isnan(found.lower).all()
    with pytest.raises(ValueError, match="'gru' has none"):
        liquid.time_constants("gru", torch.randn(1, 3, 2))
    with pytest.raises(ValueError, match="the layers are 0 to 0"):
        liquid.time_constants("ltc", torch.randn(1, 3, 2), index=1)


# ---- numbers out, pictures out ---------------------------------------------------------------------------


def test_every_result_is_json():
    for found in (
        expressivity.trajectory("ltc", SMALL),
        expressivity.sweep("width", [5, 10], setting=SMALL, tries=1),
        liquid.layer_trajectory("gru", samples=20),
        liquid.time_constants("ltc", torch.randn(1, 9, 2)),
    ):
        assert json.loads(found.to_json()).keys() == found.as_dict().keys()


def test_networks_and_layers_are_drawn_side_by_side(tmp_path):
    paths = [expressivity.trajectory("ltc", SMALL), liquid.layer_trajectory("gru", samples=20)]
    path = plot(paths, tmp_path / "explained.png", "explained")
    assert path.read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match="explained"):
        plot(paths, tmp_path / "other.png", "depth")
