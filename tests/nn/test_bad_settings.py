"""Mistakes of users when building a model: each mistake gives an error that names the setting and the cure."""

import pytest
import torch

import chronode

NAN = float("nan")


def whole(name, least):
    """A setting that must be a whole number: too small, broken, and the bool that Python takes for 1."""
    yield {name: least - 1}, ValueError, f"{name} must be at least {least}, got {least - 1}"
    yield {name: least + 0.5}, TypeError, f"{name} must be a whole number, got {least + 0.5} (float)"
    yield {name: True}, TypeError, f"{name} must be a whole number, got True (bool)"


def positive(name):
    """A setting that must be a number above 0."""
    yield {name: 0}, ValueError, f"{name} must be greater than 0, got 0"
    yield {name: -1.5}, ValueError, f"{name} must be greater than 0, got -1.5"
    yield {name: NAN}, ValueError, f"{name} must be finite, got nan"
    yield {name: "1"}, TypeError, f"{name} must be a number, got '1' (str)"


def choice(name, wrong, *options):
    """A setting that takes one of some words; `wrong` is near the first of them."""
    listed = ", ".join(map(repr, options))
    near = f"Did you mean {options[0]!r}"
    yield {name: wrong}, ValueError, f"{name}={wrong!r} is not supported; choose one of {listed}", near


def flag(name):
    """A setting that is True or False."""
    yield {name: "no"}, TypeError, f"{name} must be True or False, got 'no'"


ROWS = {
    "lstm-dt": [
        *whole("num_layers", 1),
        *whole("residual", 0),
        (
            {"residual": 2, "num_layers": 2},
            ValueError,
            "residual=2 has no effect in a stack of num_layers=2",
            "use a smaller value",
        ),
        ({"dropout": 1.0}, ValueError, "dropout must be less than 1, got 1.0"),
        ({"dropout": -0.1}, ValueError, "dropout must be at least 0, got -0.1"),
        ({"dropout": True}, TypeError, "dropout must be a number, got True (bool)"),
        *flag("bidirectional"),
        *flag("batch_first"),
        *flag("missing"),
        *flag("sees_dt"),
        ({"outputs": "al"}, ValueError, "outputs='al' is not supported; choose one of 'all'", "Did you mean 'all'"),
        ({"memory": "slow"}, ValueError, "memory='slow' is not supported; choose one of 'auto', 'fast', 'low'"),
        ({"forget_bais": 1}, TypeError, "LSTMCell has no setting 'forget_bais'", "Did you mean 'forget_bias'?"),
        ({"num_layer": 2}, TypeError, "LSTMCell has no setting 'num_layer'", "Did you mean 'num_layers'"),
        ({"bidirectionnal": True}, TypeError, "no setting 'bidirectionnal'", "Did you mean 'bidirectional'?"),
    ],
    "mmrnn": [
        ({"variant": "papers"}, ValueError, "'gated', 'paper', 'driven'", "Did you mean 'paper'?"),
        ({"flow": "mpl"}, ValueError, "flow='mpl' is not supported; choose one of 'mlp'", "Did you mean 'mlp'?"),
        *choice("solver", "eular", "euler", "midpoint", "heun", "rk4", "dopri5", "exponential"),
        *whole("steps", 1),
        *positive("rtol"),
        *positive("atol"),
        ({"forget_bias": NAN}, ValueError, "forget_bias must be finite, got nan"),
        ({"adjoint": True}, ValueError, "adjoint=True needs an adaptive solver", "use solver='dopri5'"),
        ({"varient": "paper"}, TypeError, "no setting 'varient'; it has variant, flow", "Did you mean 'variant'"),
    ],
    "unicornn": [
        *positive("delta_t"),
        ({"alpha": -0.1}, ValueError, "alpha must be at least 0, got -0.1"),
        *flag("train_c"),
        (
            {"delta_t": [0.1, 0.2], "num_layers": 3},
            ValueError,
            "delta_t has 2 values for num_layers=3; pass one per layer",
        ),
        ({"delta_t": [0.1, -1], "num_layers": 2}, ValueError, "delta_t must be greater than 0, got -1"),
        ({"train_c": [True, False], "num_layers": 2}, TypeError, "train_c must be True or False, got [True, False]"),
    ],
    "ltc": [
        *choice("form", "synapse", "synaptic", "dense"),
        ({"form": "dense", "activation": "gelu"}, ValueError, "'sigmoid', 'tanh', 'relu', 'hardtanh'"),
        ({"activation": "relu"}, ValueError, "activation='relu' needs form='dense'"),
        *choice("wiring", "ful", "full", "sparse", "ncp"),
        *choice("solver", "fuse", "fused", "euler", "midpoint", "heun", "rk4", "dopri5"),
        *whole("unfolds", 1),
        *flag("input_map"),
        *choice("weights", "softplu", "softplus", "clip"),
        ({"weights": "clip", "form": "dense"}, ValueError, "weights='clip' needs form='synaptic', got form='dense'"),
        ({"density": 0}, ValueError, "density must be greater than 0, got 0"),
        ({"density": 1.5}, ValueError, "density must be at most 1, got 1.5"),
        ({"motor": 2}, ValueError, "motor=2 needs wiring='ncp' or 'own', got wiring='full'"),
        (
            {"wiring": "ncp", "motor": 9},
            ValueError,
            "hidden_size=4 is too small for an 'ncp' with 9 motor neurons",
            "11",
        ),
        ({"wiring_seed": -1}, ValueError, "wiring_seed must be at least 0, got -1"),
    ],
    "irnn": [
        *whole("K", 1),
        *whole("depth", 1),
        *whole("rank", 1),
        *whole("eta_steps", 0),
        *whole("max_iterations", 1),
        *positive("gamma"),
        *positive("tolerance"),
        *choice("recurrent", "lowrank", "low-rank", "full"),
        *choice("outer", "some", "same", "identity"),
        *choice("activation", "rely", "relu", "tanh", "sigmoid"),
        *choice("start", "previos", "previous", "zero"),
        *choice("solver", "step", "steps", "equilibrium"),
        ({"sign": 2}, ValueError, "sign must be 1 or -1, got 2"),
        ({"eta": NAN}, ValueError, "eta must be finite, got nan"),
        ({"solver": "equilibrium"}, ValueError, "solver='equilibrium' needs ‖P U‖ < γ", "use recurrent='full'"),
        ({"K": [1, 2], "num_layers": 2}, TypeError, "K must be a whole number, got [1, 2] (list)"),
    ],
    "ode-rnn": [({"jump": "lstm"}, ValueError, "jump='lstm' is not supported; choose one of 'rnn', 'gru'")],
}


