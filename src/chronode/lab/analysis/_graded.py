"""Singular values of long products of matrices, of which a plain product keeps only the largest.

A product is kept as Q diag(10^s) W, with orthonormal columns in Q, rows of length 1 in W, and sorted logarithms s: each
factor is multiplied into Q alone, and a QR decomposition separates large from small before the two are added.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

NEGLIGIBLE = 1e-14
"""Below this share of the largest number of a factor, a row is a rounding error, and counts as 0."""
_DECADES = 110.0  # of the singular values found at once; LAPACK is exact over 150
_MARGIN = 20.0  # decades of others around them: those further away have no effect in double precision


class GradedProduct:
    """A batch of products ... J₃ J₂ J₁, to which factors are added on the left."""

    def __init__(self, start: Tensor):
        batch, _, size = start.shape
        self.scales = start.new_zeros(batch, size)
        self.rows = torch.eye(size, dtype=start.dtype).expand(batch, -1, -1)
        self.columns = torch.eye(size, dtype=start.dtype).expand(batch, -1, -1)
        self.multiply(start)

    def multiply(self, factor: Tensor) -> None:
        """Adds a factor on the left, `(B, k, n)`."""
        self.columns, self.scales, self.rows = self._multiplied(factor @ self.columns)

    def log10_singular_values(self, wanted: Tensor) -> Tensor:
        """Returns the logarithms of the singular values of the rows `seen` of the product, `(B, m)`, largest first."""
        _, scales, rows = self._multiplied(self.columns[:, wanted])
        logarithms = [_log10_singular_values(*pair) for pair in zip(scales.numpy(), rows.numpy(), strict=True)]
        return torch.from_numpy(np.stack(logarithms))

    def _multiplied(self, factor: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Returns `factor` diag(10^scales) rows as columns, scales and rows."""
        lengths = torch.linalg.vector_norm(factor, dim=1).log10() + self.scales
        order = lengths.argsort(dim=1, descending=True, stable=True)
        factor = factor.gather(2, order[:, None].expand_as(factor))
        rows = self.rows.gather(1, order[:, :, None].expand_as(self.rows))
        scales = self.scales.gather(1, order)
        columns, triangle = torch.linalg.qr(factor)
        size = triangle.abs()
        kept = size > NEGLIGIBLE * size.amax((1, 2), keepdim=True)
        exponents = torch.where(kept, size.log10() + scales[:, None], -torch.inf)
        largest = exponents.amax(2)
        shift = torch.where(largest.isfinite(), largest, 0)
        mixed = (triangle.sign() * 10 ** (exponents - shift[..., None])) @ rows
        norms = torch.linalg.vector_norm(mixed, dim=2)
        return columns, largest + norms.log10(), mixed / torch.where(norms > 0, norms, 1)[..., None]


def _log10_singular_values(scales: NDArray[Any], rows: NDArray[Any]) -> NDArray[Any]:
    """Returns the logarithms of the singular values of diag(10^scales) `rows`, largest first.

    They are found in groups of similar size: what is much larger or smaller has no effect on them.
    """
    from scipy.linalg import get_lapack_funcs

    order = np.argsort(-scales, kind="stable")
    scales, triangle = scales[order], np.linalg.qr(rows[order].T).R.T  # rows = triangle × orthonormal rows
    (rotate,) = get_lapack_funcs(("gejsv",), (triangle,))
    count = int(np.isfinite(scales).sum())
    values_log10 = np.full(len(scales), -np.inf)
    first = 0
    while first < count:
        below = scales[first] - scales[:count]
        last, start, end = (np.searchsorted(below, limit) for limit in (_DECADES, -_MARGIN, _DECADES + _MARGIN))
        block = 10.0 ** (scales[start:end, None] - scales[first]) * triangle[start:end, start:end]
        # Column by column of the transpose, however different they are, one-sided rotations keep all digits.
        values, _, _, work, *_ = rotate(np.asfortranarray(block.T), joba=0, jobu=3, jobv=3, jobr=1, jobt=0, jobp=0)
        with np.errstate(divide="ignore"):
            logs = np.log10(values) + np.log10(work[0] / work[1]) + scales[first]
        values_log10[first:last] = logs[first - start : last - start]
        first = last
    return values_log10
