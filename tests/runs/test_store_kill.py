"""A kill at any moment, a reader beside a writer: there is always a whole checkpoint."""

import os
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from stores import filled
from victims import victims

from chronode.runs._checkpoints import Store

SAVE_FOR_EVER = """
import torch
from chronode.runs._checkpoints import Store

torch.set_num_threads(1)

def work(say, folder, keep):
    store = Store(folder, keep)
    found = store.latest()
    epoch = found[1]["epoch"] if found else 0
    while True:
        epoch += 1
        store.save({"w": torch.full((20000,), float(epoch))}, {"epoch": epoch})
        say(epoch)
"""


@pytest.fixture(scope="module")
def killed_after():
    with victims(SAVE_FOR_EVER) as run_and_kill:
        yield run_and_kill


def test_a_kill_at_any_moment_leaves_a_whole_checkpoint_and_none_is_lost(tmp_path, killed_after):
    """After every kill, the last epoch that was reported as saved is there, or the one after it."""
    rng, last = random.Random(1), 0
    for _ in range(20):
        said = [int(word) for word in killed_after(rng.uniform(0, 0.03), str(tmp_path), 2)]
        assert said[0] == last + 1
        store = Store(tmp_path)
        tensors, facts = store.latest()
        assert not store.notes
        assert facts["epoch"] in (said[-1], said[-1] + 1)
        assert bool((tensors["w"] == facts["epoch"]).all())
        last = facts["epoch"]


def test_a_reader_beside_a_writer_never_sees_half_a_file(tmp_path, killed_after):
    """With keep=1 the file a reader is about to open may go; it finds the newer one instead."""
    store, seen = Store(tmp_path), []
    with ThreadPoolExecutor() as pool:
        writer = pool.submit(killed_after, 0.6, str(tmp_path), 1)
        while not writer.done():
            found = store.latest()
            assert found or not seen
            if found:
                tensors, facts = found
                assert bool((tensors["w"] == facts["epoch"]).all())
                seen.append(facts["epoch"])
    assert seen == sorted(seen) and len(set(seen)) > 5 and not store.notes


def test_a_file_that_goes_before_it_is_read_has_a_newer_one(tmp_path, monkeypatch):
    writer, real = filled(tmp_path, 1, keep=1), Path.read_bytes

    def read_too_late(path):
        monkeypatch.setattr(Path, "read_bytes", real)
        writer.save({}, {"epoch": 2})
        return real(path)

    monkeypatch.setattr(Path, "read_bytes", read_too_late)
    store = Store(tmp_path)
    assert store.latest()[1] == {"epoch": 2} and not store.notes


def test_the_file_and_the_folder_are_synced_before_old_ones_go(tmp_path, monkeypatch):
    store = filled(tmp_path, 2)
    happened, real_sync, real_unlink = [], os.fsync, Path.unlink

    def sync(handle):
        happened.append("folder" if os.path.isdir(f"/proc/self/fd/{handle}") else "file")
        real_sync(handle)

    def unlink(path, missing_ok=False):
        if path.exists():
            happened.append("removed")
        real_unlink(path, missing_ok)

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(Path, "unlink", unlink)
    store.save({}, {"epoch": 3})
    assert happened == ["file", "folder", "removed"]
