"""The body of the C99 function of one step."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

from ..compiler import EXPENSIVE, Loop, Node, Scheduler, Scratch, Target, View
from ._c_constants import Constants
from ._c_loops import LoopWriter, operations, reads
from ._graph import StepGraph

PRODUCT = """/* y (rows, n) = bias + a (rows, k) times the transpose of w (n, k) */
static void product(const float *w, const float *bias, const float *a, float *y, int rows, int n, int k)
{
    const int fours = k - k % 4;
    for (int r = 0; r < rows; ++r, a += k) {
        const float *v = w;
        for (int j = 0; j < n; ++j) {
            float s0 = bias ? bias[j] : 0.0f, s1 = 0.0f, s2 = 0.0f, s3 = 0.0f;
            int i;
            for (i = 0; i < fours; i += 4, v += 4) {
                s0 += v[0] * a[i];
                s1 += v[1] * a[i + 1];
                s2 += v[2] * a[i + 2];
                s3 += v[3] * a[i + 3];
            }
            for (i = fours; i < k; ++i) {
                s0 += *v++ * a[i];
            }
            *y++ = (s0 + s1) + (s2 + s3);
        }
    }
}
"""

PRODUCT_INT8 = """/* As product, for the matrix w * scale[n] * unit and the bias bias * bias_unit. */
static void product_int8(const signed char *w, const unsigned short *scale, float unit, const short *bias,
                         float bias_unit, const float *a, float *y, int rows, int n, int k)
{
    const int fours = k - k % 4;
    for (int r = 0; r < rows; ++r, a += k) {
        const signed char *v = w;
        for (int j = 0; j < n; ++j) {
            float s0 = 0.0f, s1 = 0.0f, s2 = 0.0f, s3 = 0.0f;
            int i;
            for (i = 0; i < fours; i += 4, v += 4) {
                s0 += (float)v[0] * a[i];
                s1 += (float)v[1] * a[i + 1];
                s2 += (float)v[2] * a[i + 2];
                s3 += (float)v[3] * a[i + 3];
            }
            for (i = fours; i < k; ++i) {
                s0 += (float)*v++ * a[i];
            }
            *y++ = (bias ? bias_unit * (float)bias[j] : 0.0f) + unit * (float)scale[j] * ((s0 + s1) + (s2 + s3));
        }
    }
}
"""

_FUNCTIONS = EXPENSIVE - {"div"}


@dataclass
class Costs:
    """Memory and operations of a step.

    Attributes:
        flash: Bytes of constants.
        state: Bytes of state between steps.
        work: Bytes of stack during a step.
        multiply_adds: Multiply-adds in products and element by element.
        calls: Calls of exp, tanh and similar functions.
    """

    flash: int = 0
    state: int = 0
    work: int = 0
    multiply_adds: int = 0
    calls: int = 0


@dataclass
class StepWriter:
    """Writes the body of a step.

    Args:
        graph: The step.
        int8: Whether to store matrices in 8 bits.
        prefix: Beginning of the names of its constants.
    """

    graph: StepGraph
    int8: bool = False
    prefix: str = ""
    costs: Costs = field(default_factory=Costs)

    def __post_init__(self) -> None:
        step = self.graph.step
        sizes = step.traced.states
        targets = [Target("y", step.outputs[0])]
        targets += [Target(f"next{i}", view) for i, view in enumerate(step.outputs[1:])]
        self.scheduler = Scheduler(targets, [], set(), [])
        self.program = self.scheduler.run()
        exact = self.graph.scaling()
        self.constants = Constants(self.graph.tensors, self.scheduler.needed, self.int8, exact, self.prefix)
        self.scratch = Scratch()
        self.names: dict[Node | str, str] = {"y": "y"}
        self.names |= {n: _INPUTS.get(n.detail, f"state->{n.detail}") for n in step.nodes if n.op == "input"}
        self.next = {i: size for i, size in enumerate(sizes) if not self._in_place(i)}
        self.names |= {f"next{i}": f"next{i}" if i in self.next else f"state->state{i}" for i in range(len(sizes))}

    def text(self) -> str:
        """Returns the body, without the first lines that check and copy the input."""
        lines = []
        last = len(self.program.stages) - 1
        for node in sorted(self.program.stored, key=lambda node: node.number):
            place = self.scratch.place(node.size, self.program.lives[node])
            self.names[node] = f"n{node.number}"
            lines.append(f"    float *const n{node.number} = work + {place};")
        for i, size in self.next.items():
            place = self.scratch.place(size, (self._first_store(i), last + 1))
            lines.append(f"    float *const next{i} = work + {place};")
        for stage in self.program.stages:
            for loop in stage.loops:
                lines.append(LoopWriter(loop, self.scheduler, self.names.__getitem__, self.constants.element).text())
                self._count(operations(loop, self.scheduler))
            lines += [f"    {self._heavy(node)}" for node in stage.heavy]
        for i, size in self.next.items():
            lines.append(f"    for (int i = 0; i < {size}; ++i) {{\n        state->state{i}[i] = next{i}[i];\n    }}")
        self.costs.flash = self.constants.bytes
        self.costs.state = 4 * sum(self.graph.traced.states)
        self.costs.work = 4 * (self.scratch.size + self.graph.cell.input_size + 1)
        return "\n".join(lines)

    def _heavy(self, node: Node) -> str:
        source = self._at(node.args[0])
        if node.op == "product":
            a, matrix, *bias = node.args
            k, n = matrix.shape
            rows = math.prod(a.shape[:-1])
            self.costs.multiply_adds += rows * n * k
            function = "product_int8" if self.constants.is_rounded(matrix) else "product"
            first = self.constants.matrix(matrix)
            first += f", {self.constants.bias(bias[0] if bias else None, self.constants.is_rounded(matrix))}"
            return f"{function}({first}, {source}, {self.names[node]}, {rows}, {n}, {k});"
        if node.op != "gather":
            raise ValueError(f"this model cannot be exported to C: its step uses {node.op}.")
        a, index = node.args
        place = f"{self.constants.indices(index)}[i]"
        step = "" if a.strides[-1] == 1 else f"{a.strides[-1]} * "
        if len(a.shape) > 1:
            raise ValueError("this model cannot be exported to C: its step selects elements of a matrix.")
        return f"for (int i = 0; i < {node.shape[-1]}; ++i) {{ {self.names[node]}[i] = ({source})[{step}{place}]; }}"

    def _at(self, view: View) -> str:
        name = self.names[view.node]
        return f"{name} + {view.offset}" if view.offset else name

    def _count(self, counts: dict[str, int]) -> None:
        found = Counter(counts)
        self.costs.multiply_adds += found["mul"]
        self.costs.calls += sum(found[op] for op in _FUNCTIONS)

    # ---- whether a part of the state can be written over while the step still runs -----------------------

    def _in_place(self, i: int) -> bool:
        """Returns whether nothing reads a part of the state after its new value is written."""
        events = self._events()
        stores = [(time, loop) for time, loop in events if isinstance(loop, Loop) and self._stores(loop, i)]
        first = min(time for time, _ in stores)
        for time, work in events:
            views = reads(work, self.scheduler) if isinstance(work, Loop) else list(work.args)
            own = [view for view in views if view.node.op == "input" and view.node.detail == f"state{i}"]
            if not own or time < first:
                continue
            if time > first or not isinstance(work, Loop) or not self._element_by_element(work, own, i):
                return False
        return True

    def _element_by_element(self, loop: Loop, views: list[View], i: int) -> bool:
        """Returns whether each iteration of a loop reads only the element that it writes."""
        stores = [store for store in loop.stores if store.to == f"next{i}"]
        return all(
            (view.strides, view.offset) == (store.strides, store.offset) for view in views for store in stores
        ) and all(stride for store in stores for stride in store.strides)

    def _events(self) -> list[tuple[int, Loop | Node]]:
        works = [work for stage in self.program.stages for work in [*stage.loops, *stage.heavy]]
        return list(enumerate(works))

    def _stores(self, loop: Loop, i: int) -> bool:
        return any(store.to == f"next{i}" for store in loop.stores)

    def _first_store(self, i: int) -> int:
        return next(
            time for time, stage in enumerate(self.program.stages) if any(self._stores(loop, i) for loop in stage.loops)
        )


_INPUTS = {"x": "in", "dt": "gap"}
