"""Random continuous-time networks that read a circle, the input with which the LTC paper measures expressivity.

Three models with k units per layer; u is the input (sin t, cos t) or the previous layer, t from 0 to 2π:

    neural-ode  dx/dt = f
    ct-rnn      dx/dt = -x/τ + f
    ltc         dx/dt = -(1/τ + f) x + f A

There are two recipes for f and its random weights, because the text of the paper and the code published by its authors
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

from ...settings import number, one_of, whole

Array = NDArray[np.float64]
Field = Callable[[float, Array], Array]

MODELS = ("neural-ode", "ct-rnn", "ltc")
SOLVERS = {"rk23": "RK23", "rk45": "RK45", "adams": "LSODA", "implicit": "Radau"}
"""The SciPy class of each solver: Bogacki-Shampine, Dormand-Prince, Adams (BDF if stiff), Radau IIA."""
TURN = 2 * np.pi
STEPS_AT_MOST = 20_000
"""Maximum number of solver steps: a random τ that is tiny would take hours."""


class CirclePreset(NamedTuple):
    """Presets of a recipe."""

    sigma_w: float
    rtol: float
    atol: float


RECIPES = {"authors": CirclePreset(2.0, 1e-2, 1e-4), "text": CirclePreset(2**0.5, 1e-3, 1e-6)}
ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "tanh": np.tanh,
    "sigmoid": lambda a: 0.5 + 0.5 * np.tanh(0.5 * a),
    "relu": lambda a: np.maximum(a, 0.0),
    "hardtanh": lambda a: np.minimum(np.maximum(a, -1.0), 1.0),
}


@dataclass(frozen=True)
class Setting:
    """Settings of a random network and its solver; the defaults are those of LTC Table 2.

    Attributes:
        activation: "tanh", "sigmoid", "relu" or "hardtanh".
        width: Units k of a layer.
        depth: Number of layers, each a differential equation driven by the previous one.
        sigma_w: Standard deviation σ_w of the weights; None for that of the recipe (authors: 2, text: √2).
        sigma_b: Standard deviation σ_b of the biases.
        solver: "rk23", "rk45", "adams" or "implicit".
        recipe: "authors" or "text"; see above.
        samples: Number of input samples on the circle, by which the computational depth is divided.
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
        """σ_w; that of the recipe if none was given."""
        assert self.sigma_w is not None
        return self.sigma_w


@dataclass(frozen=True)
class Weights:
    """Random weights of one layer; `rate` is 1/τ."""

    inputs: Array
    recurrent: Array
    bias: Array
    recurrent_bias: Array
    rate: Array
    target: Array
    recurrent_target: Array


def draw(setting: Setting, seed: int) -> list[Weights]:
    """Draws the weights of each layer; the three models share common weights."""
    rng = np.random.default_rng(seed)
    k, text = setting.width, setting.recipe == "text"
    spread = setting.weight_scale / np.sqrt(k) if text else setting.weight_scale
    layers = []
    for index in range(setting.depth):
        inputs = rng.normal(0, spread, (k, k if index else 2))
        recurrent = rng.normal(0, spread, (k, k))
        bias, recurrent_bias, unit = (rng.normal(0, setting.sigma_b, k) for _ in range(3))
        targets = rng.normal(0, 1 if text else spread * np.sqrt(k), (2, k))
        rate = np.ones(k) if text or setting.sigma_b == 0 else 1 / np.abs(unit)
        layers.append(Weights(inputs, recurrent, bias, recurrent_bias, rate, *targets))
    return layers


def field(model: str, setting: Setting, layers: list[Weights]) -> Field:
    """Returns dx/dt as a function of t and of the concatenated states of all layers."""
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
    """Returns dx/dt of one layer for its input u and its state x."""
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
        times: `(P,)` evenly spaced from 0 to 2π.
        states: `(P, units)`; NaN if the solver was stopped.
        steps: Number of solver steps.
        finished: Whether the solver reached 2π.
    """

    times: Array
    states: Array
    steps: int
    finished: bool


def solve(rate: Field, size: int, setting: Setting, points: int = 1000, steps_at_most: int = STEPS_AT_MOST) -> Path:
    """Integrates dx/dt = rate(t, x) from x = 0 once around the circle, with steps of at most a tenth of it."""
    import scipy.integrate

    recipe = RECIPES[setting.recipe]
    times = np.linspace(0, TURN, points)
    states = np.full((points, size), np.nan)
    states[0], reached, steps = 0.0, 1, 0
    # The solver classes, not solve_ivp, which neither counts steps nor limits them.
    make: Any = getattr(scipy.integrate, SOLVERS[setting.solver])
    solver = make(rate, 0.0, np.zeros(size), TURN, rtol=recipe.rtol, atol=recipe.atol, max_step=TURN / 10)
    with np.errstate(over="ignore", invalid="ignore"):
        while solver.status == "running" and steps < steps_at_most and np.isfinite(solver.y).all():
            solver.step()
            steps += 1
            passed = int(np.searchsorted(times, solver.t, side="right"))
            if passed > reached:
                states[reached:passed] = solver.dense_output()(times[reached:passed]).T
                reached = passed
    return Path(times, states, steps, solver.status == "finished")
