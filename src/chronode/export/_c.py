"""Export to C99."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..storage import replacing
from ._c_check import check_source, makefile
from ._c_files import CModel
from ._c_header import DEFAULT_NAME
from ._reference import Series, irregular, predictions, tolerances
from ._rounding import Rounding
from ._window import Graph

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
        "check.c": check_source(model, series, expected, tolerance, model.rounding),
        "Makefile": makefile(name),
    }
    for file, text in files.items():
        with replacing(folder / file) as draft:
            draft.write_text(text)
    model.files = tuple(files)
    return model


class CRunner:
    """An exported folder, compiled and called from Python.

    Args:
        folder: Folder with the .c and .h files.
        compiler: The C compiler; by default the first of cc, gcc and clang that is installed.
        flags: Additional flags for the compiler.
        name: Name of the model.
    """

    def __init__(
        self, folder: Path, compiler: str | None = None, flags: Sequence[str] = (), *, name: str = DEFAULT_NAME
    ):
        found = compiler or next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
        if found is None:
            raise ValueError(
                "no C compiler was found (cc, gcc, clang): install one, for example with `apt install gcc`."
            )
        source = folder / f"{name}.c"
        with tempfile.TemporaryDirectory() as place:
            library = Path(place) / "model.so"
            command = [found, "-std=c99", "-O2", *flags, "-fPIC", "-shared", "-o", library, source, "-lm"]
            done = subprocess.run([*map(str, command)], capture_output=True, text=True)
            if done.returncode:
                raise ValueError(f"{found} cannot compile {source}:\n{done.stderr}")
            loaded = ctypes.CDLL(str(library))
        self._init, self._step = getattr(loaded, f"{name}_init"), getattr(loaded, f"{name}_step")
        self._step.argtypes = [*[ctypes.c_void_p] * 3, ctypes.c_float, ctypes.c_void_p]

    def run(self, graph: Graph, series: Series) -> NDArray[np.float32]:
        """Returns the predictions `(B, T, K)` after each step."""
        batch, steps, _ = series.x.shape
        state = (ctypes.c_float * sum(graph.states))()
        x, seen = np.ascontiguousarray(series.x), np.ascontiguousarray(series.observed, np.uint8)
        y = np.zeros((batch, steps, graph.outputs), np.float32)
        for b in range(batch):
            self._init(state)
            for t in range(steps):
                places = (array[b, t].ctypes.data for array in (x, seen, y))
                if self._step(state, next(places), next(places), float(series.dt[b, t]), next(places)):
                    raise ValueError(f"series {b}, step {t}: rejected by the exported model.")
        return y
