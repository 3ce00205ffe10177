"""Random continuous-time networks that are shown a circle: what LTC's paper measures expressivity on.

Three models of k units a layer, u the input (sin t, cos t) or the layer below, t from 0 to 2π:

    neural-ode  dx/dt = f
    ct-rnn      dx/dt = -x/τ + f
    ltc         dx/dt = -(1/τ + f) x + f A

There are two recipes for f and its random weights, because the paper's text and the program its authors published
(github.com/raminmh/liquid_time_constant_networks) disagree:

    text     f = act(R x + V u + b), the same in all three; R, V ~ N(0, σ_w²/k), b ~ N(0, σ_b²). The text gives neither
             τ nor A; here τ = 1 and A ~ N(0, 1).
    authors  f = act(V u + b); only ltc also has a recurrent gate r = act(R x + b_r) and is
             dx/dt = -(1/τ + |f| + |r|) x + f A + r A_r. R, V ~ N(0, σ_w²) whatever the width, τ = |N(0, σ_b²)|, and
             A, A_r ~ N(0, k σ_w²), being sums of k weights.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._checks import number, one_of, whole

Array = NDArray[np.float64]
Field = Callable[[float, Array], Array]

MODELS = ("neural-ode", "ct-rnn", "ltc")
SOLVERS = {"rk23": "RK23", "rk45": "RK45", "adams": "LSODA", "implicit": "Radau"}
"""scipy's class for each: Bogacki-Shampine, Dormand-Prince, Adams (BDF where it gets stiff), Radau IIA."""
TURN = 2 * np.pi
STEPS_AT_MOST = 20_000
"""Steps after which a solver is stopped: a τ that happens to be tiny would take hours."""


class Recipe(NamedTuple):
    """What a recipe presets."""

    sigma_w: float
    rtol: float
    atol: float


RECIPES = {"authors": Recipe(2.0, 1e-2, 1e-4), "text": Recipe(2**0.5, 1e-3, 1e-6)}
ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "tanh": np.tanh,
    "sigmoid": lambda a: 0.5 + 0.5 * np.tanh(0.5 * a),
    "relu": lambda a: np.maximum(a, 0.0),
    "hardtanh": lambda a: np.minimum(np.maximum(a, -1.0), 1.0),
}


@dataclass(frozen=True)
class Setting:
    """How a random network is drawn and solved; the defaults are those of LTC's Table 2.

    Attributes:
        activation: "tanh", "sigmoid", "relu" or "hardtanh".
        width: units k of a layer.
        depth: layers, each a differential equation driven by the one below.
        sigma_w: standard deviation σ_w of the weights; None for the recipe's (authors: 2, text: √2).
        sigma_b: standard deviation σ_b of the biases.
        solver: "rk23", "rk45", "adams" or "implicit".
        recipe: "authors" or "text"; see above.
        samples: input samples on the circle, by which the computational depth is divided.
    """

    activation: str = "tanh"
    width: int = 100
    depth: int = 1
    sigma_w: float | None = None
    sigma_b: float = 1.0
    solver: str = "rk45"
    recipe: str = "authors"
    samples: int = 100

    def __post_init__(self) -> None:
        one_of("activation", self.activation, ACTIVATIONS)
        one_of("solver", self.solver, SOLVERS)
        preset = RECIPES[one_of("recipe", self.recipe, RECIPES)]
        whole("width", self.width, at_least=2)
        whole("depth", self.depth, at_least=1)
        whole("samples", self.samples, at_least=2)
        number("sigma_b", self.sigma_b, at_least=0)
        sigma_w = preset.sigma_w if self.sigma_w is None else number("sigma_w", self.sigma_w, above=0)
        object.__setattr__(self, "sigma_w", sigma_w)

    @property
    def weight_scale(self) -> float:
        """σ_w as a number, the recipe's where none was given."""
        assert self.sigma_w is not None
        return self.sigma_w


@dataclass(frozen=True)
class Weights:
    """One layer's random numbers; `rate` is 1/τ."""

    inputs: Array
    recurrent: Array
    bias: Array
    recurrent_bias: Array
    rate: Array
    target: Array
    recurrent_target: Array


