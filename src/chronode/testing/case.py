"""Tools of the checks: reproducible models and data, and the comparison of results."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from ..nn import Cell, Layer, State, create, find_model


class Data(NamedTuple):
    """A small batch: `x (B, T, D)`, `dt (B, T)` with different gaps everywhere, `lengths (B,)` including 1."""

    x: Tensor
    dt: Tensor
    lengths: Tensor


@dataclass(frozen=True)
class Case:
    """A registered model with settings: the argument of every check.

    Attributes:
        name: Name of the model.
        settings: Settings of the model, and `num_layers` or `residual`.
        agreement: Tolerance between two float64 computations of the same result, relative to the larger of 1 and the
            largest number. Rounding stays far below the default; an adaptive solver needs about 1e-4.
        stochastic: Whether a step draws random numbers; then every call draws the same ones.
        input_size: D, different from the sizes of all other axes so that mixed-up axes are noticed.
        hidden_size: H.
    """

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    agreement: float = 1e-9
    stochastic: bool = False
    input_size: int = 2
    hidden_size: int = 4

    def layer(self, dtype: torch.dtype = torch.float64, seed: int = 0, **settings: Any) -> Layer:
        """Returns a layer in eval mode; with the same settings and seed it has the same weights at every call."""
        torch.manual_seed(seed)
        layer = create(self.name, self.input_size, self.hidden_size, **{**self.settings, **settings})
        return _seeded(layer.to(dtype).eval()) if self.stochastic else layer.to(dtype).eval()

    def stack(self, **settings: Any) -> Layer:
        """Like `layer`, with two cells unless the settings have a number of layers."""
        layers = self.settings.get("num_layers", 1)
        return self.layer(num_layers=2 if layers == 1 else layers, **settings)

    def data(self, batch: int = 3, steps: int = 5, dtype: torch.dtype = torch.float64, seed: int = 0) -> Data:
        """Returns data that depends only on the arguments."""
        rng = torch.Generator().manual_seed(seed)
        x = torch.randn(batch, steps, self.input_size, generator=rng, dtype=torch.float64)
        dt = 0.2 + torch.rand(batch, steps, generator=rng, dtype=torch.float64)
        lengths = torch.tensor([steps, 1, steps - 2, *[steps] * batch][:batch])
        return Data(x.to(dtype), dt.to(dtype), lengths)

    def state(self, layer: Layer, batch: int) -> State:
        """Returns a realistic state of the layer: its state after two steps."""
        before = self.data(batch, steps=2, dtype=layer.like().dtype, seed=1)
        with torch.no_grad():
            return layer(before.x, dt=before.dt)[1]

    @property
    def exact(self) -> bool:
        """Whether results must agree more closely than those of an adaptive solver."""
        return self.agreement < 5e-5

    @property
    def time(self) -> str:
        """Use of dt, as the model is registered with."""
        return find_model(self.name).time


def _seeded(layer: Layer) -> Layer:
    """Lets every call draw the same random numbers."""
    for name in ("forward", "step"):
        setattr(layer, name, functools.partial(_call_seeded, type(layer), name, layer))
    return layer


def _call_seeded(kind: type[Layer], name: str, layer: Layer, *arguments: Any, **options: Any) -> Any:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return getattr(kind, name)(layer, *arguments, **options)


Check = Callable[[Case], None]


def check(function: Check) -> Check:
    """Makes a check reproducible and restores the caller's random state."""

    @functools.wraps(function)
    def repeatable(case: Case) -> None:
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.manual_seed(0)
            function(case)

    return repeatable


def run_checks(what: str, checks: Sequence[Callable[..., None]], *arguments: Any) -> None:
    """Calls all checks, and raises AssertionError with the failures of all of them."""
    failures = []
    for one in checks:
        name = one.__name__.strip("_")
        try:
            one(*arguments)
        except AssertionError as failure:
            failures.append(f"{name}: {failure}")
        except Exception as error:
            first_line = str(error).strip().partition("\n")[0]
            failures.append(f"{name}: {type(error).__name__}: {first_line}")
    if failures:
        raise AssertionError("\n  ".join([f"{what} fails {len(failures)} of {len(checks)} checks:", *failures]))


