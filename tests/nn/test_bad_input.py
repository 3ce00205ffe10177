"""Mistakes of users: each mistake gives an error that names the argument, the place and the cure."""

import re

import pytest
import torch

import chronode

BATCH, TIME, FEATURES, UNITS = 2, 5, 3, 4
NAN, INF = float("nan"), float("inf")
X = torch.zeros(BATCH, TIME, FEATURES)
DT = torch.ones(BATCH, TIME)


def layer(name="lstm-dt", **settings):
    return chronode.create(name, FEATURES, UNITS, **settings)


def put(value, at, into):
    """A copy with one number changed."""
    changed = into.clone()
    changed[at] = value
    return changed


def refused(error, parts, call):
    """The error's message holds all the parts."""
    with pytest.raises(error) as caught:
        call()
    message = str(caught.value)
    missing = [part for part in parts if part not in message]
    assert not missing, f"{missing} not in: {message}"
    error_text = message.replace("or None to start from the initial state", "")
    assert not re.search(r"\b(None|object at)\b", error_text), message


# ---- what is called: id -> (arguments of forward, error, what its message says) ----------------------------------

NOT_FINITE = ("is not finite", "missing=True", "observed=x.isfinite()")
DT_SHAPE = ("dt must have shape (2, 5) (batch, time)", "a last axis of 1", "or be a number")

X_ROWS = {
    "a list": ([[1.0]], TypeError, ("x must be a torch.Tensor", "(batch, time, features)", "got list")),
    "rank 1": (X[0, 0], ValueError, ("x must have shape (batch, time, features)", "(time, features)", "got (3,)")),
    "rank 4": (X[None], ValueError, ("x must have shape (batch, time, features)", "got (1, 2, 5, 3)")),
    "feature size": (X[..., :2], ValueError, ("x has 2 features", "input_size=3", "(batch, time, features)")),
    "no steps": (X[:, :0], ValueError, ("x is empty: shape (2, 0, 3)",)),
    "other dtype": (
        X.double(),
        TypeError,
        (
            "x is torch.float64",
            "weights of the layer are torch.float32",
            "x.to(torch.float32) or layer.to(torch.float64)",
        ),
    ),
    "integers": (X.long(), TypeError, ("x is torch.int64", "use x.to(torch.float32).")),
    "NaN": (put(NAN, (1, 2, 0), X), ValueError, ("x[1, 2, 0]", "1 such element)", *NOT_FINITE)),
    "infinity": (put(-INF, (0, 4, 1), X), ValueError, ("x[0, 4, 1]", *NOT_FINITE)),
    "NaN, unbatched": (put(NAN, (2, 1), X[0]), ValueError, ("x[2, 1]", *NOT_FINITE)),
}

