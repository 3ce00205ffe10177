"""Capabilities of trained models and the reasons for refusals, decided once for each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..data import Reading
from ..nn import ADAPTIVE, Solver
from ..settings import SettingError, named, one_of

if TYPE_CHECKING:
    from ._model import SequenceModel

CAPABILITIES = {
    "predict": "predictions of whole series",
    "evaluate": "metrics of series with known targets",
    "intervals": "prediction intervals",
    "explain": "contributions of channels, static values and spans of time",
    "backtest": "forecasts from several origins in the past",
    "step": "one step at a time from a state; training in pieces",
    "stream": "live data of many series",
    "export c": "C99",
    "export onnx": "ONNX",
    "export pt2": "torch.export",
    "pack": "one file",
}
"""Capabilities of `Trained.can`, each with a short description."""


@dataclass(frozen=True)
class Refusal:
    """Reason why a model cannot do something.

    Attributes:
        capability: One of CAPABILITIES.
        argument: Name of the setting that decides it; "" if there is none.
        reason: Cause, as a clause without a full stop.
        cure: Remedy, as a clause without a full stop.

    Example:
        >>> print(Refusal("stream", "bidirectional", "a bidirectional model needs whole series", "train another one"))
        a bidirectional model needs whole series: train another one.
    """

    capability: str
    argument: str
    reason: str
    cure: str

    def __str__(self) -> str:
        return f"{self.reason}: {self.cure}."

    def error(self) -> SettingError:
        """Returns the exception to raise."""
        return SettingError(self.reason, argument=self.argument, cure=self.cure)


def refusal(capability: str, model: SequenceModel, reading: Reading | None = None) -> Refusal | None:
    """Returns why a model cannot do something; None if it can.

    Args:
        capability: One of CAPABILITIES.
        model: The model.
        reading: Schema of its data; None for a model without data, such as one of a task.

    Example:
        >>> import chronode
        >>> spec = chronode.ModelSpec("gru", 1, 2, settings={"bidirectional": True})
        >>> refusal("step", chronode.SequenceModel.build(spec)).argument
        'bidirectional'
    """
    one_of("capability", capability, CAPABILITIES)
    for argument, reason, cure in _reasons(capability, model, reading):
        return Refusal(capability, argument, reason, cure)
    return None


def check(capability: str, model: SequenceModel, reading: Reading | None = None) -> None:
    """Raises a SettingError with reason and cure if a model cannot do something; arguments as for `refusal`."""
    if (refused := refusal(capability, model, reading)) is not None:
        raise refused.error()


_Reasons = Iterator[tuple[str, str, str]]


def _reasons(capability: str, model: SequenceModel, reading: Reading | None) -> _Reasons:
    """Yields (setting, reason, cure) of everything that stands against a capability, the most telling first."""
    exported = capability.startswith("export")
    if capability == "pack" and model.spec is None:
        yield "", "the model was assembled by hand and has no spec to store", "build it with SequenceModel.build(spec)"
    if capability == "intervals" and (model.margins is None or not model.margins.known):
        kind = f"{named('forecast')} without {named('per_step')}"
        reason = f"the model has no prediction intervals, which belong to forecasts from windows ({kind})"
        yield "intervals", reason, "train such a forecast, with a validation part"
    if capability == "explain" and model.embedding is not None and model.modulation is not None:
        reason = "predictions from symbols (text) with static values cannot be explained yet"
        yield "static", reason, f"train without {named('static', ...)}"
    if capability == "explain" and model.members:
        yield "ensemble", "predictions of an ensemble of runs cannot be explained yet", "explain one of its runs"
    if capability == "backtest" and (reading is None or model.relative is None):
        cure = f"train with {named('forecast', ...)} and without {named('per_step')}"
        yield "forecast", "only forecasts from windows of a file have a backtest", cure
    if capability == "stream":
        yield from _not_live(reading)
    if capability in ("step", "stream") or exported:
        yield from _needs_more_than_one_step(capability, model)
    if exported:
        yield from _not_exportable(model, reading)


def _not_live(reading: Reading | None) -> _Reasons:
    if reading is None:
        yield "source", "the model was trained on a task, whose series are not live data", "train on a file"
        return
    if reading.window and not reading.per_step and not reading.horizon:
        yield "window", "the model makes one prediction per window", f"train without {named('window', ...)}"
    if shape := {"channel", "row_per_series"} & reading.options.keys():
        reason = "the model was trained on a file that does not have one row per time, as live data do"
        yield min(shape), reason, "train on such a file"


def _needs_more_than_one_step(capability: str, model: SequenceModel) -> _Reasons:
    if model.modulation is not None or (model.start is not None and model.start.static):
        others = (named("static", ...), named("known", ...), named("calendar", True), named("holidays", ...))
        names = f"{', '.join(others[:-1])} and {others[-1]}"
        reason = "the model has inputs that single observations lack: static values, or known values of the future"
        yield "static", reason, f"train without {names}; static columns are then channels"
    if model.members:
        yield "ensemble", f"an ensemble of {len(model.members) + 1} runs needs whole series", "use one of its runs"
    if model.others:
        reason = f"an ensemble of {len(model.networks)} networks needs whole series"
        yield "ensemble", reason, f"train with {named('ensemble', 1)}"
    windows = model.relative is not None  # of which streams and exports keep the last
    if windows and capability == "step":
        reason = "a model that forecasts from windows needs whole windows"
        yield "per_step", reason, f"train with {named('per_step', True)}"
    if windows and capability == "stream":
        return
    if model.layer.bidirectional:
        reason = "a bidirectional model needs whole series"
        yield "bidirectional", reason, f"train without {named('settings', {'bidirectional': True})}"
    if not windows and model.start is not None and (reasons := model.start.needs_whole_series()) is not None:
        yield reasons


def _not_exportable(model: SequenceModel, reading: Reading | None) -> _Reasons:
    scaler = None if reading is None else reading.scaler
    if model.relative is not None and scaler is not None and scaler.gaps is not None:
        reason = f"a forecast from windows with {named('gaps', scaler.gaps.rule)} cannot be exported"
        yield "gaps", reason, f"train with {named('gaps', 'keep')}"
    if model.own_maps is not None:
        reason = "the linear start has a map for each series, which is found by the id"
        yield "series", reason, f"export the model of one series with {named('series', ...)}"
    if model.embedding is not None:
        yield "symbols", "a model of symbols (text) cannot be exported yet", "train one on numbers"
    for module in model.layer.modules():
        for value in vars(module).values():
            if isinstance(value, Solver) and value.name in ADAPTIVE:
                reason = f"solver={value.name!r} cannot be exported, because its steps depend on the data"
                yield "solver", reason, f"train with a fixed solver, such as {named('settings', {'solver': 'rk4'})}"
