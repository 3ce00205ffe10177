"""Checkpoints are restored exactly, the last few stay, and values that could not be restored are refused."""

import json
import math
import struct

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file
from stores import files, filled

from chronode.runs._checkpoints import Store

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


def test_a_random_generator_continues_where_it_was(tmp_path):
    rng = torch.Generator().manual_seed(3)
    torch.rand(5, generator=rng)
    store = Store(tmp_path)
    store.save({"rng": rng.get_state()}, {})
    expected = torch.rand(9, generator=rng)
    tensors, _ = store.latest()
    again = torch.Generator()
    again.set_state(tensors["rng"])
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


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"a": {1: 2}}, r"facts\['a'\] has the key 1"),
        ({"a": [0, {2}]}, r"facts\['a'\]\[1\] is a set"),
        ({"a": torch.ones(1)}, r"facts\['a'\] is a Tensor"),
    ],
)
def test_facts_that_would_not_come_back_are_refused(tmp_path, facts, message):
    with pytest.raises(TypeError, match=message):
        Store(tmp_path).save({}, facts)
    assert not files(Store(tmp_path))


def test_bad_arguments_are_named(tmp_path):
    with pytest.raises(ValueError, match="keep must be at least 1"):
        Store(tmp_path, keep=0)
    with pytest.raises(TypeError, match=r"tensors\['z'\] is complex128"):
        Store(tmp_path).save({"z": torch.zeros(1, dtype=torch.complex128)}, {})
