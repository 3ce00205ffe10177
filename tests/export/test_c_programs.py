"""Exported C99 in programs: several models, the stack, flags of compilers, refused observations."""

import ctypes
import re
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest
from export_cases import CLASSES, SCALER, built, deployed, started
from test_windows import CASES, graph_of

from chronode.data._shaping import Shape
from chronode.export import export
from chronode.export._c import CModel, CRunner
from chronode.export._deployment import Graph
from chronode.export._verify import irregular, predictions

COMPILERS = [name for name in ("gcc", "clang") if shutil.which(name)]
pytestmark = pytest.mark.skipif("gcc" not in COMPILERS, reason="needs gcc")
STRICT = ["-std=c99", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-pedantic"]
LOG = replace(
    SCALER, mean=(4.2, 36.6, 0.7), std=(0.2, 0.5, 0.1), shapes=(Shape(offset=0.0), Shape(), Shape(offset=1.0))
)


def exported(folder, model="fastgrnn", scaler=SCALER, unit="minute", **options):
    return export(built(model), folder, classes=CLASSES, scaler=scaler, unit=unit, **options)


PROGRAM = """#include <stdio.h>
#include "pulse.h"
#include "ward_b.h"
int main(void)
{
    pulse_state a;
    ward_b_state b;
    float x[3], dt, first[PULSE_OUTPUTS], second[WARD_B_OUTPUTS];
    pulse_init(&a);
    ward_b_init(&b);
    while (scanf("%f %f %f %f", x, x + 1, x + 2, &dt) == 4) {
        if (pulse_step(&a, x, 0, dt, first) || ward_b_step(&b, x, 0, dt, second)) {
            return 1;
        }
        for (int i = 0; i < PULSE_OUTPUTS; ++i) {
            printf("%.9g ", (double)first[i]);
        }
        printf("%.9g %s\\n", (double)second[0], ward_b_input_names[2]);
    }
    return 0;
}
"""


@pytest.mark.parametrize("compiler", COMPILERS)
def test_two_models_in_one_program_give_their_own_predictions(tmp_path, compiler):
    first = exported(tmp_path, "gru", name="pulse", weights="int8", math="builtin")
    second = export(started("gru", 1), tmp_path, scaler=SCALER, unit="minute", name="ward_b", force=True)
    assert second.files == ("ward_b.h", "ward_b.c", "check.c", "Makefile")
    (tmp_path / "main.c").write_text(PROGRAM)
    command = [compiler, *STRICT, "-O2", "-o", "both", "main.c", "pulse.c", "ward_b.c", "-lm"]
    subprocess.run(command, cwd=tmp_path, check=True)
    series = irregular(first.graph.deployment, 1, 30)
    series = series._replace(observed=np.ones_like(series.observed))
    lines = [" ".join(f"{v:.9g}" for v in (*x, dt)) for x, dt in zip(series.x[0], series.dt[0], strict=True)]
    done = subprocess.run([tmp_path / "both"], input="\n".join(lines), capture_output=True, text=True, check=True)
    rows = [line.split() for line in done.stdout.splitlines()]
    found = np.array([[float(cell) for cell in row[:-1]] for row in rows])
    assert {row[-1] for row in rows} == {"spO2"}
    own = predictions(second.graph.deployment, series)[0]
    assert np.abs(found[:, 4:] - own).max() < 1e-5
    assert 0 < np.abs(found[:, :4] - predictions(first.graph.deployment, series)[0]).max() < 0.05


def test_every_name_begins_with_the_name_of_the_model(tmp_path):
    exported(tmp_path, name="pulse", scaler=LOG)
    subprocess.run(["gcc", "-std=c99", "-c", "pulse.c"], cwd=tmp_path, check=True)
    symbols = subprocess.run(
        ["nm", "--defined-only", "-g", "pulse.o"], cwd=tmp_path, capture_output=True, text=True
    ).stdout
    assert sorted(line.split()[-1] for line in symbols.splitlines()) == [
        *("pulse_init", "pulse_input_names", "pulse_output_names", "pulse_step"),
    ]
    macros = re.findall(r"^#(?:define|ifndef) (\w+)", (tmp_path / "pulse.h").read_text(), re.MULTILINE)
    assert macros
    assert all(macro.startswith("PULSE_") for macro in macros)
    assert not any("chronode_model" in path.read_text() for path in tmp_path.glob("[!.]*") if path.suffix != ".o")


@pytest.mark.parametrize("name", ["", "2nd", "Pulse", "a-b", "math", "check", "x" * 64, "ß"])
def test_other_names_are_refused(tmp_path, name):
    with pytest.raises(ValueError, match=f"name={name!r}"):
        exported(tmp_path / "none", name=name)
    assert not (tmp_path / "none").exists()


def deepest(folder, compiler, level, root="chronode_model_step"):
    """The bytes of the frames of a function and all that it calls, as a compiler reports them."""
    command = ["gcc", "-std=c99", level, "-fcallgraph-info=su", "-c", "chronode_model.c", "-o", "model.o"]
    subprocess.run(command, cwd=folder, check=True)
    graph = (folder / "model.ci").read_text()
    nodes = re.findall(r'node: \{ title: "([^"]+)" label: "([^"]*)"', graph)
    frames = {title: int(size[1]) for title, label in nodes if (size := re.search(r"(\d+) bytes", label))}
    calls = re.findall(r'edge: \{ sourcename: "([^"]+)" targetname: "([^"]+)"', graph)
    if compiler == "clang":
        command = ["clang", "-std=c99", level, "-fstack-usage", "-c", "chronode_model.c", "-o", "other.o"]
        subprocess.run(command, cwd=folder, check=True)
        lines = (line.split("\t") for line in (folder / "other.su").read_text().splitlines())
        own = {place.split(":")[-1]: int(size) for place, size, _ in lines}
        frames = {title: own.get(title.split(":")[-1], 0) for title, _ in nodes}

    def depth(title):
        return frames.get(title, 0) + max((depth(end) for start, end in calls if start == title), default=0)

    return depth(next(title for title, _ in nodes if title.split(":")[-1] == root))


STACKS = {
    "mmrnn": lambda: Graph.of(deployed("mmrnn")),
    "ct-gru": lambda: Graph.of(deployed("ct-gru")),
    "cfc": lambda: Graph.of(deployed("cfc")),
    "window": lambda: graph_of(*CASES["interpolated"]),
}


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize(
    "graph",
    [pytest.param(own, id=name, marks=[] if name == "cfc" else pytest.mark.slow) for name, own in STACKS.items()],
)
def test_the_stack_is_at_least_what_compilers_use(tmp_path, graph, compiler):
    for number, (int8, math) in enumerate([(False, "library"), (True, "builtin")]):
        folder, written = tmp_path / str(number), CModel(graph(), int8=int8, math=math)
        folder.mkdir()
        (folder / "chronode_model.h").write_text(written.header)
        (folder / "chronode_model.c").write_text(written.source)
        stated = int(re.search(r"_STACK_BYTES (\d+)", (folder / "chronode_model.h").read_text())[1])
        assert stated == written.costs.work
        used = {level: deepest(folder, compiler, level) for level in ("-O0", "-O1", "-O2", "-O3", "-Os")}
        assert max(used.values()) <= stated, used
        assert stated < 1.5 * used["-O0"], "a bound that nothing reaches would waste memory"


@pytest.mark.parametrize("compiler", COMPILERS)
def test_fast_math_is_refused_by_the_file(tmp_path, compiler):
    done = exported(tmp_path)
    for flags in (["-ffast-math"], ["-Ofast"], ["-ffinite-math-only"]):
        with pytest.raises(ValueError, match="NaN and infinity have a meaning"):
            CRunner(tmp_path, compiler, flags)
    series = irregular(done.graph.deployment, 2, 50)
    runner = CRunner(tmp_path, compiler, ["-ffast-math", "-fno-finite-math-only"])
    assert np.abs(runner.run(done.graph, series) - predictions(done.graph.deployment, series)).max() < 1e-4


def library(folder, name="chronode_model"):
    command = ["gcc", "-std=c99", "-shared", "-fPIC", "-o", "model.so", f"{name}.c", "-lm"]
    subprocess.run(command, cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "model.so"))


