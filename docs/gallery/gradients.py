"""Why a network forgets

How much does the state at an early step still influence the last one? `gradient_flow` measures the norm of that
derivative; `chronode analyze flow` does the same on the command line.
"""

import matplotlib.pyplot as plt
import torch

from chronode.lab.analysis import gradient_flow

torch.manual_seed(0)
x, dt = torch.randn(4, 100, 1), torch.rand(4, 100)
for name in ("rnn", "ode-rnn", "lstm-dt", "mmrnn", "unicornn"):
    torch.manual_seed(1)
    flow = gradient_flow(name, x, dt=dt)
    norms = flow.log10_norms.mean(axis=0)
    plt.plot(norms, label=name)
    print(f"{name:9s} ‖∂h_100/∂h_0‖ = 10^{norms[0]:.1f}")

plt.xlabel("step t")
plt.ylabel("log₁₀ ‖∂h₁₀₀/∂h_t‖")
plt.ylim(-12, 3)
plt.legend()
plt.title("Untrained models, 100 irregular steps")
