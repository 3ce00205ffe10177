"""Learn with missing values

Two sensors follow the same slow process, and a growing share of their readings is lost. Missing values are NaN in
the input. Every model accepts them; GRU-D has trained decay rates of its own.
"""

import matplotlib.pyplot as plt
import numpy as np

from chronode import SequenceRegressor

rng = np.random.default_rng(1)
level = rng.normal(size=(300, 1)) + np.cumsum(rng.normal(0, 0.3, (300, 40)), axis=1)
target = level[:, -10:].mean(axis=1)
readings = level[:, None] + rng.normal(0, 0.5, (300, 2, 40))

shares = (0.0, 0.3, 0.6, 0.8)
for name in ("gru-d", "mmrnn"):
    scores = []
    for share in shares:
        seen = np.where(rng.random(readings.shape) < share, np.nan, readings)
        model = SequenceRegressor(name, hidden_size=24, epochs=40, missing=True, random_state=0)
        model.fit(seen[:220], target[:220])
        scores.append(model.score(seen[220:], target[220:]))
    print(name, "R² by share of missing readings:", ", ".join(f"{s:.0%} {r:.2f}" for s, r in zip(shares, scores)))
    plt.plot([100 * s for s in shares], scores, "o-", label=name)

plt.xlabel("missing readings, %")
plt.ylabel("R² on test series")
plt.ylim(0.8, 1.01)
plt.legend(loc="lower left")
plt.title("Predictions from fewer and fewer readings")
