"""Inputs, outputs and metadata of ONNX models."""

from __future__ import annotations

import json
from typing import Any

from .._version import __version__
from ._onnx_step import OnnxWriter
from ._window import Graph

NEWEST_OPSET = 26
"""The newest operator set version that a released onnxruntime supports."""


def value(name: str, *shape: int | str, kind: int | None = None) -> Any:
    """Describes an input or output; float32 unless another kind is given."""
    from onnx import TensorProto, helper

    return helper.make_tensor_value_info(name, TensorProto.FLOAT if kind is None else kind, shape)


def observation(graph: Graph, *axes: str) -> list[Any]:
    """Describes the inputs of an observation."""
    from onnx import TensorProto

    size = graph.inputs
    return [value("x", *axes, size), value("observed", *axes, size, kind=TensorProto.BOOL), value("dt", *axes)]


def onnx_model(graph: Graph, name: str, writer: OnnxWriter, inputs: list[Any], outputs: list[Any]) -> Any:
    """Returns a checked model with names and units in its metadata."""
    import onnx
    from onnx import helper

    made = helper.make_graph(writer.nodes, name, inputs, outputs, writer.initializers)
    opset = helper.make_opsetid("", min(NEWEST_OPSET, onnx.defs.onnx_opset_version()))
    model = helper.make_model(made, opset_imports=[opset], producer_name="chronode", producer_version=__version__)
    model.ir_version = helper.find_min_ir_version_for([opset])
    helper.set_model_props(model, {key: json.dumps(value) for key, value in graph.facts().items()})
    onnx.checker.check_model(model, full_check=True)
    return model
