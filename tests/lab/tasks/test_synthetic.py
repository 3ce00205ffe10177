"""Made-up tasks against closed forms, plain loops and scipy."""

import itertools
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import solve_ivp
from torch.nn.functional import cross_entropy

import chronode
import chronode.lab.tasks.digits
import chronode.lab.tasks.noisy
from chronode.lab.tasks import find_task
from chronode.lab.tasks.bitstream import bitstream
from chronode.lab.tasks.synthetic import NAIVE, adding, circle, copying, lorenz96, memoryless, slope, trajectory

SYNTHETIC = ("adding", "bitstream", "circle", "copy", "lorenz96")
IMAGES = ("smnist", "psmnist", "row-mnist", "event-mnist", "noisy-mnist", "noisy-cifar")
SMALL = {"train": 6, "valid": 3, "test": 4}
SHORT = {"lorenz96": {"length": 60}}


def new_rng(seed=0):
    return np.random.default_rng(seed)


def same(one, other):
    return one.values.shape == other.values.shape and (one.values == other.values).all()


# ---- all of them ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SYNTHETIC)
@pytest.mark.parametrize("protocol", ["clean", "paper"])
def test_a_batch_runs_through_a_layer(name, protocol):
    task = find_task(name)
    parts = task.load(protocol, **SMALL, **SHORT.get(name, {}))
    for part, count in zip((parts.train, parts.valid, parts.test), SMALL.values(), strict=True):
        assert len(part) == count
        batch = part.batch()
        assert batch.x.dtype == torch.float32
        y, _ = chronode.create("mmrnn", part.num_channels, 8)(batch.x, **batch.times)
        assert y.isfinite().all()
        assert batch.target.shape[0] == count


@pytest.mark.parametrize("name", SYNTHETIC)
def test_default_parts_have_the_promised_sizes(name):
    task = find_task(name)
    parts = task.load()
    sizes = task.sizes
    assert (len(parts.train), len(parts.valid), len(parts.test)) == (sizes.train, sizes.valid, sizes.test)
    assert parts.train.num_channels == sizes.channels
    assert max(int(part.lengths.max()) for part in (parts.train, parts.valid, parts.test)) <= sizes.steps
    assert sizes.classes == (None if parts.train.classes is None else len(parts.train.classes))


@pytest.mark.parametrize("name", SYNTHETIC)
def test_seeds_and_parts_have_generators_of_their_own(name):
    task = find_task(name)
    equal = {"train": 5, "valid": 5, "test": 5, **SHORT.get(name, {})}
    one, again, other = task.load(seed=1, **equal), task.load(seed=1, **equal), task.load(seed=2, **equal)
    for part in ("train", "valid", "test"):
        assert same(getattr(one, part), getattr(again, part))
    six = [getattr(parts, part) for parts in (one, other) for part in ("train", "valid", "test")]
    assert not any(same(a, b) for a, b in itertools.combinations(six, 2))


@pytest.mark.parametrize("name", ["adding", "copy"])
def test_every_epoch_has_series_of_its_own(name):
    parts = find_task(name).load(length=20, **SMALL)
    assert same(parts.fresh(0), parts.train)
    assert same(parts.fresh(3), parts.fresh(3))
    epochs = [parts.fresh(epoch) for epoch in range(4)]
    assert not any(same(a, b) for a, b in itertools.combinations(epochs, 2))
    assert same(pickle.loads(pickle.dumps(parts.fresh))(2), epochs[2])


@pytest.mark.parametrize("name", SYNTHETIC)
@pytest.mark.parametrize("part", ["train", "valid", "test"])
def test_a_part_without_series_is_refused(name, part):
    with pytest.raises(ValueError, match="at least 1"):
        find_task(name).load(**{**SMALL, part: 0})


# ---- adding -----------------------------------------------------------------------------------------------


