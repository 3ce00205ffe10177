"""The C99 code of a step: of a model with a state, or of a forecast from windows, which consists of three parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._c_step import Costs, StepWriter
from ._c_text import number, table
from ._graph import StepGraph
from ._window import WindowGraph


@dataclass
class Written:
    """Pieces of a source file.

    Attributes:
        constants: Definitions of arrays.
        body: Code of a step that uses `in`, `dt`, `state` and `y`, after the checks.
        variables: Declarations of the other variables of a step.
        costs: Memory and operations of a step.
        tensors: The parameters of the generated code; for a forecast from windows, by the name of the part.
        functions: Functions that the body calls.
    """

    constants: list[str]
    body: str
    variables: str
    costs: Costs
    tensors: Any
    functions: list[str] = field(default_factory=list)


def write_step(graph: StepGraph, int8: bool) -> Written:
    """Writes a model with a state."""
    writer = StepWriter(graph, int8)
    body = writer.text()
    gap = "    const float gap[1] = {dt};\n" if "gap[" in body else ""
    variables = f", work[{max(writer.scratch.size, 1)}]"
    constants = list(writer.constants.definitions.values())
    return Written(constants, gap + body, variables, writer.costs, writer.constants.values())


def write_window(graph: WindowGraph, int8: bool) -> Written:
    """Writes a forecast from windows."""
    writers = {name: StepWriter(part, int8, f"{name}_") for name, part in graph.parts.items()}
    bodies = {name: writer.text() for name, writer in writers.items()}
    functions = [_function(name, bodies[name], writers[name]) for name in ("measure", "decode")]
    sizes = "\n".join(f"    float state{i}[{n}];" for i, n in enumerate(graph.network.states))
    functions += [
        f"typedef struct {{\n{sizes}\n}} network_state;\n",
        initial("static void", "network_init", "network_state", graph.network.initial_state),
        _function("network", bodies["network"], writers["network"], state=True),
    ]
    constants = [text for writer in writers.values() for text in writer.constants.definitions.values()]
    measured, output = graph.measure.outputs, graph.network.outputs
    variables = f", one[{graph.network.cell.input_size}], seen[{output + measured}];\n    network_state network_now"
    tensors = {name: writer.constants.values() for name, writer in writers.items()}
    return Written(constants, _window_body(graph), variables, _costs(graph, writers), tensors, functions)


def initial(kind: str, name: str, state: str, parts: Sequence[NDArray[np.float32]]) -> str:
    """Returns a function that starts a new series."""
    lines = []
    for i, part in enumerate(parts):
        value = number(part[0])
        if (part != part[0]).any():
            lines.append(table("    static const float", f"start{i}", map(number, part)))
            value = f"start{i}[i]"
        lines.append(f"    for (int i = 0; i < {len(part)}; ++i) {{\n        state->state{i}[i] = {value};\n    }}")
    return f"{kind} {name}({state} *state)\n{{\n" + "\n".join(lines) + "\n}\n"


def _function(name: str, body: str, writer: StepWriter, state: bool = False) -> str:
    """Returns a part as a function."""
    gap = ", const float *gap" if "gap[" in body or state else ""
    own = "network_state *state, " if state else ""
    names = ["in", "work", *(["gap"] if gap else []), *(["state"] if state else [])]
    unused = "\n".join(f"    (void){argument};" for argument in names)
    return f"""static void {name}({own}const float *in{gap}, float *y)
{{
    float work[{max(writer.scratch.size, 1)}];
{unused}
{body}
}}
"""


def _window_body(graph: WindowGraph) -> str:
    size, window, values = graph.inputs, graph.window, graph.window * graph.inputs
    output = graph.network.outputs
    relative = (graph.network.cell.input_size - 2 * size) // 2
    return f"""    float *const values = state->state0, *const flags = values + {values};
    float *const gaps = flags + {values}, *const ages = gaps + {window}, *const count = ages + {window};
    for (int i = 0; i < {values - size}; ++i) {{
        values[i] = values[i + {size}];
        flags[i] = flags[i + {size}];
    }}
    for (int i = 0; i < {size}; ++i) {{
        values[{values - size} + i] = in[i];
        flags[{values - size} + i] = in[{size} + i];
    }}
    for (int i = 0; i < {window - 1}; ++i) {{
        gaps[i] = gaps[i + 1];
        ages[i] = ages[i + 1] + dt;
    }}
    gaps[{window - 1}] = dt;
    ages[{window - 1}] = 0.0f;
    *count = *count < {float(window)}f ? *count + 1.0f : {float(window)}f;
    measure(state->state0, seen + {output});
    network_init(&network_now);
    const int first = {window} - (int)*count;
    for (int i = 0; i < {2 * relative}; ++i) {{
        one[{2 * size} + i] = seen[{output} + i];
    }}
    for (int i = 0; i < {output}; ++i) {{
        seen[i] = 0.0f;
    }}
    for (int step = first; step < {window}; ++step) {{
        const float gap[1] = {{step == first ? 0.0f : gaps[step]}};
        for (int i = 0; i < {size}; ++i) {{
            one[i] = values[step * {size} + i];
            one[{size} + i] = flags[step * {size} + i];
        }}
        network(&network_now, one, gap, seen);
    }}
    decode(seen, y);"""


def _costs(graph: WindowGraph, writers: dict[str, StepWriter]) -> Costs:
    """Returns the total of the parts; the network runs once for each step of the window."""
    costs = Costs(state=4 * sum(graph.states))
    for name, writer in writers.items():
        times = graph.window if name == "network" else 1
        costs.flash += writer.costs.flash
        costs.multiply_adds += times * writer.costs.multiply_adds
        costs.calls += times * writer.costs.calls
    costs.flash += 4 * sum(len(part) for part in graph.network.initial_state if (part != part[0]).any())
    own = 2 * graph.inputs + graph.network.cell.input_size + graph.decode.cell.input_size + sum(graph.network.states)
    costs.work = 4 * (own + max(writer.scratch.size for writer in writers.values()))
    return costs