def test_values_without_a_logarithm_are_refused_and_change_nothing(tmp_path):
    done = exported(tmp_path, scaler=LOG)
    assert "pulse must be greater than" in (tmp_path / "chronode_model.h").read_text()
    loaded = library(tmp_path)
    loaded.chronode_model_step.argtypes = [*[ctypes.c_void_p] * 3, ctypes.c_float, ctypes.c_void_p]
    state, y = np.zeros(sum(done.graph.states), np.float32), np.full(4, 9.0, np.float32)

    def step(*values, flags=None):
        x = np.array(values, np.float32)
        seen = None if flags is None else np.array(flags, np.uint8)
        flags_at = None if seen is None else seen.ctypes.data
        return loaded.chronode_model_step(state.ctypes.data, x.ctypes.data, flags_at, 1.0, y.ctypes.data)

    loaded.chronode_model_init(ctypes.c_void_p(state.ctypes.data))
    before = state.copy()
    for values in [(0.0, 36.0, 0.9), (-1.0, 36.0, 0.9), (60.0, 36.0, -1.0), (-0.0, -5.0, 0.9)]:
        assert step(*values) == -2
    assert step(np.inf, 36.0, -1.0) == -1
    assert np.array_equal(state, before)
    assert (y == 9.0).all()
    assert step(60.0, -5.0, -0.5) == 0, "the others may be anything"
    assert step(0.0, 36.0, 0.9, flags=(0, 1, 1)) == 0, "a missing value is not read"
    assert not np.array_equal(state, before)


def test_the_check_notices_a_model_that_accepts_values_without_a_logarithm(tmp_path):
    exported(tmp_path, scaler=LOG)
    assert subprocess.run(["make", "check"], cwd=tmp_path, capture_output=True).returncode == 0
    source = tmp_path / "chronode_model.c"
    source.write_text(source.read_text().replace("x[i] <= no_logarithm[i]", "x[i] < no_logarithm[i]"))
    done = subprocess.run(["make", "check"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode != 0
    assert "2 wrong observations were not refused: FAILED" in done.stdout
