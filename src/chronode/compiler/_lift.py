"""Takes the readout out of the loop over time, for calls of which only the last outputs are needed.

In y = C h' + D x, nothing but h' leads to the next state. The loop then returns h', and torch computes y from it with
chronode's products, whose bits do not depend on the number of threads. For the outputs of all steps this does not pay
on a CPU: the loop multiplies tiles of many rows with packed weights, and writing and reading h' costs more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx

from ..kernels import addmm, product
from ._recorded import is_view, operator

_PRODUCTS: dict[str, Any] = {"mm": product, "addmm": addmm}
_TARGETS: dict[str, Any] = {**_PRODUCTS, "view": torch.ops.aten.reshape.default}  # rows may have other strides here
_MOST_WIDE = 4  # elements that leave the loop, per element of y


@dataclass(frozen=True)
class Lifted:
    """A step without its readout.

    Attributes:
        loop: As the step, but with the values that the readout needs, side by side, in place of y.
        readout: Computes y from these values, x, dt, the draws and the tensors of `prefix`, for any number of rows.
    """

    loop: fx.GraphModule
    readout: fx.GraphModule


def lifted(step: fx.GraphModule, states: int, draws: int, batch: int) -> Lifted | None:
    """Returns a step without its readout; None if the readout has no product, or needs too many values.

    Args:
        step: Takes x, dt, the states, the draws and tensors; returns y and the states.
        states: Number of parts of the state.
        draws: Number of random tensors.
        batch: Size of the batch axis in the recording.
    """
    nodes = list(step.graph.nodes)
    inputs = [node for node in nodes if node.op == "placeholder"]
    output: Any = next(node for node in nodes if node.op == "output")
    y, *new = output.args[0]
    shared = shared_nodes(nodes, set(inputs[2 + states + draws :]))
    rows_everywhere = {*inputs[:2], *inputs[2 + states : 2 + states + draws], *shared}
    loop = needed_by(new)
    behind = {node for node in needed_by([y]) if node not in loop and node not in rows_everywhere} - set(inputs)
    for node in nodes:  # a slice of a value of the loop is taken there, so that fewer elements leave it
        if node in behind and is_view(node) and not any(arg in behind for arg in node.all_input_nodes):
            behind.discard(node)
    readout = [node for node in nodes if node in behind]
    if not any(operator(node) in _PRODUCTS for node in readout):
        return None
    sources = [arg for node in readout for arg in node.all_input_nodes]
    sources = list(dict.fromkeys(arg for arg in sources if arg not in behind and arg not in rows_everywhere))
    if not sources or not all(isinstance(arg.meta.get("val"), Tensor) for arg in sources):
        return None
    sizes = [math.prod(arg.meta["val"].shape[1:]) for arg in sources]
    if sum(sizes) > _MOST_WIDE * y.meta["val"].shape[1] or any(arg.meta["val"].shape[0] != batch for arg in sources):
        return None
    return Lifted(
        _loop(step, nodes, loop | needed_by(sources), sources, new, batch),
        _readout(step, [node for node in nodes if node in behind or node in shared], inputs, states, sources, y, batch),
    )


def needed_by(ends: list[fx.Node]) -> set[fx.Node]:
    needed: set[fx.Node] = set()
    pending = list(ends)
    while pending:
        node = pending.pop()
        if node not in needed:
            needed.add(node)
            pending += node.all_input_nodes
    return needed


def shared_nodes(nodes: list[fx.Node], tensors: set[fx.Node]) -> set[fx.Node]:
    """Returns the tensors and what depends on them alone."""
    shared = set(tensors)
    for node in nodes:
        if node.op == "call_function" and node.all_input_nodes and all(arg in shared for arg in node.all_input_nodes):
            shared.add(node)
    return shared


def _loop(
    step: fx.GraphModule,
    nodes: list[fx.Node],
    needed: set[fx.Node],
    sources: list[fx.Node],
    new: list[fx.Node],
    batch: int,
) -> fx.GraphModule:
    graph, copies = fx.Graph(), {}
    for node in nodes:
        if node.op == "placeholder" or (node in needed and node.op == "call_function"):
            copies[node] = graph.node_copy(node, copies.__getitem__)
    flat = [graph.call_function(torch.ops.aten.reshape.default, (copies[node], [batch, -1])) for node in sources]
    values = graph.call_function(torch.ops.aten.cat.default, (flat, 1)) if len(flat) > 1 else flat[0]
    graph.output((values, *(copies[node] for node in new)))
    return fx.GraphModule(step, graph)


def _readout(
    step: fx.GraphModule,
    nodes: list[fx.Node],
    inputs: list[fx.Node],
    states: int,
    sources: list[fx.Node],
    y: fx.Node,
    batch: int,
) -> fx.GraphModule:
    graph, copies = fx.Graph(), {}
    values = graph.placeholder("values")
    for node in [*inputs[:2], *inputs[2 + states :]]:
        copies[node] = graph.placeholder(node.name)
    rows = graph.call_function(torch.ops.aten.sym_size.int, (values, 0))
    start = 0
    for node in sources:
        shape = node.meta["val"].shape[1:]
        end = start + math.prod(shape)
        piece = graph.call_function(torch.ops.aten.slice.Tensor, (values, 1, start, end))
        copies[node] = graph.call_function(torch.ops.aten.reshape.default, (piece, [rows, *shape]))
        start = end

    def many_rows(arg: Any) -> Any:
        if isinstance(arg, (list, tuple)):
            return type(arg)(many_rows(one) for one in arg)
        if isinstance(arg, fx.Node):
            return copies[arg]
        return rows if type(arg) is int and arg == batch else arg

    for node in nodes:
        if node in copies:
            continue
        target: Any = node.target if node.kwargs else _TARGETS.get(operator(node), node.target)
        keywords = {name: many_rows(arg) for name, arg in node.kwargs.items()}
        copies[node] = graph.call_function(target, tuple(many_rows(arg) for arg in node.args), keywords)
    graph.output(copies[y])
    graph.eliminate_dead_code()
    return fx.GraphModule(step, graph)
