"""Every kernel is compiled for GPUs that need not be there: down to what the device would run, without spills."""

import json
import os
import subprocess
import sys

import pytest
from gpu import needs_triton

pytestmark = [pytest.mark.gpu, needs_triton]

COMPILE = """
import json, sys
from dataclasses import asdict
from chronode.kernels.triton._compile import compile_for, variants
target, dtypes, sizes = sys.argv[1], sys.argv[2].split(","), [int(size) for size in sys.argv[3].split(",")]
found = {}
for variant in variants():
    for dtype in dtypes:
        for hidden in sizes:
            found[f"{variant.name} {dtype} H{hidden}"] = asdict(compile_for(variant, target, hidden, dtype))
print(json.dumps(found))
"""


def compiled(target, dtypes, sizes="128"):
    """Resources of every kernel; in a process of its own, because the interpreter takes the place of the compiler."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    command = [sys.executable, "-W", "ignore", "-c", COMPILE, target, dtypes, sizes]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("target", ["sm_80", "sm_90", "gfx942"])
def test_every_kernel_compiles_without_spills(target):
    found = compiled(target, "fp32")
    assert len(found) == 14
    assert {name for name, resources in found.items() if resources["spilled"]} == set()
    assert all(0 < resources["registers"] <= 255 for resources in found.values())


@pytest.mark.parametrize("dtypes", ["bf16", "fp16"])
def test_inputs_of_16_bits(dtypes):
    found = compiled("sm_80", dtypes)
    assert {name for name, resources in found.items() if resources["spilled"]} == set()
