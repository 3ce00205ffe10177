"""Cells run both ways: by the driver's loop and by their compiled kernel."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

import chronode
from chronode import compiler
from chronode.compiler._compiled import kernel_of
from chronode.nn import driver

TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4}


@dataclass(frozen=True)
class CompiledCase:
    """One way to call a cell."""

    name: str
    steps: int = 6
    batch: int = 5
    hidden: int = 6
    dt: str = "irregular"
    lengths: tuple[int, ...] | None = None
    last: bool = False
    memory: str = "auto"
    carried: bool = False
    contiguous: bool = True


CASES = [
    CompiledCase("irregular dt", steps=5),
    CompiledCase("dt = 0", steps=3, dt="zero"),
    CompiledCase("lengths", lengths=(6, 2, 5, 6, 1)),
    CompiledCase("last", lengths=(6, 1, 4, 6, 3), last=True),
    CompiledCase("state in", steps=4, carried=True),
    CompiledCase("one step", steps=1, carried=True),
    CompiledCase("one sequence", batch=1, steps=4),
    CompiledCase("odd hidden size", hidden=7, batch=3),
    CompiledCase("not contiguous", contiguous=False, steps=4),
    CompiledCase("low memory", steps=7, memory="low", lengths=(7, 3, 6, 7, 1), carried=True),
]
ALL_AT_ONCE = CompiledCase(
    "all", steps=7, hidden=7, lengths=(7, 2, 5, 7, 1), carried=True, contiguous=False, dt="irregular with zeros"
)


def cells(model, dtype, hidden, features=3, **settings):
    """The cells of a model's layer, the encoder first, with noise so that no parameter hides behind an initial 0."""
    torch.manual_seed(0)
    layer = chronode.create(model, features, hidden, **settings).to(dtype)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    return [*layer.encoders, *layer.cells]


def inputs(cell, case, dtype):
    """x, state, dt and plan of a call; all that can have a gradient asks for one."""
    torch.manual_seed(1)
    steps, batch = case.steps, case.batch
    x = torch.randn(batch, steps, cell.input_size, dtype=dtype).transpose(0, 1)
    if type(cell).__name__ in ("ForwardFill", "DecayToMean"):
        # The second half of an encoder's input says what was observed.
        seen = (torch.rand(steps, batch, cell.hidden_size) < 0.6).to(dtype)
        x = torch.cat([x[..., : cell.hidden_size], seen], dim=-1)
    if case.contiguous:
        x = x.contiguous()
    dt = 2 * torch.rand(steps, batch, 1, dtype=dtype)
    if case.dt == "zero":
        dt = torch.zeros_like(dt)
    elif case.dt == "irregular with zeros":
        dt = torch.where(torch.rand_like(dt) < 0.3, 0, dt)
    state = cell.initial_state(batch, x[0])
    if case.carried:
        # Counters and clocks (one number per sequence) keep values that they can have.
        state = tuple(s + 0.5 * torch.randn_like(s) if s.shape[1] > 1 else s + 2 for s in state)
    lengths = None if case.lengths is None else torch.tensor(case.lengths)
    plan = driver.Plan(lengths=lengths, last=case.last, memory=case.memory)
    return (
        x.detach().requires_grad_(),
        tuple(s.detach().clone().requires_grad_() for s in state),
        dt.requires_grad_(),
        plan,
    )


def by_loop(cell, x, state, dt, plan):
    """The oracle: the driver's loop."""
    return driver._loop(cell, state, driver.Steps(x, dt, plan.valid(x), False, plan.last))


def by_kernel(cell, x, state, dt, plan):
    """The compiled kernel."""
    return kernel_of(cell).run(cell, x, state, dt, plan)


def everything(run, cell, x, state, dt, plan) -> dict[str, Tensor]:
    """Outputs, last states and all gradients by name."""
    torch.manual_seed(2)
    y, end = run(cell, x, state, dt, plan)
    torch.manual_seed(3)
    weights = [torch.randn(out.shape, dtype=out.dtype) for out in (y, *end)]
    wanted = {"x": x, "dt": dt, **{f"state {i}": s for i, s in enumerate(state)}}
    wanted |= {name: p for name, p in cell.named_parameters() if p.requires_grad}
    pairs = [(out, weight) for out, weight in zip((y, *end), weights, strict=True) if out.requires_grad]
    grads = torch.autograd.grad(
        [out for out, _ in pairs], list(wanted.values()), [w for _, w in pairs], allow_unused=True
    )
    found = {"y": y, **{f"end {i}": s for i, s in enumerate(end)}}
    for (name, tensor), grad in zip(wanted.items(), grads, strict=True):
        found[f"gradient of {name}"] = torch.zeros_like(tensor) if grad is None else grad
    return {name: tensor.detach() for name, tensor in found.items()}


def assert_same(expected, found, tolerance):
    """Equal up to `tolerance`, relative to the largest element where that is above 1."""
    assert expected.keys() == found.keys()
    for name, want in expected.items():
        scale = max(1.0, float(want.abs().max()))
        worst = float((want - found[name]).abs().max()) / scale
        assert worst <= tolerance, f"{name} differs by {worst:.1e}"


def check(model, case, dtype=torch.float64, **settings):
    """A model's cells by kernel against the loop."""
    for cell in cells(model, dtype, case.hidden, **settings):
        arguments = inputs(cell, case, dtype)
        assert_same(everything(by_loop, cell, *arguments), everything(by_kernel, cell, *arguments), TOLERANCE[dtype])


def check_steps(model, dtype=torch.float64, **settings):
    """A model's cells, one bound step after another, against the loop over the whole sequence."""
    case = CompiledCase("steps", hidden=7, carried=True)
    for cell in cells(model, dtype, case.hidden, **settings):
        cell.eval()
        with torch.no_grad():
            x, state, dt, plan = inputs(cell, case, dtype)
            wanted, end = by_loop(cell, x, state, dt, plan)
            now = tuple(part.unsqueeze(0).clone() for part in state)
            then = tuple(torch.empty_like(part) for part in now)
            x_n, dt_n, outputs = x[0].clone(), dt[0].clone(), []
            compiler.use(cell)
            calls = [compiler.bind(cell, x_n, dt_n, *turn) for turn in ((now, then), (then, now))]
            for step in range(case.steps):
                x_n.copy_(x[step])
                dt_n.copy_(dt[step])
                call, y = calls[step % 2]
                call()
                outputs.append(y.clone())
        expected = {"y": wanted, **{f"end {i}": part for i, part in enumerate(end)}}
        found = {"y": torch.stack(outputs), **{f"end {i}": part[0] for i, part in enumerate(now)}}
        assert_same(expected, found, TOLERANCE[dtype])
