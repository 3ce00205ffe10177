"""Numbers by which series are recognized: of their ids, or, of arrays without ids, of how they begin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from ._sequences import Sequences

_BEGINNING = 16


def series_keys(s: Sequences) -> NDArray[np.int64]:
    """Returns a number `(N,)` for each whole series that is the same in training and later.

    It is a hash of the id; 7 and "7" are the same id. Series of arrays without ids are recognized by their first 16
    steps, since their order may be another one later.

    Example:
        >>> from chronode.data import from_list
        >>> one, other = from_list([[1.0], [2.0]], ids=["a", "b"]), from_list([[3.0, 4.0]], ids=["b"])
        >>> bool(series_keys(one)[1] == series_keys(other)[0])
        True
        >>> arrays = from_list([[1.0, 2.0], [3.0, 4.0]])
        >>> bool(series_keys(arrays)[1] == series_keys(arrays[1:])[0])
        True
    """
    if s.keys is not None:
        return s.keys
    return _keys_of_beginnings(s) if s.unnamed else id_keys(s.ids)


def id_keys(ids: Any) -> NDArray[np.int64]:
    """Returns the hash `(N,)` of each id."""
    texts = np.asarray(ids).astype(str)
    if not texts.size:
        return np.zeros(0, dtype=np.int64)
    width = max(texts.dtype.itemsize // 4, 1)
    return _hashed(np.ascontiguousarray(texts.astype(f"<U{width}")).view("<u4").reshape(len(texts), width))


def _keys_of_beginnings(s: Sequences) -> NDArray[np.int64]:
    if s.is_stored:
        return np.concatenate([_keys_of_beginnings(part) for part in s.chunks()])
    step = np.arange(_BEGINNING)
    inside = step < s.lengths[:, None]
    values = s.base_values[np.where(inside, s.starts[:, None] + step, 0)].astype("<f4")
    values[np.isnan(values)] = np.float32(np.inf)
    values[~inside] = 0
    return _hashed(np.ascontiguousarray(values.reshape(len(s), -1)).view("<u4"))


def _hashed(words: NDArray[Any]) -> NDArray[np.int64]:
    """Returns a hash of each row of words `(N, L)`; zeros at its end change nothing."""
    factors = _mixed(np.arange(1, words.shape[1] + 1, dtype=np.uint64)) | np.uint64(1)
    return _mixed((words.astype(np.uint64) * factors).sum(1, dtype=np.uint64)).view(np.int64)


def _mixed(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Returns well mixed numbers (the finalizer of SplitMix64)."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    return x ^ (x >> np.uint64(31))
