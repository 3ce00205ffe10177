"""Forecasts from windows as ONNX: a Scan over the window; in sequences, the windows are the rows of one batch."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from ._graph import StepGraph
from ._onnx_model import observation, onnx_model, sequence_results, step_results, value
from ._onnx_step import OnnxWriter, StepEmitter
from ._window import WindowGraph


def window_step_model(graph: WindowGraph, opset: int) -> Any:
    """Returns the model (x, observed, dt, state0) -> (y, next0); the state is the window."""
    from onnx import TensorProto

    writer, size = OnnxWriter(), graph.inputs
    window, (total,) = graph.window, graph.states
    seen = writer.node("Cast", "observed", to=TensorProto.FLOAT)
    values = writer.node("Where", "observed", "x", writer.number(0.0))
    gap = writer.node("Unsqueeze", "dt", writer.sizes(1))
    old = _parts(writer, graph, "state0")
    shifted = [_columns(writer, part, width, None) for part, width in zip(old, (size, size, 1, 1), strict=False)]
    shifted[3] = writer.node("Add", shifted[3], gap)
    newest = [values, seen, gap, writer.node("Mul", gap, writer.number(0.0))]
    pushed = [writer.node("Concat", *pair, axis=1) for pair in zip(shifted, newest, strict=True)]
    more = writer.node("Add", old[4], writer.number(1.0))
    count = writer.node("Min", more, writer.number(float(window)))
    state = writer.node("Concat", *pushed, count, axis=1)
    results = step_results(writer, graph, [_decoded(writer, graph, state), state])
    return onnx_model(graph, "step", writer, [*observation(graph, "B"), value("state0", "B", total)], results, opset)


def window_sequence_model(graph: WindowGraph, opset: int) -> Any:
    """Returns the model (x, observed, dt, lengths) -> (y, last, state0), like `sequence_model`."""
    from onnx import TensorProto

    writer, window, size, (total,) = OnnxWriter(), graph.window, graph.inputs, graph.states
    batch = writer.node("Shape", "x", start=0, end=1)
    steps = writer.node("Squeeze", writer.node("Shape", "x", start=1, end=2), writer.sizes(0))
    zero, one = (writer.constant(np.array(number, np.int64)) for number in (0, 1))
    place = writer.node("Range", zero, steps, one)
    within = writer.constant(np.arange(window, dtype=np.int64)[None])
    index = writer.node("Add", writer.node("Unsqueeze", place, writer.sizes(1)), within)
    values = writer.node("Where", "observed", "x", writer.number(0.0))
    seen = writer.node("Cast", "observed", to=TensorProto.FLOAT)
    gap = writer.node("Unsqueeze", "dt", writer.sizes(2))
    values, seen, gaps = (
        _windows(writer, part, index, batch, width) for part, width in ((values, size), (seen, size), (gap, 1))
    )
    ages = writer.node("CumSum", gaps, writer.constant(np.array(1, np.int64)), exclusive=1, reverse=1)
    counted = writer.node("Min", writer.node("Add", place, one), writer.constant(np.array(window, np.int64)))
    counted = writer.node("Cast", counted, to=TensorProto.FLOAT)
    both = writer.node("Concat", batch, writer.node("Shape", place), axis=0)
    count = writer.node("Reshape", writer.node("Expand", counted, both), writer.sizes(-1, 1))
    state = writer.node("Concat", values, seen, gaps, ages, count, axis=1)
    prediction, states = (
        writer.node("Reshape", part, writer.node("Concat", both, writer.sizes(width), axis=0))
        for part, width in ((_decoded(writer, graph, state), graph.outputs), (state, total))
    )
    ends = writer.node("Unsqueeze", "lengths", writer.sizes(1))
    valid = writer.node("Less", place, ends)
    last = writer.node("Unsqueeze", writer.node("Equal", place, writer.node("Sub", ends, one)), writer.sizes(2))
    inside = writer.node("Unsqueeze", valid, writer.sizes(2))
    made = [writer.node("Where", inside, prediction, writer.number(0.0))]
    for part in (prediction, states):
        chosen = writer.node("Where", last, part, writer.number(0.0))
        made.append(writer.node("ReduceSum", chosen, writer.sizes(1), keepdims=0))
    results = sequence_results(writer, graph, made, valid)
    lengths = value("lengths", "B", kind=TensorProto.INT64)
    return onnx_model(graph, "sequence", writer, [*observation(graph, "B", "T"), lengths], results, opset)


def _windows(writer: OnnxWriter, part: str, index: str, batch: str, width: int) -> str:
    """Returns the windows `(B * T, W * width)` that end at each step of `(B, T, width)`, 0 before the first one."""
    window = writer.node("Shape", index, start=1, end=2)
    before = writer.node("Sub", window, writer.sizes(1))
    shape = writer.node("Concat", batch, before, writer.sizes(width), axis=0)
    zeros = writer.node("Expand", writer.number(0.0), shape)
    taken = writer.node("Gather", writer.node("Concat", zeros, part, axis=1), index, axis=1)
    columns = writer.node("Mul", window, writer.sizes(width))
    return writer.node("Reshape", taken, writer.node("Concat", writer.sizes(-1), columns, axis=0))


def _decoded(writer: OnnxWriter, graph: WindowGraph, state: str) -> str:
    """Returns the predictions `(N, K)` for windows `(N, S)`."""
    from onnx import helper

    window, size = graph.window, graph.inputs
    values, seen, gaps, _, count = _parts(writer, graph, state)
    (measured,) = StepEmitter(writer, graph.measure.step, graph.measure.tensors, {"x": state, "dt": count}).run()
    first = writer.node("Sub", writer.number(float(window)), count)
    place = writer.constant(np.arange(window, dtype=np.float32)[None])
    valid, later = (writer.node(op, place, first) for op in ("GreaterOrEqual", "Greater"))
    gaps = writer.node("Where", later, gaps, writer.number(0.0))
    view = _columns(writer, measured, 0, graph.network.cell.input_size - 2 * size)
    view = writer.node("Expand", writer.node("Unsqueeze", view, writer.sizes(1)), writer.sizes(1, window, 1))
    rows = [writer.node("Reshape", part, writer.sizes(-1, window, size)) for part in (values, seen)]
    rows = writer.node("Concat", *rows, view, axis=2)
    number = writer.node("Shape", state, start=0, end=1)
    begin = [
        writer.node("Expand", writer.constant(part), writer.node("Concat", number, writer.sizes(len(part)), axis=0))
        for part in (*graph.network.initial_state, np.zeros(graph.network.outputs, np.float32))
    ]
    outputs = [f"after_window{i}" for i in range(len(begin))]
    along = {"num_scan_inputs": 3, "scan_input_axes": [1] * 3}
    writer.nodes.append(
        helper.make_node("Scan", [*begin, rows, gaps, valid], outputs, body=_body(graph.network), **along)
    )
    seen = writer.node("Concat", outputs[-1], measured, axis=1)
    return StepEmitter(writer, graph.decode.step, graph.decode.tensors, {"x": seen, "dt": count}).run()[0]


def _body(graph: StepGraph) -> Any:
    """Returns the body of the Scan: before the first observation, states do not change."""
    from onnx import TensorProto, helper

    writer, sizes = OnnxWriter("network_"), [*graph.states, graph.outputs]
    before, after = ([f"{word}{i}" for i in range(len(sizes))] for word in ("network_before", "network_after"))
    inputs = {"x": "row_t", "dt": writer.node("Unsqueeze", "gap_t", writer.sizes(1))}
    inputs |= {f"state{i}": name for i, name in enumerate(before[:-1])}
    y, *state = StepEmitter(writer, graph.step, graph.tensors, inputs).run()
    valid = writer.node("Unsqueeze", "inside_t", writer.sizes(1))
    for new, old, name in zip([*state, y], before, after, strict=True):
        writer.node("Where", valid, new, old, name=name)
    carried = [value(name, "N", width) for name, width in zip(before, sizes, strict=True)]
    seen = [
        value("row_t", "N", graph.cell.input_size),
        value("gap_t", "N"),
        value("inside_t", "N", kind=TensorProto.BOOL),
    ]
    made = [value(name, "N", width) for name, width in zip(after, sizes, strict=True)]
    return helper.make_graph(writer.nodes, "one_step", [*carried, *seen], made, writer.initializers)


def _parts(writer: OnnxWriter, graph: WindowGraph, state: str) -> list[str]:
    """Returns values, flags, gaps, ages and count of windows."""
    steps, values = graph.window, graph.window * graph.inputs
    bounds = np.cumsum([0, values, values, steps, steps, 1])
    return [_columns(writer, state, first, last) for first, last in pairwise(bounds)]


def _columns(writer: OnnxWriter, part: str, first: int, last: int | None) -> str:
    """Returns columns of a matrix."""
    end = int(last) if last is not None else np.iinfo(np.int64).max
    return writer.node("Slice", part, writer.sizes(int(first)), writer.sizes(end), writer.sizes(1))
