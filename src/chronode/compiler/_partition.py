"""Chooses the values that the forward pass keeps and those that the backward pass recomputes.

Keeping a value costs memory traffic, recomputing it costs arithmetic, and products are never recomputed. The cheapest
choice is a minimum cut of the forward graph between the inputs, which are free, and the values that the backward reads.
"""

from __future__ import annotations

from collections import deque

from ._lower import Step
from ._node import EXPENSIVE, GRADIENTS, Node

_KEEP = 60  # per element: written once, read once, most often from beyond the second-level cache
_AGAIN, _AGAIN_EXPENSIVE = 3, 25
_NEVER = 10**12


def forward_nodes(step: Step) -> set[Node]:
    """Returns the nodes that do not depend on an incoming gradient."""
    forward: set[Node] = set()
    for node in step.nodes:
        incoming = node.op == "input" and str(node.detail).startswith("grad_")
        if not incoming and node.op not in GRADIENTS and all(arg.node in forward for arg in node.args):
            forward.add(node)
    return forward


def is_free(node: Node) -> bool:
    """Returns whether the value is available in both passes: parameters, and inputs other than the state."""
    return node.is_parameter or (node.op == "input" and not str(node.detail).startswith("state"))


def kept(step: Step) -> list[Node]:
    """Returns the nodes whose values the forward pass keeps."""
    forward = forward_nodes(step)
    read: set[Node] = set()
    ends = [view.node for view in step.gradients if view is not None] + step.sums
    pending, visited = list(ends), set(ends)
    read |= {node for node in ends if node in forward}
    while pending:
        for arg in pending.pop().args:
            if arg.node in forward:
                read.add(arg.node)
            elif arg.node not in visited:
                visited.add(arg.node)
                pending.append(arg.node)
    read = {node for node in read if not is_free(node)}
    return _cut([node for node in step.nodes if node in forward and not is_free(node)], read)


def _cost_again(node: Node) -> int:
    if not node.is_pointwise and node.op != "concat":
        return _NEVER
    return node.size * (_AGAIN_EXPENSIVE if node.op in EXPENSIVE else _AGAIN)


def _cut(nodes: list[Node], read: set[Node]) -> list[Node]:
    """Returns a minimum cut; each node is an edge from its inside to its outside, with the cost of keeping it."""
    edges: dict[tuple[object, object], int] = {}
    for node in nodes:
        edges["source", (node, 0)] = _cost_again(node)
        edges[(node, 0), (node, 1)] = _NEVER if node.kind == "bool" else node.size * _KEEP
        for arg in node.args:
            if not is_free(arg.node):
                edges[(arg.node, 1), (node, 0)] = _NEVER
        if node in read:
            edges[(node, 1), "sink"] = _NEVER
    reached = _source_side(edges)
    return [node for node in nodes if (node, 0) in reached and (node, 1) not in reached]


def _source_side(capacity: dict[tuple[object, object], int]) -> set[object]:
    """Returns the nodes that the source can still reach after Edmonds and Karp's maximum flow."""
    left = dict(capacity)
    neighbors: dict[object, list[object]] = {}
    for a, b in capacity:
        neighbors.setdefault(a, []).append(b)
        neighbors.setdefault(b, []).append(a)
        left.setdefault((b, a), 0)
    while True:
        previous: dict[object, object] = {"source": "source"}
        queue: deque[object] = deque(["source"])
        while queue and "sink" not in previous:
            a = queue.popleft()
            for b in neighbors.get(a, ()):
                if b not in previous and left[a, b] > 0:
                    previous[b] = a
                    queue.append(b)
        if "sink" not in previous:
            return set(previous)
        path: list[tuple[object, object]] = []
        b: object = "sink"
        while b != "source":
            path.append((previous[b], b))
            b = previous[b]
        flow = min(left[edge] for edge in path)
        for a, b in path:
            left[a, b] -= flow
            left[b, a] += flow
