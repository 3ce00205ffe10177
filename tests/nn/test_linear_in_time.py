"""The torch path costs the same per step however long the sequence is.

Indexing `x[n]` in the loop over time gives each step a gradient the size of the whole sequence: 80 s instead of 1 s at
T = 1000. No clock sees that reliably at a test's size; the bytes that the backward allocates do.
"""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import chronode
from chronode.nn import driver

T = 4


class CountBytes(TorchDispatchMode):
    """Sums the bytes of all new tensors; a view is none."""

    def __init__(self):
        super().__init__()
        self.total = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        given = {tensor.untyped_storage()._cdata for tensor in tensors(args)}
        new = {t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in tensors(result)}
        self.total += sum(size for storage, size in new.items() if storage not in given)
        return result


def tensors(tree):
    """All tensors in nested tuples and lists; a quicker `tree_leaves`."""
    if isinstance(tree, torch.Tensor):
        return [tree]
    return [tensor for part in tree for tensor in tensors(part)] if isinstance(tree, (tuple, list)) else []


def bytes_allocated(layer, steps):
    """By forward and backward over that many steps."""
    x, dt = torch.randn(2, steps, 3), torch.rand(2, steps)
    lengths = torch.tensor([steps, steps // 2])
    with CountBytes() as forward:
        y, state = layer(x, dt=dt, lengths=lengths)
    loss = y.sum() + sum(part.sum() for part in state)
    with CountBytes() as backward:
        loss.backward()
    return torch.tensor([forward.total, backward.total])


def growth(layer):
    """Bytes per additional step in a sequence four times as long, over those in one twice as long.

    What is allocated once, whatever the length, drops out. Linear cost gives 1, quadratic cost 2.
    """
    once, twice, four_times = (bytes_allocated(layer, n * T) for n in (1, 2, 4))
    return ((four_times - twice) / (2 * T)) / ((twice - once) / T)


def assert_linear(layer):
    with chronode.backend("torch"):
        forward, backward = growth(layer).tolist()
    assert forward < 1.1
    assert backward < 1.1


@pytest.mark.parametrize("name", chronode.models())
def test_bytes_per_step_do_not_depend_on_the_length(name):
    assert_linear(chronode.create(name, 3, 4))


@pytest.mark.parametrize(
    "settings", [{"bidirectional": True}, {"outputs": "last"}, {"missing": True}, {"num_layers": 2}], ids=str
)
def test_nor_do_they_for_other_ways_to_run(settings):
    assert_linear(chronode.create("unicornn", 3, 4, **settings))


def test_indexing_in_the_loop_would_be_seen(monkeypatch):
    def indexing(cell, state, steps):
        projected, outputs = cell.project(steps.x), []
        for n in range(len(steps.x)):
            y, state = cell(projected[n], state, steps.dt[n])
            outputs.append(y)
        return torch.stack(outputs), state

    monkeypatch.setattr(driver, "_loop", indexing)
    with chronode.backend("torch"):
        _, backward = growth(chronode.create("unicornn", 3, 4)).tolist()
    assert backward > 1.3
