"""Every kernel under Python threads, in forked processes and after a switch of backends."""

import os
import threading

import pytest
import torch
from helpers import assert_close, batch, results
from kernel_cases import CASES, make
from torch.utils.data import DataLoader, Dataset

import chronode
from chronode.kernels import _library as library

pytestmark = pytest.mark.skipif(not library.available_isas(), reason="no native kernels are built")

every_case = pytest.mark.parametrize("name", CASES)


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@every_case
@pytest.mark.usefixtures("two_threads")
def test_python_threads_at_once_get_the_same_bits(name):
    layer = make(name, hidden=16)
    calls = [batch(layer, 9, 20, torch.float64, seed) for seed in range(2)]
    wanted = [results(layer, "native", *call) for call in calls]
    got = [None, None]

    def work(i):
        for _ in range(3):
            got[i] = results(layer, "native", *calls[i])

    workers = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for one, other in zip(got, wanted, strict=True):
        assert all(torch.equal(one[part], other[part]) for part in other)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@every_case
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.usefixtures("two_threads")
def test_a_forked_child_runs_forward_and_backward(name):
    layer = make(name, hidden=16)
    call = batch(layer, 9, 20, torch.float64)
    wanted = results(layer, "native", *call)
    child = os.fork()
    if child == 0:
        torch.set_num_threads(1)  # torch's own threads do not survive a fork
        got = results(layer, "native", *call)
        os._exit(0 if all(torch.equal(got[part], wanted[part]) for part in wanted) else 1)
    assert os.waitpid(child, 0)[1] == 0


class Encoded(Dataset):
    """Items that a layer makes, as a feature extractor inside a data set would."""

    def __init__(self, layer, x):
        self.layer, self.x = layer, x

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        with torch.no_grad():
            return self.layer(self.x[index])[0]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@every_case
def test_data_loader_workers(name):
    layer = make(name, hidden=16)
    items = Encoded(layer, torch.randn(4, 6, 3, dtype=torch.float64))
    wanted = torch.stack([items[i] for i in range(4)])
    got = torch.cat(list(DataLoader(items, batch_size=2, num_workers=2, multiprocessing_context="fork")))
    assert torch.equal(got, wanted)


@every_case
def test_backends_can_be_switched_within_one_graph(name):
    layer = make(name, hidden=16)
    x, dt, lengths, state = batch(layer, 5, 12, torch.float64)
    with chronode.backend("native"):
        first, carried = layer(x, state, dt=dt, lengths=None)
    with chronode.backend("torch"):
        second, _ = layer(x, carried, dt=dt, lengths=lengths)
        again, _ = layer(x, layer(x, state, dt=dt)[1], dt=dt, lengths=lengths)
    gradient = torch.autograd.grad(second.sum() + first.sum(), x, retain_graph=True)[0]
    with chronode.backend("torch"):
        reference = torch.autograd.grad(again.sum() + layer(x, state, dt=dt)[0].sum(), x)[0]
    assert_close({"y": second, "x": gradient}, {"y": again, "x": reference})