@given(st.integers(2, 60), st.integers(0, 1000))
def test_adding_marks_one_number_in_each_half_and_adds_them(length, seed):
    batch = adding(20, new_rng(seed), length=length).batch()
    value, marker = batch.x[..., 0].double(), batch.x[..., 1]
    assert (marker[:, : length // 2].sum(1) == 1).all()
    assert (marker[:, length // 2 :].sum(1) == 1).all()
    assert ((marker == 0) | (marker == 1)).all()
    assert value.min() >= 0
    assert value.max() < 1
    torch.testing.assert_close((value * marker).sum(1), batch.target[:, 0].double(), atol=1e-6, rtol=0)


def test_every_place_can_be_marked():
    marked = adding(500, new_rng(), length=9).batch().x[..., 1].sum(0)
    assert (marked > 0).all()


def test_saying_one_has_the_naive_error():
    sums = adding(40_000, new_rng(), length=4).batch().target
    assert ((sums - 1) ** 2).mean().item() == pytest.approx(NAIVE, rel=0.02)
    assert pytest.approx(0.167, abs=5e-4) == NAIVE


# ---- copy -------------------------------------------------------------------------------------------------


@given(st.integers(1, 40), st.integers(0, 1000))
def test_copy_series_are_as_the_paper_describes_them(length, seed):
    series = copying(3, new_rng(seed), length=length)
    assert (series.values.sum(1) == 1).all()
    for one in series:
        seen, wanted = one.values.argmax(1).tolist(), one.target.tolist()
        data = seen[:10]
        assert all(symbol < 8 for symbol in data)
        assert seen == data + [8] * (length - 1) + [9] + [8] * 10
        assert wanted == [8] * (length + 10) + data


@pytest.mark.parametrize("length", [200, 500])
def test_the_memoryless_baseline_is_the_cross_entropy_of_its_strategy(length):
    batch = copying(16, new_rng(), length=length).batch()
    logits = torch.full((16, length + 20, 10), -100.0)
    logits[:, :-10, 8] = 0
    logits[:, -10:, :8] = 0
    assert cross_entropy(logits.flatten(0, 1), batch.target.flatten()).item() == pytest.approx(memoryless(length))


# ---- Lorenz 96 --------------------------------------------------------------------------------------------


def exact(start, force, times):
    """States `(N, times, 5)` from `start (N, 5)` on, by scipy."""

    def field(_, flat):
        x = flat.reshape(start.shape)
        return np.stack(
            [(x[:, (j + 1) % 5] - x[:, j - 2]) * x[:, j - 1] - x[:, j] + force for j in range(5)], 1
        ).ravel()

    solved = solve_ivp(field, (0, times[-1]), start.ravel(), t_eval=times, rtol=1e-12, atol=1e-12, method="DOP853")
    return solved.y.reshape(*start.shape, len(times)).transpose(0, 2, 1)


def test_calm_trajectories_are_those_of_scipy():
    start = 0.4 + new_rng().random((2, 5))
    expected = exact(start, 0.9, 0.01 * np.arange(2000))
    assert np.abs(trajectory(start, 0.9, 2000) - expected).max() < 1e-8


def test_every_step_of_chaotic_trajectories_is_that_of_scipy():
    # Whole trajectories part, however good the rule is: chaos makes much of the least error.
    (path,) = trajectory(7.5 + new_rng().random((1, 5)), 8.0, 2000)
    after = exact(path[:-1], 8.0, np.array([0, 0.01]))[:, 1]
    assert np.abs(path[1:] - after).max() < 2e-5


def test_the_rule_is_of_order_four():
    start = np.array([[8.5, 7.9, 8.2, 7.6, 8.1]])
    end = [trajectory(start, 8.0, steps + 1, 0.4 / steps)[0, -1] for steps in (10, 20, 640)]
    coarse, fine = (np.abs(x - end[2]).max() for x in end[:2])
    assert 12 < coarse / fine < 20


@given(st.integers(4, 9), st.floats(-10, 10))
def test_the_constant_state_rests(width, force):
    assert np.abs(slope(np.full((2, width), force), force)).max() < 1e-12


def test_the_force_makes_chaos():
    start = 0.5 * new_rng().random(5) + np.arange(5)
    ends = {force: trajectory(np.stack([start, start + 1e-6]), force, 2000)[:, -1] for force in (0.9, 8.0)}
    assert np.abs(np.diff(ends[0.9], axis=0)).max() < 1e-6
    assert np.abs(np.diff(ends[8.0], axis=0)).max() > 1e-4


@pytest.mark.parametrize("ahead", [1, 25])
def test_the_target_is_a_later_state(ahead):
    batch = lorenz96(3, new_rng(), length=100, ahead=ahead).batch()
    assert batch.x.shape == batch.target.shape == (3, 100, 5)
    assert batch.x[:, ahead:].equal(batch.target[:, :-ahead])
    assert ((batch.x[:, 0] - 8).abs() <= 0.5).all()


@pytest.mark.parametrize(("force", "error"), [(0.9, 0.050), (8.0, 0.99)])
def test_repeating_the_input_has_the_known_error(force, error):
    batch = find_task("lorenz96").load(force=force).test.batch()
    gaps = (batch.x - batch.target).square().mean() / batch.target.square().mean()
    assert gaps.sqrt().item() == pytest.approx(error, rel=0.05)


# ---- circle -----------------------------------------------------------------------------------------------


@given(st.integers(3, 200), st.floats(0, 6.28))
def test_a_circle_is_walked_around_once(points, phase):
    batch = circle(points, np.array([phase])).batch()
    torch.testing.assert_close(batch.x.norm(dim=-1), torch.ones(1, points))
    torch.testing.assert_close(batch.x[0, 0], batch.x[0, -1], atol=1e-5, rtol=0)
    assert batch.x[:, 1:].equal(batch.target[:, :-1])
    assert batch.dt.sum().item() == pytest.approx(2 * np.pi, rel=1e-5)
    chords = (batch.x[:, 1:] - batch.x[:, :-1]).norm(dim=-1)
    assert chords.sum().item() == pytest.approx(2 * (points - 1) * np.sin(np.pi / (points - 1)), rel=1e-4)


def test_the_circle_of_the_paper_begins_at_zero():
    assert circle(10).batch().x[0, 0].tolist() == [0, 1]


# ---- bit streams ------------------------------------------------------------------------------------------


def test_blocks_of_the_text_have_exactly_32_bits():
    streams = find_task("bitstream").load(block="text", train=200, valid=1, test=1).train.batch()
    assert streams.dt.sum(1).eq(1).all()


@pytest.mark.parametrize("event", [True, False])
def test_blocks_of_the_code_have_2_to_31_bits(event):
    streams = find_task("bitstream").load(event=event, train=2000, valid=1, test=1).train.batch()
    bits = (streams.dt.sum(1) * 32).round().int()
    assert set(bits.tolist()) == set(range(2, 32))


def test_both_codes_tell_the_same_block():
    dense, event = bitstream(100, 5, event=False), bitstream(100, 5)
    assert dense.batch().target.equal(event.batch().target)
    assert dense.batch().dt.sum(1).equal(event.batch().dt.sum(1))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"block": "texts"}, "block='texts' is not supported.*'text'"),
        ({"length": 5}, "bitstream has no option 'length'"),
        ({"event": "no"}, "event must be True or False"),
    ],
)
def test_wrong_options_are_named(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        find_task("bitstream").load(**{**SMALL, **options})


@pytest.mark.parametrize("name", ["adding", "copy"])
def test_lengths_that_leave_no_room_are_refused(name):
    with pytest.raises(ValueError, match="length must be at least"):
        find_task(name).load(length=0, **SMALL)
