"""Checks of a cell as a function: the contract, purity, finite numbers, gradients, learning, saving and copying."""

from __future__ import annotations

import copy
import dataclasses
import io
import pickle
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ..nn import Cell, Layer, State, cell_settings
from .case import Case, agree, calling, cells, check, evaluate, finite, require, same, weighted_sum


@check
def contract(case: Case) -> None:
    """The cell's state is a tuple of `(B, size)` tensors that keep their shapes; y is `(B, output_size)`."""
    for dtype in (torch.float32, torch.float64):
        cell, x, state, dt = _one_cell(case, dtype)
        require(isinstance(state, tuple), f"initial_state must return a tuple of tensors, got {type(state).__name__}")
        y, after = cell(x, state, dt)
        require(
            isinstance(after, tuple), f"forward must return (y, state) with state a tuple, got {type(after).__name__}"
        )
        shapes, new_shapes = ([tuple(part.shape) for part in parts] for parts in (state, after))
        require(
            all(len(s) == 2 and s[0] == len(x) for s in shapes), f"state must be (batch, size) tensors, got {shapes}"
        )
        require(shapes == new_shapes, f"a step changes the state's shapes from {shapes} to {new_shapes}")
        wanted = (len(x), cell.output_size)
        require(tuple(y.shape) == wanted, f"y has shape {tuple(y.shape)}, expected (batch, output_size) = {wanted}")
        for name, part in _named(y=y, state=state, after=after):
            require(part.dtype == dtype, f"{name} is {part.dtype} although x is {dtype}")


def _one_cell(case: Case, dtype: torch.dtype = torch.float64) -> tuple[Cell, Tensor, State, Tensor]:
    """Returns a cell and the arguments of one step."""
    cell = cells(case.layer(dtype))[0]
    # With an encoder, the input of the first cell has more features than x.
    data = dataclasses.replace(case, input_size=cell.input_size).data(dtype=dtype)
    x, dt = data.x[:, 0], data.dt[:, :1]
    return cell, cell.project(x), cell.initial_state(len(x), x), dt


def _named(**tensors: Tensor | State) -> list[tuple[str, Tensor]]:
    named = []
    for name, value in tensors.items():
        named += [(f"{name}[{i}]", p) for i, p in enumerate(value)] if isinstance(value, tuple) else [(name, value)]
    return named


@check
def purity(case: Case) -> None:
    """Two equal calls give the same numbers; arguments, parameters, buffers and attributes do not change."""
    cell, x, state, dt = _one_cell(case)
    inputs = _named(x=x, state=state, dt=dt) + list(cell.named_parameters()) + list(cell.named_buffers())
    attributes = {name: set(vars(module)) for name, module in cell.named_modules()}
    versions = {name: tensor._version for name, tensor in inputs}
    (y, after), (y_again, after_again) = cell(x, state, dt), cell(x, state, dt)
    agree("a second call of the cell", dict(_named(y=y_again, state=after_again)), dict(_named(y=y, state=after)), 0.0)
    for name, tensor in inputs:
        require(tensor._version == versions[name], f"a call of the cell writes to {name} in place")
    for name, module in cell.named_modules():
        new = set(vars(module)) - attributes[name]
        require(not new, f"a call of the cell sets attributes: {', '.join(sorted(new))}")

    layer, (x, dt, lengths) = case.layer(), case.data()
    before = tuple(part.clone() for part in (x, dt, lengths))
    y, y_again = layer(x, dt=dt, lengths=lengths)[0], layer(x, dt=dt, lengths=lengths)[0]
    same("y of a second call of the layer", y_again, y, 0.0)
    require(all(map(torch.equal, before, (x, dt, lengths))), "a call of the layer changes x, dt or lengths")


@check
def huge_inputs(case: Case) -> None:
    """Inputs of 1e4 give finite outputs, states and gradients, in float32 too."""
    for dtype in (torch.float32, torch.float64):
        layer, (x, dt, _) = case.layer(dtype), case.data(dtype=dtype)
        finite(f"inputs of 1e4 in {dtype}", evaluate(layer, calling(layer), x=1e4 * x.sign(), dt=dt))


