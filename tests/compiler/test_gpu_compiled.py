"""Emitted kernels are compiled for GPUs that need not be there: down to what the device would run, without spills."""

import json
import os
import subprocess
import sys

import pytest
from gpu import MODELS, needs_triton

pytestmark = [pytest.mark.gpu, needs_triton]

COMPILE = """
import json, sys
from dataclasses import asdict
import chronode
from chronode.compiler import gpu_source_of
from chronode.compiler.triton import compile_for, variants
target, dtype, names, models = sys.argv[1], sys.argv[2], sys.argv[3].split(";"), sys.argv[4:]
found = {}
for model in models:
    source = gpu_source_of(chronode.create(model, 128, 128).cells[0])
    for variant in variants(source):
        if variant.name in names:
            found[f"{model} {variant.name}"] = asdict(compile_for(source, variant, target, dtype))
print(json.dumps(found))
"""


def compiled(target, dtype, models, names=("forward", "backward")):
    """Resources of kernels; in a process of its own, because the interpreter takes the place of the compiler."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    command = [sys.executable, "-W", "ignore", "-c", COMPILE, target, dtype, ";".join(names), *models]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("models", [MODELS[:6], MODELS[6:]], ids=", ".join)
@pytest.mark.parametrize("target", ["sm_80", "sm_90", "gfx942"])
def test_every_model_compiles_without_spills(target, models):
    found = compiled(target, "fp32", models)
    assert len(found) == 2 * len(models)
    assert {name for name, resources in found.items() if resources["spilled"]} == set()
    assert all(0 < resources["registers"] <= 255 for resources in found.values())


def test_forms_of_a_kernel():
    """For the last steps alone, and in float64."""
    last = ("forward, last", "backward, last")
    for found in (compiled("sm_80", "fp32", ["sru", "lru"], last), compiled("sm_80", "fp64", ["unicornn"])):
        assert {name for name, resources in found.items() if resources["spilled"]} == set()
