"""Export to ONNX: one step, and whole sequences as a Scan over it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..storage import replacing
from ._graph import StepGraph
from ._onnx_model import LOWEST_OPSET, observation, onnx_model, sequence_results, step_results, value
from ._onnx_step import OnnxWriter, StepEmitter
from ._onnx_window import window_sequence_model, window_step_model
from ._reference import Series
from ._window import Graph, WindowGraph

STEP, SEQUENCE = "step.onnx", "sequence.onnx"


def write_onnx(graph: Graph, folder: Path, *, opset: int = LOWEST_OPSET) -> tuple[str, ...]:
    """Writes both models; returns the names of the files."""
    try:
        import onnx  # noqa: F401
    except ImportError as error:
        raise ImportError("the export to ONNX needs onnx: pip install 'chronode[export]'.") from error
    if isinstance(graph, WindowGraph):
        models = (window_step_model(graph, opset), window_sequence_model(graph, opset))
    else:
        models = (step_model(graph, opset), sequence_model(graph, opset))
    for name, model in zip((STEP, SEQUENCE), models, strict=True):
        with replacing(folder / name) as draft:
            draft.write_bytes(model.SerializeToString())
    return STEP, SEQUENCE


def step_model(graph: StepGraph, opset: int = LOWEST_OPSET) -> Any:
    """Returns the model (x, observed, dt, state0, ...) -> (y, next0, ...).

    `x (B, D)`, `observed (B, D)` bool, `dt (B,)`. A refused observation gives y = NaN and does not change the state.
    """
    writer = OnnxWriter()
    names = _run_step(writer, graph, "x", "observed", "dt", [f"state{i}" for i in range(_states(graph))])
    states = [value(f"state{i}", "B", size) for i, size in enumerate(graph.states)]
    results = step_results(writer, graph, names)
    return onnx_model(graph, "step", writer, [*observation(graph, "B"), *states], results, opset)


def sequence_model(graph: StepGraph, opset: int = LOWEST_OPSET) -> Any:
    """Returns the model (x, observed, dt, lengths) -> (y, last, state0, ...), from the start of each series.

    `x (B, T, D)`, `observed (B, T, D)` bool, `dt (B, T)`, `lengths (B,)`; `y (B, T, K)` after each step, 0 at padding,
    `last (B, K)` after the last one. From a refused observation on, they are NaN.
    """
    from onnx import TensorProto

    writer, count, size = OnnxWriter(), _states(graph), graph.outputs
    batch = writer.node("Shape", "x", start=0, end=1)
    starts = [*graph.initial_state, np.zeros(size, np.float32)]
    begin = []
    for part in starts:
        shape = writer.node("Concat", batch, writer.sizes(len(part)), axis=0)
        begin.append(writer.node("Expand", writer.constant(part), shape))
    steps = writer.node("Squeeze", writer.node("Shape", "x", start=1, end=2), writer.sizes(0))
    zero, one = (writer.constant(np.array(number, np.int64)) for number in (0, 1))
    places = writer.node("Unsqueeze", writer.node("Range", zero, steps, one), writer.sizes(0))
    valid = writer.node("Less", places, writer.node("Unsqueeze", "lengths", writer.sizes(1)))
    *states, last, y = (f"after_all{i}" for i in range(count + 2))
    _scan(writer, _body(graph), [*begin, "x", "observed", "dt", valid], [*states, last, y])
    results = sequence_results(writer, graph, [y, last, *states], valid)
    lengths = value("lengths", "B", kind=TensorProto.INT64)
    return onnx_model(graph, "sequence", writer, [*observation(graph, "B", "T"), lengths], results, opset)


def _body(graph: StepGraph) -> Any:
    """Returns the body of the Scan: states do not change at padding."""
    from onnx import TensorProto, helper

    writer, count, size = OnnxWriter("step_"), _states(graph), graph.outputs
    before = [*(f"before{i}" for i in range(count)), "before_last"]
    y, *after = _run_step(writer, graph, "x_t", "observed_t", "dt_t", before[:count])
    valid = writer.node("Unsqueeze", "valid_t", writer.sizes(1))
    names = [*(f"after{i}" for i in range(count)), "after_last"]
    for new, old, name in zip([*after, y], before, names, strict=True):
        writer.node("Where", valid, new, old, name=name)
    writer.node("Where", valid, y, writer.number(0.0), name="y_t")
    sizes = [*graph.states, size]
    carried = [value(name, "B", width) for name, width in zip(before, sizes, strict=True)]
    seen = [value("x_t", "B", graph.inputs), value("observed_t", "B", graph.inputs, kind=TensorProto.BOOL)]
    seen += [value("dt_t", "B"), value("valid_t", "B", kind=TensorProto.BOOL)]
    made = [value(name, "B", width) for name, width in zip([*names, "y_t"], [*sizes, size], strict=True)]
    return helper.make_graph(writer.nodes, "one_step", [*carried, *seen], made, writer.initializers)


def _scan(writer: OnnxWriter, body: Any, inputs: list[str], outputs: list[str]) -> None:
    from onnx import helper

    along = {"num_scan_inputs": 4, "scan_input_axes": [1] * 4, "scan_output_axes": [1]}
    writer.nodes.append(helper.make_node("Scan", inputs, outputs, body=body, **along))


def _run_step(writer: OnnxWriter, graph: StepGraph, x: str, observed: str, dt: str, states: list[str]) -> list[str]:
    """Adds the step; returns the names of y and the new state."""
    from onnx import TensorProto

    values = writer.node("Where", observed, x, writer.number(0.0))
    row = writer.node("Concat", values, writer.node("Cast", observed, to=TensorProto.FLOAT), axis=1)
    inputs = {"x": row, "dt": writer.node("Unsqueeze", dt, writer.sizes(1))}
    inputs |= {f"state{i}": name for i, name in enumerate(states)}
    return StepEmitter(writer, graph.step, graph.tensors, inputs).run()


def _states(graph: StepGraph) -> int:
    return len(graph.states)


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
