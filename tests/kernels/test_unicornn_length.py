"""UnICORNN over very long sequences: what the way back loses, and what no way back can keep.

Driven oscillators are chaotic: a difference of two states grows exponentially, and so do gradients and rounding errors.
A memory mode may lose digits only to the rounding of the forward pass; where that leaves few, there is a warning.
"""

import warnings

import numpy as np
import pytest
import torch

import chronode
from chronode.kernels import _library as library

pytestmark = pytest.mark.skipif(not library.available_isas(), reason="no native kernels are built")

FAR = "gradients grow by"


def gradients(steps, dtype, memory, backend="auto", delta_t=0.5, last=True, hidden=8):
    """The gradient of all parameters as float64, and the warnings."""
    torch.manual_seed(0)
    layer = chronode.create("unicornn", 2, hidden, memory=memory, delta_t=delta_t)
    x = torch.randn(2, steps, 2).to(dtype)
    layer = layer.to(dtype)
    with warnings.catch_warnings(record=True) as noted, chronode.backend(backend):
        warnings.simplefilter("always")
        y, _ = layer(x)
        (y[:, -1] if last else y).square().sum().backward()
    found = torch.cat([p.grad.double().flatten() for p in layer.parameters()])
    return found, [str(note.message) for note in noted]


def distance(found, wanted):
    return float((found - wanted).norm() / wanted.norm())


def test_no_memory_mode_loses_digits_to_the_inverse_in_float64():
    """The true gradient is magnified 1e9 times: what is inverted from the last state alone is off by 1e-4."""
    wanted, _ = gradients(8000, torch.float64, "fast", "torch")
    for memory in ("fast", "auto", "low"):
        found, _ = gradients(8000, torch.float64, memory)
        assert distance(found, wanted) < 1e-6, memory


@pytest.mark.parametrize("last", [True, False])
def test_low_memory_keeps_the_gradient_of_the_same_trajectory(last):
    """In float32 no two implementations round to the same trajectory; the kernel's own is followed."""
    wanted, _ = gradients(10_000, torch.float32, "fast", last=last)
    found, _ = gradients(10_000, torch.float32, "low", last=last)
    assert distance(found, wanted) < 5e-3


def growth_by_hand(steps, delta_t, hidden=8):
    """The largest ‖∂h_T/∂h_0‖ of a unit, by the product of 2 x 2 Jacobians in NumPy's float64."""
    torch.manual_seed(0)
    layer = chronode.create("unicornn", 2, hidden, delta_t=delta_t)
    x = torch.randn(2, steps, 2).double().numpy()
    (cell,) = layer.double().cells
    weight, bias, w, e, alpha = (part.detach().numpy() for part in cell.kernel_reads())
    y, z = np.zeros((2, hidden)), np.zeros((2, hidden))
    product = np.broadcast_to(np.eye(2), (2, hidden, 2, 2))
    for t in range(steps):
        force = np.tanh(w * y + x[:, t] @ weight.T + bias)
        stiffness = alpha + w * (1 - force**2)
        rows = np.stack([1 - e * e * stiffness, e + 0 * y, -e * stiffness, 1 + 0 * y], -1)
        product = rows.reshape(2, hidden, 2, 2) @ product
        z = z - e * (force + alpha * y)
        y = y + e * z
    return float(np.linalg.norm(product, ord=2, axis=(-2, -1)).max())


@pytest.mark.parametrize(
    ("steps", "delta_t", "dtype", "warns"),
    [
        (3000, 0.1, torch.float32, False),  # grows by 2
        (8000, 0.5, torch.float32, True),  # by 1e9
        (8000, 0.5, torch.float64, False),  # the same, which float64 can keep
    ],
)
def test_gradients_that_rounding_decides_are_named(steps, delta_t, dtype, warns):
    found, notes = gradients(steps, dtype, "auto", delta_t=delta_t)
    assert [FAR in note and "delta_t" in note and "tbptt" in note for note in notes] == [True] * warns
    true = growth_by_hand(steps, delta_t)
    wanted, _ = gradients(steps, torch.float64, "auto", delta_t=delta_t)
    assert (true * torch.finfo(dtype).eps > 1e-4) == warns
    assert (distance(found, wanted) > 0.1) == warns


def test_gradients_beyond_the_largest_float_are_named():
    """A million steps of the default Δt overflow in the same way; this takes 30,000."""
    found, notes = gradients(30_000, torch.float32, "auto", delta_t=1.0)
    assert not found.isfinite().all()
    assert [FAR in note and "float64" in note for note in notes] == [True]


def test_gradients_that_are_not_finite_from_the_start_are_not_blamed_on_the_length():
    layer = chronode.create("unicornn", 2, 4)
    y, _ = layer(torch.randn(2, 1200, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (y[:, -1] * torch.tensor([1.0, float("nan")])[:, None]).sum().backward()
        layer(torch.randn(2, 1200, 2))[0].mul(0).sum().backward()


@pytest.mark.parametrize("steps", [100_000, 1_000_000])
def test_very_long_sequences(steps):
    found, notes = gradients(steps, torch.float32, "auto", delta_t=0.1)
    assert [FAR in note for note in notes] == [True]
    assert bool(found.isfinite().all()) == (steps == 100_000)
    if steps == 100_000:
        low, _ = gradients(steps, torch.float32, "low", delta_t=0.1)
        assert distance(low, found) < 5e-3
