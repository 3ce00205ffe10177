"""Numbers below the normal range of floats: an LSTM over 4,000 steps whose loss is that of the last step.

    python benchmarks/denormals.py

Its gradients vanish on the way to the first step. Seconds of a forward and backward pass on one thread, the best of
three: PyTorch as it is, PyTorch with such numbers rounded to 0 (`torch.set_flush_denormal`), and the compiled step of
chronode, which always does so.
"""

import time

import torch

import chronode
from chronode import compiler
from chronode.system._torch import flushed

BATCH, STEPS, UNITS = 32, 4_000, 128


def seconds(layer, x):
    """The best of three."""
    found = []
    for _ in range(3):
        start = time.process_time()
        layer(x)[0][:, -1].sum().backward()
        found.append(time.process_time() - start)
    return min(found)


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    x = torch.rand(BATCH, STEPS, 2)
    plain, own = torch.nn.LSTM(2, UNITS, batch_first=True), chronode.create("lstm", 2, UNITS)
    compiler.use(own, True)
    print(f"torch.nn.LSTM: {seconds(plain, x):.2f} s")
    with flushed():
        print(f"torch.nn.LSTM, small numbers rounded to 0: {seconds(plain, x):.2f} s")
    print(f"chronode, compiled: {seconds(own, x):.2f} s")


if __name__ == "__main__":
    main()
