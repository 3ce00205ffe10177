"""Export to C99."""

from __future__ import annotations

import ctypes
import math as mathematics
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..storage import replacing
from ._c_constants import number, string, table
from ._c_step import Costs, StepWriter
from ._c_texts import check_source, functions, header, makefile
from ._deployment import DEFAULT_NAME, Graph, Part, Series
from ._verify import Rounding, irregular, predictions, tolerances

_SERIES, _STEPS = 10, 100  # of check.c


def write_c(graph: Graph, folder: Path, *, int8: bool, math: str, name: str = DEFAULT_NAME) -> CModel:
    """Writes the files of a model."""
    model, deployment = CModel(graph, int8=int8, math=math, name=name), graph.deployment
    series, tolerance = irregular(deployment, _SERIES, _STEPS), tolerances(deployment)
    expected = original = predictions(deployment, series)
    if int8:
        expected = graph.run(series, model.tensors)
        before, after = (part.reshape(-1, graph.outputs) for part in (original, expected))
        model.rounding = Rounding(before, after, tolerance, deployment.classes)
    files = {
        f"{name}.h": model.header,
        f"{name}.c": model.source,
        "check.c": check_source(name, graph, series, expected, tolerance, model.rounding),
        "Makefile": makefile(f"{name}.c check.c"),
    }
    for file, text in files.items():
        with replacing(folder / file) as draft:
            draft.write_text(text)
    model.files = tuple(files)
    return model


class CRunner:
    """An exported folder, compiled and called from Python."""

    def __init__(
        self, folder: Path, compiler: str | None = None, flags: Sequence[str] = (), *, name: str = DEFAULT_NAME
    ):
        program = compiler or next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
        if program is None:
            raise ValueError(
                "no C compiler was found (cc, gcc, clang): install one, for example with `apt install gcc`."
            )
        source = folder / f"{name}.c"
        with tempfile.TemporaryDirectory() as temporary:
            library = Path(temporary) / "model.so"
            command = [program, "-std=c99", "-O2", *flags, "-fPIC", "-shared", "-o", library, source, "-lm"]
            done = subprocess.run([*map(str, command)], capture_output=True, text=True)
            if done.returncode:
                raise ValueError(f"{program} cannot compile {source}:\n{done.stderr}")
            loaded = ctypes.CDLL(str(library))
        self._init, self._step = getattr(loaded, f"{name}_init"), getattr(loaded, f"{name}_step")
        self._step.argtypes = [*[ctypes.c_void_p] * 3, ctypes.c_float, ctypes.c_void_p]

    def run(self, graph: Graph, series: Series) -> NDArray[np.float32]:
        """Returns the predictions `(B, T, K)` after each step."""
        batch, steps, _ = series.x.shape
        state = (ctypes.c_float * sum(graph.states))()
        x, observed = np.ascontiguousarray(series.x), np.ascontiguousarray(series.observed, np.uint8)
        y = np.zeros((batch, steps, graph.outputs), np.float32)
        for b in range(batch):
            self._init(state)
            for t in range(steps):
                places = (array[b, t].ctypes.data for array in (x, observed, y))
                if self._step(state, next(places), next(places), float(series.dt[b, t]), next(places)):
                    raise ValueError(f"series {b}, step {t}: rejected by the exported model.")
        return y


_NO_FAST_MATH = """#if defined(__FAST_MATH__) || defined(_M_FP_FAST) || (defined(__FINITE_MATH_ONLY__) && \\
    __FINITE_MATH_ONLY__)
#error "NaN and infinity have a meaning in this file: compile it without -ffast-math, or add -fno-finite-math-only"
#endif
"""

# Compilers keep local variables and saved registers on the stack, without optimization all of them. A test compares
# the sum with the frames that gcc and clang report, from -O0 to -O3.
_LOCALS = re.compile(r"^ +(?:const )?(?:int|float) \*?(?:const )?\w+(?: =|;)", re.MULTILINE)
_LOCAL_BYTES, _CALL_BYTES = 5, 320

_CODE = """int {name}_code(int input, const char *text)
{{
{texts}
    const char *const *const all = {all};
    const int count = {count};
    for (int i = 0; i < count; ++i) {{
        int at = 0;
        while (text[at] != 0 && text[at] == all[i][at]) {{
            ++at;
        }}
        if (text[at] == all[i][at]) {{
            return i;
        }}
    }}
    return -1;
}}
"""