def draw(setting: Setting, seed: int) -> list[Weights]:
    """The weights of each layer; the three models share what they have in common."""
    dice = np.random.default_rng(seed)
    k, text = setting.width, setting.recipe == "text"
    spread = setting.weight_scale / np.sqrt(k) if text else setting.weight_scale
    layers = []
    for index in range(setting.depth):
        inputs = dice.normal(0, spread, (k, k if index else 2))
        recurrent = dice.normal(0, spread, (k, k))
        bias, recurrent_bias, unit = (dice.normal(0, setting.sigma_b, k) for _ in range(3))
        targets = dice.normal(0, 1 if text else spread * np.sqrt(k), (2, k))
        rate = np.ones(k) if text or setting.sigma_b == 0 else 1 / np.abs(unit)
        layers.append(Weights(inputs, recurrent, bias, recurrent_bias, rate, *targets))
    return layers


def field(model: str, setting: Setting, layers: list[Weights]) -> Field:
    """dx/dt as a function of t and of the states of all layers in one row."""
    one_of("model", model, MODELS)
    act = ACTIVATIONS[setting.activation]
    rates = [_layer_rate(model, setting.recipe, act, weights) for weights in layers]
    k = setting.width

    def one_layer(t: float, x: Array) -> Array:
        return rates[0](np.array([np.sin(t), np.cos(t)]), x)

    def stack(t: float, x: Array) -> Array:
        states = [np.array([np.sin(t), np.cos(t)]), *x.reshape(-1, k)]
        return np.concatenate([rate(states[i], states[i + 1]) for i, rate in enumerate(rates)])

    return one_layer if len(layers) == 1 else stack


def _layer_rate(
    model: str, recipe: str, act: Callable[[Array], Array], weights: Weights
) -> Callable[[Array, Array], Array]:
    """dx/dt of one layer for its input u and its state x."""
    w = weights

    def shared(u: Array, x: Array) -> Array:
        return act(w.recurrent @ x + w.inputs @ u + w.bias)

    def feedforward(u: Array, x: Array) -> Array:
        return act(w.inputs @ u + w.bias)

    f = shared if recipe == "text" else feedforward

    def liquid(u: Array, x: Array) -> Array:
        gate = f(u, x)
        return gate * (w.target - x) - w.rate * x

    def liquid_of_authors(u: Array, x: Array) -> Array:
        gate, recurrent = f(u, x), act(w.recurrent @ x + w.recurrent_bias)
        return gate * w.target + recurrent * w.recurrent_target - (w.rate + np.abs(gate) + np.abs(recurrent)) * x

    def leaky(u: Array, x: Array) -> Array:
        return f(u, x) - w.rate * x

    if model == "ltc":
        return liquid if recipe == "text" else liquid_of_authors
    return leaky if model == "ct-rnn" else f


class Path(NamedTuple):
    """States over time.

    Attributes:
        times: `(P,)` evenly from 0 to 2π.
        states: `(P, units)`; NaN after a solver that was stopped.
        steps: steps the solver took.
        finished: whether it reached 2π.
    """

    times: Array
    states: Array
    steps: int
    finished: bool


def solve(rate: Field, size: int, setting: Setting, points: int = 1000, steps_at_most: int = STEPS_AT_MOST) -> Path:
    """Follows dx/dt = rate(t, x) from x = 0 once round the circle, with steps of at most a tenth of the way."""
    import scipy.integrate

    recipe = RECIPES[setting.recipe]
    times = np.linspace(0, TURN, points)
    states = np.full((points, size), np.nan)
    states[0], known, steps = 0.0, 1, 0
    # The solvers' own classes, not solve_ivp: it neither counts steps nor stops after too many.
    make: Any = getattr(scipy.integrate, SOLVERS[setting.solver])
    solver = make(rate, 0.0, np.zeros(size), TURN, rtol=recipe.rtol, atol=recipe.atol, max_step=TURN / 10)
    with np.errstate(over="ignore", invalid="ignore"):
        while solver.status == "running" and steps < steps_at_most and np.isfinite(solver.y).all():
            solver.step()
            steps += 1
            passed = int(np.searchsorted(times, solver.t, side="right"))
            if passed > known:
                states[known:passed] = solver.dense_output()(times[known:passed]).T
                known = passed
    return Path(times, states, steps, solver.status == "finished")
