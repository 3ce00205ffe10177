"""Cost of a training step at T, 2T and 4T for every model on the torch path.

Linear cost gives ratios near 2 and 4 (less where T is short, since a call has a fixed cost too); quadratic cost gives
4 and 16. Each number is the best of some repeats of forward and backward over a batch of unequal lengths.
"""

import argparse
import time

import torch

import chronode


def seconds(layer, steps, options):
    """The best time of forward and backward over sequences of up to that many steps."""
    x, dt = torch.randn(options.batch, steps, options.features), torch.rand(options.batch, steps)
    lengths = torch.linspace(steps // 2, steps, options.batch).long()
    best = float("inf")
    for _ in range(options.repeat):
        start = time.perf_counter()
        y, _ = layer(x, dt=dt, lengths=lengths)
        y.sum().backward()
        best = min(best, time.perf_counter() - start)
        layer.zero_grad()
    return best


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=list(chronode.models()), help="names of models (default: all)")
    parser.add_argument("--steps", type=int, default=100, help="T (default: %(default)s)")
    parser.add_argument("--batch", type=int, default=16, help="sequences (default: %(default)s)")
    parser.add_argument("--features", type=int, default=4, help="features of x (default: %(default)s)")
    parser.add_argument("--hidden", type=int, default=32, help="units (default: %(default)s)")
    parser.add_argument("--repeat", type=int, default=3, help="times each is run (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=1, help="of torch (default: %(default)s)")
    return parser.parse_args()


def main():
    options = arguments()
    torch.set_num_threads(options.threads)
    lengths = [options.steps, 2 * options.steps, 4 * options.steps]
    print(f"{'model':<22}" + "".join(f"{f'T = {steps}':>13}" for steps in lengths) + f"{'2T / T':>9}{'4T / T':>9}")
    with chronode.backend("torch"):
        for name in options.models:
            layer = chronode.create(name, options.features, options.hidden)
            once, twice, four_times = (seconds(layer, steps, options) for steps in lengths)
            times = "".join(f"{1000 * s:>10.1f} ms" for s in (once, twice, four_times))
            print(f"{name:<22}{times}{twice / once:>9.2f}{four_times / once:>9.2f}", flush=True)


if __name__ == "__main__":
    main()
