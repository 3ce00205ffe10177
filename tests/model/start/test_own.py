"""Maps of each series' own: against ridge regressions in NumPy, by their ids, and wherever a model goes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

import chronode
from chronode.data import from_list, id_keys, recent, series_keys
from chronode.estimators import SequenceForecaster
from chronode.model.start._own import OwnChoice, OwnMaps, OwnMember, lag_sets, last_season, ridges
from chronode.settings import SettingError
from chronode.stream import Stream

HORIZON, SERIES, STEPS = 4, 6, 240


def panel():
    """Returns series that differ in how they go on: the same season, with autoregressions of alternating sign."""
    rng, series = np.random.default_rng(3), []
    for number in range(SERIES):
        noise, rest, share = rng.normal(size=STEPS), np.zeros(STEPS), 0.9 * (-1) ** number
        for step in range(1, STEPS):
            rest[step] = share * rest[step - 1] + noise[step]
        series.append(50 * number + 3 * np.sin(2 * np.pi * np.arange(STEPS) / 7) + rest)
    return series


def frame(series, names):
    parts = [
        pd.DataFrame({"shop": name, "day": np.arange(len(values)), "units": values})
        for name, values in zip(names, series, strict=True)
    ]
    return pd.concat(parts, ignore_index=True)


NAMES = [f"shop {number}" for number in range(SERIES)]


@pytest.fixture(scope="module")
def fitted():
    options = {"horizon": HORIZON, "epochs": 0, "random_state": 0, "n_threads": 1}
    return SequenceForecaster(**options).fit(frame(panel(), NAMES), id="shop", time="day")


def forecasts(model, series, names):
    return model.predict(frame(series, names), id="shop", time="day")


def by_hand(x, left, rows):
    """Ridge regression by the normal equations, after the scaling of outlying rows."""
    sizes = np.abs(left).max(1)
    small = np.minimum(1, 8 * np.median(np.sort(sizes)[: (len(sizes) + 1) // 2][-1:]) / np.maximum(sizes, 1e-300))
    x, left = x * small[:, None], left * small[:, None]
    penalty = rows * np.square(x).mean() * np.eye(x.shape[1])
    return np.linalg.solve(x.T @ x + penalty, x.T @ left)


@pytest.mark.parametrize("rows", [0.3, 5.0, 400.0])
def test_corrections_are_the_ridge_regressions_of_numpy(rows):
    rng = np.random.default_rng(0)
    x, y, shared = rng.normal(size=(90, 10, 1)), rng.normal(size=(90, 5, 1)), rng.normal(size=(90, 5, 1))
    y[7] *= 40  # an outlier
    lags, season = tuple(range(10)), 7
    members = (OwnMember(lags, rows, 0, 0.5), OwnMember(lags[:8], rows, season, 0.3))
    got = OwnChoice(members, (1.0, 0.5)).correction(*(torch.tensor(part) for part in (x, y, shared)))
    base = np.zeros((8, 5))
    base[season - 1 - np.arange(5), np.arange(5)] = 1
    want = 0.5 * by_hand(x[..., 0], y[..., 0] - shared[..., 0], rows)
    want[:8] += 0.3 * (base + by_hand(x[:, :8, 0], y[..., 0] - x[:, :8, 0] @ base, rows))
    np.testing.assert_allclose(got[0].numpy(), want, rtol=1e-6, atol=1e-7)
    assert OwnChoice(members, (1.0, 0.5)).shared == pytest.approx(0.7)


def test_a_strong_shared_map_stays_and_a_weak_one_gives_way():
    rng = np.random.default_rng(1)
    x = torch.tensor(rng.normal(size=(40, 3)))
    left = x @ torch.tensor([[1.0], [-2.0], [0.5]]).double()
    free, held = ridges(x, left, [0.0, 1e9])
    assert torch.allclose(free[:, 0], torch.tensor([1.0, -2.0, 0.5]).double(), atol=1e-5)
    assert held.abs().max() < 1e-6
    # The same strength counts more on a shorter history, and hardly any history gives no correction.
    long, short = (ridges(x[:rows], left[:rows], [10.0])[0].norm() for rows in (40, 6))
    assert short < long
    assert not ridges(x[:2], left[:2], [0.0]).any()


def test_the_last_season_needs_lags_that_hold_it():
    assert lag_sets(192, 48, ()) == [tuple(range(8))]
    for lags in lag_sets(192, 48, (24, 168))[1:]:
        values = torch.arange(192.0).flip(0)[list(lags)]
        assert (values @ last_season(lags, 24, 30)).tolist() == [
            191.0 - lag for lag in [*range(23, -1, -1), *range(23, 17, -1)]
        ]


def test_keys_are_those_of_ids_or_of_the_beginning():
    arrays = from_list(panel())
    assert len(set(series_keys(arrays).tolist())) == SERIES
    order = [4, 0, 5]
    later = from_list([panel()[row] for row in order], dtype="float64")
    np.testing.assert_array_equal(series_keys(later), series_keys(arrays)[order])
    np.testing.assert_array_equal(series_keys(from_list(panel(), ids=NAMES)), id_keys(NAMES))
    np.testing.assert_array_equal(id_keys([7, 12]), id_keys(["7", "12"]))
    np.testing.assert_array_equal(recent(arrays, 5).keys, series_keys(arrays))
    assert not np.isin(series_keys(recent(from_list(panel(), ids=NAMES), 5)), series_keys(arrays)).any()


def test_series_of_a_panel_get_maps_of_their_own(fitted):
    own = fitted.model_.own_maps
    assert sorted(own.get_buffer("keys").tolist()) == sorted(id_keys(NAMES).tolist())
    truth = np.stack([values[-HORIZON:] for values in panel()])
    before = [values[:-HORIZON] for values in panel()]
    forecast = forecasts(fitted, before, NAMES)
    strangers = forecasts(fitted, before, [f"new {name}" for name in NAMES])
    assert np.abs(forecast - strangers).max() > 0.1
    # An unknown series has the shared map, and only its id counts, not its place.
    shared = fitted.trained_.of_series(None)
    for row, name in enumerate(NAMES):
        alone = forecasts(fitted, before[row : row + 1], [name])
        np.testing.assert_allclose(alone[0], forecast[row], rtol=1e-6)
        one = fitted.trained_.of_series(name)
        series = fitted.reading_.inputs(fitted._series(frame(before[row : row + 1], ["x"]), None, "shop", "day"))
        np.testing.assert_allclose(one.predict(series).values[0], forecast[row, :, 0], rtol=1e-5)
        np.testing.assert_allclose(shared.predict(series).values[0], strangers[row, :, 0], rtol=1e-5)
    assert truth.shape == forecast[..., 0].shape


def test_maps_of_their_own_forecast_new_values_better_than_the_shared_map():
    held = [values[:-24] for values in panel()]
    model = SequenceForecaster(horizon=2, epochs=0, random_state=0, n_threads=1).fit(held)
    errors = {"own": [], "shared": []}
    for origin in range(STEPS - 24, STEPS - 2):
        truth = np.stack([values[origin : origin + 2] for values in panel()])
        known = model.predict([values[:origin] for values in panel()])[..., 0]
        unknown = model.predict([np.r_[values[1] + 9, values[1:origin]] for values in panel()])[..., 0]
        errors["own"].append(np.abs(known - truth).mean())
        errors["shared"].append(np.abs(unknown - truth).mean())
    assert np.mean(errors["own"]) < 0.97 * np.mean(errors["shared"])


def test_packed_and_streamed_models_find_the_same_maps(fitted, tmp_path):
    forecast = forecasts(fitted, panel(), NAMES)
    path = fitted.save(tmp_path / "panel.chronode")
    loaded = chronode.load(path)
    again = loaded.predict(frame(panel(), NAMES))
    np.testing.assert_array_equal(np.stack(again.values), forecast[..., 0].astype(np.float32))
    stream = Stream(loaded)
    table = frame(panel(), NAMES)
    outputs = stream.observe_many(table["shop"].tolist(), table["day"].to_numpy(), {"units": table["units"].to_numpy()})
    last = table.groupby("shop", sort=False).tail(1).index
    np.testing.assert_allclose(np.stack(outputs.values)[last], forecast[..., 0], rtol=1e-4)


def test_one_series_is_exported_and_the_panel_is_refused(fitted, tmp_path):
    trained = fitted.trained_
    for format in ("c", "onnx", "pt2"):
        assert trained.can(f"export {format}").argument == "series"
        assert trained.of_series(NAMES[2]).can(f"export {format}") is None
    assert trained.can("stream") is None and trained.can("pack") is None
    chronode.export(trained, tmp_path / "device", series=NAMES[2])
    assert (tmp_path / "device" / "chronode_model.c").exists()
    with pytest.raises(SettingError) as raised:
        trained.of_series("nobody")
    assert raised.value.argument == "series"


def test_maps_are_added_to_the_share_of_the_shared_one():
    own = OwnMaps(2, [0, 3], [1], 4, 2, 3)
    rng = np.random.default_rng(2)
    corrections = {5: rng.normal(size=(1, 2, 3)), -9: rng.normal(size=(1, 2, 3))}
    own.take({key: torch.tensor(value) for key, value in corrections.items()}, 0.25)
    windows, shared = rng.normal(size=(3, 4, 2)), rng.normal(size=(3, 3))
    got = own(torch.tensor(windows).flatten(1), torch.tensor([-9, 5, 6]), torch.tensor(shared)).numpy()
    for row, key in enumerate((-9, 5)):
        want = 0.25 * shared[row] + windows[row, [3, 0], 1] @ corrections[key][0]
        np.testing.assert_allclose(got[row], want, rtol=1e-6)
        share, added = own.of(key)
        np.testing.assert_allclose(share * shared[row] + windows[row].ravel() @ added.numpy(), want, rtol=1e-6)
    np.testing.assert_array_equal(got[2], shared[2])


def test_short_series_of_a_panel_do_no_harm():
    series = [*panel()[:3], panel()[3][:30], panel()[4][:12]]
    model = SequenceForecaster(horizon=8, epochs=0, random_state=0, n_threads=1).fit(
        frame(series, NAMES[:5]), id="shop", time="day"
    )
    assert np.isfinite(forecasts(model, series, NAMES[:5])).all()
