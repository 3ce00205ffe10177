"""chronode.backend: a plain call is for the process, a block for as long as it is open; both reach other threads."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import chronode
from chronode.kernels import _backend as module
from chronode.kernels._backend import chosen


@pytest.fixture(autouse=True)
def nothing_chosen(monkeypatch):
    monkeypatch.delenv("CHRONODE_BACKEND", raising=False)
    monkeypatch.setattr(module, "_calls", ())
    monkeypatch.setattr(module, "_blocks", ())


def in_a_thread(function):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result()


def test_a_plain_call_is_for_all_threads():
    chronode.backend("torch")
    assert chosen() == "torch"
    assert in_a_thread(chosen) == "torch"
    in_a_thread(lambda: chronode.backend("native"))
    assert chosen() == "native"


def test_many_plain_calls_leave_little_behind():
    for _ in range(1000):
        chronode.backend("torch")
        chronode.backend("auto")
    assert chosen() == "auto"
    assert len(module._calls) <= 2


def test_a_block_ends():
    chronode.backend("native")
    with chronode.backend("torch"):
        assert chosen() == "torch"
        assert in_a_thread(chosen) == "torch"
    assert chosen() == "native"
    assert in_a_thread(chosen) == "native"


def test_blocks_nest_and_are_used_again():
    torch_only = chronode.backend("torch")
    for _ in range(2):
        with torch_only:
            with chronode.backend("native"), torch_only:
                assert chosen() == "torch"
            with torch_only:
                assert chosen() == "torch"
            assert chosen() == "torch"
        assert chosen() == "auto"


def test_a_block_ends_by_an_exception():
    with pytest.raises(RuntimeError, match="mine"), chronode.backend("torch"):
        raise RuntimeError("mine")
    assert chosen() == "auto"


def test_a_plain_call_within_a_block_holds_after_it():
    with chronode.backend("torch"):
        chronode.backend("native")
        assert chosen() == "torch"
    assert chosen() == "native"


def test_the_own_block_goes_first():
    with chronode.backend("torch"):

        def other():
            with chronode.backend("native"):
                return chosen()

        assert in_a_thread(other) == "native"
        assert chosen() == "torch"


def test_blocks_of_two_threads_that_overlap_leave_nothing_behind():
    """One opens first and closes first: whatever each restores, the other's choice must not stay."""
    opened, closed = threading.Event(), threading.Event()

    def other():
        with chronode.backend("native"):
            opened.set()
            closed.wait()
            assert chosen() == "native"

    thread = threading.Thread(target=other)
    with chronode.backend("torch"):
        thread.start()
        opened.wait()
        assert chosen() == "torch"
    assert chosen() == "native"  # that of the block that is open
    closed.set()
    thread.join()
    assert chosen() == "auto"


def test_objects_made_before_others_are_entered_leave_nothing_behind():
    first, second = chronode.backend("torch"), chronode.backend("native")
    with first, second:
        assert chosen() == "native"
    assert chosen() == "auto"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_has_no_blocks_of_threads_that_it_lacks():
    opened, closed = threading.Event(), threading.Event()

    def other():
        with chronode.backend("native"):
            opened.set()
            closed.wait()

    thread = threading.Thread(target=other)
    thread.start()
    opened.wait()
    with chronode.backend("torch"):
        child = os.fork()
        if child == 0:
            os._exit(0 if chosen() == "torch" and len(module._blocks) == 1 else 1)
        assert os.waitpid(child, 0)[1] == 0
    closed.set()
    thread.join()


def test_the_environment_is_the_default(monkeypatch):
    monkeypatch.setenv("CHRONODE_BACKEND", "torch")
    assert chosen() == in_a_thread(chosen) == "torch"
    with chronode.backend("auto"):
        assert chosen() == "auto"
