"""Compares a training step of two residual blocks of LinOSS with the authors' form in JAX, by CPU time of one thread.

The authors' form is a parallel associative scan over (M, F), jitted, in blocks of normalization, GELU and gated linear
unit, with the same shapes. JAX lives in an environment of its own:

    python benchmarks/linoss_jax.py path/to/python-with-jax [repeats]
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

STEPS, BATCH, UNITS, BLOCKS = 17984, 8, 64, 2


def ours(repeats: int) -> float:
    """Returns the least CPU seconds of a training step with chronode."""
    import torch

    import chronode
    from chronode import compiler

    torch.set_num_threads(1)
    torch.manual_seed(0)
    layer = chronode.create("linoss", UNITS, UNITS, BLOCKS, discretization="im", block="residual")
    compiler.use(layer)
    x = torch.randn(BATCH, STEPS, UNITS)

    def step() -> None:
        layer(x)[0].square().mean().backward()

    return _least(step, repeats)


def theirs(repeats: int) -> float:
    """Returns the least CPU seconds of a training step with JAX."""
    import jax
    import jax.numpy as jnp

    def operator(a, b):
        (a11, a12, a21, a22, f1, f2), (b11, b12, b21, b22, g1, g2) = a, b
        matrix = (b11 * a11 + b12 * a21, b11 * a12 + b12 * a22, b21 * a11 + b22 * a21, b21 * a12 + b22 * a22)
        return (*matrix, b11 * f1 + b12 * f2 + g1, b21 * f1 + b22 * f2 + g2)

    def sequence(p, u):  # (T, H)
        A, s = jax.nn.relu(p["a"]), jax.nn.sigmoid(p["s"])
        Bu = u @ (p["B_re"] + 1j * p["B_im"]).T
        S = 1 / (1 + s * s * A)
        entries = (S, -s * A * S, s * S, S)
        matrix = [jnp.broadcast_to(entry, Bu.shape) for entry in entries]
        *_, x = jax.lax.associative_scan(operator, (*matrix, s * S * Bu, s * s * S * Bu))
        return (x @ (p["C_re"] + 1j * p["C_im"]).T).real + p["D"] * u

    def network(ps, x):
        for p in ps:
            mean, variance = x.mean((0, 1)), x.var((0, 1))
            v = jax.vmap(lambda u, p=p: sequence(p, u))((x - mean) / jnp.sqrt(variance + 1e-5))
            v = jax.nn.gelu(v)
            x = x + (v @ p["W1"].T) * jax.nn.sigmoid(v @ p["W2"].T)
        return jnp.mean(x * x)

    keys = iter(jax.random.split(jax.random.PRNGKey(0), 100))
    square = ("B_re", "B_im", "C_re", "C_im", "W1", "W2")
    ps = [
        {name: 0.1 * jax.random.normal(next(keys), (UNITS, UNITS)) for name in square}
        | {name: jax.random.uniform(next(keys), (UNITS,)) for name in ("a", "s", "D")}
        for _ in range(BLOCKS)
    ]
    x = jax.random.normal(next(keys), (BATCH, STEPS, UNITS))
    gradient = jax.jit(jax.grad(network))
    return _least(lambda: jax.block_until_ready(gradient(ps, x)), repeats)


def _least(step, repeats: int) -> float:
    step()  # compiles
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        step()
        seconds.append(time.process_time() - start)
    return min(seconds)


def main(python: str, repeats: int) -> None:
    """Runs both in turns, in processes of their own, and prints the ratio."""
    flags = {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1", "OMP_NUM_THREADS": "1"}
    seconds: dict[str, float] = {}
    for _ in range(2):
        for name, program in (("ours", sys.executable), ("theirs", python)):
            command = [program, __file__, f"--{name}", str(repeats)]
            done = subprocess.run(command, env={**os.environ, **flags}, capture_output=True, text=True, check=True)
            seconds[name] = min(seconds.get(name, float("inf")), float(done.stdout))
            print(f"{name}: {float(done.stdout):.2f} s", flush=True)
    ratio = seconds["theirs"] / seconds["ours"]
    print(f"T{STEPS} B{BATCH} H{UNITS} P{UNITS}, {BLOCKS} blocks: JAX / chronode = {ratio:.1f}")


if __name__ == "__main__":
    if sys.argv[1] in ("--ours", "--theirs"):
        print((ours if sys.argv[1] == "--ours" else theirs)(int(sys.argv[2])))
    else:
        main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 3)
