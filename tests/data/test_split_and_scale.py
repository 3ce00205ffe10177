"""Windows, forecasts, splits and scaling: nothing crosses, nothing leaks."""

import json
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from series_checks import assert_same, lists, numbers, sequences, some, times

from chronode.data import Scaler, forecast, from_list, from_long, from_numpy, load, split, split_by_time, windows
from chronode.data._split import hold_out, split_for_training

nan = float("nan")


@some
@given(sequences(), st.integers(1, 4), st.integers(1, 3), st.sampled_from(["drop", "keep"]))
def test_windows_never_cross_series_and_cover_them(made, length, stride, rest):
    if rest == "drop" and made.lengths.max() < length:
        with pytest.raises(ValueError, match="is longer than every series"):
            windows(made, length, stride)
        return
    cut = windows(made, length, stride, rest=rest)
    parents = {series.id: series for series in made}
    covered = {series.id: np.zeros(len(series.values), dtype=bool) for series in made}
    for window in cut:
        name, place = str(window.id)[:-1].split("[")
        low, high = map(int, place.split(":"))
        parent = parents[name]
        assert window.group == parent.group
        assert high - low <= length
        np.testing.assert_array_equal(window.values, parent.values[low:high])
        np.testing.assert_array_equal(window.times - window.times[0], parent.times[low:high] - parent.times[low])
        if made.target is not None:
            np.testing.assert_array_equal(
                window.target, parent.target[low:high] if made.target.per_step else parent.target
            )
        covered[name][low:high] = True
    if rest == "keep" and stride <= length:
        assert all(seen.all() for seen in covered.values())
    if rest == "drop":
        assert set(cut.lengths.tolist()) == {length}


def test_windows_copy_nothing_and_know_the_gap_before_them():
    made = from_numpy(np.ones((1, 1000, 2)), order="NTD", times=np.arange(1000) * 3, unit=1)
    cut = windows(made, 32, 1)
    assert len(cut) == 969
    assert cut.base_values is made.base_values
    assert cut[1].dt[:2].tolist() == [0, 3]
    gaps = windows(made, 32, 16, lead="gap")
    assert [series.dt[0] for series in gaps[:2]] == [0, 3]
    assert gaps.batch([1]).dt[0, :2].tolist() == [3, 3]


def test_windows_say_what_they_leave():
    made = from_list([[1.0] * 5, [2.0]], ids=["a", "b"])
    assert "windows of 2: 2 steps left over, 1 series too short (first: b)." in windows(made, 2).notes
    assert windows(made, 2, rest="keep").lengths.tolist() == [2, 2, 1, 1]
    with pytest.raises(ValueError, match="stride must be at least 1"):
        windows(made, 2, 0)


@some
@given(lists(longest=8), st.integers(1, 3))
def test_forecasts_are_the_values_that_come(series, horizon):
    made = from_list(series, channels=[f"c{i}" for i in range(series[0].shape[1])])
    long_enough = [part for part in series if len(part) > horizon]
    if not long_enough:
        with pytest.raises(ValueError, match="needs a series of more than"):
            forecast(made, horizon)
        return
    ahead = forecast(made, horizon)
    assert len(ahead) == len(long_enough)
    for got, part in zip(ahead, long_enough, strict=True):
        np.testing.assert_array_equal(got.values, part[:-horizon])
        for step, target in enumerate(got.target):
            np.testing.assert_array_equal(target, part[step + 1 : step + 1 + horizon].ravel())


def test_forecasts_of_chosen_channels():
    ahead = forecast(from_list([[[1.0, 5.0], [2.0, 6.0]], [[3.0, 7.0]]], channels=["a", "b"]), channels=["b"])
    assert ahead.target.names == ("b+1",)
    assert ahead[0].target.tolist() == [[6]]
    assert ahead.notes[-1] == "forecast: 1 series not longer than 1 step dropped."
    with pytest.raises(ValueError, match="channels='c' is not a column"):
        forecast(ahead, channels=["c"])


fractions = st.sampled_from([(0.7, 0.15, 0.15), (0.5, 0.5), (0.8, 0.2), (0.6, 0.0, 0.4), (0.9, 0.05, 0.05)])