@check
def float32_is_float64(case: Case) -> None:
    """In float32, the same weights give the float64 results to within 1e-4, in the dtype of x."""
    single = case.layer(torch.float32)
    double = copy.deepcopy(single).to(torch.float64)
    results = []
    for layer in (single, double):
        dtype = layer.like().dtype
        x, dt, _ = case.data(dtype=dtype)
        results.append(evaluate(layer, calling(layer), x=x, dt=dt))
        wrong = [name for name, result in results[-1].items() if result.dtype != dtype]
        require(not wrong, f"in a {dtype} layer other dtypes appear: {', '.join(wrong)}")
    agree("float32 against float64", results[0], results[1], within=1e-4)


@check
def gradients_are_right(case: Case) -> None:
    """Gradients of x, dt, the state and every parameter agree with finite differences in a random direction."""
    layer, (x, dt, lengths) = case.layer(), case.data(steps=3)
    state = case.state(layer, len(x))

    def call(x: Tensor, dt: Tensor, state: State) -> tuple[Tensor, State]:
        return layer(x, state, dt=dt, lengths=lengths)

    gradients = evaluate(layer, call, x=x, dt=dt, state=state)
    inputs: dict[str, Tensor] = dict(_named(x=x, dt=dt, state=state)) | dict(layer.named_parameters())
    for name, tensor in inputs.items():
        gradient = gradients.get(f"the gradient by {name}")
        # A part of the state with integer values is a counter, which has no gradient.
        if gradient is None or (name.startswith("state") and bool((tensor == tensor.round()).all())):
            continue
        direction = torch.randn_like(tensor)
        # The error of an adaptive solver is not smooth; a longer difference reduces its influence.
        slope = _slope(lambda: weighted_sum(*call(x, dt, state)), tensor, direction, 1e-5 if case.exact else 1e-3)
        what = f"the gradient by {name} in a random direction against finite differences"
        same(what, (gradient * direction).sum(), slope, max(1e-6, 10 * case.agreement))


def _slope(value: Callable[[], Tensor], tensor: Tensor, direction: Tensor, way: float) -> Tensor:
    """Returns the derivative of the value along a direction of the tensor."""
    with torch.no_grad():
        here = tensor.clone()
        tensor.copy_(here + way * direction)
        ahead = value()
        tensor.copy_(here - way * direction)
        behind = value()
        tensor.copy_(here)
    return (ahead - behind) / (2 * way)


@check
def training(case: Case) -> None:
    """Every parameter has a finite gradient, and a small step against it lowers the loss, in both precisions."""
    for dtype in (torch.float32, torch.float64):
        before, after = _losses_around_a_step(case, dtype)
        require(after < before, f"in {dtype} small steps against the gradient move the loss from {before} to {after}")


def _losses_around_a_step(case: Case, dtype: torch.dtype) -> tuple[float, float]:
    layer, (x, dt, lengths) = case.layer(dtype).train(), case.data(dtype=dtype)
    target = torch.linspace(-1, 1, layer.output_size, dtype=dtype)

    def loss() -> Tensor:
        torch.manual_seed(0)  # a model that samples in training must draw the same numbers again
        return (layer(x, dt=dt, lengths=lengths)[0] - target).square().mean()

    before = loss()
    before.backward()
    trained: dict[str, Tensor] = {name: p for name, p in layer.named_parameters() if p.requires_grad}
    idle = [name for name, p in trained.items() if p.grad is None]
    require(not idle, f"{', '.join(idle)} have no gradient: they are not used")
    gradients = {name: p.grad for name, p in trained.items() if p.grad is not None}
    finite(f"gradients in {dtype}", gradients)
    length = float(torch.stack([gradient.norm() for gradient in gradients.values()]).norm())
    require(length > 0, "all gradients are 0")
    return float(before.detach()), min(
        _loss_after(step / length, gradients, trained, loss) for step in (1e-2, 1e-3, 1e-4)
    )