TIME_ROWS = {
    "dt negative": ({"dt": put(-0.1, (1, 3), DT)}, ValueError, ("dt[1, 3] is negative", "1 such element", "0 or more")),
    "dt NaN": ({"dt": put(NAN, (0, 2), DT)}, ValueError, ("dt[0, 2]", "not finite", "0 or more")),
    "dt infinite": ({"dt": put(INF, (1, 0), DT)}, ValueError, ("dt[1, 0]", "not finite")),
    "dt a negative number": ({"dt": -1.0}, ValueError, ("dt[0, 0] is negative", "10 such elements")),
    "dt short": ({"dt": DT[:, :4]}, ValueError, (*DT_SHAPE, "got (2, 4)")),
    "dt transposed": ({"dt": DT.T}, ValueError, (*DT_SHAPE, "got (5, 2)")),
    "dt per feature": ({"dt": torch.ones(2, 5, 3)}, ValueError, (*DT_SHAPE, "got (2, 5, 3)")),
    "dt per step": ({"dt": DT[0]}, ValueError, (*DT_SHAPE, "got (5,)")),
    "dt per sequence": ({"dt": DT[:, 0]}, ValueError, (*DT_SHAPE, "got (2,)")),
    "dt a list": ({"dt": [1.0]}, TypeError, ("dt must be a tensor or a number, got list", "torch.as_tensor(dt)")),
    "dt a bool": ({"dt": True}, TypeError, ("dt must be a tensor or a number, got bool",)),
    "dt of bools": ({"dt": DT.bool()}, TypeError, ("dt must hold numbers, got torch.bool", "dt.to(torch.float32)")),
    "t back": ({"t": put(0.5, (1, 2), DT)}, ValueError, ("t[1, 2] goes back in time", "sort each sequence by time")),
    "t NaN": ({"t": put(NAN, (1, 0), DT)}, ValueError, ("t[1, 0] is not finite", "give every step a time")),
    "t transposed": ({"t": DT.T}, ValueError, ("t must have shape (2, 5) (batch, time)", "got (5, 2)")),
    "t a number": ({"t": 3.0}, TypeError, ("t must be a tensor with one time per step", "dt=number")),
    "dt and t": ({"dt": 1.0, "t": DT}, ValueError, ("dt and t were both given", "pass only one of them")),
    "lengths 0": ({"lengths": [5, 0]}, ValueError, ("lengths[1] is 0", "from 1 to 5", "Leave out empty sequences")),
    "lengths beyond T": ({"lengths": torch.tensor([6, 5])}, ValueError, ("lengths[0] is 6", "from 1 to 5")),
    "lengths negative": ({"lengths": [5, -1]}, ValueError, ("lengths[1] is -1", "from 1 to 5")),
    "lengths float": (
        {"lengths": DT[:, 0]},
        TypeError,
        ("lengths must be whole numbers, got torch.float32", ".long()"),
    ),
    "lengths bool": ({"lengths": [True, False]}, TypeError, ("lengths must be whole numbers, got torch.bool",)),
    "lengths too many": (
        {"lengths": [5, 5, 5]},
        ValueError,
        ("lengths must have shape (2,), one per sequence, got (3,)",),
    ),
    "lengths in a column": ({"lengths": [[5], [5]]}, ValueError, ("lengths must have shape (2,)", "got (2, 1)")),
    "lengths a number": ({"lengths": 5}, ValueError, ("lengths must have shape (2,)", "got ()")),
    "lengths a string": (
        {"lengths": "55"},
        TypeError,
        ("lengths must be a tensor or a list of whole numbers, got '55'",),
    ),
    "observed": ({"observed": X > 0}, ValueError, ("observed was given", "missing=True")),
}


@pytest.mark.parametrize("row", X_ROWS)
def test_bad_x(row):
    x, error, parts = X_ROWS[row]
    refused(error, parts, lambda: layer()(x))


@pytest.mark.parametrize("row", TIME_ROWS)
def test_bad_times_and_lengths(row):
    arguments, error, parts = TIME_ROWS[row]
    refused(error, parts, lambda: layer()(X, **arguments))


def test_places_are_in_the_users_own_axes():
    time_first = layer(batch_first=False)
    x, dt = X.transpose(0, 1), DT.T
    refused(ValueError, ("x[2, 1, 0]",), lambda: time_first(put(NAN, (2, 1, 0), x)))
    refused(ValueError, ("dt[3, 1]",), lambda: time_first(x, dt=put(-1.0, (3, 1), dt)))
    refused(ValueError, ("dt must have shape (5, 2) (time, batch)", "got (2, 5)"), lambda: time_first(x, dt=DT))
    refused(ValueError, ("dt[3] is negative",), lambda: layer()(X[0], dt=put(-1.0, (3,), DT[0])))
    refused(ValueError, ("dt must have shape (5,) (time,)", "got (2, 5)"), lambda: layer()(X[0], dt=DT))
    refused(ValueError, ("lengths needs a batch", "shorten x instead"), lambda: layer()(X[0], lengths=[5]))


OBSERVED_ROWS = {
    "no mask, NaN": (None, ValueError, ("x[1, 2, 0] is not finite", "pass observed=x.isfinite()")),
    "NaN called observed": (torch.ones_like(X).bool(), ValueError, ("x[1, 2, 0] is not finite", "declare it missing")),
    "numbers": (torch.ones_like(X), TypeError, ("observed must be a bool tensor", "observed=x.isfinite()")),
    "a list": ([True], TypeError, ("observed must be a bool tensor", "True where a value was observed")),
    "per step": (X[..., 0] > 0, ValueError, ("observed must have the shape of x", "got (2, 5)")),
    "too short": ((X > 0)[:, :2], ValueError, ("observed must have the shape of x", "got (2, 2, 3)")),
}