def describe(settings):
    return ",".join(f"{key}={value}" for key, value in settings.items())


@pytest.mark.parametrize(
    ("model", "settings", "error", "parts"),
    [
        pytest.param(model, settings, error, parts, id=f"{model}-{describe(settings)}")
        for model, rows in ROWS.items()
        for settings, error, *parts in rows
    ],
)
def test_bad_setting(model, settings, error, parts):
    with pytest.raises(error) as caught:
        chronode.create(model, 3, 4, **settings)
    missing = [part for part in parts if part not in str(caught.value)]
    assert not missing, f"{missing} not in: {caught.value}"


@pytest.mark.parametrize(
    ("sizes", "error", "message"),
    [
        ((0, 4), ValueError, "input_size must be at least 1, got 0"),
        ((3, 0), ValueError, "hidden_size must be at least 1, got 0"),
        ((3, 4.5), TypeError, "hidden_size must be a whole number, got 4.5"),
        ((3, "4"), TypeError, "hidden_size must be a whole number, got '4'"),
        ((True, 4), TypeError, "input_size must be a whole number, got True"),
    ],
)
def test_bad_sizes(sizes, error, message):
    with pytest.raises(error, match=message):
        chronode.create("ltc", *sizes)


def test_unknown_backend(monkeypatch):
    with pytest.raises(ValueError, match="backend='fast' is not supported; choose one of 'auto', 'torch', 'native'"):
        chronode.backend("fast")
    monkeypatch.setenv("CHRONODE_BACKEND", "fast")
    with pytest.raises(ValueError, match="CHRONODE_BACKEND='fast' is not supported; choose one of 'auto'"):
        chronode.create("ltc", 3, 4)(torch.zeros(1, 2, 3))


@pytest.mark.parametrize(
    ("saved", "own", "message"),
    [
        ({"steps": 5}, {}, "saved with steps=5, but this layer has steps=4"),
        ({"num_layers": 2}, {"num_layers": 3}, "saved with num_layers=2, but this layer has num_layers=3"),
        (
            {"variant": "driven", "flow": "mlp"},
            {"flow": "mlp"},
            "saved with variant='driven', but this layer has variant='gated'",
        ),
    ],
)
def test_weights_of_other_settings_are_refused(saved, own, message):
    weights = chronode.create("mmrnn", 3, 4, **saved).state_dict()
    with pytest.raises(ValueError, match="these weights belong to a layer with other settings: .*" + message):
        chronode.create("mmrnn", 3, 4, **own).load_state_dict(weights)
