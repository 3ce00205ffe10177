"""Clipped values, logarithms and long gaps: fitted on the training part, inverted in predictions, stored."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from series_checks import some

from chronode.data import Scaler, concat, forecast_windows, from_list, from_long, load
from chronode.data._gaps import Gaps, note_on_gaps
from chronode.data._shaping import Shape, invert_columns, logarithms, shaping
from chronode.training._forecasting import forecast_scaler

nan = float("nan")


@some
@given(st.lists(st.floats(0.0, 1e6), min_size=2, max_size=20), st.booleans())
def test_a_logarithm_is_scaled_and_inverted(values, zeros):
    values = [0.0, *values] if zeros else [value + 0.5 for value in values]
    s = from_list([values], channels=["x"], dtype="float64")
    options = shaping(s, log=["x"], clip_values="off")
    assert options["log"] == {"x": 1.0 if 0.0 in values else 0.0}
    scaler = Scaler.fit(s, **options)
    logs = np.log(np.array(values) + options["log"]["x"])
    assert scaler.mean[0] == pytest.approx(logs.mean(), abs=1e-9)
    scaled = scaler.transform(s)
    np.testing.assert_allclose(scaler.inverse(scaled).values[:, 0], values, rtol=1e-9, atol=1e-9)
    assert Scaler.from_dict(json.loads(json.dumps(scaler.as_dict()))) == scaler


def test_targets_of_a_forecast_have_the_shape_of_their_channel():
    s = from_list([np.exp(np.arange(12.0) / 3)], channels=["x"], dtype="float64")
    w = forecast_windows(s, 2, window=4)
    scaler = forecast_scaler(w, ["x"], **shaping(s, log="all"))
    scaled = scaler.transform(w)
    np.testing.assert_allclose(scaler.inverse_target(scaled.target.values), w.target.values, rtol=1e-9)
    tensor = torch.tensor(scaled.target.values)
    np.testing.assert_allclose(scaler.inverse_target(tensor).numpy(), w.target.values, rtol=1e-9)
    np.testing.assert_allclose(scaler.scale_target(w.target.values), scaled.target.values, rtol=1e-9)
    np.testing.assert_array_equal(scaled.target.given, w.target.values)


def test_a_negative_value_has_no_logarithm_and_is_named():
    s = from_list([[1.0, 2.0], [3.0, -4.0]], ids=["a", "b"], channels=["x"])
    with pytest.raises(ValueError, match=r"log='x': channel 'x' has the value -4 in series b.*leave the channel out"):
        shaping(s, log=["x"])
    scaler = Scaler.fit(s[:1], **shaping(s[:1], log=["x"]))
    with pytest.raises(ValueError, match=r"'x' has the value -4 in series b, which has no logarithm"):
        scaler.transform(s)
    with pytest.raises(ValueError, match="log='y'"):
        shaping(s, log=["y"])
    coded = from_long({"t": [0, 1], "c": ["u", "v"], "x": [1.0, 2.0]}, time="t", categorical="onehot")
    with pytest.raises(ValueError, match="log='c=u': this channel is text"):
        shaping(coded, log=["c=u"])
    assert shaping(coded, log="all")["log"] == {"x": 0.0}


@some
@given(st.integers(30, 400), st.integers(0, 2**31))
def test_only_impossible_values_are_clipped_by_themselves(count, seed):
    values = np.random.default_rng(seed).normal(size=count)
    assert shaping(from_list([values]))["clip"] == []
    values[count // 2] = 1e6
    s = from_list([values], channels=["x"], dtype="float64")
    scaler = Scaler.fit(s, **shaping(s))
    (shape,) = scaler.shapes
    inside = np.sort(values)
    assert shape.high <= inside[-2] and shape.low >= inside[0]
    assert scaler.inverse(scaler.transform(s)).values.max() == pytest.approx(shape.high)
    (note,) = scaler.notes()
    assert note.startswith("values are clipped to the 0.5 to 99.5% range of the training part (x to ")
    assert shaping(s, clip_values="off")["clip"] == [] and shaping(s, clip_values="on")["clip"] == ["x"]


def test_rare_events_and_constants_are_not_outliers():
    rare = np.zeros(1000)
    rare[3] = 1.0
    s = from_list([np.stack([rare, np.full(1000, 5.0), np.full(1000, nan)], axis=1)], empty="keep")
    assert shaping(s)["clip"] == []
    assert Scaler.fit(s, **shaping(s, clip_values="on")).shapes == ()


def test_tensors_are_shaped_like_arrays():
    shapes = (Shape(offset=1.0), Shape(), Shape(offset=0.0))
    values = np.array([[0.0, -3.0, 0.5], [7.0, 2.0, 100.0]])
    expected = np.stack([shape.apply(column) for shape, column in zip(shapes, values.T, strict=True)], axis=1)
    made = logarithms(torch.tensor(values), shapes)
    np.testing.assert_allclose(made.numpy(), expected)
    np.testing.assert_allclose(invert_columns(made, shapes).numpy(), values)
    assert Shape(offset=1.0).invert(np.array([-5.0, 1e9])).tolist()[0] == 0
    assert np.isfinite(Shape(offset=1.0).invert(np.array([1e9]))).all()


@some
@given(st.lists(st.floats(0.01, 1e5), min_size=2, max_size=30), st.sampled_from(["cap", "log"]), st.booleans())
def test_gaps_are_shortened_wherever_dt_is_read(gaps, rule, scaled):
    times = np.concatenate([[0.0], np.cumsum(gaps)])
    s = from_list([np.ones(len(times)), np.ones(2)], times=[times, [0.0, 1.0]], unit=1, dtype="float64")
    scaler = Scaler.fit(s, dt=scaled, **shaping(s, gaps=rule, clip_values="off"))
    made, usual = scaler.transform(s), s.median_gap()
    limit = np.minimum(s.dt, 50 * usual) if rule == "cap" else usual * np.log2(1 + s.dt / usual)
    np.testing.assert_allclose(made.dt, limit / scaler.dt)
    np.testing.assert_allclose(np.concatenate([one.dt for one in made]), made.dt)
    np.testing.assert_allclose(made.batch().dt[0].numpy(), made[0].dt)
    np.testing.assert_allclose(made.times * scaler.dt, s.times)
    np.testing.assert_allclose(scaler.inverse(made).dt, s.dt, atol=1e-6)
    np.testing.assert_array_equal(concat([made, made]).dt, np.concatenate([made.dt, made.dt]))


def test_gaps_are_saved_with_the_series(tmp_path):
    s = from_list([[1.0] * 4], times=[[0, 1, 2, 900]], unit=1)
    made = Scaler.fit(s, **shaping(s, gaps="cap")).transform(s)
    assert load(made.save(tmp_path / "s.npz")).dt.tolist() == [0, 1, 1, 50]
    with pytest.raises(ValueError, match=r"gaps='cap' needs times"):
        shaping(from_list([[1.0]]), gaps="cap")
    with pytest.raises(ValueError, match="usual must be greater than 0"):
        Gaps("cap", 0.0)


def test_long_gaps_are_reported_with_what_they_do():
    s = from_list([[1.0] * 4, [1.0] * 4], times=[[0, 1, 2, 3], [0, 1, 2, 900]], ids=["a", "b"], unit=1)
    (note,) = note_on_gaps(s)
    assert note.startswith("1 gap is more than 50 times the median of 1 (largest: 898, series b): ")
    assert "gaps='cap'" in note
    assert note_on_gaps(s[:1]) == () and note_on_gaps(from_list([[1.0]])) == ()


def test_shapes_are_decided_by_the_training_part():
    """Zeros and impossible values of other parts change nothing about training."""
    rng = np.random.default_rng(0)
    s = from_list([rng.uniform(1, 2, 300) for _ in range(4)], channels=["x"])
    expected = shaping(s[:2], log=["x"])
    values = s.base_values.copy()
    values[900:910], values[910] = 0.0, 1e9
    other = replace(s, base_values=values)
    assert shaping(other[:2], log=["x"]) == expected == {"log": {"x": 0.0}, "clip": [], "gaps": "keep"}
    assert shaping(other[2:], log=["x"]) == {"log": {"x": 1.0}, "clip": ["x"], "gaps": "keep"}


def test_zeros_that_only_follow_a_window_count():
    w = forecast_windows(from_list([[1.0, 2.0, 3.0, 0.0]], channels=["x"]), 1, window=2)
    assert shaping(w, log=["x"])["log"] == {"x": 1.0}
    positive = forecast_windows(from_list([[1.0, 2.0, 3.0, 4.0]], channels=["x"]), 1, window=2)
    scaler = forecast_scaler(positive, ["x"], **shaping(positive, log=["x"]))
    with pytest.raises(ValueError, match=r"target 'x\+1' has the value 0, which has no logarithm"):
        scaler.transform(w)


def test_only_channels_of_the_table_have_shapes():
    s = from_list([np.array([[1.0, -1.0], [2.0, 1.0]])], channels=["x", "sine"])
    assert shaping(s, ["x"], log="all", clip_values="on") == {"log": {"x": 0.0}, "clip": ["x"], "gaps": "keep"}
    with pytest.raises(ValueError, match="log='sine'"):
        shaping(s, ["x"], log=["sine"])