@pytest.mark.parametrize("row", OBSERVED_ROWS)
def test_bad_observed(row):
    observed, error, parts = OBSERVED_ROWS[row]
    refused(error, parts, lambda: layer(missing=True)(put(NAN, (1, 2, 0), X), observed=observed))


# ---- the state -----------------------------------------------------------------------------------------------------

FITTING = layer().initial_state(BATCH)
SAME_LAYER = "Pass the state that this same layer returned for the same batch"
STATE_ROWS = {
    "batch": (layer().initial_state(3), ValueError, ("state does not fit this LSTMCell", "(1, 3, 4)", SAME_LAYER)),
    "count": (FITTING[:1], ValueError, ("[(1, 2, 4)], expected [(1, 2, 4), (1, 2, 4)]", SAME_LAYER)),
    "another model's": (layer("ltc").initial_state(BATCH), ValueError, ("state does not fit this LSTMCell",)),
    "layers": (layer(num_layers=2).initial_state(BATCH), ValueError, ("(2, 2, 4)", "expected [(1, 2, 4)", SAME_LAYER)),
    "unbatched": (tuple(part[:, 0] for part in FITTING), ValueError, ("(1, 4)", "expected [(1, 2, 4)", SAME_LAYER)),
    "dtype": (
        (FITTING[0], FITTING[1].double()),
        TypeError,
        ("state[1] is torch.float64", "expected torch.float32", "use state[1].to('cpu', torch.float32)"),
    ),
    "a tensor": (FITTING[0], TypeError, ("state must be the tuple of tensors that LSTMCell returned, got Tensor",)),
    "not of tensors": (("h", "c"), TypeError, ("state must be the tuple of tensors that LSTMCell returned",)),
}


@pytest.mark.parametrize("row", STATE_ROWS)
def test_bad_state(row):
    state, error, parts = STATE_ROWS[row]
    refused(error, parts, lambda: layer()(X, state))


def test_times_do_not_go_with_a_state():
    parts = ("t cannot be combined with a state", "Pass dt", "the time since that observation")
    refused(ValueError, parts, lambda: layer()(X, FITTING, t=DT))


# ---- one step ------------------------------------------------------------------------------------------------------

STEP_ROWS = {
    "a sequence": ({"x": X}, ValueError, ("x must have shape (batch, features)", "got (2, 5, 3)")),
    "a list": ({"x": [1.0]}, ValueError, ("x must have shape (batch, features) or (features,)", "got list")),
    "feature size": ({"x": X[:, 0, :2]}, ValueError, ("x has 2 features", "input_size=3", "x is (batch, features)")),
    "NaN": ({"x": put(NAN, (1, 2), X[:, 0])}, ValueError, ("x[1, 2]", *NOT_FINITE)),
    "dt shape": ({"dt": DT}, ValueError, ("dt must be a number or have shape (2, 1)", "got (2, 5)")),
    "dt negative": ({"dt": torch.tensor([1.0, -1.0])}, ValueError, ("dt[1] is negative", "0 or more")),
    "dt a list": ({"dt": [1.0, 1.0]}, TypeError, ("dt must be a tensor or a number, got list",)),
    "observed": ({"observed": X[:, 0] > 0}, ValueError, ("observed was given", "missing=True")),
}


@pytest.mark.parametrize("row", STEP_ROWS)
def test_bad_step(row):
    arguments, error, parts = STEP_ROWS[row]
    refused(error, parts, lambda: layer().step(**{"x": X[:, 0], **arguments}))


def test_bad_step_of_other_layers():
    parts = ("step does not support a bidirectional layer", "use forward")
    refused(ValueError, parts, lambda: layer(bidirectional=True).step(X[:, 0]))
    parts = ("observed must be a bool tensor",)
    refused(TypeError, parts, lambda: layer(missing=True).step(X[:, 0], observed=[True]))
