"""Every registered model, and every variant of the five papers' models, passes every check of the shared suite."""

import itertools

import pytest

import chronode
from chronode.testing import CHECKS, Case

# The solver's error depends on which sequences share its steps, so results agree to its tolerance only.
ADAPTIVE = {"solver": "dopri5", "agreement": 1e-3}
# Implicit gradients are exact at the equilibrium, which is found to a tolerance of 1e-6.
EQUILIBRIUM = {"solver": "equilibrium", "recurrent": "full", "agreement": 5e-6}


def case(name, agreement=1e-9, hidden_size=4, **settings):
    return Case(name, settings, agreement, hidden_size=hidden_size)


MODELS = [Case(name) for name, model in chronode.models().items() if model.cell.__module__.startswith("chronode.")]

VARIANTS = [
    *(
        case("mmrnn", variant=variant, flow=flow)
        for variant, flow in itertools.product(("gated", "paper", "driven"), ("mlp", "ctrnn", "gru", "ltc"))
    ),
    *(case("mmrnn", solver=solver, steps=2) for solver in ("midpoint", "heun", "rk4")),
    case("mmrnn", **ADAPTIVE),
    case("mmrnn", **ADAPTIVE, variant="driven", adjoint=True),
    case("mmrnn", forget_bias=1.0, steps=1),
    case("unicornn", alpha=0.0),
    case("unicornn", num_layers=3, delta_t=[0.5, 0.1, 0.2], alpha=[0.0, 1.0, 9.0]),
    case("unicornn", train_c=False),
    case("unicornn", num_layers=3, residual=2, delta_t=0.3),
    *(case("ltc", form="dense", activation=name) for name in ("sigmoid", "tanh", "relu", "hardtanh")),
    *(case("ltc", form=form, wiring="sparse", density=0.4) for form in ("synaptic", "dense")),
    *(case("ltc", form=form, wiring="ncp", motor=2, hidden_size=6) for form in ("synaptic", "dense")),
    *(case("ltc", solver=solver, unfolds=2) for solver in ("fused", "euler", "midpoint", "heun", "rk4")),
    case("ltc", **ADAPTIVE),
    case("ltc", input_map=True, weights="clip"),
    case("ltc", form="dense", input_map=True),
    *(
        case("irnn", K=2, recurrent=recurrent, outer=outer, activation=activation)
        for recurrent, outer, activation in itertools.product(
            ("low-rank", "full"), ("same", "identity"), ("relu", "tanh", "sigmoid")
        )
    ),
    case("irnn", K=2, eta=0.3, eta_steps=3),
    case("irnn", K=2, sign=-1),
    case("irnn", K=20, eta=0.2, start="zero", recurrent="full"),
    case("irnn", gamma=1.5, rank=2),
    *(
        case("irnn", **EQUILIBRIUM, activation=activation, outer=outer)
        for activation, outer in (("relu", "same"), ("tanh", "identity"), ("sigmoid", "same"))
    ),
    case("irnn", **EQUILIBRIUM, sign=-1, depth=2, activation="tanh"),
    case("sirnn", recurrent="full", start="zero", eta=0.5),
    case("ernn", depth=2),
    case("ernn", depth=3, recurrent="full", activation="tanh"),
    *(case("ode-rnn", jump=jump, flow=flow) for jump, flow in (("gru", "mlp"), ("rnn", "gru"))),
    *(case(name, solver="rk4") for name in ("ct-rnn", "gru-ode", "reciprocal")),
    case("mmrnn", variant="driven", flow="ctrnn", solver="exponential"),
    case("ode-rnn", flow="leaky", solver="exponential", steps=2),
    case("reciprocal", flow="gru"),
    case("cornn", solver="symplectic"),
    case("cornn", epsilon=3.0),
    case("ct-lstm", candidate="tanh"),
    case("skip-lstm", gate="state"),
    case("phased-lstm", ratio_on=0.8, longest=20.0),
    case("lipschitz", solver="midpoint", steps=2),
    case("lipschitz", beta_w=0.5, gamma_w=0.1, max_step=None),
    case("spectral", reflections=2, activation="relu"),
    case("urnn", form="structured"),
    case("indrnn", norm="layer"),
    case("sru", hidden_size=2),
    case("fastgrnn", w_rank=1, u_rank=2),
    case("cfc", backbone_layers=2, backbone_units=5),
    case("ncde", interpolation="linear", channels=1, solver="euler"),
    case("log-ncde", window=2, channels=1),
    *(case("linoss", discretization=scheme) for scheme in ("im", "imex")),
    case("d-linoss", discretization="imex", state_size=3),
    *(case(name, discretization="bilinear", state_size=2) for name in ("s5", "s4d")),
    case("s5", blocks=2),
    case("lru", r_min=0.5, r_max=0.9, max_phase=0.3),
    case("lem", solver="euler", delta_t=0.5),
    *(case(name, block="residual") for name in ("linoss", "mmrnn", "unicornn", "gru-d", "urnn", "dense-indrnn")),
    case("s5", block="residual", block_norm="layer", num_layers=2),
]

