"""Benchmarks of the step compiler: loop against compiled step, and compiled step against hand-written kernel."""

from __future__ import annotations

import copy
import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

import chronode
from chronode import compiler
from chronode.compiler import kernel_of
from chronode.kernels import backend
from chronode.nn import Cell, Layer, create

from .cases import CASES, BenchCase

Run = Callable[[], Tensor]


@dataclass(frozen=True)
class SpeedUp:
    """A measured speed-up.

    Attributes:
        name: Name of the compiled model.
        against: Name of the reference.
        theirs: Median seconds per training batch of the reference.
        ours: Median seconds per training batch of the compiled step.
        first: Seconds to trace and build the step with an empty cache.
    """

    name: str
    against: str
    theirs: float
    ours: float
    first: float

    @property
    def ratio(self) -> float:
        """Speed-up of the compiled step."""
        return self.theirs / self.ours


@dataclass(frozen=True)
class AgainstHand:
    """CPU time of a compiled step divided by that of the hand-written kernel, on one thread."""

    name: str
    training: float
    inference: float


class Leaky(Cell):
    """h' = h e^(-dt) + tanh(W x + U h + b);  y = h': an example of a user's cell."""

    def __init__(self, input_size: int, hidden_size: int):
        super().__init__(input_size, hidden_size)
        self.inputs = nn.Linear(input_size, hidden_size)
        self.recurrent = nn.Linear(hidden_size, hidden_size, bias=False)

    def forward(self, x: Tensor, state: tuple[Tensor, ...], dt: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Performs one step."""
        (h,) = state
        h = h * torch.exp(-dt) + torch.tanh(self.inputs(x) + self.recurrent(h))
        return h, (h,)


def time_models(names: Sequence[str], repeats: int, tell: Callable[[str], None]) -> list[SpeedUp]:
    """Times loop and compiled step of each named model at T256 B32 H64, except those with a hand-written kernel."""
    figures = []
    for name in names:
        layer = create(name, 8, 64)
        if all(compiler.explain(cell).name == "compiled" for cell in compiler.cells_of(layer)):
            tell(name)
            figures.append(against_loop(name, layer, 256, 32, repeats))
    return figures


def against_loop(name: str, layer: Layer, steps: int, batch: int, repeats: int) -> SpeedUp:
    """Times the compiled step of a layer and the loop of the driver."""
    x, dt = torch.randn(batch, steps, layer.input_size), torch.rand(batch, steps) + 0.5
    # One sequence is shorter by a step: with unequal lengths, no model falls back on torch's own loops.
    options: dict[str, Any] = {"dt": dt, "lengths": [steps - 1] + [steps] * (batch - 1)}
    if layer.missing:
        options["observed"] = torch.rand(x.shape) < 0.7

    def loop() -> Tensor:
        with backend("torch"):
            return layer(x, **options)[0]

    first = prepare(layer)
    ours, theirs = _medians([lambda: layer(x, **options)[0], loop], repeats)
    return SpeedUp(name, "loop", theirs, ours, first)


def time_lstm(repeats: int) -> list[SpeedUp]:
    """Times our LSTM and torch's on sequences of equal and unequal length."""
    figures = []
    for steps, batch, hidden, unequal in ((1000, 128, 128, False), (512, 64, 64, True)):
        layer, torch_lstm = create("lstm", 8, hidden), nn.LSTM(8, hidden, batch_first=True)
        x = torch.randn(batch, steps, 8)
        lengths = torch.linspace(steps // 8, steps, batch).long() if unequal else None

        def theirs(x: Tensor = x, lengths: Tensor | None = lengths, lstm: nn.LSTM = torch_lstm) -> Tensor:
            if lengths is None:
                return lstm(x)[0]
            return lstm(pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False))[0].data

        first = prepare(layer)
        seconds = _medians([lambda n=lengths, x=x, one=layer: one(x, lengths=n)[0], theirs], repeats)
        kind = "packed, unequal lengths" if unequal else "equal lengths"
        name = f"lstm T{steps} B{batch} H{hidden}, {kind}"
        figures.append(SpeedUp(name, "torch.nn.LSTM", seconds[1], seconds[0], first))
    return figures


def time_leaky(repeats: int) -> SpeedUp:
    """Times a cell written by a user."""
    return against_loop("leaky (a user's cell) T1000 B64 H64", Layer(Leaky, 8, 64), 1000, 64, repeats)


def hand_cases(pick: str) -> list[BenchCase]:
    """Returns the shapes of `chronode bench`, and one shape of other models, with a hand-written kernel."""
    cases = [BenchCase(f"{name} T256 B64 H64", name, 256, 64, 8, 64) for name in ("indrnn", "sru")]
    models = {name for name, model in chronode.models().items() if model.kernel()}
    return [case for case in (*CASES, *cases) if pick.lower() in case.model and case.model in models]


def time_hand(cases: Sequence[BenchCase], repeats: int, tell: Callable[[str], None]) -> list[AgainstHand]:
    """Times the compiled step of models that have a hand-written kernel, on one thread.

    Each time is the least CPU time of many interleaved repetitions, which other processes disturb little.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return [_against_hand(case, repeats, tell) for case in cases]
    finally:
        torch.set_num_threads(threads)


def _against_hand(case: BenchCase, repeats: int, tell: Callable[[str], None]) -> AgainstHand:
    tell(case.name)
    x, dt = case.data()
    layer = create(case.model, case.features, case.hidden, case.layers, **case.settings)
    compiled = copy.deepcopy(layer)
    for cell in compiler.cells_of(compiled):
        cell.sequence_kernel = None
    prepare(compiled)
    runs = [lambda: compiled(x, dt=dt)[0], lambda: layer(x, dt=dt)[0]]
    training = least(runs, repeats, lambda y: y.sum().backward())
    with torch.no_grad():
        inference = least(runs, repeats, lambda y: None)
    return AgainstHand(case.name, training[0] / training[1], inference[0] / inference[1])


def least(runs: Sequence[Run], repeats: int, then: Callable[[Tensor], None]) -> list[float]:
    """Returns the least CPU seconds of each, interleaved."""
    seconds = [math.inf] * len(runs)
    for round_number in range(repeats + 1):
        for index, run in enumerate(runs):
            start = time.process_time()
            then(run())
            if round_number > 0:  # the first round warms up caches and allocators
                seconds[index] = min(seconds[index], time.process_time() - start)
    return seconds


def prepare(layer: Layer) -> float:
    """Builds and enables the layer's kernels; returns the seconds this took."""
    start = time.perf_counter()
    for cell in compiler.cells_of(layer):
        kernel_of(cell)
    compiler.use(layer)
    return time.perf_counter() - start


def _medians(runs: Sequence[Run], repeats: int) -> list[float]:
    """Returns median seconds of forward and backward, interleaved so that a busy moment affects all."""
    seconds: list[list[float]] = [[] for _ in runs]
    for round_number in range(repeats + 1):
        for run, found in zip(runs, seconds, strict=True):
            start = time.perf_counter()
            run().sum().backward()
            if round_number > 0:  # the first round warms up caches and allocators
                found.append(time.perf_counter() - start)
    return [statistics.median(found) for found in seconds]


def as_dict(models: Sequence[SpeedUp], others: Sequence[SpeedUp], hand: Sequence[AgainstHand]) -> dict[str, Any]:
    """Returns the results as plain data."""
    tables = {"models": models, "others": others, "hand": hand}
    return {"summary": summary(models)} | {name: list(map(asdict, rows)) for name, rows in tables.items()}


def summary(models: Sequence[SpeedUp]) -> dict[str, float]:
    """Returns the geometric mean and minimum of the speed-ups, and the median time of the first use."""
    if not models:
        return {}
    return {
        "geometric mean, loop / compiled": math.exp(statistics.mean(math.log(figure.ratio) for figure in models)),
        "least, loop / compiled": min(figure.ratio for figure in models),
        "first use, median seconds": statistics.median(figure.first for figure in models),
    }


def as_markdown(models: Sequence[SpeedUp], others: Sequence[SpeedUp], hand: Sequence[AgainstHand], machine: str) -> str:
    """Returns the results as tables, followed by the machine."""
    lines = ["| figure | value |", "| --- | ---: |"]
    lines += [f"| {name} | {value:.1f} |" for name, value in summary(models).items()]
    lines += [f"| {one.against} / {one.name} | {one.ratio:.1f} |" for one in others]
    lines += ["", "| model, T256 B32 H64 | loop ms | compiled ms | loop / compiled | first use s |"]
    lines += ["| --- | ---: | ---: | ---: | ---: |"]
    lines += [
        f"| {one.name} | {1e3 * one.theirs:.0f} | {1e3 * one.ours:.1f} | {one.ratio:.1f} | {one.first:.1f} |"
        for one in sorted(models, key=lambda one: one.ratio)
    ]
    lines += ["", "| one thread, compiled / hand-written | hand, training | hand, inference |", "| --- | ---: | ---: |"]
    lines += [f"| {one.name} | {one.training:.2f} | {one.inference:.2f} |" for one in hand]
    return "\n".join([*lines, "", machine])
