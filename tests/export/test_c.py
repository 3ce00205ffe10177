"""Exported C99: compiled strictly, away from chronode, and compared with it."""

import re
import shutil
import subprocess

import numpy as np
import pytest
from export_cases import CLASSES, SCALER, built, deployed
from hypothesis import given, settings
from hypothesis import strategies as st

from chronode.export import export
from chronode.export._c import CModel, CRunner
from chronode.export._c_constants import rounded
from chronode.export._c_texts import functions, texts
from chronode.export._deployment import Graph
from chronode.export._verify import irregular, predictions

COMPILERS = [name for name in ("gcc", "clang") if shutil.which(name)]
pytestmark = pytest.mark.skipif(not COMPILERS or not shutil.which("make"), reason="needs a C compiler and make")


def exported(folder, model="mmrnn", **options):
    return export(built(model), folder, classes=CLASSES, scaler=SCALER, unit="minute", **options)


def only_compilers(place):
    """A PATH that has the compilers, what they call themselves, and make."""
    place.mkdir()
    for name in (*COMPILERS, "make", "as", "ld"):
        (place / name).symlink_to(shutil.which(name))
    return str(place)


@pytest.mark.parametrize("options", [{}, {"weights": "int8"}, {"math": "builtin"}], ids=["float32", "int8", "builtin"])
def test_the_folder_checks_itself_where_there_is_only_a_compiler(tmp_path, options):
    exported(tmp_path / "here", **options)
    there = shutil.copytree(tmp_path / "here", tmp_path / "there")
    shutil.rmtree(tmp_path / "here")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["there"]
    done = subprocess.run(
        ["make", "check"],
        cwd=there,
        env={"PATH": only_compilers(tmp_path / "bin")},
        executable=shutil.which("make"),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("1000 steps, largest difference") == len(COMPILERS)
    assert all(f"{name} -O2 -std=c99 -Wall -Wextra -Wconversion -Werror -pedantic" in done.stdout for name in COMPILERS)


def test_the_check_notices_a_changed_weight(tmp_path):
    exported(tmp_path)
    source = tmp_path / "chronode_model.c"
    text = source.read_text()
    first = re.search(r"static const float w\d+\[\d+\] = \{\n    (\S+?)f,", text)
    source.write_text(text.replace(first[0], first[0].replace(first[1] + "f,", "0.75f,"), 1))
    done = subprocess.run(["make", "check"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode != 0
    assert "FAILED" in done.stdout


def test_nothing_is_included_but_math_and_nothing_global_changes(tmp_path):
    exported(tmp_path / "a")
    exported(tmp_path / "b", math="builtin", weights="int8")
    library, own = ((tmp_path / name / "chronode_model.c").read_text() for name in "ab")
    assert re.findall(r"#include (\S+)", library) == ["<math.h>", '"chronode_model.h"']
    assert re.findall(r"#include (\S+)", own) == ['"chronode_model.h"']
    for text in (library, own):
        assert not re.search(r"\b(malloc|calloc|free|alloca)\b", text)
        objects = [line for line in text.splitlines() if re.match(r"[a-z].*\[\w+\] = \{", line)]
        assert objects
        assert all("const" in line for line in objects)


def test_the_object_file_has_no_writable_data(tmp_path):
    exported(tmp_path)
    subprocess.run([COMPILERS[0], "-std=c99", "-c", "chronode_model.c"], cwd=tmp_path, check=True)
    sections = subprocess.run(["size", "-A", "chronode_model.o"], cwd=tmp_path, capture_output=True, text=True).stdout
    sizes = dict(re.findall(r"^\.(data|bss)\s+(\d+)", sections, re.MULTILINE))
    assert sizes == {"data": "0", "bss": "0"}


def test_the_header_names_sizes_units_and_costs(tmp_path):
    done = exported(tmp_path)
    header = (tmp_path / "chronode_model.h").read_text()
    source = (tmp_path / "chronode_model.c").read_text()
    for line in ("INPUTS 3", "OUTPUTS 4", "MISSING 1", 'TIME_UNIT "minute"'):
        assert f"#define CHRONODE_MODEL_{line}" in header
    for text in done.costs.values():
        assert text in header
    assert '"pulse", "temp", "spO2"' in source
    assert r'"the \042rest\042 \077"' in source
    constants = sum(
        {"float": 4, "signed char": 1, "short": 2, "unsigned short": 2}[kind] * int(size)
        for kind, size in re.findall(r"^static const ([\w ]+) \w+\[(\d+)\]", source, re.MULTILINE)
    )
    assert f"#define CHRONODE_MODEL_FLASH_BYTES {constants}\n" in header


def test_bad_observations_are_refused_and_change_nothing(tmp_path):
    done = exported(tmp_path)
    runner, series = CRunner(tmp_path), irregular(done.graph.deployment, 1, 5)
    for name, place, value in [
        ("dt", (0, 3), -1.0),
        ("dt", (0, 3), np.nan),
        ("dt", (0, 3), np.inf),
        ("x", (0, 3, 0), np.inf),
    ]:
        spoilt = series._replace(**{name: getattr(series, name).copy()}, observed=np.ones_like(series.observed))
        getattr(spoilt, name)[place] = value
        with pytest.raises(ValueError, match="series 0, step 3"):
            runner.run(done.graph, spoilt)


def test_int8_takes_at_most_30_percent_of_the_flash():
    for model in ("mmrnn", "unicornn", "ltc", "lstm", "gru", "irnn", "ernn"):
        layers = 2 if model == "unicornn" else 1  # one layer of it is mostly vectors
        graph = Graph.of(deployed(model, hidden=64, num_layers=layers))
        whole, small = (CModel(graph, int8=int8).costs.flash for int8 in (False, True))
        assert small <= 0.3 * whole, (model, whole, small)


@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 1), st.integers(0, 2**32 - 1))
@settings(max_examples=50, deadline=None)
def test_rounding_stays_within_half_a_step(rows, columns, axis, seed):
    rng = np.random.default_rng(seed)
    tensor = (rng.normal(size=(rows, columns)) * 10.0 ** rng.integers(-3, 3)).astype(np.float32)
    found = rounded(tensor, axis)
    step = np.float32(found.unit) * found.scales.astype(np.float32)
    assert (np.abs(found.as_float() - tensor) <= 0.501 * np.expand_dims(step, 1 - axis)).all()


def test_built_in_mathematics_is_accurate(tmp_path):
    """Each function against float64, at 20,001 points over its range."""
    ranges = {"exp": (-87, 88), "expm1": (-20, 20), "tanh": (-12, 12), "sigmoid": (-30, 30), "softplus": (-30, 30)}
    ranges |= {"log": (1e-30, 50), "log1p": (-0.99, 50), "sqrt": (0, 1e6), "sin": (-50, 50), "cos": (-50, 50)}
    ranges |= {"erf": (-5, 5), "atan": (-1e3, 1e3), "floor": (-1e4, 1e4), "round": (-1e4, 1e4), "abs": (-5, 5)}
    called = {name for name in texts("builtin") if name.startswith("m_")}
    assert {f"m_{name}" for name in ranges} >= called - {"m_bits", "m_wave", "m_pow", "m_remainder"}
    calls = "\n".join(
        f"void run_{name}(const float *x, float *y, int n) {{ for (int i = 0; i < n; ++i) y[i] = m_{name}(x[i]); }}"
        for name in ranges
    )
    (tmp_path / "math.c").write_text(f"{functions(calls, 'builtin')}\n{calls}\n")
    command = [COMPILERS[0], "-std=c99", "-O2", "-shared", "-fPIC", "-o", "math.so", "math.c"]
    subprocess.run(command, cwd=tmp_path, check=True)
    import ctypes

    import scipy.special as special

    library = ctypes.CDLL(str(tmp_path / "math.so"))
    own = {"sigmoid": special.expit, "softplus": lambda x: np.logaddexp(0, x), "erf": special.erf, "round": np.rint}
    own["atan"] = np.arctan
    for name, (low, high) in ranges.items():
        x = np.linspace(low, high, 20001).astype(np.float32)
        y = np.empty_like(x)
        library[f"run_{name}"](ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(y.ctypes.data), len(x))
        exact = own.get(name, getattr(np, name, None))(x.astype(np.float64))
        error = np.abs(y - exact) / np.maximum(np.abs(exact), 1)
        assert error.max() < 5e-7, (name, x[error.argmax()], error.max())


def test_built_in_mathematics_gives_the_answers_of_chronode(tmp_path):
    deployment = deployed("lstm-dt")
    done = export(deployment.model, tmp_path, classes=CLASSES, scaler=SCALER, math="builtin")
    series = irregular(deployment, 2, 200, seed=3)
    assert np.abs(CRunner(tmp_path).run(done.graph, series) - predictions(deployment, series)).max() < 1e-5
