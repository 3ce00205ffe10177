"""Writes the sources of the kernels that a wheel ships compiled: `python packaging/prebuild.py build/prebuilt`.

They are the models that a race tries by default and those of the papers that have no hand-written kernel, in their
default sizes, for few features. Tracing needs torch, which
the isolated environment of a build does not have, so `make wheel` runs this before and CMake compiles the files.
"""

import shutil
import sys
from pathlib import Path

import torch

import chronode
from chronode.compiler import source_of
from chronode.compiler.build import prebuilt_name

PAPERS = ("irnn", "ernn", "sirnn")
MODELS = dict.fromkeys(("lstm", "lstm-dt", "gru-d", "mmrnn"), (64, 32)) | dict.fromkeys(PAPERS, (64,))
"""Their hidden sizes."""
FEATURES = range(1, 9)


def main(folder: Path) -> None:
    """Writes one file per kernel, named by its hash."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for features in FEATURES:
        layers = [chronode.create(model, features, hidden) for model, sizes in MODELS.items() for hidden in sizes]
        layers.append(chronode.create("lstm", features, MODELS["lstm"][0], missing=True))
        for layer in layers:
            for cell in [*layer.encoders, *layer.cells]:
                source = source_of(cell, torch.float32)
                (folder / f"{prebuilt_name(source)}.cpp").write_text(source, encoding="utf-8")
    print(f"{len(list(folder.glob('*.cpp')))} kernels in {folder}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
