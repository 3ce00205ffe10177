"""Health of a trained or untrained model on its data, in numbers and plain sentences."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ...data import Sequences
from ...model import SequenceModel
from ...settings import whole
from ...storage import Result
from ._gradients import GradientFlow, gradient_flow
from ._instrumented import Instrumented
from ._liquid import TimeScales, time_scales

VANISHED, EXPLODED = -4.0, 4.0
"""log10 of the gradient ratio of first to last step beyond which long dependencies cannot be learned, or training is
unstable.
"""
SATURATED = 0.98
"""Outputs above this share of the largest possible value (1 for tanh states) count as saturated."""
DEAD = 1e-4
"""A unit whose standard deviation over all data is below this is dead."""
LARGE = 100.0
"""Outputs above this are large, which harms readouts and float32."""
SHORT = 0.1
"""A series with a span below this share of the time scale of a unit hardly changes it."""
STEPS_EXACT, STEPS_AT_MOST = 2_000, 20_000
"""Total number of steps up to which the gradient flow is exact, and that are analyzed at all."""


@dataclass(frozen=True)
class Health(Result):
    """Result of `health`.

    Attributes:
        flow: Gradient flow on the selected sequences.
        log10_ratio: Median over sequences of log10 of ‖∂h_T/∂h_1‖ / ‖∂h_T/∂h_{T-1}‖.
        saturated: Share of outputs with |y| > 0.98 if all |y| <= 1; 0 for unbounded outputs.
        dead: Units whose output hardly changes over all steps.
        low: `(units,)` 1% quantile of the output of each unit.
        high: `(units,)` 99% quantile.
        gaps: 5%, 50% and 95% quantiles of dt, without the first step of each sequence.
        span: Median over sequences of the sum of dt.
        time_effect: Median relative change of the output when every dt is doubled; 0 if time has no effect.
        scales: Time scales of the units, for models that have them.
        findings: Five plain sentences with advice.
    """

    flow: GradientFlow
    log10_ratio: float
    saturated: float
    dead: tuple[int, ...]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    gaps: tuple[float, float, float]
    span: float
    time_effect: float
    scales: TimeScales | None
    findings: tuple[str, ...]


def health(model: SequenceModel, sequences: Sequences, *, most: int = 16) -> Health:
    """Analyzes gradient flow, saturation, output ranges, effect of time and dead units of a model on its data.

    Args:
        model: The model; its layer is analyzed with the inputs that it gets from the model.
        sequences: Data like those in training.
        most: Maximum number of sequences, evenly spread over the data.

    Example:
        >>> import chronode
        >>> from chronode.lab.tasks.bitstream import bitstream
        >>> result = health(SequenceModel(chronode.create("mmrnn", 1, 8, outputs="last"), 2), bitstream(8, seed=0))
        >>> len(result.findings)
        5
    """
    if not len(sequences):
        raise ValueError("health needs at least one sequence; these are empty.")
    x, times = _layer_inputs(model, sequences, _rows(sequences, whole("most", most, at_least=1)))
    instrumented = Instrumented(model.layer)
    y, valid, dt = _outputs(instrumented, x, times)
    flow = gradient_flow(model.layer, x, method="auto" if valid.numel() <= STEPS_EXACT else "probes", **times)
    slower, _, _ = _outputs(
        instrumented, x, {**times, "dt": 2 * dt.squeeze(-1).T if model.layer.batch_first else 2 * dt}
    )
    outputs = y[valid]
    change = (slower - y)[valid].norm(dim=-1) / outputs.norm(dim=-1).clamp(min=1e-12)
    later = valid if len(valid) == 1 else valid & (torch.arange(len(valid)) > 0)[:, None]
    bounded = float(outputs.abs().max()) <= 1
    facts: dict[str, Any] = {
        "log10_ratio": _middle_ratio(flow),
        "saturated": float((outputs.abs() > SATURATED).double().mean()) if bounded else 0.0,
        "dead": tuple(torch.nonzero(outputs.std(0, correction=0) < DEAD).flatten().tolist()),
        "low": outputs.quantile(0.01, dim=0).numpy(),
        "high": outputs.quantile(0.99, dim=0).numpy(),
        "gaps": tuple(np.quantile(dt[later].numpy(), [0.05, 0.5, 0.95]).tolist()),
        "span": float((dt.squeeze(-1) * valid).sum(0).median()),
        "time_effect": float(change.median()),
        "scales": time_scales(model, x, **times),
    }
    return Health(flow, **facts, findings=findings(**facts))


def health_report(model: SequenceModel, sequences: Sequences, folder: str | Path) -> Health:
    """Runs `health` and writes health.json and health.png to a folder.

    Example:
        >>> import chronode, tempfile
        >>> from chronode.lab.tasks.bitstream import bitstream
        >>> model = SequenceModel(chronode.create("gru", 1, 8, outputs="last"), 2)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = health_report(model, bitstream(8, seed=0), folder)
        ...     sorted(path.name for path in Path(folder).iterdir())
        ['health.json', 'health.png']
    """
    from ._plots import plot

    result = health(model, sequences)
    result.to_json(Path(folder) / "health.json")
    plot(result, Path(folder) / "health.png")
    return result


def findings(
    *,
    log10_ratio: float,
    saturated: float,
    dead: tuple[int, ...],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    gaps: tuple[float, float, float],
    span: float,
    time_effect: float,
    scales: TimeScales | None,
) -> tuple[str, ...]:
    """Returns the five sentences: gradient, saturation, dead units, ranges, time."""
    full = f"Saturation: {saturated:.0%} of the outputs are within 2% of ±1"
    full += ": try smaller inputs (scale the data) or weight decay." if saturated > 0.3 else ", which is healthy."
    units = f"Dead units: {len(dead)} of {len(low)} never change"
    units += (
        ": try a smaller learning rate or a smaller model." if len(dead) > 0.1 * len(low) else ", which is healthy."
    )
    largest = max(float(np.abs(low).max()), float(np.abs(high).max()))
    ranges = f"Ranges: outputs reach {largest:.3g}"
    ranges += ": scale the inputs or use a bounded model." if largest > LARGE else ", which is healthy."
    time = _describe_effect(gaps, time_effect) if scales is None else _describe_scales(gaps, span, scales)
    return _describe_gradient(log10_ratio), full, units, ranges, time


def _describe_gradient(log10_ratio: float) -> str:
    if log10_ratio < VANISHED:
        share = f"1e{log10_ratio:.0f}" if np.isfinite(log10_ratio) else "nothing"
        return (
            f"Gradient: at step 1 it is {share} of that at the last step, so long dependencies cannot "
            "be learned: try mmrnn, unicornn or irnn, or a larger forget bias."
        )
    if log10_ratio > EXPLODED:
        return (
            f"Gradient: at step 1 it is 1e{log10_ratio:+.0f} times that at the last step: try gradient "
            "clipping, smaller weights or a model with a bounded gradient such as unicornn."
        )
    return f"Gradient: at step 1 it is {10**log10_ratio:.2g} times that at the last step, which is healthy."


def _describe_scales(gaps: tuple[float, float, float], span: float, scales: TimeScales) -> str:
    text = f"Time: the median gap is {gaps[1]:.3g}, a series spans {span:.3g}, and {scales.what} is"
    text += f" {scales.low:.3g}" if scales.low == scales.high else f" {scales.low:.3g} to {scales.high:.3g}"
    if gaps[1] > scales.most * scales.high:
        return f"{text}: each gap is long for this model, so try a larger time unit."
    if span < SHORT * scales.low:
        return f"{text}: time hardly changes the state, so try a smaller time unit."
    return f"{text}, which is healthy."


def _describe_effect(gaps: tuple[float, float, float], effect: float) -> str:
    text = f"Time: the median gap is {gaps[1]:.3g}, and doubling all gaps changes the output by {effect:.1%}"
    if effect == 0:
        return f"{text}: this model ignores time; if gaps matter, try mmrnn, ltc or lstm-dt."
    if effect < 0.01:
        return f"{text}: time hardly changes the state, so try a smaller time unit."
    if effect > 1:
        return f"{text}: each gap is long for this model, so try a larger time unit."
    return f"{text}, which is healthy."


def _rows(sequences: Sequences, most: int) -> NDArray[np.int64]:
    """Returns up to `most` evenly spread sequences with a limited total number of steps."""
    count = min(most, max(1, STEPS_AT_MOST // int(sequences.lengths.max())))
    return np.unique(np.linspace(0, len(sequences) - 1, count).astype(np.int64))


def _middle_ratio(flow: GradientFlow) -> float:
    """Returns the median of log10_ratio over sequences of at least two steps; if all norms are 0, everything
    vanished.
    """
    ratios = flow.log10_ratio[flow.lengths > 1]
    return float(np.median(np.where(np.isnan(ratios), -np.inf, ratios))) if len(ratios) else 0.0


def _layer_inputs(model: SequenceModel, sequences: Sequences, rows: NDArray[np.int64]) -> tuple[Any, dict[str, Any]]:
    """Returns the inputs that the model passes to its layer."""
    calls: list[tuple[Any, dict[str, Any]]] = []

    def keep(layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        calls.append((args[0], {key: value for key, value in kwargs.items() if key != "state" and value is not None}))

    batch = sequences.batch(rows)
    hook = model.layer.register_forward_pre_hook(keep, with_kwargs=True)
    try:
        with torch.no_grad():
            model(batch.x, **batch.inputs)
    finally:
        hook.remove()
    return calls[0]


def _outputs(instrumented: Instrumented, x: torch.Tensor, times: dict[str, Any]) -> tuple[torch.Tensor, ...]:
    """Returns y `(T, B, units)`, the mask of valid steps `(T, B)`, and dt `(T, B, 1)`."""
    inputs = instrumented.enter(x, **times)
    steps, batch = inputs.x.shape[:2]
    with torch.no_grad():
        y, _ = instrumented.run(inputs, instrumented.start(batch))
    ends = torch.full((batch,), steps) if inputs.lengths is None else inputs.lengths
    return y, torch.arange(steps)[:, None] < ends, inputs.dt
