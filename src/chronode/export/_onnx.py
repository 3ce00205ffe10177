"""Export to ONNX: one step, and whole sequences as a Scan over it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._version import __version__
from ..storage import replacing
from ._deployment import LOWEST_OPSET, Graph, Part, Series
from ._onnx_step import OnnxWriter, StepEmitter

STEP, SEQUENCE = "step.onnx", "sequence.onnx"


def write_onnx(graph: Graph, folder: Path, *, opset: int = LOWEST_OPSET) -> tuple[str, ...]:
    """Writes both models; returns the names of the files."""
    try:
        import onnx  # noqa: F401
    except ImportError as error:
        raise ImportError("the export to ONNX needs onnx: pip install 'chronode[export]'.") from error
    for name, model in ((STEP, step_model(graph, opset)), (SEQUENCE, sequence_model(graph, opset))):
        with replacing(folder / name) as draft:
            draft.write_bytes(model.SerializeToString())
    return STEP, SEQUENCE


class OnnxRunner:
    """An exported folder run by onnxruntime."""

    def __init__(self, folder: Path):
        try:
            import onnxruntime
        except ImportError as error:
            raise ImportError("running ONNX needs onnxruntime: pip install 'chronode[export]'.") from error
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(
            str(folder / SEQUENCE), options, providers=["CPUExecutionProvider"]
        )

    def run(self, graph: Graph, series: Series) -> NDArray[np.float32]:
        """Returns the predictions `(B, T, K)` after each step."""
        batch, steps, _ = series.x.shape
        feed = {**series._asdict(), "lengths": np.full(batch, steps, np.int64)}
        return np.asarray(self._session.run(["y"], feed)[0])


# ---- the two models ---------------------------------------------------------------------------------------


def step_model(graph: Graph, opset: int = LOWEST_OPSET) -> Any:
    """Returns the model (x, observed, dt, state0, ...) -> (y, next0, ...).

    `x (B, D)`, `observed (B, D)` bool, `dt (B,)`. A refused observation gives y = NaN and does not change the state.
    """
    writer, first = OnnxWriter(), next(iter(graph.parts.values()))
    states = [f"state{i}" for i in range(len(graph.states))]
    gap = writer.node("Unsqueeze", "dt", writer.sizes(1))
    y, *after = _emit(writer, first, _observed_row(writer, axis=1), gap, states)
    y = _forecasts(writer, graph, y) if graph.window else y
    wrong = writer.node("Unsqueeze", _refused(writer, graph), writer.sizes(1))
    names = ["y", *(f"next{i}" for i in range(len(states)))]
    for name, result, other in zip(names, [y, *after], [writer.number(np.nan), *states], strict=True):
        writer.node("Where", wrong, other, result, name=name)
    inputs = [*_observation(graph, "B"), *_values(states, "B", sizes=graph.states)]
    return _model(graph, "step", writer, inputs, _values(names, "B", sizes=[graph.outputs, *graph.states]), opset)


def sequence_model(graph: Graph, opset: int = LOWEST_OPSET) -> Any:
    """Returns the model (x, observed, dt, lengths) -> (y, last, state0, ...), from the start of each series.

    `x (B, T, D)`, `observed (B, T, D)` bool, `dt (B, T)`, `lengths (B,)`; `y (B, T, K)` after each step, 0 at padding,
    `last (B, K)` after the last one. From a refused observation on, they are NaN.
    """
    from onnx import TensorProto

    writer, first = OnnxWriter(), next(iter(graph.parts.values()))
    batch = writer.node("Shape", "x", start=0, end=1)
    steps = writer.node("Squeeze", writer.node("Shape", "x", start=1, end=2), writer.sizes(0))
    zero, one = (writer.constant(np.array(number, np.int64)) for number in (0, 1))
    position = writer.node("Unsqueeze", writer.node("Range", zero, steps, one), writer.sizes(0))
    ends = writer.node("Unsqueeze", "lengths", writer.sizes(1))
    valid = writer.node("Less", position, ends)
    *states, last, y = _scan(writer, first, batch, _observed_row(writer, axis=2), "dt", valid, "all", outputs=True)
    if graph.window:
        # The windows that end at each step are the rows of one batch.
        windows = writer.node("Reshape", y, writer.sizes(-1, graph.states[0]))
        shape = writer.node("Concat", writer.node("Shape", valid), writer.sizes(graph.outputs), axis=0)
        forecasts = writer.node("Reshape", _forecasts(writer, graph, windows), shape)
        is_last = writer.node("Equal", position, writer.node("Sub", ends, one))
        y, at_end = (
            writer.node("Where", writer.node("Unsqueeze", mask, writer.sizes(2)), forecasts, writer.number(0.0))
            for mask in (valid, is_last)
        )
        last = writer.node("ReduceSum", at_end, writer.sizes(1), keepdims=0)
    wrong = writer.node("Cast", writer.node("And", valid, _refused(writer, graph)), to=TensorProto.FLOAT)
    count = writer.node("CumSum", wrong, writer.constant(np.array(1, np.int64)))
    since = writer.node("And", valid, writer.node("Greater", count, writer.number(0)))
    ever = writer.node("Greater", writer.node("ReduceSum", wrong, writer.sizes(1), keepdims=1), writer.number(0))
    masks = [writer.node("Unsqueeze", since, writer.sizes(2)), *[ever] * (1 + len(states))]
    names = ["last", *(f"state{i}" for i in range(len(states)))]
    for name, result, mask in zip(["y", *names], [y, last, *states], masks, strict=True):
        writer.node("Where", mask, writer.number(np.nan), result, name=name)
    inputs = [*_observation(graph, "B", "T"), _value("lengths", "B", kind=TensorProto.INT64)]
    results = [_value("y", "B", "T", graph.outputs), *_values(names, "B", sizes=[graph.outputs, *graph.states])]
    return _model(graph, "sequence", writer, inputs, results, opset)


def _observed_row(writer: OnnxWriter, axis: int) -> str:
    """Returns `(x, observed)`, 0 where a value was not observed."""
    from onnx import TensorProto

    values = writer.node("Where", "observed", "x", writer.number(0.0))
    return writer.node("Concat", values, writer.node("Cast", "observed", to=TensorProto.FLOAT), axis=axis)


def _emit(writer: OnnxWriter, part: Part, x: str, dt: str, states: Sequence[str] = ()) -> list[str]:
    """Adds a step; returns the names of y and the new state."""
    inputs = {"x": x, "dt": dt} | {f"state{i}": name for i, name in enumerate(states)}
    return StepEmitter(writer, part.step, part.tensors, inputs).run()


def _forecasts(writer: OnnxWriter, graph: Graph, windows: str) -> str:
    """Returns the forecasts `(N, K)` from windows `(N, S)`."""
    steps, size, network = graph.window, graph.inputs, graph.parts["network"]
    bounds = np.cumsum([0, steps * size, steps * size, steps, steps, 1]).tolist()
    values, flags, gaps, _, count = (_columns(writer, windows, *ends) for ends in pairwise(bounds))
    (measured,) = _emit(writer, graph.parts["measure"], windows, count)
    first = writer.node("Sub", writer.number(float(steps)), count)
    position = writer.constant(np.arange(steps, dtype=np.float32)[None])
    valid, later = (writer.node(op, position, first) for op in ("GreaterOrEqual", "Greater"))
    gaps = writer.node("Where", later, gaps, writer.number(0.0))
    view = writer.node("Unsqueeze", _columns(writer, measured, 0, network.cell.input_size - 2 * size), writer.sizes(1))
    rows = [writer.node("Reshape", part, writer.sizes(-1, steps, size)) for part in (values, flags)]
    rows.append(writer.node("Expand", view, writer.sizes(1, steps, 1)))
    batch = writer.node("Shape", windows, start=0, end=1)
    *_, y = _scan(writer, network, batch, writer.node("Concat", *rows, axis=2), gaps, valid, "window", outputs=False)
    return _emit(writer, graph.parts["decode"], writer.node("Concat", y, measured, axis=1), count)[0]


def _columns(writer: OnnxWriter, matrix: str, first: int, end: int) -> str:
    return writer.node("Slice", matrix, writer.sizes(first), writer.sizes(end), writer.sizes(1))


def _scan(
    writer: OnnxWriter, part: Part, batch: str, rows: str, gaps: str, valid: str, name: str, *, outputs: bool
) -> list[str]:
    """Adds a Scan over axis 1 of `rows (B, T, D)`, `gaps (B, T)` and `valid (B, T)`; steps that are not valid change
    nothing.

    Returns:
        The names of the last state, the last y, and with `outputs` all y `(B, T, K)`, 0 where not valid.
    """
    from onnx import TensorProto, helper

    inner, sizes, rows_axis = OnnxWriter(f"{name}_"), [*part.states, part.outputs], f"{name}_rows"
    before, after = ([f"{name}_{word}{i}" for i in range(len(sizes))] for word in ("before", "after"))
    row, gap, is_valid = (f"{name}_{word}_t" for word in ("row", "gap", "valid"))
    y, *state = _emit(inner, part, row, inner.node("Unsqueeze", gap, inner.sizes(1)), before[:-1])
    inside = inner.node("Unsqueeze", is_valid, inner.sizes(1))
    for new, old, result in zip([*state, y], before, after, strict=True):
        inner.node("Where", inside, new, old, name=result)
    results = _values(after, rows_axis, sizes=sizes)
    if outputs:
        results.append(_value(inner.node("Where", inside, y, inner.number(0.0)), rows_axis, part.outputs))
    inputs = [
        *_values(before, rows_axis, sizes=sizes),
        _value(row, rows_axis, part.cell.input_size),
        _value(gap, rows_axis),
    ]
    inputs.append(_value(is_valid, rows_axis, kind=TensorProto.BOOL))
    body = helper.make_graph(inner.nodes, "one_step", inputs, results, inner.initializers)
    begin = [
        writer.node("Expand", writer.constant(start), writer.node("Concat", batch, writer.sizes(len(start)), axis=0))
        for start in (*part.initial_state, np.zeros(part.outputs, np.float32))
    ]
    names = [f"after_{name}{i}" for i in range(len(results))]
    axes = {"scan_output_axes": [1]} if outputs else {}
    along: dict[str, Any] = {"num_scan_inputs": 3, "scan_input_axes": [1] * 3, **axes}
    writer.nodes.append(helper.make_node("Scan", [*begin, rows, gaps, valid], names, body=body, **along))
    return names


def _refused(writer: OnnxWriter, graph: Graph) -> str:
    """Returns which observations are refused, one bool each: what chronode and the C99 code reject."""
    from onnx import TensorProto

    deployment, most = graph.deployment, writer.number(float(np.finfo(np.float32).max))
    wrong = writer.node("Not", writer.node("LessOrEqual", writer.node("Abs", "x"), most))
    if max(deployment.no_logarithm) > -np.inf:
        bounds = writer.constant(np.array(deployment.no_logarithm, np.float32))
        wrong = writer.node("Or", wrong, writer.node("LessOrEqual", "x", bounds))
    if deployment.missing:
        wrong = writer.node("And", "observed", wrong)
    else:
        wrong = writer.node("Or", writer.node("Not", "observed"), wrong)
    flags = writer.node("Cast", wrong, to=TensorProto.FLOAT)
    any_value = writer.node("Greater", writer.node("ReduceSum", flags, writer.sizes(-1), keepdims=0), writer.number(0))
    in_time = (writer.node("GreaterOrEqual", "dt", writer.number(0)), writer.node("LessOrEqual", "dt", most))
    return writer.node("Or", any_value, writer.node("Not", writer.node("And", *in_time)))


# ---- descriptions -----------------------------------------------------------------------------------------


def _value(name: str, *shape: int | str, kind: int | None = None) -> Any:
    """Describes an input or output; float32 unless another kind is given."""
    from onnx import TensorProto, helper

    return helper.make_tensor_value_info(name, TensorProto.FLOAT if kind is None else kind, shape)


def _values(names: Sequence[str], axis: str, *, sizes: Sequence[int]) -> list[Any]:
    return [_value(name, axis, size) for name, size in zip(names, sizes, strict=True)]


def _observation(graph: Graph, *axes: str) -> list[Any]:
    """Describes the inputs of an observation."""
    from onnx import TensorProto

    size = graph.inputs
    return [_value("x", *axes, size), _value("observed", *axes, size, kind=TensorProto.BOOL), _value("dt", *axes)]


def _model(graph: Graph, name: str, writer: OnnxWriter, inputs: list[Any], outputs: list[Any], opset: int) -> Any:
    """Returns a checked model with names and units in its metadata."""
    import onnx
    from onnx import helper

    newest = onnx.defs.onnx_opset_version()
    if opset > newest:
        raise ValueError(
            f"opset {opset} needs a newer onnx; onnx {onnx.__version__} has {newest}: pip install -U onnx."
        )
    content = helper.make_graph(writer.nodes, name, inputs, outputs, writer.initializers)
    opsets = [helper.make_opsetid("", opset)]
    model = helper.make_model(content, opset_imports=opsets, producer_name="chronode", producer_version=__version__)
    model.ir_version = helper.find_min_ir_version_for(opsets)
    helper.set_model_props(model, {key: json.dumps(value) for key, value in graph.facts().items()})
    onnx.checker.check_model(model, full_check=True)
    return model
