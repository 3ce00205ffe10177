import json
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from chronode.training._schedule import Schedule
from chronode.training._settings import Settings


def test_settings_come_back_from_json():
    settings = Settings(epochs=7, schedule="step", drop_epochs=(3, 5), class_weights=(1.0, 2.0), steps=100, threads=1)
    assert Settings.from_dict(json.loads(json.dumps(settings.as_dict()))) == settings
    assert Settings.from_dict({}) == Settings()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"optimizer": "adm"}, "Did you mean 'adam'"),
        ({"schedule": "cos"}, "schedule='cos'"),
        ({"learning_rate": 0.0}, "learning_rate must be greater than 0"),
        ({"learning_rate": float("nan")}, "learning_rate must be finite"),
        ({"epochs": -1}, "epochs must be at least 0"),
        ({"batch_size": 2.5}, "batch_size must be a whole number"),
        ({"steps": 0}, "steps must be at least 1"),
        ({"subsample": 0.0}, "subsample must be greater than 0"),
        ({"subsample": 1.5}, "at most 1"),
        ({"jitter": -0.1}, "jitter must be at least 0"),
        ({"shift": -1}, "shift must be at least 0"),
        ({"drop_factor": 1.0}, "drop_factor must be less than 1"),
        ({"schedule": "step"}, "drop_epochs"),
        ({"drop_epochs": (3,)}, "must be given together"),
        ({"momentum": 0.9}, "momentum needs optimizer"),
        ({"smoothing": 0.9}, "smoothing needs optimizer"),
        ({"optimizer": "rmsprop", "smoothing": 1.0}, "smoothing must be less than 1"),
        ({"average": "swa", "average_start": 60}, "after the last epoch"),
        ({"class_weights": "even"}, "balanced"),
        ({"tbptt": 5, "devices": 2}, "devices=1"),
        ({"precision": "8"}, "precision='8'"),
    ],
)
def test_a_wrong_setting_is_named(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        Settings(**options)


def test_an_unknown_setting_is_named_with_its_neighbors():
    with pytest.raises(ValueError, match="learning_rte is not a known field. Did you mean 'learning_rate'"):
        Settings.from_dict({"learning_rte": 1.0})


def test_step_is_torchs_multi_step():
    settings = Settings(learning_rate=0.1, epochs=10, schedule="step", drop_epochs=(3, 7), drop_factor=0.2)
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
    oracle = torch.optim.lr_scheduler.MultiStepLR(optimizer, [3, 7], gamma=0.2)
    for epoch in range(10):
        rates = [Schedule(settings, 10).rate(epoch + share) for share in (0.0, 0.999)]
        assert rates == pytest.approx(oracle.get_last_lr() * 2)
        optimizer.step()
        oracle.step()


@given(bests=st.lists(st.booleans(), max_size=30), patience=st.integers(1, 4))
def test_plateau_is_torchs(bests, patience):
    settings = Settings(learning_rate=0.1, schedule="plateau", plateau_patience=patience)
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
    # torch lowers the rate when the bad epochs exceed its patience, here when they reach it.
    oracle = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=patience - 1, threshold=0)
    schedule, value = Schedule(settings, 20), 0.0
    for better in bests:
        value -= better
        schedule.epoch_ended(better)
        oracle.step(value if better else 1.0)
        if oracle.best == 1.0:  # torch takes the first value for the best, whatever it is
            return
        assert schedule.rate(3.0) == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-6, abs=2e-8)


def test_cosine_falls_from_the_rate_to_nothing():
    schedule = Schedule(Settings(learning_rate=0.1, schedule="cosine", epochs=8), 8)
    for at in (0.0, 1.5, 4.0, 8.0):
        assert schedule.rate(at) == pytest.approx(0.05 * (1 + math.cos(math.pi * at / 8)))


def test_warm_up_rises_in_a_line_and_then_leaves_the_schedule_alone():
    settings = Settings(learning_rate=0.1, warmup_epochs=2)
    rates = [Schedule(settings, 20).rate(at) for at in (0.5, 1.0, 2.0, 9.0)]
    assert rates == pytest.approx([0.025, 0.05, 0.1, 0.1])
