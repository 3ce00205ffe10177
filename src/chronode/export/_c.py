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

from .._files import replacing
from ._c_check import MAKEFILE, check_source
from ._c_files import NAME, CModel
from ._reference import Series, irregular, predictions, tolerances
from ._window import Graph

_SERIES, _STEPS = 10, 100  # of check.c


def write_c(graph: Graph, folder: Path, *, int8: bool, math: str) -> CModel:
    """Writes the files of a model."""
    model, deployment = CModel(graph, int8=int8, math=math), graph.deployment
    series = irregular(deployment, _SERIES, _STEPS)
    expected = rounded_predictions(graph, model, series) if int8 else predictions(deployment, series)
    files = {
        f"{NAME}.h": model.header,
        f"{NAME}.c": model.source,
        "check.c": check_source(series, expected, tolerances(deployment)),
        "Makefile": MAKEFILE,
    }
    for name, text in files.items():
        with replacing(folder / name) as draft:
            draft.write_text(text)
    model.files = tuple(files)
    return model


def rounded_predictions(graph: Graph, model: CModel, series: Series) -> NDArray[np.float32]:
    """Returns the predictions with the parameters of the generated code."""
    return graph.run(series, model.tensors)


class CRunner:
    """An exported folder, compiled and called from Python.

    Args:
        folder: Folder with the .c and .h files.
        compiler: The C compiler; by default the first of cc, gcc and clang that is installed.
        flags: Additional flags for the compiler.
    """

    def __init__(self, folder: Path, compiler: str | None = None, flags: Sequence[str] = ()):
        found = compiler or next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
        if found is None:
            raise ValueError(
                "no C compiler was found (cc, gcc, clang): install one, for example with `apt install gcc`."
            )
        with tempfile.TemporaryDirectory() as place:
            library = Path(place) / "model.so"
            command = [found, "-std=c99", "-O2", *flags, "-fPIC", "-shared", "-o", library, folder / f"{NAME}.c", "-lm"]
            done = subprocess.run([*map(str, command)], capture_output=True, text=True)
            if done.returncode:
                raise ValueError(f"{found} cannot compile {folder / f'{NAME}.c'}:\n{done.stderr}")
            loaded = ctypes.CDLL(str(library))
        self._init, self._step = getattr(loaded, f"{NAME}_init"), getattr(loaded, f"{NAME}_step")
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
