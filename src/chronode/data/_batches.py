"""Padded batches of torch tensors, and the grouping of series into batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..settings import whole
from ._target import UNKNOWN

if TYPE_CHECKING:
    from ._sequences import Sequences


class Batch(NamedTuple):
    """Series padded to the longest, as arguments of a layer: `layer(batch.x, **batch.times)`.

    Attributes:
        x: `(B, T, D)`, 0 where missing and at padding; int64 if the values are symbols.
        lengths: `(B,)` steps of each series.
        dt: `(B, T)` time since the previous observation, in the dtype of x; None if there are no times: then all
            steps are one unit apart, the default of a layer.
        observed: `(B, T, D)` bool; None if no value is missing in the sequences from which the batch was made.
        target: Classes `(B,)` or per step `(B, T)` int64, -100 where unknown and at padding; numbers `(B, K)` or
            `(B, T, K)`, NaN where unknown and at padding; None if there is no target.
        rows: `(B,)` indices of these series.
        weights: `(B,)` weights of the series in the loss; None for equal weights.
        static: `(B, S)` values that do not change over time, NaN where unknown; None if there are none.
        series: `(B,)` numbers of the series that windows belong to; None for other series.
    """

    x: Tensor
    lengths: Tensor
    dt: Tensor | None
    observed: Tensor | None
    target: Tensor | None
    rows: Tensor
    weights: Tensor | None = None
    static: Tensor | None = None
    series: Tensor | None = None

    @property
    def times(self) -> dict[str, Tensor]:
        """The arguments of a layer besides x: lengths, and dt and observed if present."""
        arguments = {"dt": self.dt, "lengths": self.lengths, "observed": self.observed}
        return {name: tensor for name, tensor in arguments.items() if tensor is not None}

    @property
    def inputs(self) -> dict[str, Tensor]:
        """The arguments of a model besides x: those of a layer, and static values and keys of series if present."""
        more = {"static": self.static, "series": self.series}
        return self.times | {name: tensor for name, tensor in more.items() if tensor is not None}

    def to(self, device: torch.device) -> Batch:
        """Moves the batch to a device."""
        if device == self.x.device:
            return self
        moved = {name: tensor.to(device) for name, tensor in self._asdict().items() if tensor is not None}
        return self._replace(**moved)


def pad(s: Sequences, rows: NDArray[np.int64]) -> Batch:
    """Returns the series `rows` of `s` as a padded batch."""
    if s.is_stored:
        loaded = s.loaded(rows)
        loaded.__dict__["has_missing"] = s.has_missing  # that of all series, not only of these
        return pad(loaded, np.arange(len(rows)))._replace(rows=torch.from_numpy(rows))
    lengths = s.lengths[rows]
    step = np.arange(int(lengths.max()))
    at = s.starts[rows][:, None] + step
    padding = None
    if int(lengths.min()) < len(step):
        padding = step >= lengths[:, None]
        at[padding] = 0
    x = s.base_values.take(at, axis=0)
    observed = None
    if s.has_missing:
        observed = ~np.isnan(x)
        if padding is not None:
            observed[padding] = False
        x[~observed] = 0
    elif padding is not None:
        x[padding] = 0
    return Batch(
        torch.from_numpy(x.astype(np.int64) if x.dtype == np.int32 else x),
        torch.from_numpy(lengths),
        _gaps(s, rows, at, padding),
        None if observed is None else torch.from_numpy(observed),
        _targets(s, rows, at, padding),
        torch.from_numpy(rows),
        None if s.weights is None else torch.from_numpy(s.weights[rows]),
        None if s.static is None else torch.from_numpy(s.static[rows]),
        None if s.keys is None else torch.from_numpy(s.keys[rows]),
    )


def _gaps(
    s: Sequences, rows: NDArray[np.int64], at: NDArray[np.int64], padding: NDArray[np.bool_] | None
) -> Tensor | None:
    if s.base_times is None:
        return None
    times = s.base_times.take(at)
    dt = np.empty(at.shape, dtype=np.float64 if s.base_values.dtype == np.float64 else np.float32)
    np.subtract(times[:, 1:], times[:, :-1], out=dt[:, 1:], casting="same_kind")
    dt[:, 0] = 0 if s.lead is None else s.lead[rows]
    if padding is not None:
        dt[padding] = 0
    return torch.from_numpy(dt if s.gaps is None else s.gaps(dt).astype(dt.dtype, copy=False))


def _targets(
    s: Sequences, rows: NDArray[np.int64], at: NDArray[np.int64], padding: NDArray[np.bool_] | None
) -> Tensor | None:
    if s.target is None:
        return None
    values = s.target.values.take(at if s.target.per_step else rows, axis=0)
    if s.target.per_step and padding is not None:
        values[padding] = np.nan if s.target.classes is None else UNKNOWN
    return torch.from_numpy(values if s.target.classes is None else values.astype(np.int64))


def batches_by_length(lengths: Tensor | NDArray[np.int64], batch_size: int, rng: torch.Generator) -> list[Tensor]:
    """Returns the row numbers of batches in random order; each batch has series of similar length to limit padding.

    Pools of 16 batches are drawn at random and sorted internally, so that batches still differ between epochs.
    """
    lengths = _tensor(lengths)
    pools = torch.randperm(len(lengths), generator=rng).split(16 * batch_size)
    batches = [rows for pool in pools for rows in pool[lengths[pool].argsort(stable=True)].split(batch_size)]
    return [batches[i] for i in torch.randperm(len(batches), generator=rng).tolist()]


def _tensor(lengths: Tensor | NDArray[np.int64]) -> Tensor:
    return lengths if isinstance(lengths, Tensor) else torch.tensor(lengths)


class LengthBatches:
    """Batches by length for the `batch_sampler` of a DataLoader; an epoch depends only on (seed, epoch).

    Args:
        lengths: Lengths of the series.
        batch_size: Number of series per batch.
        seed: Seed of the order.
        shuffle: Whether the order changes every epoch; otherwise it is by length, for evaluation.

    Example:
        >>> batches = LengthBatches(np.array([5, 1, 4, 2]), batch_size=2, shuffle=False)
        >>> [rows.tolist() for rows in batches]
        [[1, 3], [2, 0]]
    """

    def __init__(self, lengths: Tensor | NDArray[np.int64], batch_size: int, *, seed: int = 0, shuffle: bool = True):
        self.lengths = _tensor(lengths)
        self.batch_size = whole("batch_size", batch_size, at_least=1)
        self.seed = whole("seed", seed, at_least=0)
        self.shuffle = shuffle
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch, which determines the order; a run resumed at this epoch sees the same batches."""
        self.epoch = whole("epoch", epoch, at_least=0)

    def __len__(self) -> int:
        # A pool consists of full batches, so only the very last batch may be smaller.
        return -(-len(self.lengths) // self.batch_size)

    def __iter__(self) -> Iterator[Tensor]:
        if not self.shuffle:
            return iter(self.lengths.argsort(stable=True).split(self.batch_size) if len(self.lengths) else ())
        # A large odd factor separates (seed, epoch) pairs: seed 0, epoch 1 differs from seed 1, epoch 0.
        rng = torch.Generator().manual_seed((self.seed * 1_000_003 + self.epoch) % 2**63)
        return iter(batches_by_length(self.lengths, self.batch_size, rng) if len(self.lengths) else ())
