"""Write your own cell

Ten lines of PyTorch make a model: registered under a name, it has lengths, missing values, stacking, both directions,
the estimators and the command line.
"""

import matplotlib.pyplot as plt
import torch

import chronode
from chronode.tasks import find
from chronode.training import Settings, fit


@chronode.register("leaky", paper="this page", time="native")
class Leaky(chronode.nn.Cell):
    """h' = h e^(-dt/τ) + tanh(W x + U h + b), with a trained τ for each unit."""

    def __init__(self, input_size, hidden_size):
        super().__init__(input_size, hidden_size)
        self.inputs = torch.nn.Linear(input_size, hidden_size)
        self.recurrent = torch.nn.Linear(hidden_size, hidden_size, bias=False)
        self.rate = torch.nn.Parameter(torch.zeros(hidden_size))

    def forward(self, x, state, dt):
        (h,) = state
        decay = torch.exp(-torch.nn.functional.softplus(self.rate) * dt)
        h = h * decay + torch.tanh(self.inputs(x) + self.recurrent(h))
        return h, (h,)


few = {"train": 1500, "valid": 300, "test": 300}
for name in ("leaky", "rnn-dt"):
    fitted = fit(find("digits-event"), name, Settings(epochs=12), options={})
    plt.plot([epoch.metrics["accuracy"] for epoch in fitted.history], "o-", markersize=3, label=name)
    print(f"{name}: validation accuracy {100 * fitted.best.metrics['accuracy']:.1f}%")
plt.xlabel("epoch")
plt.ylabel("validation accuracy")
plt.legend()
plt.title("Digits as events: pixels seen only where they change")
