"""Follow live data one observation at a time

`layer.step` takes one observation and the current state. Its outputs are those of one call on the whole series,
whatever the gaps between observations.
"""

import matplotlib.pyplot as plt
import torch

import chronode

torch.manual_seed(0)
layer = chronode.create("ltc", input_size=1, hidden_size=16).eval()
gaps = torch.distributions.Exponential(1.0).sample((1, 60))
times = gaps.cumsum(1)
values = torch.sin(times).unsqueeze(-1)

with torch.no_grad():
    whole, _ = layer(values, dt=gaps)
    state, outputs = None, []
    for n in range(60):
        y, state = layer.step(values[:, n], state, gaps[:, n])
        outputs.append(y)
    stepped = torch.stack(outputs, dim=1)
print(f"largest difference between 60 steps and one call: {(whole - stepped).abs().max():.1e}")

figure, (top, bottom) = plt.subplots(2, 1, sharex=True, figsize=(8, 4))
top.plot(times[0], values[0], "k.")
top.set_title("Observations at irregular times")
bottom.plot(times[0], stepped[0, :, :4])
bottom.set(xlabel="time", title="Four of the sixteen units, updated at each observation")
