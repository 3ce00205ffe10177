"""Checks of own parts besides cells and readers: flows, solvers, metrics and export formats."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..data import Scaler, from_list
from ..export import Exported, Exporter, export
from ..model import ModelSpec, SequenceModel
from ..nn import Approach, Flow, Solver, make_flow
from ..training import OWN_METRICS, Metric, Scores
from .case import require, run_checks, same

_UNITS, _ROWS = 4, 3


# ---- flows -------------------------------------------------------------------------------------------------


def check_flow(name: str) -> None:
    """Checks a registered flow: the contract of `chronode.nn.Flow`.

    Args:
        name: Name of the flow.

    Raises:
        AssertionError: A part of the contract does not hold. The message lists all of them.

    Example:
        >>> check_flow("leaky")
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        flows = [make_flow(name, _UNITS, inputs).double().eval() for inputs in (0, 2)]
        run_checks(name, (_flow_shapes, _flow_rows, _flow_gradients, _flow_short_steps, _flow_long_steps), flows)


def _arguments(flow: Flow) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Returns a state, and the drive of a flow with inputs."""
    torch.manual_seed(1)
    h = torch.randn(_ROWS, _UNITS, dtype=torch.float64)
    drives = () if flow.drive_in is None else (flow.drive(torch.randn(_ROWS, 2, dtype=torch.float64)).detach(),)
    return h, drives


def _flow_shapes(flows: list[Flow]) -> None:
    """dh/dt has the shape and type of h, and a call changes nothing."""
    for flow in flows:
        h, drive = _arguments(flow)
        if drive:
            width = (_ROWS, flow.drive_width)
            require(drive[0].shape == width, f"drive has shape {tuple(drive[0].shape)}, expected {width}")
        before = [tensor.clone() for tensor in (h, *drive, *flow.parameters())]
        slope = flow(h, *drive)
        require(slope.shape == h.shape, f"dh/dt has shape {tuple(slope.shape)}, expected {tuple(h.shape)}")
        require(slope.dtype == h.dtype, f"dh/dt is {slope.dtype} although h is {h.dtype}")
        same("dh/dt of a second call", flow(h, *drive), slope, 0.0)
        require(all(map(torch.equal, before, (h, *drive, *flow.parameters()))), "a call changes h, drive or parameters")


def _flow_rows(flows: list[Flow]) -> None:
    """Every row of a batch is computed for itself."""
    for flow in flows:
        h, drive = _arguments(flow)
        alone = torch.cat([flow(h[i : i + 1], *(part[i : i + 1] for part in drive)) for i in range(len(h))])
        same("dh/dt of a batch against each row alone", flow(h, *drive), alone, 1e-12)


def _flow_gradients(flows: list[Flow]) -> None:
    """Gradients agree with finite differences."""
    for flow in flows:
        h, drive = _arguments(flow)
        inputs = [part.requires_grad_() for part in (h, *drive)]
        require(torch.autograd.gradcheck(flow, inputs, raise_exception=False), "wrong gradients of dh/dt")


def _flow_short_steps(flows: list[Flow]) -> None:
    """`advance` is h + step dh/dt, up to terms in step²."""
    for flow in flows:
        h, drive = _arguments(flow)
        errors = []
        for size in (1e-2, 1e-3):
            step = torch.full((_ROWS, 1), size, dtype=torch.float64)
            apart = flow.advance(h, step, *drive) - h - step * flow(h, *drive)
            errors.append(float(apart.detach().abs().max()))
        falls = f"falls from {errors[0]:.2g} to {errors[1]:.2g} for a tenth of the step"
        require(errors[1] <= max(2e-2 * errors[0], 1e-12), f"its difference from h + step dh/dt {falls}")


def _flow_long_steps(flows: list[Flow]) -> None:
    """A flow with a leak stays between the state and its target, however long the step."""
    for flow in flows:
        if isinstance(flow, Approach):
            h, drive = _arguments(flow)
            target, rate = flow.approach(h, *drive)
            require(bool((rate >= 0).all()), "a rate of `approach` is negative")
            end = flow.advance(h, torch.full((_ROWS, 1), 1e9, dtype=torch.float64), *drive)
            low, high = torch.minimum(h, target) - 1e-9, torch.maximum(h, target) + 1e-9
            require(bool(((end >= low) & (end <= high)).all()), "a long step leaves the range from h to the target")


# ---- solvers -----------------------------------------------------------------------------------------------


def check_solver(name: str) -> None:
    """Checks a registered solver: the contract of `chronode.nn.register_solver`.

    Args:
        name: Name of the solver.

    Raises:
        AssertionError: A part of the contract does not hold. The message lists all of them.

    Example:
        >>> check_solver("heun")
    """
    run_checks(name, (_converges, _keeps_the_state, _has_own_times, _solver_gradients), name)


def _oscillator(h: Tensor) -> Tensor:
    return torch.stack([h[:, 1], -h[:, 0]], dim=1)


def _start() -> tuple[Tensor, Tensor]:
    h = torch.tensor([[1.0, 0.0], [0.5, -1.0], [0.0, 2.0]], dtype=torch.float64)
    return h, torch.tensor([[0.3], [1.0], [2.0]], dtype=torch.float64)


def _converges(name: str) -> None:
    """With ten times as many steps, the error on an oscillator is at least about ten times as small."""
    h, dt = _start()
    turned = torch.stack([h[:, 0] * dt[:, 0].cos() + h[:, 1] * dt[:, 0].sin()], dim=1)
    errors = [float((Solver(name, steps)(_oscillator, h, dt)[:, :1] - turned).abs().max()) for steps in (20, 200)]
    message = f"its error on an oscillator is {errors[0]:.2g} with 20 steps and {errors[1]:.2g} with 200"
    require(errors[1] <= max(errors[0] / 8, 1e-10), message)


def _keeps_the_state(name: str) -> None:
    """A time of 0 changes nothing."""
    h, dt = _start()
    same("the state after a time of 0", Solver(name, 3)(_oscillator, h, torch.zeros_like(dt)), h, 0.0)


def _has_own_times(name: str) -> None:
    """Every row has its own time."""
    h, dt = _start()
    solver = Solver(name, 5)
    alone = torch.cat([solver(_oscillator, h[i : i + 1], dt[i : i + 1]) for i in range(len(h))])
    same("a batch against each row alone", solver(_oscillator, h, dt), alone, 1e-12)


def _solver_gradients(name: str) -> None:
    """Gradients by the state and by the time agree with finite differences."""
    inputs = tuple(part.requires_grad_() for part in _start())
    right = torch.autograd.gradcheck(lambda h, dt: Solver(name, 3)(_oscillator, h, dt), inputs, raise_exception=False)
    require(right, "wrong gradients by h or dt")


# ---- metrics -----------------------------------------------------------------------------------------------


def check_metric(metric: type[Metric]) -> None:
    """Checks a registered metric: the contract of `chronode.training.Metric`.

    Args:
        metric: The class.

    Raises:
        AssertionError: A part of the contract does not hold. The message lists all of them.

    Example:
        >>> from chronode.training import register_metric
        >>> @register_metric
        ... class Errors(Metric):
        ...     name, lower_is_better = "error_rate", True
        ...     wrong = count = 0
        ...
        ...     def update(self, output, target):
        ...         self.wrong += int((output.argmax(-1) != target).sum())
        ...         self.count += len(target)
        ...
        ...     def compute(self):
        ...         return self.wrong / self.count
        >>> check_metric(Errors)
    """
    checks = (_is_known, _no_batches, _knows_perfection, _leaves_tensors, _ignores_unknown)
    run_checks(metric.__name__, checks, metric)


def _examples(metric: type[Metric], noise: float = 1.0) -> tuple[Tensor, Tensor]:
    """Returns predictions and targets of 60 examples, in two classes or two columns."""
    rng = torch.Generator().manual_seed(0)
    drawn = torch.randn(60, 2, generator=rng, dtype=torch.float64)
    if metric.kind == "class":
        target = (torch.arange(60) % 3 == 0).long()
        return 40 * torch.nn.functional.one_hot(target, 2) + 40 * noise * drawn, target
    return drawn + noise * torch.randn(60, 2, generator=rng, dtype=torch.float64), drawn


def _value(metric: type[Metric], output: Tensor, target: Tensor, *sizes: int) -> float:
    """Returns the metric of examples in batches of these sizes, and one of the rest."""
    collected, start = metric(2), 0
    for size in (*sizes, len(target) - sum(sizes)):
        collected.update(output[start : start + size], target[start : start + size])
        start += size
    return collected.compute()


def _is_known(metric: type[Metric]) -> None:
    """Training knows the metric, and its value is a number."""
    require(OWN_METRICS.get(metric.name) is metric, "add @register_metric to the class.")
    scores = Scores((metric.name,), 2)
    scores.update(*_examples(metric))
    value = scores.compute()[metric.name]
    require(isinstance(value, float) and value == value, f"60 examples give {value!r}, which is not a number.")


def _no_batches(metric: type[Metric]) -> None:
    """Batches and the order of examples do not matter."""
    output, target = _examples(metric)
    order = torch.randperm(60, generator=torch.Generator().manual_seed(1))
    whole = _value(metric, output, target)
    for what, value in {
        "in batches of 1, 7 and 52": _value(metric, output, target, 1, 7),
        "in another order": _value(metric, output[order], target[order]),
    }.items():
        require(abs(value - whole) <= 1e-9 * max(1.0, abs(whole)), f"{what} the value is {value}, otherwise {whole}.")


def _knows_perfection(metric: type[Metric]) -> None:
    """Perfect predictions give 0 or 1, and worse ones a worse value."""
    perfect, noisy = (_value(metric, *_examples(metric, noise)) for noise in (0.0, 3.0))
    best = 0.0 if metric.lower_is_better else 1.0
    require(abs(perfect - best) < 1e-6, f"perfect predictions give {perfect}, expected {best:g}.")
    is_worse = noisy > perfect if metric.lower_is_better else noisy < perfect
    require(is_worse, f"bad predictions give {noisy}, perfect ones {perfect}: is lower_is_better right?")


def _leaves_tensors(metric: type[Metric]) -> None:
    """Predictions and targets are not changed."""
    output, target = _examples(metric)
    before = output.clone(), target.clone()
    _value(metric, output, target)
    require(all(map(torch.equal, before, (output, target))), "it changes predictions or targets.")


def _ignores_unknown(metric: type[Metric]) -> None:
    """Unknown numbers (NaN) do not count."""
    if metric.kind == "value":
        output, target = _examples(metric)
        more = torch.cat([target, torch.full((5, 2), torch.nan, dtype=target.dtype)])
        value, whole = _value(metric, torch.cat([output, output[:5]]), more), _value(metric, output, target)
        require(abs(value - whole) <= 1e-9 * max(1.0, abs(whole)), f"with unknown targets {value}, without {whole}.")


# ---- formats of export -------------------------------------------------------------------------------------


def check_exporter(exporter: type[Exporter]) -> None:
    """Checks a registered format of export: the contract of `chronode.export.Exporter`.

    Args:
        exporter: The class.

    Raises:
        AssertionError: A part of the contract does not hold. The message lists all of them.
    """
    with tempfile.TemporaryDirectory() as folder:
        exports = _exports(exporter, Path(folder))
        run_checks(exporter.__name__, (_names_its_files, _same_numbers), exports)


def _exports(exporter: type[Exporter], folder: Path) -> dict[str, Exported]:
    """Returns small models of each kind in this format."""
    scaler = Scaler.fit(from_list([[[1.0, 10.0], [3.0, 30.0], [2.0, 50.0]]], times=[[0, 1, 3]], unit=1), dt=True)
    common: dict[str, Any] = {"input_size": 2, "hidden_size": 3}
    kinds: dict[str, tuple[ModelSpec, dict[str, Any]]] = {
        "classes": (ModelSpec("gru", num_outputs=2, missing=True, **common), {"classes": ["a", "b"], "unit": "hour"}),
        "values": (ModelSpec("ltc", num_outputs=2, num_layers=2, **common), {"scaler": scaler}),
        "forecasts": (ModelSpec("gru", num_outputs=2, relative=(0,), **common), {"window": 5}),
    }
    exports = {}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        for name, (spec, options) in kinds.items():
            model = SequenceModel.build(spec).eval()
            exports[name] = export(model, folder / name, format=exporter.format, **options)
    return exports


def _names_its_files(exports: dict[str, Exported]) -> None:
    """`write` returns the names of all files, which are in the folder."""
    for name, done in exports.items():
        written = {str(path.relative_to(done.folder)) for path in done.folder.rglob("*") if path.is_file()}
        require(written == set(done.files), f"{name}: wrote {sorted(written)}, but write returned {done.files}")


def _same_numbers(exports: dict[str, Exported]) -> None:
    """The files give the predictions of the model."""
    for name, done in exports.items():
        apart = done.difference()
        require(apart <= 1, f"{name}: predictions differ from the model's by {apart:.2g} times the tolerance")
