"""Classify irregular series

Each series is a noisy oscillation observed at its own random times, and its class is the speed. The values alone
say little: what matters is how much they change in how much time.
"""

import matplotlib.pyplot as plt
import numpy as np

from chronode import SequenceClassifier

rng = np.random.default_rng(0)
labels = np.array(["slow", "fast"] * 150)
times = [np.sort(rng.uniform(0, 10, rng.integers(20, 40))) for _ in labels]
speeds = np.where(labels == "slow", 1.0, 1.6)
series = [np.sin(s * t + rng.uniform(0, 6)) + rng.normal(0, 0.1, len(t)) for s, t in zip(speeds, times)]

scores = {}
for name in ("mmrnn", "lstm-dt", "lstm"):
    model = SequenceClassifier(name, hidden_size=32, epochs=30, random_state=0)
    model.fit(series[:200], labels[:200], times=times[:200])
    scores[name] = model.score(series[200:], labels[200:], times=times[200:])
    print(f"{name:8s} test accuracy {100 * scores[name]:.1f}%")

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3), width_ratios=(2, 1))
for index, color in ((0, "C0"), (1, "C1")):
    left.plot(times[index], series[index], "o-", color=color, markersize=3, linewidth=0.8, label=labels[index])
left.set(xlabel="time", ylabel="value", ylim=(-1.3, 1.7), title="One series of each class")
left.legend(loc="upper right", ncols=2)
right.bar(list(scores), [100 * s for s in scores.values()], color="C2")
right.set(ylabel="test accuracy, %", ylim=(40, 100), title="Three models")
