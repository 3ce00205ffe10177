"""Sequences: parts, batches, immutability, saving."""

import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from series_checks import assert_same, lists, sequences, some

import chronode
from chronode.data import UNKNOWN, LengthBatches, batches_by_length, concat, from_list, from_numpy, load, windows

nan = float("nan")


def three():
    return from_list(
        [[[1.0, nan]], [[2.0, 3.0], [4.0, 5.0]], [[6.0, 7.0], [nan, nan], [8.0, 9.0]]],
        times=[[5], [0, 2], [1, 2, 4]],
        target=["b", "a", "b"],
        ids=["x", "y", "z"],
        groups=[1, 1, 2],
        channels=["u", "v"],
    )


@some
@given(lists())
def test_a_list_becomes_sequences_and_a_list_again(series):
    made = from_list(series)
    assert len(made) == len(series)
    for one, given_ in zip(made, series, strict=True):
        np.testing.assert_array_equal(one.values, given_)
        assert one.dt.tolist() == [1.0] * len(given_)


def test_series_have_values_times_gaps_target_id_and_group():
    series = three()[2]
    assert series.times.tolist() == [1, 2, 4]
    assert series.dt.tolist() == [0, 1, 2]
    assert (series.id, series.group, series.target) == ("z", 2, 1)
    np.testing.assert_array_equal(series.values, [[6, 7], [nan, nan], [8, 9]])


@pytest.mark.parametrize(
    "rows",
    [slice(1, None), [1, 2], np.array([1, 2]), [-2, -1], torch.tensor([1, 2]), [False, True, True]],
    ids=["slice", "list", "array", "negative", "tensor", "mask"],
)
def test_parts_are_chosen_by_slice_numbers_or_mask(rows):
    part = three()[rows]
    assert part.ids.tolist() == ["y", "z"]
    assert part[1].values[0].tolist() == [6, 7]
    assert part.target.values.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("rows", "message"), [([3], "series '3' does not exist"), ([True], "1 entries for 3"), ([0.5], "slice")]
)
def test_a_part_that_is_not_there_is_refused(rows, message):
    with pytest.raises((IndexError, TypeError), match=message):
        three()[rows]


def test_the_order_of_rows_is_the_order_asked_for():
    assert three()[[2, 0, 0]].ids.tolist() == ["z", "x", "x"]
    assert three()[[2, 0, 0]].batch().lengths.tolist() == [3, 1, 1]


def test_a_batch_is_padded_with_zeros_and_knows_what_was_observed():
    batch = three().batch([1, 2])
    assert batch.x.tolist() == [[[2, 3], [4, 5], [0, 0]], [[6, 7], [0, 0], [8, 9]]]
    assert batch.x.dtype == torch.float32
    assert batch.dt.tolist() == [[0, 2, 0], [0, 1, 2]]
    assert batch.lengths.tolist() == [2, 3]
    assert batch.observed.tolist() == [[[True] * 2, [True] * 2, [False] * 2], [[True] * 2, [False] * 2, [True] * 2]]
    assert batch.target.tolist() == [0, 1]
    assert batch.rows.tolist() == [1, 2]


def test_a_batch_goes_through_a_layer():
    batch = three().batch()
    layer = chronode.create("mmrnn", 2, 4, missing=True, outputs="last")
    with chronode.backend("torch"):
        assert layer(batch.x, **batch.times)[0].shape == (3, 4)


def test_series_without_times_or_missing_values_leave_both_to_the_layer():
    batch = from_list([[1.0, 2.0], [3.0]]).batch()
    assert batch.dt is None
    assert batch.observed is None
    assert set(batch.times) == {"lengths"}


def test_observed_does_not_depend_on_the_batch():
    assert three().batch([1]).observed.all()