def _loss_after(
    rate: float, gradients: dict[str, Tensor], parameters: dict[str, Tensor], loss: Callable[[], Tensor]
) -> float:
    """Returns the loss after a step against the gradient; the step is then undone."""
    with torch.no_grad():
        before = {name: parameter.clone() for name, parameter in parameters.items()}
        for name, parameter in parameters.items():
            parameter -= rate * gradients[name]
        after = float(loss())
        for name, parameter in parameters.items():
            parameter.copy_(before[name])
        return after


def _numbers(layer: Layer, case: Case) -> dict[str, Tensor]:
    x, dt, _ = case.data()
    y, state = layer(x, dt=dt)
    return {"y": y, **{f"state[{i}]": part for i, part in enumerate(state)}}


def _disturb(layer: Layer) -> None:
    """Gives every parameter and buffer another value."""
    with torch.no_grad():
        for tensor in (*layer.parameters(), *layer.buffers()):
            tensor.copy_(tensor + 1)


def _saved_and_read(layer: Layer) -> dict[str, Any]:
    file = io.BytesIO()
    torch.save(layer.state_dict(), file)
    file.seek(0)
    return torch.load(file, weights_only=True)


@check
def state_dict_holds_everything(case: Case) -> None:
    """A saved state_dict, loaded into a layer with other parameters and buffers, gives the same numbers."""
    layer, other = case.layer(), case.layer(seed=1)
    _disturb(other)
    other.load_state_dict(_saved_and_read(layer))
    agree("a layer with loaded weights", _numbers(other, case), _numbers(layer, case), 0.0)


@check
def other_settings_are_loaded_or_refused(case: Case) -> None:
    """Weights saved with another value of a setting give that layer's numbers (it was saved too), or are rejected."""
    layer = case.layer()
    saved, wanted = _saved_and_read(layer), _numbers(layer, case)
    described = cell_settings(layer.cell_class, layer.settings, 0, layer.num_layers, defaults=True)
    for name, value in described.items():
        try:
            other = case.layer(**{name: _another(value, layer.num_layers)})
            other.load_state_dict(saved)
        except (ValueError, TypeError, RuntimeError):
            continue  # not allowed for this model, or rejected
        what = f"weights of a layer with {name}={value!r} were loaded into one with another value, unnoticed"
        agree(what, _numbers(other, case), wanted, 0.0)


def _another(value: Any, num_layers: int) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, (list, tuple)):
        return [_another(one, num_layers) for one in value]
    if isinstance(value, int):
        return value + 1
    return 1.5 * value + 0.25 if isinstance(value, float) else value


@check
def copies(case: Case) -> None:
    """A deep copy and an unpickled layer give the same numbers and share nothing with the original."""
    layer = case.layer()
    wanted = _numbers(layer, case)
    for how, other in {"deepcopy": copy.deepcopy(layer), "pickle": pickle.loads(pickle.dumps(layer))}.items():
        agree(f"a copy by {how}", _numbers(other, case), wanted, 0.0)
        _disturb(other)
        agree(f"the original after its {how} has changed", _numbers(layer, case), wanted, 0.0)
    require(repr(layer) == repr(case.layer()), "repr of two equal layers differs")


class _Step(nn.Module):
    def __init__(self, layer: Layer):
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor, state: State, dt: Tensor) -> tuple[Tensor, State]:
        return self.layer.step(x, state, dt)


@check
def exported_step(case: Case) -> None:
    """The exported program of `step` gives the same numbers as `step`, on data other than the example inputs."""
    layer, (x, dt, _) = case.layer(), case.data()
    state = case.state(layer, len(x))
    with torch.no_grad():
        program = torch.export.export(_Step(layer), (x[:, 0], state, dt[:, :1])).module()
        got, after = program(x[:, 1], state, dt[:, 1:2])
        y, wanted = layer.step(x[:, 1], state, dt[:, 1:2])
    same("y of the exported step", got, y, case.agreement)
    for i, part in enumerate(wanted):
        same(f"state[{i}] of the exported step", after[i], part, case.agreement)
