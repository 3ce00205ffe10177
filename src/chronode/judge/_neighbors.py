"""The nearest training series by dynamic time warping."""

from __future__ import annotations

import torch
from torch import Tensor

from ..data import Sequences

BAND = 0.1
_MOST_CELLS = 5e7  # a few seconds
_BATCH_CELLS = 2**22


def nearest_by_warping(train: Sequences, test: Sequences) -> Tensor | None:
    """Returns the row `(N,)` of the training series nearest to each test series; None if it would take too long.

    The distance is dynamic time warping of squared differences within a band of a tenth of the length; missing values
    are replaced by 0, the mean of scaled series.

    Example:
        >>> from chronode.data import from_list
        >>> train = from_list([[0.0, 1.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0]])
        >>> nearest_by_warping(train, from_list([[0.0, 0.0, 1.0, 0.0], [1.0, 0.9, 1.0, 1.0]])).tolist()
        [0, 1]
    """
    longest = max(int(train.lengths.max()), int(test.lengths.max()))
    apart = longest - min(int(train.lengths.min()), int(test.lengths.min()))
    width = min(longest, apart + 2 * BAND * longest + 1)
    if len(train) * len(test) * longest * width * train.num_channels > _MOST_CELLS:
        return None
    known = train.batch()
    size = max(1, _BATCH_CELLS // (len(train) * longest * train.num_channels))
    found = []
    for first in range(0, len(test), size):
        batch = test.batch(slice(first, first + size))
        found.append(warping_distances(batch.x, batch.lengths, known.x, known.lengths).argmin(1))
    return torch.cat(found)


def warping_distances(a: Tensor, a_lengths: Tensor, b: Tensor, b_lengths: Tensor, *, band: float = BAND) -> Tensor:
    """Returns squared distances `(P, Q)` of the series `a (P, T, D)` and `b (Q, S, D)` by dynamic time warping.

    The cost matrix of each pair is filled diagonal by diagonal, for all pairs at once.

    Args:
        a: Padded series.
        a_lengths: `(P,)`.
        b: Padded series.
        b_lengths: `(Q,)`.
        band: Half-width of the band as a share of the longer series (at least the difference of the lengths).

    Example:
        >>> a, b = torch.tensor([[[0.0], [1.0], [1.0]]]), torch.tensor([[[0.0], [0.0], [1.0]]])
        >>> warping_distances(a, torch.tensor([3]), b, torch.tensor([3]), band=1.0).item()
        0.0
    """
    a, b = a.float(), b.float()
    rows, columns = a.shape[1], b.shape[1]
    spread = (a_lengths[:, None] - b_lengths[None]).abs()
    reach = spread + max(1, round(band * max(rows, columns)))
    widest = int(reach.max())
    never = torch.full((len(a), len(b), rows + 1), torch.inf)
    before, last = never.clone(), never.clone()  # of the two diagonals before; row -1 lies at 0
    found = torch.full((len(a), len(b)), torch.inf)
    ends = (a_lengths - 1)[:, None] + (b_lengths - 1)[None]
    for diagonal in range(rows + columns - 1):
        low = max(0, diagonal - columns + 1, -(-(diagonal - widest) // 2))
        high = min(diagonal, rows - 1, (diagonal + widest) // 2) + 1
        i = torch.arange(low, high)
        cost = (a[:, None, low:high] - b[None, :, diagonal - i]).square().sum(-1)
        cost = cost.masked_fill((2 * i - diagonal).abs() > reach[..., None], torch.inf)
        best = torch.minimum(torch.minimum(last[..., low + 1 : high + 1], last[..., low:high]), before[..., low:high])
        now = never.clone()
        now[..., low + 1 : high + 1] = cost + (best if diagonal else 0.0)
        over = ends == diagonal
        if over.any():
            at = a_lengths[:, None, None].expand(len(a), len(b), 1)
            found = torch.where(over, now.gather(2, at)[..., 0], found)
        before, last = last, now
    return found