@some
@given(sequences(most=12), fractions, st.integers(0, 3), st.booleans())
def test_splits_share_no_group_and_lose_no_series(made, shares, seed, stratify):
    parts = sum(share > 0 for share in shares)
    if len(set(made.groups.tolist())) < parts:
        with pytest.raises(ValueError, match=f"{parts} parts need at least {parts} groups"):
            split(made, shares, seed=seed, stratify=stratify)
        return
    cut = split(made, shares, seed=seed, stratify=stratify)
    groups = [set(part.groups.tolist()) for part in cut]
    assert all(not (a & b) for i, a in enumerate(groups) for b in groups[:i])
    assert sorted(i for part in cut for i in part.ids.tolist()) == sorted(made.ids.tolist())
    assert [len(part) > 0 for part in cut] == [share > 0 for share in shares]
    for part, again in zip(cut, split(made, shares, seed=seed, stratify=stratify), strict=True):
        assert_same(part, again)


@some
@given(sequences(most=12), st.sampled_from([(0.7, 0.15, 0.15), (0.6, 0.0, 0.4), (0.2, 0.2, 0.6)]), st.integers(0, 3))
def test_a_split_for_training_is_a_split_off_and_a_hold_out(made, shares, seed):
    needed = sum(share > 0 for share in shares)
    if len(set(made.groups.tolist())) < needed:
        with pytest.raises(ValueError, match=f"{needed} parts need at least {needed} groups"):
            split_for_training(made, shares, seed=seed)
        return
    train, valid, test = split_for_training(made, shares, seed=seed)
    assert [len(part) > 0 for part in (train, valid, test)] == [share > 0 for share in shares]
    assert not set(valid.groups) & set(train.groups) and not set(test.groups) & {*train.groups, *valid.groups}
    rest = made[~np.isin(made.ids, test.ids)]
    if len(set(rest.groups)) > 2:
        again = hold_out(rest, shares[1] / (shares[0] + shares[1]), seed=seed)
        assert [part.ids.tolist() for part in again] == [train.ids.tolist(), valid.ids.tolist()]


@pytest.mark.parametrize("count", [100, 1000, 999])
@pytest.mark.parametrize("split", [split, split_for_training])
def test_fractions_are_kept_and_classes_spread(count, split):
    made = from_list([[1.0]] * count, target=["rare" if i % 10 == 0 else "often" for i in range(count)])
    cut = split(made, (0.7, 0.15, 0.15), seed=4)
    assert [len(part) / count for part in cut] == pytest.approx([0.7, 0.15, 0.15], abs=0.02)
    for part in cut:
        assert (part.target.values == 1).mean() == pytest.approx(0.1, abs=0.04)
    other = split(made, (0.7, 0.15, 0.15), seed=5)
    assert cut[0].ids.tolist() != other[0].ids.tolist()


def test_rare_classes_go_to_training_first():
    made = from_list([[1.0]] * 12, target=["a"] * 5 + ["b"] * 5 + ["c"] + ["d"])
    for seed in range(5):
        train = split(made, (0.6, 0.4), seed=seed)[0]
        assert set(train.target.values.tolist()) == {0, 1, 2, 3}


def test_a_class_that_training_does_not_see_is_noted():
    made = from_list([[1.0]] * 2, target=["a", "b"])
    cut = split(made, (0.5, 0.5))
    assert any("part 2 has classes that are not in training (part 1)" in note for note in cut[0].notes)


def test_a_group_counts_for_its_most_frequent_class():
    made = windows(from_list([[1.0, 2.0, 3.0]] * 20, target=[[0, 0, 1]] * 10 + [[1, 1, 0]] * 10), 2, 1)
    train, test = split(made, (0.5, 0.5))
    assert len(train) == len(test) == 20
    assert not set(train.groups) & set(test.groups)


def test_series_can_be_split_one_by_one_as_some_papers_did():
    made = windows(from_list([[0.0] * 100]), 2, 1)
    assert [len(part) for part in split(made, (0.5, 0.5), by="series")] == [50, 49]
    with pytest.raises(ValueError, match="a single long series can be split by time"):
        split(made, (0.5, 0.5))


@pytest.mark.parametrize("shares", [(1.0,), (0.5, 0.6), (0.0, 1.0), ()])
def test_wrong_fractions_are_refused(shares):
    with pytest.raises(ValueError, match="add up to 1, training first"):
        split(from_list([[1.0]] * 4), shares)