def evaluate(layer: Layer, call: Callable[..., tuple[Tensor, State]], **inputs: Any) -> dict[str, Tensor]:
    """Returns the results of `call(**inputs)` by name: y, the final state, and gradients.

    The gradients are those of a fixed weighted sum of y and state with respect to every input (a tensor or a tuple of
    tensors) and every parameter.
    """
    leaves: dict[str, Any] = {name: _leaf(value) for name, value in inputs.items()}
    y, state = call(**leaves)
    results = {"y": y, **{f"state[{i}]": part for i, part in enumerate(state)}}
    sources: dict[str, Tensor] = {name: p for name, p in layer.named_parameters() if p.requires_grad}
    for name, leaf in leaves.items():
        parts = {f"{name}[{i}]": part for i, part in enumerate(leaf)} if isinstance(leaf, tuple) else {name: leaf}
        sources |= parts
    gradients = torch.autograd.grad(
        weighted_sum(y, state), list(sources.values()), allow_unused=True, materialize_grads=True
    )
    gradients_by_name = {f"the gradient by {name}": g for name, g in zip(sources, gradients, strict=True)}
    return {name: result.detach() for name, result in results.items()} | gradients_by_name


def cells(layer: Layer) -> list[Cell]:
    """Returns the layer's cells from bottom to top; in each layer the forward cell comes first."""
    return cast(list[Cell], list(layer.cells))


def calling(layer: Layer, **arguments: Any) -> Callable[..., tuple[Tensor, State]]:
    """Returns the call `layer(x, dt=dt, ...)`, for `evaluate`."""
    return lambda x, dt: layer(x, dt=dt, **arguments)


def _leaf(value: Tensor | tuple[Tensor, ...]) -> Tensor | tuple[Tensor, ...]:
    if isinstance(value, tuple):
        return tuple(part.detach().clone().requires_grad_() for part in value)
    return value.detach().clone().requires_grad_()


def weighted_sum(y: Tensor, state: State) -> Tensor:
    """Returns a number that depends on all of y and state."""
    return torch.stack([_weighted(result).sum() for result in (y, *state)]).sum()


def _weighted(result: Tensor) -> Tensor:
    """Returns the sum with a different weight for every time and unit, but not for every sample.

    The result of a batch is therefore the sum of the results of its sequences.
    """
    shape = result.shape[1:] if result.dim() == 3 else result.shape[-1:]
    weights = torch.arange(1, shape.numel() + 1, dtype=result.dtype).cos().view(shape)
    return result * weights


def agree(what: str, got: Mapping[str, Tensor], wanted: Mapping[str, Tensor], within: float) -> None:
    """Raises AssertionError unless both results have the same names and numbers."""
    if got.keys() != wanted.keys():
        raise AssertionError(f"{what}: there is {', '.join(got)}; expected {', '.join(wanted)}")
    for name in wanted:
        same(f"{what}: {name}", got[name], wanted[name], within)


def same(what: str, got: Tensor, wanted: Tensor, within: float) -> None:
    """Raises AssertionError unless two tensors agree, with the place and size of the largest difference."""
    if got.shape != wanted.shape:
        raise AssertionError(f"{what} has shape {tuple(got.shape)}, expected {tuple(wanted.shape)}")
    if got.numel() == 0:
        return
    got, wanted = got.detach().double(), wanted.detach().double()
    apart = (got - wanted).abs().nan_to_num(nan=torch.inf)
    allowed = within * max(1.0, float(wanted.abs().max()))
    if not bool((apart <= allowed).all()):
        index = torch.unravel_index(apart.argmax(), apart.shape)
        where = f" at [{', '.join(str(int(i)) for i in index)}]" if index else ""
        raise AssertionError(
            f"{what} differs by {float(apart.max()):.2g}{where}: {float(got[index]):.9g} against "
            f"{float(wanted[index]):.9g} (allowed: {allowed:.1g})"
        )


def finite(what: str, results: Mapping[str, Tensor]) -> None:
    """Raises AssertionError unless all numbers are finite."""
    for name, result in results.items():
        wrong = (~torch.isfinite(result)).nonzero()
        if len(wrong):
            index = tuple(wrong[0].tolist())
            raise AssertionError(
                f"{what}: {name} is {float(result[index])} at {list(index)} ({len(wrong)} of {result.numel()} numbers)"
            )


def require(condition: bool, message: str) -> None:
    """Raises AssertionError with `message` unless the condition holds."""
    if not condition:
        raise AssertionError(message)
