import errno
import json
import math
import os
import random
import struct
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file
from victims import victims

from chronode._files import DiskFull
from chronode.training.store import Store

facts_of_any_kind = st.dictionaries(
    st.text(),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=12,
    ),
)
DTYPES = [
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64, torch.bool,
    torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32, torch.uint64,
]  # fmt: skip


@st.composite
def tensors_of_any_kind(draw):
    """Random bits as any dtype, which gives NaNs with payloads too; 0-d, empty and non-contiguous ones."""
    dtype = draw(st.sampled_from(DTYPES))
    shape = draw(st.lists(st.integers(0, 3), max_size=3))
    size = math.prod(shape)
    if dtype == torch.bool:
        tensor = torch.tensor(draw(st.lists(st.booleans(), min_size=size, max_size=size)), dtype=dtype)
    else:
        content = draw(st.binary(min_size=size * dtype.itemsize, max_size=size * dtype.itemsize))
        tensor = torch.frombuffer(bytearray(content), dtype=dtype) if size else torch.empty(0, dtype=dtype)
    return tensor.reshape(shape).movedim(0, -1) if shape else tensor.reshape(shape)


def bits(tensor):
    return tensor.dtype, tensor.shape, bytes(tensor.contiguous().flatten().view(torch.uint8).tolist())


def exactly(value):
    """A form whose equality tells 1 from 1.0 and True, 0.0 from -0.0, and finds NaN equal to NaN."""
    if isinstance(value, dict):
        return {key: exactly(item) for key, item in value.items()}
    if isinstance(value, list):
        return [exactly(item) for item in value]
    if isinstance(value, float):
        return "nan" if math.isnan(value) else struct.pack("d", value)
    return type(value), value


def files(store):
    return sorted(store.folder.glob("checkpoint-*"))


def filled(folder, epochs, keep=2):
    store = Store(folder, keep)
    for epoch in range(1, epochs + 1):
        store.save({"w": torch.tensor([epoch / 7, -1.0])}, {"epoch": epoch})
    return store


@settings(max_examples=60, deadline=None)
@given(facts=facts_of_any_kind)
def test_facts_come_back_exactly(tmp_path_factory, facts):
    folder = tmp_path_factory.mktemp("facts")
    Store(folder).save({}, facts)
    _, back = Store(folder).latest()
    assert exactly(back) == exactly(facts)


@settings(max_examples=100, deadline=None)
@given(tensors=st.dictionaries(st.text(st.characters(codec="utf-8")), tensors_of_any_kind(), max_size=4))
def test_tensors_come_back_bit_for_bit(tmp_path_factory, tensors):
    folder = tmp_path_factory.mktemp("tensors")
    Store(folder).save(tensors, {})
    back, _ = Store(folder).latest()
    assert {name: bits(tensor) for name, tensor in back.items()} == {n: bits(t) for n, t in tensors.items()}


def test_views_of_one_memory_and_parameters_are_stored_one_by_one(tmp_path):
    base = torch.arange(12.0).reshape(3, 4)
    weight = torch.nn.Parameter(torch.randn(2, 3))
    store = Store(tmp_path)
    store.save({"all": base, "turned": base.T, "row": base[1], "all again": base, "weight": weight}, {})
    back, _ = store.latest()
    assert torch.equal(back["turned"], base.T) and torch.equal(back["row"], base[1])
    back["all"].zero_()
    assert torch.equal(back["all again"], base)
    assert not back["weight"].requires_grad and torch.equal(back["weight"], weight.detach())


def test_a_random_generator_goes_on_where_it_was(tmp_path):
    dice = torch.Generator().manual_seed(3)
    torch.rand(5, generator=dice)
    store = Store(tmp_path)
    store.save({"dice": dice.get_state()}, {})
    expected = torch.rand(9, generator=dice)
    tensors, _ = store.latest()
    again = torch.Generator()
    again.set_state(tensors["dice"])
    assert torch.equal(torch.rand(9, generator=again), expected)


def test_a_checkpoint_is_plain_safetensors(tmp_path):
    store = filled(tmp_path, 1)
    assert torch.equal(load_file(files(store)[0])["w"], torch.tensor([1 / 7, -1.0]))


@pytest.mark.parametrize("keep", [1, 2, 3])
def test_the_last_few_stay(tmp_path, keep):
    store = filled(tmp_path, 5, keep)
    assert [_epoch_of(path) for path in files(store)] == list(range(6 - keep, 6))
    assert store.latest()[1] == {"epoch": 5}


def _epoch_of(path):
    content = path.read_bytes()
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    return json.loads(header["__metadata__"]["facts"])["epoch"]


def test_more_than_a_million_checkpoints_stay_in_order(tmp_path):
    store = filled(tmp_path, 1)
    path = files(store)[0]
    path.rename(path.with_name(path.name.replace("000001", "999999")))
    store.save({}, {"epoch": 2})
    assert Store(tmp_path).latest()[1] == {"epoch": 2}


def test_an_empty_folder_and_none_at_all_have_no_checkpoint(tmp_path):
    assert Store(tmp_path).latest() is None
    assert Store(tmp_path / "no" / "where").latest() is None
    assert not (tmp_path / "no").exists()


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
    draft = tmp_path / ".checkpoint-000002-abc-x1y2.safetensors"
    draft.write_bytes(b"half")
    assert store.latest()[1] == {"epoch": 1}
    store.save({}, {"epoch": 2})
    assert not draft.exists()


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        ({"a": {1: 2}}, r"facts\['a'\] has the key 1"),
        ({"a": [0, {2}]}, r"facts\['a'\]\[1\] is a set"),
        ({"a": torch.ones(1)}, r"facts\['a'\] is a Tensor"),
    ],
)
def test_facts_that_would_not_come_back_are_refused(tmp_path, facts, told):
    with pytest.raises(TypeError, match=told):
        Store(tmp_path).save({}, facts)
    assert not files(Store(tmp_path))


def test_bad_arguments_are_named(tmp_path):
    with pytest.raises(ValueError, match="keep must be at least 1"):
        Store(tmp_path, keep=0)
    with pytest.raises(TypeError, match=r"tensors\['z'\] is complex128"):
        Store(tmp_path).save({"z": torch.zeros(1, dtype=torch.complex128)}, {})


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
    told = str(caught.value)
    assert told.startswith("the disk is full: ") and told.endswith(
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
from chronode._files import DiskFull
from chronode.training.store import Store
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


SAVE_FOR_EVER = """
import torch
from chronode.training.store import Store

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
    dice, last = random.Random(1), 0
    for _ in range(20):
        said = [int(word) for word in killed_after(dice.uniform(0, 0.03), str(tmp_path), 2)]
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