class CModel:
    """A model as C99.

    Args:
        graph: One step.
        int8: Whether to store matrices in 8 bits.
        math: "library" for math.h, "builtin" for approximations.
        name: Beginning of the names of symbols, macros and files.

    Attributes:
        header: Text of the header file.
        source: Text of the source file.
        costs: Memory and operations of a step.
        tensors: The parameters of the generated code.
        files: Names of the written files.
        rounding: The effect of 8-bit weights on predictions; None for float32.
    """

    def __init__(self, graph: Graph, *, int8: bool = False, math: str = "library", name: str = DEFAULT_NAME):
        self.graph, self.math, self.int8, self.name = graph, math, int8, name
        self.files: tuple[str, ...] = ()
        self.rounding: Rounding | None = None
        written = _write_window(graph, int8) if graph.window else _write_step(graph.parts["step"], int8)
        self.costs, self.tensors = written.costs, written.tensors
        self.costs.flash += 4 * sum(len(part) for part in graph.initial_state if (part != part[0]).any())
        self.logarithms = max(graph.deployment.no_logarithm) > -mathematics.inf
        self.costs.flash += 4 * graph.inputs if self.logarithms else 0
        self.source = self._source(written)
        self.costs.work += _LOCAL_BYTES * len(_LOCALS.findall(self.source)) + _CALL_BYTES
        self.header = header(name, graph, self.costs, self.table(), library=math == "library")

    def table(self) -> list[tuple[str, str]]:
        """Returns a table of the memory and operations of a step."""
        costs = self.costs
        return [
            ("flash", f"{costs.flash:,} bytes of constants, without code"),
            ("RAM", f"{costs.state:,} bytes of state and at most {costs.work:,} bytes of stack"),
            ("multiply-adds", f"{costs.multiply_adds:,} per step"),
            ("exp, tanh, ...", f"{costs.calls:,} calls per step"),
        ]

    def _source(self, written: _Written) -> str:
        deployment, name = self.graph.deployment, self.name
        names = [
            table("const char *const", f"{name}_{kind}_names", map(string, values), f"{name.upper()}_{size}")
            for kind, values, size in (
                ("input", deployment.channels, "INPUTS"),
                ("output", deployment.outputs, "OUTPUTS"),
            )
        ]
        include = "" if self.math == "builtin" else "#include <math.h>\n"
        constants = list(written.constants)
        if self.logarithms:
            constants.append(table("static const float", "no_logarithm", map(number, deployment.no_logarithm)))
        code = "\n".join([*written.functions, written.body])
        parts = [
            f'/* Generated by chronode; see {name}.h. */\n{include}#include "{name}.h"\n',
            _NO_FAST_MATH,
            "\n\n".join(names) + "\n",
            "\n\n".join(constants) + "\n",
            functions(code, self.math),
            *written.functions,
            _initial("void", f"{name}_init", f"{name}_state", self.graph.initial_state),
            self._step(written),
            self._code(),
        ]
        return "\n".join(part for part in parts if part)

    def _step(self, written: _Written) -> str:
        size, missing, upper = self.graph.inputs, self.graph.deployment.missing, self.name.upper()
        condition = "observed ? observed[i] != 0 : x[i] == x[i]" if missing else "1"
        ignored = "" if missing else "    (void)observed;\n"
        arguments = "const float *x, const unsigned char *observed, float dt, float *y"
        logarithms = f"""        if (seen && x[i] <= no_logarithm[i]) {{
            return {upper}_NO_LOGARITHM;
        }}
"""
        return f"""int {self.name}_step({self.name}_state *state, {arguments})
{{
    float in[{2 * size}]{written.variables};
{ignored}    if (!(dt >= 0.0f && dt <= 3.402823466e+38f)) {{
        return {upper}_INVALID;
    }}
    for (int i = 0; i < {size}; ++i) {{
        const int seen = {condition};
        if (seen && !(x[i] >= -3.402823466e+38f && x[i] <= 3.402823466e+38f)) {{
            return {upper}_INVALID;
        }}
{logarithms if self.logarithms else ""}        in[i] = seen ? x[i] : 0.0f;
        in[{size} + i] = seen ? 1.0f : 0.0f;
    }}
{written.body}
    return 0;
}}
"""

    def _code(self) -> str:
        """Returns the function that looks up codes, if there are any."""
        codes, channels = self.graph.deployment.codes, self.graph.deployment.channels
        if not codes:
            return ""
        lines, which, count = [], "0", "0"
        for name, texts in codes.items():
            channel = channels.index(name)
            lines.append(table("    static const char *const", f"texts{channel}", map(string, texts)))
            which = f"input == {channel} ? texts{channel} : {which}"
            count = f"input == {channel} ? {len(texts)} : {count}"
        return _CODE.format(name=self.name, texts="\n".join(lines), all=which, count=count)