@some
@given(sequences(), st.randoms(use_true_random=False))
def test_every_series_is_the_same_alone_and_in_any_batch(made, random):
    rows = [random.randrange(len(made)) for _ in range(3)]
    batch = made.batch(rows)
    for i, row in enumerate(rows):
        alone, length = made.batch([row]), int(made.lengths[row])
        assert batch.x[i, :length].equal(alone.x[0])
        assert not batch.x[i, length:].any()
        if batch.dt is not None:
            assert batch.dt[i, :length].equal(alone.dt[0])
            assert (batch.dt[i, length:] == 0).all()
        if batch.observed is not None:
            np.testing.assert_array_equal(batch.observed[i, :length], ~np.isnan(made[row].values))
            assert not batch.observed[i, length:].any()
        if batch.target is not None and made.target.per_step:
            unknown = batch.target[i, length:]
            assert (unknown == UNKNOWN).all() if made.classes else unknown.isnan().all()
            assert batch.target[i, :length].equal(alone.target[0])
        elif batch.target is not None:
            assert batch.target[i].equal(alone.target[0])


def test_target_shapes():
    per_series = from_list([[1.0], [2.0, 3.0]], target=[0.5, 1.5]).batch().target
    assert per_series.shape == (2, 1)
    several = from_list([[1.0], [2.0, 3.0]], target=[[0.5, 1], [1.5, 2]], per_step=False).batch().target
    assert several.shape == (2, 2)
    steps = from_list([[1.0], [2.0, 3.0]], target=[[0], [1, 1]]).batch().target
    assert steps.tolist() == [[0, UNKNOWN], [1, 1]]
    values = from_list([[1.0], [2.0, 3.0]], target=[[0.5], [1.5, 2.5]]).batch().target
    assert values.shape == (2, 2, 1)


def test_symbols_stay_whole_numbers():
    words = from_list([[3, 1], [2]], dtype="int32", target=[[1, 0], [1]], classes=["the", "cat"])
    assert words.batch().x.dtype == torch.int64
    with pytest.raises(ValueError, match=r"series\[1\], step 0, channel 'x0': 0.5 is not a symbol"):
        from_list([[3.0, 1.0], [0.5]], dtype="int32")


def test_nothing_can_be_changed_from_outside():
    values = np.ones((2, 3, 1), dtype=np.float32)
    made = from_numpy(values, order="NTD", times=np.arange(3.0), target=[0, 1])
    values[:] = 7
    assert (made.values == 1).all()
    for array in (made.values, made[0].values, made.lengths, made.ids, made.target.values, made[0].times):
        with pytest.raises(ValueError, match="read-only"):
            array[:1] = 0
    with pytest.raises(AttributeError):
        made.channels = ("y",)  # pyrefly: ignore
    before = made.batch()
    before.x.zero_()
    assert (made.batch().x == 1).all()


def test_an_empty_part_is_fine_but_makes_no_batch():
    empty = three()[:0]
    assert len(empty) == 0
    assert list(empty) == []
    assert "0 series" in str(empty.describe())
    with pytest.raises(ValueError, match="at least one series"):
        empty.batch()


def test_labeled_leaves_out_series_without_a_target():
    assert from_list([[1.0], [2.0], [3.0]], target=["a", None, "b"]).labeled().ids.tolist() == [0, 2]
    steps = from_list([[1.0, 2.0], [3.0]], target=[[0, UNKNOWN], [UNKNOWN]], classes=["a", "b"])
    assert steps.labeled().ids.tolist() == [0]


def test_unseen_classes_of_a_test_part_are_named():
    train = from_list([[1.0], [2.0]], target=["a", "b"])
    test = from_list([[1.0], [2.0]], target=["b", "c"])
    with pytest.raises(ValueError, match="classes that did not occur in training: 'c'; training had 'a', 'b'"):
        test.with_classes(train.classes)
    assert test[:1].with_classes(train.classes).target.values.tolist() == [1]


