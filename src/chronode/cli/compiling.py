"""`chronode compile`: compiles kernels before they are needed."""

from __future__ import annotations

import time

import torch

from .. import compiler
from ..compiler import Unsupported, kernel_of
from ..nn import create
from ..storage import parse_yaml


def run_compile(
    name: str, input_size: int, hidden_size: int, num_layers: int, settings: list[str], double: bool
) -> None:
    """Compiles the kernels of the cells of a model and prints one line per kind of cell."""
    layer = create(name, input_size, hidden_size, num_layers, **_settings(settings))
    layer.to(torch.float64 if double else torch.float32)
    seen = set()
    for cell in compiler.cells_of(layer):
        path, start = compiler.explain(cell), time.perf_counter()
        if path.name == "hand-written":
            print(f"{name}: {type(cell).__name__} has a hand-written kernel; nothing to compile.")
            return
        try:
            kernel = kernel_of(cell)
        except Unsupported as reason:
            raise ValueError(f"{name}: {type(cell).__name__} cannot be compiled: {reason}.") from reason
        if kernel.key not in seen:
            seen.add(kernel.key)
            print(f"{name}: {type(cell).__name__} compiled ({time.perf_counter() - start:.1f} s).")


def _settings(given: list[str]) -> dict[str, object]:
    found = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise ValueError(f"--set must be NAME=VALUE, got {text!r}.")
        found[key] = parse_yaml(value, "--set")
    return found
