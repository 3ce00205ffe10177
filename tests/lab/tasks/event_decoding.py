"""The inverse of the event-based encoding, for tests."""

import numpy as np


def decode(events):
    """Returns the symbols `(N, L)`, padded with zeros, and their lengths."""
    lengths = events.gaps.sum(1)
    count, width = len(lengths), int(lengths.max(initial=0))
    # Each event is valid from its position until the next one; the last only for its own position.
    column = np.arange(events.values.shape[1])
    is_last = column == events.lengths[:, None] - 1
    following = np.concatenate([events.gaps[:, 1:], np.zeros((count, 1), dtype=np.int64)], axis=1)
    runs = np.where(is_last, 1, following)
    runs[column >= events.lengths[:, None]] = 0
    symbols = np.zeros((count, width), dtype=events.values.dtype)
    symbols[np.arange(width) < lengths[:, None]] = np.repeat(events.values.ravel(), runs.ravel())
    return symbols, lengths