@dataclass
class _Written:
    """Pieces of a source file.

    Attributes:
        constants: Definitions of arrays.
        body: Code of a step that uses `in`, `dt`, `state` and `y`, after the checks.
        variables: Declarations of the other variables of a step.
        costs: Memory and operations of a step.
        tensors: The parameters of the generated code, by the name of the part.
        functions: Functions that the body calls.
    """

    constants: list[str]
    body: str
    variables: str
    costs: Costs
    tensors: Any
    functions: list[str] = field(default_factory=list)


def _write_step(part: Part, int8: bool) -> _Written:
    """Writes a model with a state."""
    writer = StepWriter(part, int8)
    body = writer.text()
    gap = "    const float gap[1] = {dt};\n" if "gap[" in body else ""
    variables = f", work[{max(writer.scratch.size, 1)}]"
    constants = list(writer.constants.definitions.values())
    return _Written(constants, gap + body, variables, writer.costs, {"step": writer.constants.values()})


def _write_window(graph: Graph, int8: bool) -> _Written:
    """Writes a forecast from windows; the window is shifted in place."""
    parts = {name: graph.parts[name] for name in ("measure", "network", "decode")}
    network = parts["network"]
    writers = {name: StepWriter(part, int8, f"{name}_") for name, part in parts.items()}
    bodies = {name: writer.text() for name, writer in writers.items()}
    functions = [_function(name, bodies[name], writers[name]) for name in ("measure", "decode")]
    sizes = "\n".join(f"    float state{i}[{n}];" for i, n in enumerate(network.states))
    functions += [
        f"typedef struct {{\n{sizes}\n}} network_state;\n",
        _initial("static void", "network_init", "network_state", network.initial_state),
        _function("network", bodies["network"], writers["network"], state=True),
    ]
    constants = [text for writer in writers.values() for text in writer.constants.definitions.values()]
    inputs = parts["decode"].cell.input_size
    variables = f", one[{network.cell.input_size}], seen[{inputs}];\n    network_state network_now"
    tensors = {name: writer.constants.values() for name, writer in writers.items()}
    tensors["window"] = graph.parts["window"].tensors
    return _Written(constants, _window_body(graph), variables, _costs(graph, writers), tensors, functions)


def _initial(kind: str, name: str, state: str, parts: Sequence[NDArray[np.float32]]) -> str:
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
    names = ["in", "work", *(["gap"] if gap else []), *(["state"] if state else [])]
    unused = "\n".join(f"    (void){argument};" for argument in names)
    return f"""static void {name}({"network_state *state, " if state else ""}const float *in{gap}, float *y)
{{
    float work[{max(writer.scratch.size, 1)}];
{unused}
{body}
}}
"""


def _window_body(graph: Graph) -> str:
    size, window, values = graph.inputs, graph.window, graph.window * graph.inputs
    network = graph.parts["network"]
    output, relative = network.outputs, (network.cell.input_size - 2 * size) // 2
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


def _costs(graph: Graph, writers: dict[str, StepWriter]) -> Costs:
    """Returns the total of the parts; the network runs once for each step of the window."""
    costs, network = Costs(state=4 * sum(graph.states)), graph.parts["network"]
    for name, writer in writers.items():
        times = graph.window if name == "network" else 1
        costs.flash += writer.costs.flash
        costs.multiply_adds += times * writer.costs.multiply_adds
        costs.calls += times * writer.costs.calls
    costs.flash += 4 * sum(len(part) for part in network.initial_state if (part != part[0]).any())
    variables = 2 * graph.inputs + network.cell.input_size + graph.parts["decode"].cell.input_size + sum(network.states)
    costs.work = 4 * (variables + max(writer.scratch.size for writer in writers.values()))
    return costs
