"""Remember over hundreds of steps

The adding problem: two of 200 numbers are marked, and the answer is their sum. Guessing the mean gives an error of 0.167;
to do better, a network must carry the first marked number to the end.
"""

import matplotlib.pyplot as plt

from chronode.analysis import learning_curves
from chronode.training import Settings

curves = learning_curves(
    "adding", ["unicornn", "lstm"], steps=300, hidden_size=64, options={"length": 200}, training=Settings(batch_size=50)
)
for name, losses in zip(curves.models, curves.losses):
    smooth = [losses[max(0, n - 10) : n + 1].mean() for n in range(len(losses))]
    plt.plot(smooth, label=name)
    print(f"{name:9s} mean squared error over the last 20 steps: {losses[-20:].mean():.3f}")
plt.axhline(curves.naive, color="grey", linestyle=":", label="guessing the mean")
plt.xlabel("optimiser step")
plt.ylabel("mean squared error")
plt.legend()
plt.title("The adding problem, 200 steps")