@some
@given(st.lists(st.integers(1, 6).flatmap(times), min_size=1, max_size=6), st.booleans(), st.data())
def test_training_comes_before_test(clocks, whole_groups, data):
    groups = data.draw(st.lists(st.integers(0, 3), min_size=len(clocks), max_size=len(clocks)))
    made = from_list([[0.0] * len(c) for c in clocks], times=clocks, groups=groups, unit=1)
    try:
        parts = split_by_time(made, (0.5, 0.25, 0.25), whole_groups=whole_groups)
    except ValueError as error:
        assert "is empty" in str(error)
        return
    for one, other in pairwise(parts):
        assert one.times.max() < other.times.min()
    if whole_groups:
        assert sum(len(set(part.groups.tolist())) for part in parts) == len(
            set().union(*(p.groups.tolist() for p in parts))
        )
    else:
        assert sorted(np.concatenate([p.times for p in parts])) == sorted(made.times)


def test_a_long_series_is_divided_and_whole_groups_are_left_out_with_a_note():
    made = from_list([[0.0] * 100], times=[np.arange(100)], target=[["a", "b"] * 50])
    assert [int(p.lengths[0]) for p in split_by_time(made)] == [70, 15, 15]
    no_times = from_numpy(np.ones((2, 10, 1)), order="NTD")
    assert [p.lengths.tolist() for p in split_by_time(no_times, (0.8, 0.2))] == [[8, 8], [2, 2]]
    three = from_list([[0.0] * 2] * 3, times=[[0, 1], [1, 9], [8, 9]], target=["a", "b", "a"])
    train, test = split_by_time(three, (0.5, 0.5))
    assert train.ids.tolist() == [0]
    assert test.ids.tolist() == [2]
    assert "split by time: 1 group dropped because a cut would divide them: '1'." in train.notes
    with pytest.raises(ValueError, match="is empty: every group extends over a cut, .* use whole_groups=False"):
        split_by_time(made, whole_groups=True)
    with pytest.raises(ValueError, match="have no times to split by"):
        split_by_time(no_times, (0.8, 0.2), whole_groups=True)


@some
@given(lists(most=6, cell=st.one_of(numbers, st.just(nan))), st.data())
def test_scaling_sees_no_test_value(series, data):
    made = from_list(series, groups=list(range(len(series))), target=[float(i) for i in range(len(series))])
    assume(len(made) >= 2)
    train, test = split(made, (0.5, 0.5), seed=data.draw(st.integers(0, 9)))
    scaler = Scaler.fit(train)
    other = [part if i in set(train.ids) else part * 0 + 12345 for i, part in enumerate(series)]
    goals = [float(i) if i in set(train.ids) else 1e6 for i in range(len(series))]
    changed = from_list(other, groups=list(range(len(series))), target=goals)[train.ids]
    assert Scaler.fit(changed) == scaler
    alone = from_list([series[i] for i in train.ids], target=[float(i) for i in train.ids])
    assert Scaler.fit(alone) == scaler
    if min(scaler.std) > 1e-30:
        np.testing.assert_array_equal(np.isnan(scaler.transform(test).values), np.isnan(test.values))


