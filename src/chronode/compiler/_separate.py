"""Separates a step into three parts, so that on a GPU the loop over time is element-wise alone.

What does not depend on the state and is more than element-wise, such as the product with the input, is `lead`: torch
computes it for all steps at once. What leads to no later state, such as C h' + D x, is `readout`, also for all steps at
once. The rest is the loop.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx

from ._lift import needed_by, shared_nodes
from ._recorded import is_view, operator

_JOINING = frozenset({"cat", "stack"})
_LIGHT = _JOINING | {
    *("clone", "_to_copy", "contiguous", "alias", "detach", "lift_fresh_copy", "zeros_like", "ones_like", "full_like"),
    *("zeros", "ones", "full", "new_zeros", "new_ones", "new_full", "scalar_tensor", "slice_scatter", "select_scatter"),
}
aten = torch.ops.aten


@dataclass(frozen=True)
class Separated:
    """A step in three parts.

    Attributes:
        lead: (x, dt, tensors) to the loop's input and to what the readout needs besides, for any number of rows.
        loop: (input, dt, states, tensors) to the values that the readout needs, side by side, and the states.
        readout: (values, what `lead` returns besides, x, dt, tensors) to y, for any number of rows; None if y is all
            that leaves the loop.
        features: Features of the loop's input.
    """

    lead: fx.GraphModule
    loop: fx.GraphModule
    readout: fx.GraphModule | None
    features: int


def separated(step: fx.GraphModule, states: int, batch: int) -> Separated:
    """Returns the parts of a step.

    Args:
        step: Takes x, dt, the states and tensors; returns y and the states.
        states: Number of parts of the state.
        batch: Size of the batch axis in the recording.
    """
    _bypass_joins(step)
    nodes = list(step.graph.nodes)
    inputs = [node for node in nodes if node.op == "placeholder"]
    (x, dt), state, tensors = inputs[:2], inputs[2 : 2 + states], inputs[2 + states :]
    output: Any = next(node for node in nodes if node.op == "output")
    y, *new = output.args[0]
    shared = shared_nodes(nodes, set(tensors))
    stateful = set(state)
    for node in nodes:
        if any(arg in stateful for arg in node.all_input_nodes):
            stateful.add(node)
    free = {node for node in nodes if node.op == "call_function"} - stateful - shared
    heavy = [node for node in nodes if node in free and (_is_heavy(node) or _grows(node, shared))]
    lead = needed_by(heavy) & free
    for node in nodes:  # one of several results, such as those of a normalization
        if "getitem" in str(node.target) and not is_view(node) and node.all_input_nodes[0] in lead:
            lead.add(node)
    loop = needed_by(new) - lead - set(inputs)
    behind = needed_by([y]) - loop - lead - shared - set(inputs)
    values = [y]
    for node in nodes:  # a slice of a value of the loop is taken there
        if node in behind and node in stateful and is_view(node) and not any(a in behind for a in node.all_input_nodes):
            behind.discard(node)
    if any(_is_heavy(node) or operator(node) in _JOINING for node in behind):
        behind |= needed_by(list(behind)) & free - lead  # does not depend on the loop
        behind, values = _cut([node for node in nodes if node in behind], shared | lead | {x, dt}, stateful)
    else:
        behind = set()
    loop = needed_by([*new, *values]) - lead - set(inputs)
    rows = _read(nodes, loop, lead | {x}) or [x]
    more = _read(nodes, behind, lead)
    parts = _Parts(step, nodes, batch)
    loop_graph = parts.of_one_step(loop, [x, dt, *state, *tensors], rows, values, new)
    given = [x, dt, *tensors]
    return Separated(
        parts.of_many_rows({}, given, lead | shared, lambda copies: parts.lead_results(copies, rows, more)),
        loop_graph,
        parts.of_many_rows({"values": values}, [*more, *given], behind | shared, lambda copies: copies[y])
        if behind
        else None,
        sum(map(_width, rows)),
    )


def _is_heavy(node: fx.Node) -> bool:
    """Returns whether a node is neither element-wise nor a change of shape."""
    if node.op != "call_function" or is_view(node) or "getitem" in str(node.target):
        return False
    return operator(node) not in _LIGHT and torch.Tag.pointwise not in getattr(node.target, "tags", ())


def _grows(node: fx.Node, shared: set[fx.Node]) -> bool:
    """Returns whether a node repeats the elements of a row, other than of a row with one element."""
    rows = [arg for arg in node.all_input_nodes if arg not in shared and isinstance(arg.meta.get("val"), Tensor)]
    widest = max(map(_width, rows), default=0)
    return isinstance(node.meta.get("val"), Tensor) and 1 < widest < _width(node) and operator(node) not in _JOINING


def _width(node: fx.Node) -> int:
    return math.prod(node.meta["val"].shape[1:])


def _read(nodes: list[fx.Node], readers: set[fx.Node], sources: set[fx.Node]) -> list[fx.Node]:
    """Returns the sources that are read, in order."""
    read = {arg for node in readers for arg in node.all_input_nodes}
    return [node for node in nodes if node in read and node in sources]


def _cut(behind: list[fx.Node], available: set[fx.Node], stateful: set[fx.Node]) -> tuple[set[fx.Node], list[fx.Node]]:
    """Returns the nodes of the readout and the values that it takes from the loop.

    Element-wise nodes before the first product stay in the loop if fewer elements leave it then.
    """
    late = set(behind) - stateful
    for node in behind:
        if _is_heavy(node) or operator(node) in _JOINING or any(arg in late for arg in node.all_input_nodes):
            late.add(node)
    whole = set(behind)
    choices = [(one, _border(behind, one, available)) for one in (whole, late)]
    return min(choices, key=lambda choice: sum(map(_width, choice[1])))


def _border(nodes: list[fx.Node], late: set[fx.Node], available: set[fx.Node]) -> list[fx.Node]:
    read = (arg for node in nodes if node in late for arg in node.all_input_nodes)
    return list(dict.fromkeys(arg for arg in read if arg not in late and arg not in available))


def _bypass_joins(step: fx.GraphModule) -> None:
    """Lets slices of a concatenation of features read the concatenated values."""
    for node in list(step.graph.nodes):
        if (span := _span(node)) is None:
            continue
        joined, start, end = span
        for piece in joined.args[0]:
            size = piece.meta["val"].shape[1]
            if start >= 0 and end <= size:
                with step.graph.inserting_before(node):
                    part = step.graph.call_function(aten.slice.Tensor, (piece, 1, start, end))
                part.meta["val"] = node.meta["val"]
                node.replace_all_uses_with(part if end - start < size else piece)
                break
            start, end = start - size, end - size
    step.graph.eliminate_dead_code()


def _span(node: Any) -> tuple[Any, int, int] | None:
    """Returns a concatenation and the features of it that a node selects."""
    if node.op != "call_function":
        return None
    source: Any = node.all_input_nodes[0] if node.all_input_nodes else None
    if "getitem" in str(node.target) and operator(source) in ("split", "split_with_sizes"):
        joined, sizes, *axis = source.args
        index, last = node.args[1], axis[0] if axis else 0
        start = sum(sizes[:index]) if isinstance(sizes, list) else sizes * index
        end = start + node.meta["val"].shape[last]
    elif operator(node) == "slice" and len(node.args) == 4:
        joined, last, start, end = node.args
    else:
        return None
    if not isinstance(joined, fx.Node) or joined.op != "call_function" or operator(joined) != "cat":
        return None
    shape = joined.meta["val"].shape
    along: list[Any] = [last, joined.args[1] if len(joined.args) > 1 else 0]
    axes = {axis % len(shape) for axis in along}
    if len(shape) != 2 or axes != {1} or not all(isinstance(one, int) and one >= 0 for one in (start, end)):
        return None
    return joined, start, min(end, shape[1])


class _Parts:
    """Copies nodes of a step into graphs of their own."""

    def __init__(self, step: fx.GraphModule, nodes: list[fx.Node], batch: int):
        self.step, self.nodes, self.batch = step, nodes, batch

    def of_one_step(
        self,
        kept: set[fx.Node],
        inputs: list[fx.Node],
        rows: list[fx.Node],
        values: list[fx.Node],
        new: list[fx.Node],
    ) -> fx.GraphModule:
        """Returns the loop; its first input holds `rows` side by side."""
        graph = fx.Graph()
        whole = graph.placeholder("rows")
        copies = {node: graph.placeholder(node.name) for node in inputs[1:]}
        copies |= _pieces(graph, whole, rows, self.batch)
        for node in self.nodes:
            if node in kept and node.op == "call_function":
                copies[node] = graph.node_copy(node, copies.__getitem__)
        graph.output((_side_by_side(graph, values, copies, self.batch), *(copies[node] for node in new)))
        return fx.GraphModule(self.step, graph)

    def of_many_rows(
        self,
        joined: dict[str, list[fx.Node]],
        inputs: list[fx.Node],
        kept: Iterable[fx.Node],
        results: Callable[[_Copies], Any],
    ) -> fx.GraphModule:
        """Returns nodes as a function of any number of rows; `joined` are inputs that hold several nodes each."""
        graph = fx.Graph()
        wholes = {name: graph.placeholder(name) for name in joined}
        placeholders = {node: graph.placeholder(node.name) for node in inputs}
        copies = _Copies(placeholders, graph)
        copies.rows = graph.call_function(aten.sym_size.int, (next(iter({**wholes, **placeholders}.values())), 0))
        for name, sources in joined.items():
            copies |= _pieces(graph, wholes[name], sources, copies.rows)

        def many_rows(arg: Any) -> Any:
            if isinstance(arg, (list, tuple)):
                return type(arg)(many_rows(one) for one in arg)
            if isinstance(arg, fx.Node):
                return copies[arg]
            return copies.rows if type(arg) is int and arg == self.batch else arg

        for node in self.nodes:
            if node in kept and node not in copies and node.op == "call_function":
                target: Any = aten.reshape.default if operator(node) == "view" else node.target
                keywords = {name: many_rows(arg) for name, arg in node.kwargs.items()}
                copies[node] = graph.call_function(target, tuple(many_rows(arg) for arg in node.args), keywords)
        graph.output(results(copies))
        graph.eliminate_dead_code()
        return fx.GraphModule(self.step, graph)

    def lead_results(self, copies: _Copies, rows: list[fx.Node], more: list[fx.Node]) -> tuple[fx.Node, ...]:
        """Returns the rows of the loop, side by side, and what the readout needs besides."""
        return _side_by_side(copies.graph, rows, copies, copies.rows), *(copies[node] for node in more)


class _Copies(dict[fx.Node, fx.Node]):
    """Nodes of a step and their copies in a graph, whose number of rows is a node."""

    rows: fx.Node

    def __init__(self, copies: dict[fx.Node, fx.Node], graph: fx.Graph):
        super().__init__(copies)
        self.graph = graph


def _side_by_side(graph: fx.Graph, nodes: list[fx.Node], copies: dict[fx.Node, fx.Node], rows: Any) -> fx.Node:
    flat = [graph.call_function(aten.reshape.default, (copies[node], [rows, _width(node)])) for node in nodes]
    return graph.call_function(aten.cat.default, (flat, 1)) if len(flat) > 1 else flat[0]


def _pieces(graph: fx.Graph, whole: fx.Node, nodes: list[fx.Node], rows: Any) -> dict[fx.Node, fx.Node]:
    """Returns the parts of `whole` that hold the values of the nodes."""
    pieces, start = {}, 0
    for node in nodes:
        end = start + _width(node)
        piece = graph.call_function(aten.slice.Tensor, (whole, 1, start, end)) if len(nodes) > 1 else whole
        shape = [rows, *node.meta["val"].shape[1:]]
        pieces[node] = graph.call_function(aten.reshape.default, (piece, shape))
        start = end
    return pieces
