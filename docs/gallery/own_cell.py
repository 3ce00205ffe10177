"""Write your own cell

Doses of a drug are given at irregular times, and each is cleared from the body exponentially. How much is left at
the end? The cell below forgets at a trained rate per unit. Once it is registered, it works with unequal lengths,
missing values, stacking, both directions and the estimators.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch

import chronode
from chronode import SequenceRegressor


@chronode.register("leaky", paper="this page", time="native")
class Leaky(chronode.nn.Cell):
    """h' = h e^(-r dt) + tanh(W x + U h + b), with a trained rate r > 0 for each unit."""

    def __init__(self, input_size, hidden_size):
        super().__init__(input_size, hidden_size)
        self.inputs = torch.nn.Linear(input_size, hidden_size)
        self.recurrent = torch.nn.Linear(hidden_size, hidden_size, bias=False)
        self.rate = torch.nn.Parameter(torch.zeros(hidden_size))

    def forward(self, x, state, dt):
        (h,) = state
        h = h * torch.exp(-torch.nn.functional.softplus(self.rate) * dt)
        h = h + torch.tanh(self.inputs(x) + self.recurrent(h))
        return h, (h,)


rng = np.random.default_rng(0)
times = [np.cumsum(rng.exponential(1.0, rng.integers(10, 30))) for _ in range(400)]
doses = [rng.uniform(0, 1, len(t)) for t in times]
left = np.array([(d * np.exp(-0.5 * (t[-1] - t))).sum() for d, t in zip(doses, times)])

figure, axes = plt.subplots(1, 2, figsize=(8, 4), sharex=True, sharey=True)
for axis, name in zip(axes, ("leaky", "rnn-dt")):
    model = SequenceRegressor(name, hidden_size=16, epochs=30, random_state=0)
    model.fit(doses[:300], left[:300], times=times[:300])
    score = model.score(doses[300:], left[300:], times=times[300:])
    print(f"{name:6s} R² on test series: {score:.3f}")
    axis.plot(left[300:], model.predict(doses[300:], times=times[300:]), ".")
    axis.plot([0, 4], [0, 4], color="gray", linewidth=0.8)
    axis.set(xlabel="true amount", title=f"{name}: R² = {score:.3f}")
axes[0].set_ylabel("predicted amount")
