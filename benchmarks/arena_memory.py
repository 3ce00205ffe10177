"""Memory tasks of the arena: series whose target depends on the order or the times of events far back."""

import numpy as np

from chronode.data import from_list
from chronode.lab.tasks.bitstream import bitstream

_TOLERANCE = 0.1  # of an error that counts as correct, in the units of the values, which are from 0 to 1


def _irregular(rng, steps):
    return np.cumsum(rng.exponential(size=steps))


def parity(seed=0):
    """Parity of 2 to 31 bits, of which only the changes are given."""
    return bitstream(4000, seed=2 * seed), bitstream(1000, seed=2 * seed + 1)


def one_bit(seed=0, steps=4000, train=600, test=400):
    """The sign of the one of many readings, all 1 or -1, that is marked; it is among the first hundredth."""
    rng, count = np.random.default_rng(seed), train + test
    x = np.stack([rng.choice([-1.0, 1.0], size=(count, steps)), np.zeros((count, steps))], axis=2)
    rows, places = np.arange(count), rng.integers(0, steps // 100, count)
    x[rows, places, 1] = 1.0
    return _parts(rng, x, np.where(x[rows, places, 0] > 0, "plus", "minus").tolist(), train)


def adding(seed=0, steps=2000, train=1000, test=400):
    """The sum of the two of many values that are marked (Hochreiter & Schmidhuber 1997)."""
    rng = np.random.default_rng(seed)
    values, marks = rng.random((train + test, steps)), np.zeros((train + test, steps))
    places = np.stack(
        [rng.integers(0, steps // 2, train + test), rng.integers(steps // 2, steps, train + test)], axis=1
    )
    np.put_along_axis(marks, places, 1.0, axis=1)
    return _parts(rng, np.stack([values, marks], axis=2), (values * marks).sum(1).tolist(), train)


def sorting(seed=0, train=3000, test=1000):
    """The third of four kinds of events: their order among 40 readings of noise."""
    rng = np.random.default_rng(seed)
    x, labels = np.zeros((train + test, 40, 5)), []
    x[:, :, 4] = rng.normal(size=(train + test, 40))
    for row in x:
        kinds, places = rng.permutation(4), np.sort(rng.choice(40, 4, replace=False))
        row[places, kinds] = 1.0
        labels.append("abcd"[kinds[2]])
    return _parts(rng, x, labels, train)


def copying(seed=0, steps=200, train=3000, test=1000):
    """The second of three symbols at random places among blanks: the others must be kept apart from it."""
    rng = np.random.default_rng(seed)
    x, labels = np.zeros((train + test, steps, 4)), []
    for row in x:
        symbols, places = rng.integers(0, 4, 3), np.sort(rng.choice(steps - 10, 3, replace=False))
        row[places, symbols] = 1.0
        labels.append("abcd"[symbols[1]])
    return _parts(rng, x, labels, train)


def _parts(rng, x, target, train):
    times = [_irregular(rng, x.shape[1]) for _ in x]
    s = from_list(list(x.astype(np.float32)), times=times, target=target)
    return s[:train], s[train:]


def correct(task, predicted, test):
    """Returns which predictions are correct."""
    if test.target.classes is None:
        return np.abs(np.ravel(predicted) - test.target.values[:, 0]) < _TOLERANCE
    return np.array(test.target.classes)[test.target.values] == np.array(predicted).astype(str)


TASKS = {
    "parity from events": parity,
    "one bit over 4,000 steps": one_bit,
    "adding over 2,000 steps": adding,
    "sorting by time": sorting,
    "selective copying": copying,
}