# An adaptive solver takes seconds where others take milliseconds: `make test` runs these checks, `make test-slow` all.
OF_ADAPTIVE_SOLVERS = {
    "contract",
    "padding_changes_nothing",
    "pieces_make_the_whole",
    "step_is_the_sequence",
    "zero_gaps",
    "as_many_sequences_as_units",
    "gradients_are_right",
    "training",
    "exported_step",
}

# These are about the layer around the cells: `make test` runs them with the usual settings of each model, and with all
# settings of UnICORNN, whose kernel computes whole stacks.
OF_THE_LAYER = {
    "both_directions",
    "copies",
    "dropout_masks",
    "gaps_in_every_shape",
    "last_output",
    "residual_skips",
    "stack_of_two",
    "time_first",
    "unbatched_is_a_batch_of_one",
}
EXPORTED = {"ct-lstm", "gru-d", "irnn", "lstm", "ltc", "mmrnn", "ode-rnn", "unicornn"}  # in every `make test`
CANNOT_BE_EXPORTED = {
    "dopri5": "the number of steps of an adaptive solver depends on the data, and an exported program is fixed",
    "equilibrium": "the Jacobian for Newton's method comes from torch.func, which torch.export does not trace here",
}


STRAIGHT_THROUGH = "the gradient of its rounded gate is the identity's, by design"
OTHERWISE_IMPOSSIBLE = {
    ("skip-lstm", "gradients_are_right"): STRAIGHT_THROUGH,
    ("skip-gru", "gradients_are_right"): STRAIGHT_THROUGH,
}


def describe(case):
    settings = [f"{key}={value}" for key, value in case.settings.items()]
    return "-".join([case.name, *settings]).replace(" ", "")


def marks(case, check):
    """Pairs that are slow, and pairs that cannot work."""
    solver, name = case.settings.get("solver"), check.__name__
    if solver == "dopri5" and name not in OF_ADAPTIVE_SOLVERS:
        yield pytest.mark.slow
    if case.settings and case.name != "unicornn" and name in OF_THE_LAYER:
        yield pytest.mark.slow
    if name == "exported_step" and (case.settings or case.name not in EXPORTED) and solver not in CANNOT_BE_EXPORTED:
        yield pytest.mark.slow  # torch.export takes long
    if solver in CANNOT_BE_EXPORTED and name == "exported_step":
        yield pytest.mark.xfail(reason=CANNOT_BE_EXPORTED[solver])
    if (case.name, name) in OTHERWISE_IMPOSSIBLE:
        yield pytest.mark.xfail(reason=OTHERWISE_IMPOSSIBLE[case.name, name])


@pytest.mark.parametrize(
    ("case", "check"),
    [
        pytest.param(case, check, id=f"{describe(case)}-{check.__name__}", marks=list(marks(case, check)))
        for case, check in itertools.product(MODELS + VARIANTS, CHECKS)
    ],
)
def test_model_passes(case, check):
    check(case)