@some
@given(sequences())
def test_saving_and_loading_changes_nothing(tmp_path_factory, made):
    path = tmp_path_factory.mktemp("saved") / "s.npz"
    made = windows(made, 1) if len(made) > 3 else made
    made.save(path)
    assert_same(load(path), made)


def test_saving_a_part_saves_only_that_part(tmp_path):
    made = from_numpy(np.random.rand(1000, 50, 2), order="NTD")
    made[:2].save(tmp_path / "part.npz")
    assert (tmp_path / "part.npz").stat().st_size < 10_000
    assert_same(load(tmp_path / "part.npz"), made[:2])


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    path = three().save(tmp_path / "s.npz")

    def fail(*_, **__):
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez", fail)
    with pytest.raises(OSError, match="disk full"):
        three()[:1].save(path)
    assert len(load(path)) == 3
    assert os.listdir(tmp_path) == ["s.npz"]


@some
@given(sequences(), sequences())
def test_concatenation_keeps_every_series(one, other):
    try:
        both = concat([one, other])
    except ValueError as error:
        assert "differ" in str(error) or "kinds" in str(error)
        return
    assert len(both) == len(one) + len(other)
    np.testing.assert_array_equal(both.values, np.concatenate([one.values, other.values]))
    np.testing.assert_allclose(both.dt, np.concatenate([one.dt, other.dt * other.clock.scale / one.clock.scale]))


def test_concatenation_numbers_classes_again():
    both = concat([from_list([[1.0], [2.0]], target=["b", "a"]), from_list([[3.0], [4.0]], target=["c", "b"])])
    assert both.classes == ("a", "b", "c")
    assert both.target.values.tolist() == [1, 0, 2, 1]


@some
@given(st.lists(st.integers(1, 50), min_size=1, max_size=200), st.integers(1, 17), st.integers(0, 5))
def test_batches_by_length_hold_every_series_once(lengths, size, seed):
    made = LengthBatches(np.array(lengths), size, seed=seed)
    made.set_epoch(3)
    batches = list(made)
    assert len(batches) == len(made)
    assert sorted(torch.cat(batches).tolist()) == list(range(len(lengths)))
    assert all(a.equal(b) for a, b in zip(batches, made, strict=True))
    assert max(len(rows) for rows in batches) <= size


def test_batches_by_length_need_little_padding():
    lengths = torch.randint(1, 1000, (4096,), generator=torch.Generator().manual_seed(0))
    batches = batches_by_length(lengths, 32, torch.Generator().manual_seed(0))
    padded = sum(int(lengths[rows].max()) * len(rows) for rows in batches)
    assert padded < 1.15 * int(lengths.sum())


def test_epochs_and_seeds_give_different_orders():
    lengths = np.arange(1, 200)
    orders = set()
    for seed, epoch in ((0, 0), (0, 1), (1, 0)):
        made = LengthBatches(lengths, 8, seed=seed)
        made.set_epoch(epoch)
        orders.add(tuple(torch.cat(list(made)).tolist()))
    assert len(orders) == 3


def test_a_data_loader_can_use_it():
    made = three()
    loader = torch.utils.data.DataLoader(
        range(len(made)), batch_sampler=LengthBatches(made.lengths, 2, shuffle=False), collate_fn=made.batch
    )
    assert [batch.lengths.tolist() for batch in loader] == [[1, 2], [3]]


def test_arrays_need_no_table_library_and_load_none():
    code = (
        "import sys, chronode.data as data\n"
        "data.from_list([[1.0, 2.0]], times=[[0, 1]]).batch()\n"
        "print(*sorted({'pandas', 'polars', 'pyarrow', 'sklearn'} & set(sys.modules)), 'so far')\n"
        "sys.modules['pyarrow'] = None\n"
        "try: data.from_long({'x': [1]})\n"
        "except ImportError as error: print(error)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.splitlines()[0] == "so far"
    assert "pip install 'chronode[predict]'" in shown
