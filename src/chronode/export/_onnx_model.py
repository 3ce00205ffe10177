"""Inputs, outputs and metadata of ONNX models."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from .._version import __version__
from ..settings import whole
from ._onnx_step import OnnxWriter
from ._window import Graph

LOWEST_OPSET = 18
"""The lowest operator set version with all operators that are written (ReduceMax with axes as an input)."""
NEWEST_OPSET = 26
"""The newest operator set version that a released onnxruntime supports."""


def check_opset(option: str, opset: int) -> int:
    """Returns the version of the operator set; refuses what onnxruntime or the written operators do not allow."""
    whole(option, opset, at_least=LOWEST_OPSET)
    if opset > NEWEST_OPSET:
        raise ValueError(f"{option}={opset} must be at most {NEWEST_OPSET}, the newest that onnxruntime runs.")
    return opset


def value(name: str, *shape: int | str, kind: int | None = None) -> Any:
    """Describes an input or output; float32 unless another kind is given."""
    from onnx import TensorProto, helper

    return helper.make_tensor_value_info(name, TensorProto.FLOAT if kind is None else kind, shape)


def observation(graph: Graph, *axes: str) -> list[Any]:
    """Describes the inputs of an observation."""
    from onnx import TensorProto

    size = graph.inputs
    return [value("x", *axes, size), value("observed", *axes, size, kind=TensorProto.BOOL), value("dt", *axes)]


def refused(writer: OnnxWriter, graph: Graph) -> str:
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


def step_results(writer: OnnxWriter, graph: Graph, results: list[str]) -> list[Any]:
    """Writes y and next0, ... of a step; a refused observation gives NaN and does not change the state."""
    wrong = writer.node("Unsqueeze", refused(writer, graph), writer.sizes(1))
    names = ["y", *(f"next{i}" for i in range(len(graph.states)))]
    others = [writer.number(np.nan), *(f"state{i}" for i in range(len(graph.states)))]
    for name, result, other in zip(names, results, others, strict=True):
        writer.node("Where", wrong, other, result, name=name)
    sizes = [graph.outputs, *graph.states]
    return [value(name, "B", size) for name, size in zip(names, sizes, strict=True)]


def sequence_results(writer: OnnxWriter, graph: Graph, results: list[str], valid: str) -> list[Any]:
    """Writes y, last and state0, ... of whole series; all of them are NaN from a refused observation on.

    Args:
        writer: Collects the nodes.
        graph: One step.
        results: Names of the outputs without this rule.
        valid: `(B, T)` which steps are not padding.
    """
    from onnx import TensorProto

    wrong = writer.node("Cast", writer.node("And", valid, refused(writer, graph)), to=TensorProto.FLOAT)
    count = writer.node("CumSum", wrong, writer.constant(np.array(1, np.int64)))
    since = writer.node("And", valid, writer.node("Greater", count, writer.number(0)))
    ever = writer.node("Greater", writer.node("ReduceSum", wrong, writer.sizes(1), keepdims=1), writer.number(0))
    masks = [writer.node("Unsqueeze", since, writer.sizes(2)), *[ever] * (len(results) - 1)]
    names = ["y", "last", *(f"state{i}" for i in range(len(graph.states)))]
    for name, result, mask in zip(names, results, masks, strict=True):
        writer.node("Where", mask, writer.number(np.nan), result, name=name)
    described = [value("y", "B", "T", graph.outputs), value("last", "B", graph.outputs)]
    return described + [value(f"state{i}", "B", size) for i, size in enumerate(graph.states)]


def onnx_model(graph: Graph, name: str, writer: OnnxWriter, inputs: list[Any], outputs: list[Any], opset: int) -> Any:
    """Returns a checked model with names and units in its metadata."""
    import onnx
    from onnx import helper

    newest = onnx.defs.onnx_opset_version()
    if opset > newest:
        raise ValueError(
            f"opset {opset} needs a newer onnx; onnx {onnx.__version__} has {newest}: pip install -U onnx."
        )
    made = helper.make_graph(writer.nodes, name, inputs, outputs, writer.initializers)
    opsets = [helper.make_opsetid("", opset)]
    model = helper.make_model(made, opset_imports=opsets, producer_name="chronode", producer_version=__version__)
    model.ir_version = helper.find_min_ir_version_for(opsets)
    helper.set_model_props(model, {key: json.dumps(value) for key, value in graph.facts().items()})
    onnx.checker.check_model(model, full_check=True)
    return model
