"""From torch's operators to the graph: one rule for each.

A joint graph has three kinds of operators: those on values per row, which become nodes; those on parameters alone
(`derived`), which torch runs before the loop; and those on sums over rows (`finish`), which torch runs after the loop
and which must be linear.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from . import _rules_elementwise, _rules_shapes, _rules_sums  # noqa: F401 - importing them adds their rules
from ._arrays import Array, Arrays
from ._graph import Builder, number_of
from ._node import Node
from ._recorded import COMPLEX, VIEWS, Draw, Unsupported, is_view, operator
from ._rules import RULES, RowSum, RowSums
from ._trace import Traced
from ._views import View

_LINEAR = VIEWS | {
    *("sum", "add", "sub", "neg", "mul", "div", "mm", "cat", "stack", "clone", "_to_copy", "slice_backward"),
    *("select_backward", "select_scatter", "slice_scatter", "getitem", "zeros_like", "new_zeros", "zeros", "full"),
}


@dataclass
class Step:
    """One step and its backward, as a graph.

    Attributes:
        traced: The traced step.
        nodes: All nodes; arguments come first.
        outputs: y, then the parts of the new state.
        gradients: Those of x, dt, the parts of the state and the draws; None if there is none; empty if not traced.
        sums: The sums over rows and time from which the gradients of parameters are computed.
        slots: For each sum, the number of the array that it is added to.
        params: Shapes and kinds of the kernel's parameters: the tensors of `prefix`, then the derived ones.
        derived: Computes tensors that depend on parameters alone and only the backward pass needs.
        finish: Computes the gradients of the tensors of `prefix` from these tensors and the sums.
    """

    traced: Traced
    nodes: list[Node]
    outputs: list[View]
    gradients: list[View | None]
    sums: list[Node]
    slots: list[int]
    params: list[tuple[tuple[int, ...], str]]
    derived: fx.GraphModule
    finish: fx.GraphModule

    @property
    def draws(self) -> list[Draw]:
        """The random tensors of a step."""
        return self.traced.draws


def lower(traced: Traced) -> Step:
    """Returns the graph of a traced step."""
    return _Lowering(traced).run()


class _Lowering:
    def __init__(self, traced: Traced):
        self.traced = traced
        self.builder = Builder()
        self.arrays = Arrays(self.builder, traced.batch)
        self.values: dict[fx.Node, Any] = {}  # Array, or a tuple of them
        self.shared: set[fx.Node] = set()  # of parameters alone
        self.params: list[tuple[tuple[int, ...], str]] = []
        self.derived, self.derived_copies = fx.Graph(), {}
        self.derived_outputs: list[fx.Node] = []
        self.finish, self.finish_copies = fx.Graph(), {}
        self.sums: list[Node] = []

    def run(self) -> Step:
        nodes = list(self.traced.joint.graph.nodes)
        self._placeholders([node for node in nodes if node.op == "placeholder"])
        output = next(node for node in nodes if node.op == "output")
        num_outputs = 1 + len(self.traced.states)
        outputs, gradients = output.args[0][:num_outputs], output.args[0][num_outputs:]
        of_forward = {node for node in outputs if node.op == "call_function"}
        for node in nodes:
            if node.op == "call_function":
                self.builder.in_backward = not of_forward
                self._call(node)
                of_forward.discard(node)
            elif node.op == "get_attr":
                self.shared.add(node)
                self.derived_copies[node] = self.derived.node_copy(node)
        rows = 2 + len(self.traced.states) + len(self.traced.draws)
        sums = [self._finished(node) for node in gradients[rows:]]
        self.finish.output(tuple(sums))
        self.derived.output(tuple(self.derived_outputs))
        slots = self._merged_sums()
        for graph in (self.derived, self.finish):
            graph.eliminate_dead_code()
        return Step(
            self.traced,
            self.builder.nodes,
            [self._row_output(node) for node in outputs],
            [None if node is None else self._row_output(node) for node in gradients[:rows]],
            self.sums,
            slots,
            self.params,
            fx.GraphModule(self.traced.joint, self.derived),
            fx.GraphModule(self.traced.joint, self.finish),
        )

    def _placeholders(self, nodes: list[fx.Node]) -> None:
        traced = self.traced
        names = ["x", "dt", *(f"state{i}" for i in range(len(traced.states)))]
        sizes = [(traced.x,), (1,), *((size,) for size in traced.states)]
        names += [f"draw{i}" for i in range(len(traced.draws))]
        sizes += [draw.shape for draw in traced.draws]
        rows = len(names)
        names += [""] * len(traced.tensors)
        sizes += [tuple(tensor.shape) for tensor in traced.tensors]
        if traced.backward:
            names += ["grad_y", *(f"grad_state{i}" for i in range(len(traced.states)))]
            sizes += [(traced.y,), *((s,) for s in traced.states)]
        for i, (node, name, size) in enumerate(zip(nodes, names, sizes, strict=True)):
            if rows <= i < rows + len(traced.tensors):
                self.shared.add(node)
                self.values[node] = self._new_param(traced.tensors[i - rows])
                self.derived_copies[node] = self.derived.placeholder(f"p{i - rows}")
                self.finish_copies[node] = self.finish.placeholder(f"p{i - rows}")
            else:
                self.values[node] = Array(self.builder.input(name, size), 0)

    def _new_param(self, tensor: torch.Tensor) -> Array:
        if tensor.is_complex():
            raise Unsupported(COMPLEX)
        if tensor.dtype not in (torch.float32, torch.float64, torch.int64, torch.bool):
            raise Unsupported(f"reads a parameter or buffer of {tensor.dtype}")
        if tensor.dtype.is_floating_point and self.traced.dtype not in (None, tensor.dtype):
            raise Unsupported(f"reads a parameter or buffer of {tensor.dtype} for inputs of {self.traced.dtype}")
        kind = "int" if tensor.dtype == torch.int64 else "float"
        self.params.append((tuple(tensor.shape), kind))
        array = Array(self.builder.param(len(self.params) - 1, tuple(tensor.shape), kind))
        # The kernel gets a mask as zeros and ones.
        return self.arrays.pointwise("ne", array, 0.0, kind="bool") if tensor.dtype == torch.bool else array

    def _call(self, node: fx.Node) -> None:
        inputs = node.all_input_nodes
        if any(arg in self.finish_copies and arg not in self.shared for arg in inputs):
            return self._finish_call(node)
        if inputs and all(arg in self.shared for arg in inputs):
            self.shared.add(node)
            self.derived_copies[node] = self.derived.node_copy(node, lambda n: self.derived_copies[n])
            if is_view(node) and all(arg in self.values for arg in inputs):
                self.values[node] = self._apply(node)
            return None
        result = self._apply(node)
        if isinstance(result, RowSum):
            self.finish_copies[node] = self._adapted(node, result)
        elif isinstance(result, RowSums):
            parts = [self._adapted(node, part) for part in result.parts]
            self.finish_copies[node] = self.finish.call_function(torch.ops.aten.stack.default, (parts,))
        else:
            self.values[node] = result
        return None

    def _adapted(self, node: fx.Node, result: RowSum) -> fx.Node:
        """Returns the sum in the shape that the traced operator gives."""
        if any(number_of(arg) == 0.0 for arg in result.node.args):
            example = node.meta["val"]
            kind = {"dtype": example.dtype, "device": example.device}
            return self.finish.call_function(torch.ops.aten.zeros.default, (list(result.shape),), kind)
        if result.node not in self.sums:
            self.sums.append(result.node)
        copy = self.finish.placeholder(f"s{self.sums.index(result.node)}_{node.name}")
        copy.meta["sum"] = self.sums.index(result.node)
        if result.transposed:
            copy = self.finish.call_function(torch.ops.aten.t.default, (copy,))
        if result.more_axes:
            copy = self.finish.call_function(torch.ops.aten.sum.dim_IntList, (copy, list(result.more_axes)))
        return self.finish.call_function(torch.ops.aten.reshape.default, (copy, list(result.shape)))

    def _finish_call(self, node: fx.Node) -> None:
        rows = [arg for arg in node.all_input_nodes if arg not in self.finish_copies and arg not in self.shared]
        name = "getitem" if "getitem" in str(node.target) else operator(node)
        if rows or name not in _LINEAR:
            raise Unsupported(f"has a gradient that is not linear in a sum over the batch ({name})")
        for arg in node.all_input_nodes:
            self._into_finish(arg)
        self.finish_copies[node] = self.finish.node_copy(node, lambda n: self.finish_copies[n])

    def _into_finish(self, node: fx.Node) -> None:
        if node in self.finish_copies:
            return
        for arg in node.all_input_nodes:
            self._into_finish(arg)
        self.finish_copies[node] = self.finish.node_copy(node, lambda n: self.finish_copies[n])

    def _finished(self, node: fx.Node | None) -> fx.Node | None:
        if node is None:
            return None
        if node not in self.finish_copies:
            array = self.values.get(node)
            if node in self.shared or array is None or array.batch is not None:
                raise Unsupported("has a gradient of a parameter that does not depend on the data")
            # A constant, such as the zeros of an unused parameter.
            self._into_finish(node)
        return self.finish_copies[node]

    def _merged_sums(self) -> list[int]:
        """Lets sums that are only added to each other share an array: those of a weight that is used several times."""
        slot = list(range(len(self.sums)))
        uses = Counter(node.meta["sum"] for node in self.finish.nodes if "sum" in node.meta)
        terms: dict[fx.Node, tuple[str, int]] = {}  # the operations on a sum -> the sums
        for node in list(self.finish.nodes):
            inputs = node.all_input_nodes
            if "sum" in node.meta and uses[node.meta["sum"]] == 1:
                terms[node] = ("", node.meta["sum"])
            elif len(inputs) == 1 and inputs[0] in terms and len(inputs[0].users) == 1:
                done, index = terms[inputs[0]]
                rest = fx.node.map_arg((node.args, node.kwargs), lambda _: None)
                terms[node] = (f"{done} {node.target} {rest}", index)
            elif node.op == "call_function" and operator(node) == "add" and len(inputs) == 2 and not node.kwargs:
                first, second = inputs
                if self._can_share(first, second, terms):
                    old, new = slot[terms[second][1]], slot[terms[first][1]]
                    slot = [new if one == old else one for one in slot]
                    node.replace_all_uses_with(first)
                    self.finish.erase_node(node)
        order = {old: new for new, old in enumerate(dict.fromkeys(slot))}
        for node in self.finish.nodes:
            if "sum" in node.meta:
                node.meta["sum"] = order[slot[node.meta["sum"]]]
        return [order[one] for one in slot]

    def _can_share(self, first: fx.Node, second: fx.Node, terms: dict[fx.Node, tuple[str, int]]) -> bool:
        """Returns whether two sums of the same kind and with the same operations are only used in their total."""
        if not all(node in terms and len(node.users) == 1 for node in (first, second)):
            return False
        a, b = (self.sums[terms[node][1]] for node in (first, second))
        return terms[first][0] == terms[second][0] and (a.op, a.shape) == (b.op, b.shape)

    def _row_output(self, node: fx.Node) -> View:
        array = self._array(node)
        if array.batch not in (0, None) or len(array.view.shape) != 1 or array.merged:
            raise Unsupported("gives a tensor whose first axis is not the batch")
        return array.view if array.view.is_whole() else self.builder.resolved(array.view)

    def _apply(self, node: fx.Node) -> Any:
        if "getitem" in str(node.target):
            return self.values[node.all_input_nodes[0]][node.args[1]]
        rule = RULES.get(operator(node))
        if isinstance(example := node.meta.get("val"), torch.Tensor) and example.is_complex():
            raise Unsupported(COMPLEX)
        if rule is None:
            raise Unsupported(f"uses {operator(node)}, for which the compiler has no rule")
        return rule(self.arrays, *self._lowered(node.args), **self._lowered(node.kwargs))

    def _lowered(self, args: Any) -> Any:
        """Returns the arguments with arrays in place of nodes."""
        if isinstance(args, fx.Node):
            return self._array(args)
        if isinstance(args, (list, tuple)):
            return [self._lowered(arg) for arg in args]
        return {key: self._lowered(arg) for key, arg in args.items()} if isinstance(args, dict) else args

    def _array(self, node: fx.Node) -> Any:
        """Returns the value of a node; a value that depends on parameters alone becomes a parameter of the kernel."""
        if node not in self.values:
            if node not in self.shared:
                raise Unsupported("uses a sum over the batch within the step")
            base = node
            if is_view(base) and "getitem" not in str(base.target):
                self._array(base.all_input_nodes[0])
                self.values[node] = self._apply(node)
                return self.values[node]
            example = node.meta["val"]
            self.values[node] = self._new_param(example)
            self.derived_outputs.append(self.derived_copies[node])
        return self.values[node]
