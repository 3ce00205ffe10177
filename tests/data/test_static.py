"""Static values: read, checked, split, scaled and stored with their series, and part of the model."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from series_checks import some

from chronode import ModelSpec, SequenceModel
from chronode.data import (
    Reading,
    Scaler,
    concat,
    forecast_windows,
    from_channel_rows,
    from_long,
    load,
    options_like,
    split,
    windows,
)
from chronode.judge import fit_start

nan = float("nan")
TABLE = {
    "who": ["a", "a", "b", "b", "c"],
    "t": [0, 1, 0, 2, 0],
    "x": [1.0, 2.0, 3.0, 4.0, 5.0],
    "age": [60.0, nan, 70.0, 70.0, nan],
    "sex": ["f", "f", "m", None, "f"],
}


def people(**options):
    return from_long(TABLE, id="who", time="t", static=["age", "sex"], **options)


def test_static_columns_are_not_channels_and_have_one_value_per_series():
    s = people()
    assert s.channels == ("x",) and s.static_names == ("age", "sex=f", "sex=m")
    np.testing.assert_array_equal(s.static, [[60, 1, 0], [70, 0, 1], [nan, 1, 0]])
    assert "3 static values (age, sex=f, sex=m)" in str(s.describe())
    np.testing.assert_array_equal(s[1].static, s.static[1])
    np.testing.assert_array_equal(s.batch([2, 0]).static, s.static[[2, 0]])
    assert set(s.batch().inputs) == {"dt", "lengths", "static"} and "static" not in s.batch().times


@some
@given(st.integers(2, 12), st.integers(1, 5), st.integers(0, 2**31))
def test_every_part_and_window_keeps_the_values_of_its_series(count, length, seed):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 8, count)
    who = np.repeat(np.arange(count), lengths)
    step = np.concatenate([np.arange(size) for size in lengths])
    s = from_long({"who": who, "t": step, "x": step + 1.0, "age": 10.0 * who}, id="who", time="t", static=["age"])
    for part in (*split(s, (0.5, 0.5), seed=seed), windows(s, length, rest="keep"), concat([s, s]), s[::-1]):
        np.testing.assert_array_equal(part.static[:, 0], 10.0 * part.groups.astype(float))
    if lengths.max() > 1:
        made = forecast_windows(s, 1, window=length)
        np.testing.assert_array_equal(made.static[:, 0], 10.0 * made.groups.astype(float))


def test_they_are_saved_scaled_and_restored(tmp_path):
    s = people()
    np.testing.assert_array_equal(load(s.save(tmp_path / "s.npz")).static, s.static)
    scaler = Scaler.fit(s)
    scaled = scaler.transform(s)
    assert scaled.static[:2, 0].tolist() == [-1, 1] and np.isnan(scaled.static[2, 0])
    np.testing.assert_allclose(scaler.inverse(scaled).static, s.static, atol=1e-5)
    assert Scaler.from_dict(scaler.as_dict()) == scaler
    with pytest.raises(ValueError, match="the static values differ from training: here none"):
        scaler.transform(from_long({"t": [0], "x": [1.0]}, time="t"))


def test_a_column_that_changes_within_a_series_is_refused_with_the_series():
    with pytest.raises(ValueError, match=r"static='x': series a has the values 1 and 2.*Leave it out of static"):
        from_long({**TABLE, "y": TABLE["x"]}, id="who", time="t", static=["x"], ignore=["sex"])
    changed = {**TABLE, "sex": ["f", "f", "m", "f", "f"]}
    with pytest.raises(ValueError, match="static='sex': series b has more than one text"):
        from_long(changed, id="who", time="t", static=["sex"])
    with pytest.raises(ValueError, match="static"):
        from_long(TABLE, id="who", time="t", static=["agee"], categorical="onehot")
    with pytest.raises(ValueError, match="all value columns are static"):
        from_long(TABLE, id="who", time="t", static=["age"], columns=["age"])
    with pytest.raises(ValueError, match="only one role"):
        from_long(TABLE, id="who", time="t", static=["who"], categorical="onehot")


def test_other_tables_get_the_same_values_or_are_refused():
    s = people()
    reading = Reading.of(s, options={"id": "who", "time": "t", **options_like(s)}, target=(), missing=False)
    fresh = {"who": ["d"], "t": [0], "x": [2.0], "age": [50.0], "sex": ["x"]}
    made = reading.read(fresh, labeled=False)
    np.testing.assert_array_equal(made.static, [[50, nan, nan]])  # a text that did not occur in training
    del fresh["age"]
    with pytest.raises(ValueError, match="age: missing from this table"):
        reading.read(fresh, labeled=False)


def test_single_readings_may_be_static():
    table = {"t": [0, 0, 1, 0, 3], "what": ["age", "hr", "hr", "hr", "hr"], "v": [60.0, 80.0, 81.0, 70.0, 71.0]}
    s = from_channel_rows(
        {**table, "who": [1, 1, 1, 2, 2]}, id="who", time="t", channel="what", value="v", static=["age"]
    )
    assert s.channels == ("hr",) and s.static_names == ("age",)
    np.testing.assert_array_equal(s.static, [[60], [nan]])


READINGS = {
    "who": ["a", "a", "a", "b", "b"],
    "t": [0, 0, 1, 0, 2],
    "what": ["hr", "temp", "hr", "hr", "temp"],
    "v": [80.0, 37.0, 81.0, 70.0, 36.5],
    "age": [60.0, nan, 60.0, 70.0, 70.0],
    "sex": ["f", "f", "f", "m", None],
    "ward": ["w", "w", "w", "z", "z"],
}
ROLES = {"id": "who", "time": "t", "channel": "what", "value": "v"}


def test_columns_beside_single_readings_may_be_static():
    s = from_channel_rows(READINGS, **ROLES, static=["age", "sex"], group="ward")
    assert s.channels == ("hr", "temp") and s.static_names == ("age", "sex=f", "sex=m")
    np.testing.assert_array_equal(s.static, [[60, 1, 0], [70, 0, 1]])
    assert s.groups.tolist() == ["w", "z"] and not any("ignored" in note for note in s.notes)
    both = {**READINGS, "what": ["hr", "weight", "hr", "hr", "hr"]}
    mixed = from_channel_rows(both, **ROLES, static=["weight", "age"], ignore=["sex", "ward"])
    assert mixed.static_names == ("weight", "age") and not mixed.notes
    np.testing.assert_array_equal(mixed.static, [[37, 60], [nan, 70]])


def test_columns_beside_single_readings_that_are_not_used_are_noted():
    (note,) = from_channel_rows(READINGS, **ROLES).notes
    assert "'age', 'sex', 'ward'" in note and "static" in note
    goals = from_channel_rows(READINGS, **ROLES, target=["v", "age"], per_step=True, ignore=["sex", "ward"])
    assert goals.target.names == ("v", "age") and not any("ignored" in note for note in goals.notes)


def test_static_columns_beside_single_readings_are_checked_row_by_row():
    """Two rows of one step must not be averaged."""
    changed = {**READINGS, "age": [60.0, 62.0, nan, 70.0, 70.0]}
    with pytest.raises(ValueError, match="static='age': series a has the values 60 and 62"):
        from_channel_rows(changed, **ROLES, static=["age"])
    with pytest.raises(ValueError, match="static='agee' is not a column.*'age'"):
        from_channel_rows(READINGS, **ROLES, static=["agee"])
    with pytest.raises(ValueError, match="only one role"):
        from_channel_rows(READINGS, **ROLES, static=["what"])


def test_later_readings_have_the_static_columns_of_training():
    s = from_channel_rows(READINGS, **ROLES, static=["age", "sex"], ignore=["ward"])
    options = {**ROLES, **options_like(s)}
    reading = Reading.of(s, options=options, target=(), missing=True, static_columns=("age", "sex"))
    made = reading.read({**READINGS, "sex": ["m", "m", "m", "x", "x"]}, labeled=False)
    np.testing.assert_array_equal(made.static, [[60, 0, 1], [70, nan, nan]])
    assert [note for note in made.notes if "ward" in note] == [
        "columns ignored because the model does not use them: 'ward'."
    ]
    without = {name: column for name, column in READINGS.items() if name != "age"}
    with pytest.raises(ValueError, match="age: missing from this table"):
        reading.read(without, labeled=False)


def test_a_model_and_a_linear_start_see_them():
    rng = np.random.default_rng(0)
    ages = rng.normal(size=80)
    table = {"who": np.repeat(np.arange(80), 3), "t": np.tile(np.arange(3), 80), "x": rng.normal(size=240)}
    table |= {"age": np.repeat(ages, 3), "y": np.repeat(3 * ages + 1, 3)}
    s = from_long(table, id="who", time="t", static=["age"], target="y", kind="value")
    start = fit_start(s[:60], s[60:]).start
    features = start.features.size
    assert start.get_buffer("weight").shape[0] == features + 1  # once, not once per summary
    np.testing.assert_allclose(start(s.batch().x, **s.batch().inputs)[:, 0], 3 * ages + 1, atol=0.1)
    model = SequenceModel.build(ModelSpec.for_data(s, "gru", hidden_size=4))
    batch = s.batch()
    before = model(batch.x, **batch.inputs)
    other = model(batch.x, **{**batch.inputs, "static": batch.static + 1})
    assert before.shape == (80, 1) and (before != other).any()
    unknown = model(batch.x, **{**batch.inputs, "static": torch.full_like(batch.static, nan)})
    np.testing.assert_allclose(
        unknown.detach(), model(batch.x, **{**batch.inputs, "static": batch.static * 0}).detach(), rtol=1e-6
    )
    with pytest.raises(ValueError, match=r"static must have shape \(80, 1\), got None"):
        model(batch.x, **batch.times)
    with pytest.raises(ValueError, match="train without static"):
        model.run(batch.x, **batch.times)
