"""Remember over hundreds of steps

The first value of each series is its class, +1 or -1; faint noise follows. To answer at the end, a network has to
remember one bit over the whole series. The LSTM loses it between 50 and 100 steps and mmRNN between 200 and 400,
because their gradients vanish. The oscillators of UnICORNN are not damped and keep it.
"""

import matplotlib.pyplot as plt
import numpy as np

from chronode import SequenceClassifier

rng = np.random.default_rng(0)
lengths = (50, 100, 200, 400)
for name, settings in (("unicornn", {"delta_t": 0.1}), ("mmrnn", {}), ("lstm", {})):
    scores = []
    for length in lengths:
        labels = rng.choice(["up", "down"], 500)
        series = 0.05 * rng.normal(size=(500, length))
        series[:, 0] = np.where(labels == "up", 1, -1)
        model = SequenceClassifier(name, hidden_size=32, epochs=12, settings=settings, random_state=0)
        model.fit(series[:300], labels[:300])
        scores.append(100 * model.score(series[300:], labels[300:]))
    print(f"{name:9s} test accuracy:", ", ".join(f"{t} steps {s:.0f}%" for t, s in zip(lengths, scores)))
    plt.plot(lengths, scores, "o-", label=name)

plt.axhline(50, color="gray", linestyle=":", label="guessing")
plt.xlabel("steps to remember")
plt.ylabel("test accuracy, %")
plt.ylim(40, 104)
plt.legend()
plt.title("One bit, remembered over many steps")
