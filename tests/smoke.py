"""A smoke test for an installed wheel: needs nothing but chronode, torch and numpy. Run it outside the source tree."""

import torch

import chronode
from chronode.kernels import _library as library

print(f"chronode {chronode.__version__} from {chronode.__file__}")
print(library.status())
x, dt, lengths = torch.randn(3, 20, 4), torch.rand(3, 20), torch.tensor([20, 7, 13])
for name in chronode.models():
    layer = chronode.create(name, input_size=4, hidden_size=8)
    layer(x, dt=dt, lengths=lengths)[0].square().mean().backward()
    layer.eval()  # some models draw random numbers in training
    y, _ = layer(x, dt=dt, lengths=lengths)
    alone, _ = layer(x[1:2, :7], dt=dt[1:2, :7])
    torch.testing.assert_close(y[1:2, :7], alone, atol=1e-5, rtol=1e-4)
    assert all(p.grad is None or p.grad.isfinite().all() for p in layer.parameters()), name
print(f"{len(chronode.models())} models: a padded batch gives each series what it gets alone; gradients are finite")
