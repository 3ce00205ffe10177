"""Rewrites writes in place of a recorded step: a new value takes the place of the old one in all later operations."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, fx

from ._recorded import DRAWS, Unsupported, is_view, operator

_aten = torch.ops.aten


def without_writes(recorded: fx.GraphModule) -> fx.GraphModule:
    """Replaces the operators that write in place, except to parameters and buffers of the cell."""
    _Rewriting(recorded.graph).run()
    recorded.graph.eliminate_dead_code()
    recorded.recompile()
    return recorded


def writes(node: fx.Node) -> bool:
    """Returns whether a node writes to its first argument."""
    if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
        return False
    return node.target._schema.is_mutable and operator(node).endswith("_") and not operator(node).endswith("__")


class _Rewriting:
    def __init__(self, graph: fx.Graph):
        self.graph = graph
        self.order = {node: index for index, node in enumerate(graph.nodes)}
        self.views: dict[fx.Node, tuple[fx.Node, fx.Node]] = {}  # new value -> the view that it replaces, its tensor

    def run(self) -> None:
        for node in list(self.graph.nodes):
            if writes(node) and _base(_args(node)[0]).op != "get_attr":
                if _base(_args(node)[0]).op == "placeholder":
                    raise Unsupported("writes to its input or state in place")
                self._rewrite(node)

    def _rewrite(self, node: fx.Node) -> None:
        old = _args(node)[0]
        if operator(node) in DRAWS:
            new = node  # a draw fills a fresh tensor: its arguments are all that matters
        else:
            with self.graph.inserting_before(node):
                new = self._functional(node)
            self._number(new, node)
            node.replace_all_uses_with(new)
            self.graph.erase_node(node)
        self._replace(old, new)

    def _functional(self, node: fx.Node) -> fx.Node:
        """Inserts the operator that returns a new value."""
        old, *rest = _args(node)
        name = operator(node)
        if name == "zero_" or (name == "fill_" and not isinstance(rest[0], fx.Node)):
            return self._call(_aten.full_like.default, (old, *rest) if rest else (old, 0.0), node.meta["val"])
        if name in ("copy_", "fill_"):
            source = self._call(_aten.expand.default, (rest[0], list(old.meta["val"].shape)), node.meta["val"])
            return source if rest[0].meta["val"].dtype == old.meta["val"].dtype else self._cast(source, old)
        packet = getattr(_aten, name.removesuffix("_"), None)
        target: Any = node.target
        overload = None if packet is None else getattr(packet, target._overloadname, None)
        if overload is None:
            raise Unsupported(f"writes in place with {name}")
        return self._call(overload, _args(node), node.meta["val"], node.kwargs)

    def _cast(self, source: fx.Node, old: fx.Node) -> fx.Node:
        return self._call(_aten._to_copy.default, (source,), old.meta["val"], {"dtype": old.meta["val"].dtype})

    def _call(self, target: Any, args: Any, example: Tensor, kwargs: Any = None) -> fx.Node:
        node = self.graph.call_function(target, tuple(args), kwargs or {})
        node.meta["val"] = example
        return node

    def _number(self, new: fx.Node, like: fx.Node) -> None:
        self.order[new] = self.order[like]

    def _replace(self, old: fx.Node, new: fx.Node) -> None:
        """Lets everything after `new` read it in place of `old`, also what reads the tensor that `old` is a view of."""
        for user in [user for user in old.users if user is not new and self._is_after(user, new)]:
            user.replace_input_with(old, new)
        view, base = self.views.get(old) or (old, _source(old))
        if base is None:
            return
        pieces = _args(view)[0] if _is_piece(view) else None  # the other pieces of a split have no element in common
        readers = [user for user in base.users if user not in (old, pieces) and self._reads_later(user, new)]
        if not readers:
            return
        with self.graph.inserting_after(new):
            whole = self._written_back(base, view, new)
        self._number(whole, new)
        self.views[new] = view, whole
        for user in readers:
            if is_view(user) and not self._is_after(user, new):
                self._view_again(user, base, whole)
        self._replace(base, whole)

    def _view_again(self, view: fx.Node, base: fx.Node, whole: fx.Node) -> None:
        with self.graph.inserting_after(whole):
            again = self._call(view.target, [whole if arg is base else arg for arg in _args(view)], view.meta["val"])
        self._number(again, whole)
        for user in [user for user in view.users if user is not again and self._is_after(user, whole)]:
            user.replace_input_with(view, again)

    def _is_after(self, node: fx.Node, other: fx.Node) -> bool:
        return self.order.get(node, -1) > self.order[other]

    def _reads_later(self, node: fx.Node, write: fx.Node) -> bool:
        """Returns whether a node, or a view of it, is used after a write."""
        if self._is_after(node, write):
            return True
        return is_view(node) and any(self._reads_later(user, write) for user in node.users)

    def _written_back(self, base: fx.Node, view: fx.Node, value: fx.Node) -> fx.Node:
        """Inserts `base` with the elements of `view` replaced by `value`."""
        example, name = base.meta["val"], operator(view)
        if _is_piece(view):
            split, index = _args(view)
            axis = _split_axis(split)
            sizes = [piece.shape[axis] for piece in split.meta["val"]]
            ends = list(itertools.accumulate(sizes))
            args = (base, value, axis, ends[index] - sizes[index], ends[index])
            return self._call(_aten.slice_scatter.default, args, example)
        if name in ("slice", "select"):
            scatter = _aten.slice_scatter.default if name == "slice" else _aten.select_scatter.default
            return self._call(scatter, (base, value, *_args(view)[1:]), example)
        if name in ("view", "_unsafe_view", "reshape", "unsqueeze", "squeeze", "alias", "detach"):
            return self._call(_aten.reshape.default, (value, list(example.shape)), example)
        if name in ("t", "transpose", "permute"):
            order = _order(name, _args(view)[1:], example.dim())
            return self._call(_aten.permute.default, (value, _inverse(order)), example)
        raise Unsupported(f"writes in place to a part of a tensor ({name})")


def _args(node: fx.Node) -> Any:
    return node.args


def _base(node: fx.Node) -> fx.Node:
    while is_view(node):
        node = node.all_input_nodes[0]
    return node


def _is_piece(node: fx.Node) -> bool:
    return "getitem" in str(node.target)


def _source(view: fx.Node) -> fx.Node | None:
    """Returns the tensor that a view sees; None if the node is not a view."""
    if not is_view(view):
        return None
    return _args(_args(view)[0])[0] if _is_piece(view) else _args(view)[0]


def _split_axis(split: fx.Node) -> int:
    axis = _args(split)[2] if len(_args(split)) > 2 else split.kwargs.get("dim", 0)
    return axis % _args(split)[0].meta["val"].dim()


def _order(name: str, args: Sequence[Any], dim: int) -> list[int]:
    if name == "permute":
        return [axis % dim for axis in args[0]]
    first, second = (axis % dim for axis in args) if args else (0, 1)
    order = list(range(dim))
    order[first], order[second] = order[second], order[first]
    return order if dim > 1 else [0]


def _inverse(order: list[int]) -> list[int]:
    return sorted(range(len(order)), key=order.__getitem__)