def test_scaled_training_values_have_mean_0_and_std_1_without_missing_values_and_padding():
    rng = np.random.default_rng(0)
    values = rng.normal(5, 3, size=(20, 30, 2))
    values[rng.random(values.shape) < 0.3] = nan
    made = from_numpy(values, order="NTD", lengths=rng.integers(1, 31, 20), target=rng.normal(100, 7, 20))
    scaler = Scaler.fit(made)
    scaled = scaler.transform(made)
    np.testing.assert_allclose(np.nanmean(scaled.values, axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(np.nanstd(scaled.values, axis=0), 1, atol=1e-5)
    assert scaled.target.values.std() == pytest.approx(1, abs=1e-5)
    np.testing.assert_allclose(scaler.inverse_target(scaled.target.values), made.target.values, rtol=1e-5)
    back = scaler.inverse_target(torch.from_numpy(scaled.target.values.copy()))
    np.testing.assert_allclose(back.numpy(), made.target.values, rtol=1e-5)


def test_constant_empty_and_chosen_channels_are_safe():
    made = from_list(
        [[[0.1, nan, 5.0, 1e300], [0.1, nan, 7.0, -1e300]]], dtype="float64", channels=["c", "e", "s", "big"]
    )
    scaler = Scaler.fit(made, skip=["s"])
    scaled = scaler.transform(made).values
    assert scaled[:, 0] == pytest.approx([0, 0])
    assert np.isnan(scaled[:, 1]).all()
    assert scaled[:, 2].tolist() == [5, 7]
    assert scaled[:, 3] == pytest.approx([1, -1])


def test_channels_of_categories_and_symbols_are_left_as_they_are():
    table = {"t": [0, 1, 2], "x": [1.0, 2.0, 3.0], "tag": ["a", "b", "b"]}
    made = from_long(table, time="t", categorical="onehot")
    assert Scaler.fit(made).transform(made).values[:, 1:].tolist() == made.values[:, 1:].tolist()
    words = from_list([[1, 2, 3]], dtype="int32")
    assert Scaler.fit(words).transform(words).values[:, 0].tolist() == [1, 2, 3]


def test_overlapping_windows_count_every_observation_once():
    made = from_list([[0.0, 1.0, 2.0, 3.0, 9.0]])
    assert Scaler.fit(windows(made, 2, 1)).mean == Scaler.fit(made).mean


def test_a_part_of_windows_sees_only_its_own_steps():
    made = windows(from_list([[0.0, 1.0], [100.0, 200.0]]), 2)
    assert Scaler.fit(made[:1]).mean == (0.5,)


def test_values_too_far_from_training_are_an_error():
    scaler = Scaler.fit(from_list([[1e-20, 2e-20]]))
    with pytest.raises(ValueError, match="channel 'x0' has values too far from those in training"):
        scaler.transform(from_list([[1e30]]))


def test_times_can_be_scaled_by_the_median_gap():
    made = from_list([[0.0] * 4], times=[[0, 2, 4, 8]], unit=1)
    scaler = Scaler.fit(made, dt=True)
    scaled = scaler.transform(made)
    assert scaled[0].dt.tolist() == [0, 1, 1, 2]
    assert scaled.clock.scale == 2
    lead = Scaler.fit(made, dt=True).transform(from_list([[1.0]], dt=[[4.0]]))
    assert lead[0].dt.tolist() == [2]


def test_other_channels_or_targets_are_refused():
    scaler = Scaler.fit(from_list([[1.0]], target=[0.5], channels=["a"]))
    with pytest.raises(ValueError, match="differ from training: here 'b', in training 'a'"):
        scaler.transform(from_list([[1.0]], channels=["b"]))
    with pytest.raises(ValueError, match="the target is 'other', but in training it was 'target'"):
        scaler.transform(from_list([[1.0]], target=[0.5], target_names=["other"], channels=["a"]))
    assert scaler.transform(from_list([[1.0]], channels=["a"])).target is None


@some
@given(lists(cell=numbers))
def test_a_scaler_comes_back_exactly(tmp_path_factory, series):
    path = tmp_path_factory.mktemp("scaler") / "s.json"
    scaler = Scaler.fit(from_list(series, target=[float(len(p)) / 3 for p in series]))
    scaler.save(path)
    assert Scaler.load(path) == scaler
    assert Scaler.from_dict(json.loads(json.dumps(scaler.as_dict()))) == scaler


@pytest.mark.parametrize("content", ["", "{", '{"mean": [1]}', '{"channels": ["a"], "mean": [], "std": [1]}', "[1]"])
def test_a_damaged_scaler_is_refused(tmp_path, content):
    (tmp_path / "s.json").write_text(content)
    with pytest.raises(ValueError, match="s.json: "):
        Scaler.load(tmp_path / "s.json")


def test_scaled_parts_can_be_saved(tmp_path):
    made = from_list([[1.0, 2.0], [4.0]], target=["a", "b"])
    scaled = Scaler.fit(made).transform(made[1:])
    assert_same(load(scaled.save(tmp_path / "a.npz")), scaled)


@pytest.mark.parametrize("dt", [False, True])
def test_inverse_gives_back_values_times_and_targets(dt):
    values = [np.array([[1.0, 50.0], [2.0, np.nan]]), np.array([[4.0, 70.0], [8.0, 90.0], [3.0, 60.0]])]
    s = from_list(values, times=[[0.0, 4.0], [1.0, 2.0, 10.0]], target=[100.25, 900.5], dtype=np.float64)
    scaler = Scaler.fit(s, dt=dt)
    back = scaler.inverse(scaler.transform(s))
    np.testing.assert_allclose(back.values, s.values, rtol=1e-12)
    np.testing.assert_allclose(back.times, s.times, rtol=1e-12)
    assert back.target.values.tolist() == s.target.values.tolist()
    assert back.clock.unit_text() == s.clock.unit_text()
