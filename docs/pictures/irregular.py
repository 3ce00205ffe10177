"""Draws docs/pictures/irregular.png: run it from the top folder."""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

rng = np.random.default_rng(3)
fine = np.linspace(0, 10, 400)
times = {
    "regular: dt = 0.5 everywhere": np.arange(0, 10, 0.5),
    "irregular: dt from 0.02 to 2": np.sort(rng.uniform(0, 10, 20)),
}
figure, axes = plt.subplots(2, 1, sharex=True, figsize=(8, 4), layout="constrained")
for axis, (title, at) in zip(axes, times.items(), strict=True):
    axis.plot(fine, np.sin(1.5 * fine), color="0.8")
    axis.vlines(at, -1.3, np.sin(1.5 * at), color="C0", linewidth=0.6, linestyle=":")
    axis.plot(at, np.sin(1.5 * at), "o", color="C0", markersize=4)
    axis.set(title=title, ylim=(-1.3, 1.3), yticks=[])
axes[-1].set_xlabel("time")
figure.savefig(Path(__file__).with_suffix(".png"), dpi=110)
