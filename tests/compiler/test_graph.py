"""Views as index arithmetic, nodes that are one, and what is kept for the backward: without a C++ compiler."""

import torch
from compiled_cases import cells
from hypothesis import given
from hypothesis import strategies as st

from chronode.compiler._compiled import step_of
from chronode.compiler._graph import Builder
from chronode.compiler._partition import forward_nodes, is_free, kept
from chronode.compiler._program import Target
from chronode.compiler._schedule import Scheduler
from chronode.compiler._views import View, compose

SHAPES = st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple)


def elements(view):
    """The elements that a view sees, of a storage that holds 0, 1, 2, ..."""
    storage = torch.arange(10_000)
    return storage.as_strided(view.shape, view.strides, view.offset)


def change(draw, view):
    """A random change of a view, and the same of a tensor."""
    axis = draw(st.integers(0, len(view.shape) - 1))
    size = view.shape[axis]
    kind = draw(st.sampled_from(["narrow", "step", "permute", "axis", "without"]))
    if kind == "narrow":
        start = draw(st.integers(0, size - 1))
        count = draw(st.integers(1, size - start))
        return view.narrowed(axis, start, count), lambda t: t.narrow(axis, start, count)
    if kind == "step":
        return view.narrowed(axis, 0, (size + 1) // 2, 2), lambda t: t.movedim(axis, 0)[::2].movedim(0, axis)
    if kind == "permute":
        order = draw(st.permutations(range(len(view.shape))))
        return view.permuted(order), lambda t: t.permute(order)
    if kind == "axis":
        return view.with_axis(axis, 2), lambda t: t.unsqueeze(axis).expand(*t.shape[:axis], 2, *t.shape[axis:])
    if len(view.shape) == 1:
        return view, lambda t: t
    return view.without(axis), lambda t: t.select(axis, 0)


@given(SHAPES, st.data())
def test_changes_of_a_view_are_those_of_a_tensor(shape, data):
    view = Builder().input("x", shape)
    expected = elements(view)
    for _ in range(4):
        view, same = change(data.draw, view)
        expected = same(expected)
    assert torch.equal(elements(view), expected)


@given(SHAPES, SHAPES)
def test_a_reshaped_view_sees_the_same_elements(shape, other):
    view = Builder().input("x", shape)
    if view.node.size == torch.Size(other).numel():
        seen = view.reshaped(other)
        assert seen is not None
        assert torch.equal(elements(seen), elements(view).reshape(other))


@given(SHAPES, st.data())
def test_a_view_of_a_view_is_one_view(shape, data):
    build = Builder()
    inner = build.input("x", shape)
    for _ in range(2):
        inner, _ = change(data.draw, inner)
    outer = View(inner.node, inner.shape, build.input("y", inner.shape).strides)
    for _ in range(2):
        outer, _ = change(data.draw, outer)
    seen = compose(inner, outer)
    expected = (
        elements(inner)
        .clone(memory_format=torch.contiguous_format)
        .as_strided(outer.shape, outer.strides, outer.offset)
    )
    if seen is not None:
        assert torch.equal(elements(seen), expected)


def test_equal_nodes_are_one_and_operations_that_do_nothing_vanish():
    build = Builder()
    a, b = build.input("a", (4,)), build.input("b", (4,))
    assert build.pointwise("add", a, b).node is build.pointwise("add", a, b).node
    assert build.pointwise("mul", a, build.constant(1.0, (4,))) == a
    assert build.pointwise("add", build.constant(0.0, (4,)), b) == b


def test_an_operation_on_a_slice_of_an_operation_is_one_on_slices():
    build = Builder()
    gates = build.pointwise("sigmoid", build.input("a", (8,)))
    half = build.pointwise("neg", gates.narrowed(0, 4, 4))
    (sliced,) = half.node.args
    assert (sliced.node.op, sliced.node.shape) == ("sigmoid", (4,))
    assert sliced.node.args[0].offset == 4


def test_an_operation_on_a_concatenation_works_on_its_pieces():
    build = Builder()
    both = build.concat([build.input("a", (3,)), build.input("b", (2,))], 0)
    made = build.pointwise("exp", both).node
    assert made.op == "concat"
    assert [piece.node.op for piece in made.args] == ["exp", "exp"]
    assert build.resolved(both.narrowed(0, 3, 2)).node.detail == "b"


def test_an_expensive_value_that_is_spread_is_stored():
    build = Builder()
    rate = build.pointwise("exp", build.input("dt", (1,)))
    build.pointwise("mul", rate.broadcast((4,)), build.input("h", (4,)))
    assert rate.node.forced


def test_what_is_kept_is_enough_for_the_backward_and_products_are_not_done_twice():
    for model in ("lstm", "gru", "ct-lstm", "cfc"):
        step = step_of(cells(model, torch.float64, 6)[0])
        keep = set(kept(step))
        forward = forward_nodes(step)
        wanted = [Target(f"g{i}", view) for i, view in enumerate(step.gradients) if view is not None]
        scheduler = Scheduler(wanted, step.sums, keep, [])
        again = [node for node in scheduler.needed if node in forward and node not in keep and not is_free(node)]
        assert all(node.is_pointwise or node.op == "concat" for node in again)
        assert not any(node.op == "input" for node in again)


def test_an_lstm_keeps_its_gates_and_states():
    step = step_of(cells("lstm", torch.float64, 6)[0])
    assert sum(node.size for node in kept(step)) == 6 * 6


def test_a_weight_that_is_used_several_times_has_one_sum():
    step = step_of(cells("ode-rnn", torch.float64, 6)[0])
    outer = [slot for node, slot in zip(step.sums, step.slots, strict=True) if node.op == "outer"]
    assert len(outer) > len(set(outer)) == 4
