"""`chronode doctor`: versions and kernels in use, with the reasons."""

from __future__ import annotations

import platform
import shlex
import sys

import torch
from rich.console import Console

from .. import __version__, compiler
from ..compiler import build
from ..kernels import available_isas, chosen, status
from ..nn import create, find_model, models


def run_doctor(model: str) -> None:
    """Prints versions, kernels and the models that have one; or how one model runs."""
    console = Console(highlight=False, soft_wrap=True)
    if model:
        _say_path(console, model)
        return
    console.print(f"chronode {__version__}, Python {sys.version.split()[0]}, torch {torch.__version__}")
    console.print(f"machine: {platform.machine()}, {torch.get_num_threads()} threads")
    console.print(status())
    built = ", ".join(available_isas()) or "none"
    console.print(f"backend: {chosen()} (CHRONODE_BACKEND or chronode.backend); kernels for this CPU: {built}")
    console.print(f"compiler for cells: {_compiler()}")
    console.print("hand-written kernels (float32 and float64 on the CPU; other models are compiled on demand):")
    for name, one in models().items():
        if settings := one.kernel():
            console.print(f"  {name}: {settings}")
    console.print("`chronode doctor --model NAME` explains how a model runs.")


def _compiler() -> str:
    try:
        build.check()
        return f"{shlex.join(build.compiler())}, cache {build.cache_folder()}"
    except build.BuildError as error:
        return f"none ({error})"


def _say_path(console: Console, name: str) -> None:
    find_model(name)
    for cell in compiler.cells_of(create(name, input_size=1, hidden_size=8)):
        path = compiler.explain(cell)
        text = {
            "hand-written": "a hand-written kernel runs it",
            "compiled": f"it is compiled on demand ({_compiler()})",
            "loop": f"it runs as a loop in Python: {path.reason}",
        }[path.name]
        console.print(f"{name}, {type(cell).__name__}: {text}")
