"""Draws docs/pictures/front.png (run it from the top folder; needs ncps): one series alone and in a batch of 16."""

from pathlib import Path

import matplotlib.pyplot as plt
import torch
from ncps.torch import CfC

import chronode

SERIES, STEPS, CHANNELS, UNITS, SHOWN = 16, 60, 3, 16, 4
torch.manual_seed(0)
x = torch.randn(SERIES, STEPS, CHANNELS)
dt = torch.rand(SERIES, STEPS) * 2 + 0.02  # every series has its own times
times = dt[SHOWN].cumsum(0)

ours, theirs = chronode.create("cfc", CHANNELS, UNITS).eval(), CfC(CHANNELS, UNITS, return_sequences=True).eval()
with torch.no_grad():
    outputs = {
        "chronode cfc": (ours(x, dt=dt)[0][SHOWN], ours(x[[SHOWN]], dt=dt[[SHOWN]])[0][0]),
        "ncps 1.0.1 CfC": (theirs(x, timespans=dt)[0][SHOWN], theirs(x[[SHOWN]], timespans=dt[[SHOWN]])[0][0]),
    }

figure, axes = plt.subplots(2, 1, figsize=(9, 4), sharex=True, layout="constrained")
for axis, (name, (batch, alone)) in zip(axes, outputs.items(), strict=True):
    gap = (batch - alone).abs().max().item()
    print(f"{name}: largest difference {gap:.2g}")
    axis.plot(times, alone[:, 0], color="0.6", linewidth=4, label="the series alone")
    axis.plot(times, batch[:, 0], ".-", color="C0", linewidth=1, label="the same series in a batch of 16")
    axis.set(title=f"{name}: largest difference {gap:.1g}", ylabel="one unit")
axes[-1].set_xlabel("time")
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
figure.savefig(Path(__file__).with_suffix(".png"), dpi=110)
