"""After a torn file or on a full disk the last whole checkpoint is still there, and the fault is reported."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
from stores import files, filled

from chronode.runs._checkpoints import Store
from chronode.storage._files import DiskFull


def test_every_flipped_byte_is_found_and_the_one_before_is_used(tmp_path):
    newest = files(filled(tmp_path, 2))[-1]
    content = newest.read_bytes()
    for place in range(len(content)):
        altered = bytearray(content)
        altered[place] ^= 1 << place % 8
        newest.write_bytes(altered)
        store = Store(tmp_path)
        assert store.latest()[1] == {"epoch": 1}, place
        assert len(store.notes) == 1 and newest.name in store.notes[0]


def test_every_truncation_and_a_tail_are_found(tmp_path):
    newest = files(filled(tmp_path, 2))[-1]
    content = newest.read_bytes()
    for torn in [content[:length] for length in range(len(content))] + [content + b"\0"]:
        newest.write_bytes(torn)
        assert Store(tmp_path).latest()[1] == {"epoch": 1}, len(torn)
    newest.write_bytes(content)
    assert Store(tmp_path).latest()[1] == {"epoch": 2}


def test_without_a_whole_one_there_is_none_and_the_notes_name_each(tmp_path):
    store = filled(tmp_path, 2)
    for path in files(store):
        path.write_bytes(b"")
    assert store.latest() is None and store.latest() is None
    assert len(store.notes) == 2


def test_a_damaged_file_does_not_take_the_place_of_a_whole_one(tmp_path):
    damaged = files(filled(tmp_path, 2))[-1]
    damaged.write_bytes(b"torn")
    store = Store(tmp_path)
    store.latest()
    store.save({}, {"epoch": 2.5})
    assert not damaged.exists()
    newest = files(store)[-1]
    newest.write_bytes(b"torn too")
    assert Store(tmp_path).latest()[1] == {"epoch": 1}


def test_what_a_killed_process_left_is_swept(tmp_path):
    store = filled(tmp_path, 1)
    draft = tmp_path / ".checkpoint-000002-abc-x1y2z3_4.draft.safetensors"
    draft.write_bytes(b"half")
    assert store.latest()[1] == {"epoch": 1}
    store.save({}, {"epoch": 2})
    assert not draft.exists()


@pytest.mark.parametrize("where", ["write", "sync"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_named_and_leaves_the_last_good_checkpoint(tmp_path, monkeypatch, where, code):
    store = filled(tmp_path, 3)
    before = files(store)

    def write_half(path, content):
        with path.open("wb") as file:
            file.write(content[: len(content) // 2])
        raise OSError(code, os.strerror(code))

    def sync_nothing(handle):
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        if where == "write":
            patch.setattr(Path, "write_bytes", write_half)
        else:
            patch.setattr(os, "fsync", sync_nothing)
        with pytest.raises(DiskFull) as caught:
            store.save({}, {"epoch": 4})
    message = str(caught.value)
    why = {errno.ENOSPC: "the disk is full: ", errno.EDQUOT: "the disk quota is exceeded: "}
    assert message.startswith(why[code]) and message.endswith(
        f"the last good checkpoint is {before[-1].name} (epoch 3)"
    )
    assert sorted(tmp_path.iterdir()) == before
    assert store.latest()[1] == {"epoch": 3}
    store.save({}, {"epoch": 4})
    assert store.latest()[1] == {"epoch": 4}


def test_another_error_of_the_disk_is_not_called_full(tmp_path, monkeypatch):
    def fail(handle):
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="broken") as caught:
        Store(tmp_path).save({}, {})
    assert not isinstance(caught.value, DiskFull)


FILL_A_SMALL_DISK = """
import sys, torch
from chronode.storage._files import DiskFull
from chronode.runs._checkpoints import Store
store = Store(sys.argv[1])
try:
    for epoch in range(1, 9):
        store.save({"w": torch.zeros(epoch * 5000)}, {"epoch": epoch})
except DiskFull as error:
    print(error)
    print(Store(sys.argv[1]).latest()[1]["epoch"], len(list(store.folder.iterdir())))
"""


def test_a_disk_that_is_really_full(tmp_path):
    """Epochs of 20, 40, 60, ... kB, two of which stay while the next is written: 180 kB fit, 240 kB do not."""
    mount = f"mount -t tmpfs -o size=212k none {tmp_path}"
    if subprocess.run(["unshare", "-rm", "sh", "-c", mount], capture_output=True).returncode:
        pytest.skip("this system lets nobody mount a tmpfs")
    script = f'{mount} && exec "$0" -c "$1" {tmp_path}/checkpoints'
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", script, sys.executable, FILL_A_SMALL_DISK], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    message, outcome = done.stdout.splitlines()
    assert message.startswith("the disk is full: ") and message.endswith("(epoch 4)")
    assert outcome == "4 2"
