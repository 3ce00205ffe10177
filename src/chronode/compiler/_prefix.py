"""Divides a recorded step: what depends on parameters alone is computed once, before the first step."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from ._functional import writes
from ._recorded import DRAWS, Draw, Unsupported, is_view, operator

_MAKERS = frozenset(["zeros", "ones", "full", "scalar_tensor", "empty"])


def divide(recorded: fx.GraphModule, batch: int) -> tuple[list[str], fx.GraphModule, fx.GraphModule, list[Draw]]:
    """Returns what depends on parameters alone, and the rest, which takes that and the draws as inputs."""
    per_row = _merge_shared(recorded, batch)
    nodes = list(recorded.graph.nodes)
    draws: list[tuple[fx.Node, Draw]] = []
    for node in nodes:
        if node.op != "call_function":
            continue
        if operator(node) in DRAWS:
            draws.append((node, _draw(node, batch)))
        elif torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()):
            raise Unsupported(f"draws random numbers with {operator(node)}")
    bases = _bases(nodes, per_row)
    prefix, captured = _prefix(recorded, nodes, per_row, bases)
    rest = _rest(recorded, nodes, per_row, bases, draws)
    return captured, prefix, rest, [draw for _, draw in draws]


def _draw(node: fx.Node, batch: int) -> Draw:
    shape, dtype = tuple(node.meta["val"].shape), node.meta["val"].dtype
    if not shape or shape[0] != batch:
        raise Unsupported(f"draws a random tensor of shape {shape} that is not one value per sequence")
    args: Any = node.args[1:] if operator(node).endswith(("_", "_like")) else node.args[:-1]
    if node.kwargs.get("generator") is not None or not all(isinstance(arg, (int, float)) for arg in args):
        raise Unsupported(f"draws random numbers with {operator(node)} and tensors or a generator as arguments")
    return Draw(operator(node), shape[1:], dtype, tuple(args))


def _merge_shared(recorded: fx.GraphModule, batch: int) -> set[fx.Node]:
    """Merges equal nodes that depend on parameters alone; returns the other nodes."""
    per_row: set[fx.Node] = set()
    merged: dict[Any, fx.Node] = {}
    nodes = list(recorded.graph.nodes)
    in_place = any(writes(node) and operator(node) not in DRAWS for node in nodes)
    for node in nodes:
        is_new = node.op == "call_function" and operator(node) in (*DRAWS, *_MAKERS)
        per_batch = is_new and (operator(node) in DRAWS or batch in node.meta["val"].shape)
        given = node.op == "placeholder" and "captured" not in node.meta
        if given or per_batch or any(arg in per_row for arg in node.all_input_nodes):
            per_row.add(node)
        elif node.op == "get_attr" or (node.op == "call_function" and not in_place):
            name = node.meta.get("captured", node.target)
            key = repr((name if node.op == "get_attr" else str(node.target), node.args, node.kwargs))
            if key in merged:
                node.replace_all_uses_with(merged[key])
                recorded.graph.erase_node(node)
            else:
                merged[key] = node
    return per_row


def _bases(nodes: list[fx.Node], per_row: set[fx.Node]) -> list[fx.Node]:
    """Returns the tensors of parameters alone that the step reads, seen through views."""
    bases: dict[fx.Node, None] = {}
    for node in nodes:
        if node in per_row or node.op == "output":
            for arg in node.all_input_nodes:
                while arg not in per_row and is_view(arg):
                    arg = arg.all_input_nodes[0]
                if arg not in per_row:
                    bases[arg] = None
    return list(bases)


def _prefix(
    recorded: fx.GraphModule, nodes: list[fx.Node], per_row: set[fx.Node], bases: list[fx.Node]
) -> tuple[fx.GraphModule, list[str]]:
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    captured: list[str] = []
    for node in nodes:
        if "captured" in node.meta:
            copies[node] = graph.placeholder(f"p{len(captured)}")
            captured.append(node.meta["captured"])
    for node in nodes:
        if node not in per_row and node.op in ("call_function", "get_attr") and node not in copies:
            copies[node] = graph.node_copy(node, lambda n: copies[n])
    graph.output(tuple(copies[node] for node in bases))
    graph.eliminate_dead_code()
    return fx.GraphModule(recorded, graph), captured


def _rest(
    recorded: fx.GraphModule,
    nodes: list[fx.Node],
    per_row: set[fx.Node],
    bases: list[fx.Node],
    draws: list[tuple[fx.Node, Draw]],
) -> fx.GraphModule:
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    rows = [*(node for node in nodes if node.op == "placeholder"), *(node for node, _ in draws)]
    for index, node in enumerate([*rows, *bases]):  # dt, if it is one number, is both
        copies[node] = graph.placeholder(f"input{index}")
        copies[node].meta["val"] = node.meta["val"]
    for node in nodes:
        if node in copies or node.op == "placeholder":
            continue
        is_copied_view = is_view(node) and all(arg in copies for arg in node.all_input_nodes)
        if (node in per_row or is_copied_view) and node.op != "output":
            copies[node] = graph.node_copy(node, lambda n: copies[n])
    output = next(node for node in nodes if node.op == "output")
    graph.output(fx.node.map_arg(output.args[0], lambda n: copies[n]))
    graph.eliminate_dead_code()
    return fx.GraphModule(recorded, graph)
