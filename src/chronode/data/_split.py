"""Parts of series: splits by group and by time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ..settings import number, one_of, whole
from ._names import counted, listed
from ._scaling import Scaler
from ._sequences import Sequences
from ._settings import PARTS, VALIDATION


@dataclass(frozen=True)
class Parts:
    """The series of a task.

    Attributes:
        train: Training series.
        valid: Validation series.
        test: Test series.
        scaler: Scaler applied to the values, fitted on `train`; None if they are not scaled.
        fresh: For synthetic tasks: returns the training series of epoch 0, 1, ...; `train` is that of epoch 0.
        vectors: `(symbols, size)` initial word vectors, with NaN rows for words without a vector.
    """

    train: Sequences
    valid: Sequences
    test: Sequences
    scaler: Scaler | None = None
    fresh: Callable[[int], Sequences] | None = None
    vectors: NDArray[np.float32] | None = None


# Above this size, the table of groups and classes would need too much memory.
_MOST_CELLS = 50_000_000


def split(
    s: Sequences, fractions: Sequence[float] = PARTS, *, by: str = "group", stratify: bool = True, seed: int = 0
) -> tuple[Sequences, ...]:
    """Splits `s` at random into parts with the given fractions of the groups; no group is in two parts.

    Classes are distributed evenly if possible; the groups of a rare class go to the first part first. Every part whose
    fraction is not 0 gets at least one group.

    Args:
        s: The series.
        fractions: Fractions of the parts, training first; they add up to 1.
        by: "group", or "series": every series on its own, which leaks if windows overlap (as in some papers).
        stratify: Whether to distribute the classes evenly; a group counts for its most frequent class.
        seed: Random seed.

    Example:
        >>> from chronode.data import from_list
        >>> s = from_list([[float(i)] for i in range(10)], groups=[0, 0, 1, 1, 2, 2, 3, 3, 4, 4])
        >>> train, test = split(s, (0.8, 0.2))
        >>> len(train), len(test), set(train.groups) & set(test.groups)
        (8, 2, set())
    """
    one_of("by", by, ("group", "series"))
    return _with_notes(_parts(s, _fractions(fractions), by, stratify, seed))


def hold_out(s: Sequences, share: float = VALIDATION, *, seed: int = 0) -> tuple[Sequences, Sequences]:
    """Splits series that are not tested into a training and a validation part.

    Example:
        >>> from chronode.data import from_list
        >>> [len(part) for part in hold_out(from_list([[float(i)] for i in range(85)]))]
        [70, 15]
    """
    train, valid = split(s, (1 - share, share), seed=seed)
    return train, valid


def drawn(s: Sequences, size: float, *, seed: int = 0) -> Sequences:
    """Returns series of groups that are drawn at random, in their order.

    Args:
        s: The series.
        size: Share of the groups, if it is less than 1; otherwise the number of series, at least.
        seed: Random seed.

    Example:
        >>> from chronode.data import from_list
        >>> s = from_list([[float(i)] for i in range(10)])
        >>> len(drawn(s, 0.3)), len(drawn(s, 4)), len(drawn(s, 100))
        (3, 4, 10)
    """
    groups, member, counts = np.unique(s.groups, return_inverse=True, return_counts=True)
    order = np.random.default_rng(seed).permutation(len(groups))
    most = np.ceil(size * len(groups)) if size < 1 else np.searchsorted(np.cumsum(counts[order]), size) + 1
    picked = np.zeros(len(groups), dtype=bool)
    picked[order[: int(most)]] = True
    return s if picked.all() else s[picked[member]]


def split_for_training(s: Sequences, fractions: Sequence[float] = PARTS, *, seed: int = 0) -> tuple[Sequences, ...]:
    """Splits off the test part, then divides the rest as `hold_out` does.

    So an estimator that is given the training and validation series together divides them in the same way.

    Example:
        >>> from chronode.data import from_list
        >>> s = from_list([[float(i)] for i in range(100)])
        >>> train, valid, test = split_for_training(s, seed=3)
        >>> rest = s[sorted({*train.ids, *valid.ids})]
        >>> len(test), hold_out(rest, seed=3)[1].ids.tolist() == valid.ids.tolist()
        (15, True)
    """
    shares = _fractions(fractions)
    parts = _parts(s, shares, "group", True, seed)
    share = shares[:2].sum()
    rest, test = _parts(s, np.array([share, shares[2]]), "group", True, seed)
    if len(np.unique(rest.groups)) > 1:  # very few groups are divided at once
        parts = (*_parts(rest, shares[:2] / share, "group", True, seed), test)
    return _with_notes(parts)


def _parts(s: Sequences, shares: NDArray[np.float64], by: str, stratify: bool, seed: int) -> tuple[Sequences, ...]:
    """Returns the parts, without notes."""
    seed = whole("seed", seed, at_least=0)
    member = np.arange(len(s)) if by == "series" else np.unique(s.groups, return_inverse=True)[1]
    count = int(member.max(initial=-1)) + 1
    needed = int((shares > 0).sum())
    if count < needed:
        raise ValueError(
            f"{needed} parts need at least {needed} {'groups' if by == 'group' else 'series'}, but there are {count}; "
            "a single long series can be split by time."
        )
    strata = _strata(s, member, count) if stratify else np.zeros(count, dtype=np.int64)
    part = _assign(strata, shares, np.random.default_rng(seed))
    return tuple(s[part[member] == i] for i in range(len(shares)))


def folds_of(s: Sequences, count: int, *, seed: int = 0) -> NDArray[np.int64]:
    """`(N,)` the fold of each series, from 0: no group is in two folds, classes are spread evenly.

    With fewer groups than folds there are fewer folds; the series of a single group are divided into blocks that
    follow one another.

    Example:
        >>> from chronode.data import from_list
        >>> folds_of(from_list([[1.0], [2.0], [3.0], [4.0]], groups=[0, 0, 1, 1]), 2).tolist()
        [0, 0, 1, 1]
    """
    member = np.unique(s.groups, return_inverse=True)[1]
    groups = int(member.max(initial=-1)) + 1
    if groups < 2:
        return np.arange(len(s)) * min(count, len(s)) // max(len(s), 1)
    count = min(count, groups)
    part = _assign(_strata(s, member, groups), np.full(count, 1 / count), np.random.default_rng(seed))
    return part[member]


def split_by_time(
    s: Sequences, fractions: Sequence[float] = PARTS, *, whole_groups: bool | None = None
) -> tuple[Sequences, ...]:
    """Splits `s` into consecutive parts: every step of a part is earlier than every step of the next.

    The cuts are at the same times for all series, so the times must share one calendar or clock.

    Args:
        s: The series.
        fractions: Fractions of the steps, training first; they add up to 1.
        whole_groups: True: no group is in two parts; groups that a cut would divide are dropped, with a note.
            False: series are divided at the cuts; the pieces keep their id and group. None: True if the target
            belongs to the whole series, otherwise False.

    Example:
        >>> from chronode.data import from_list
        >>> train, test = split_by_time(from_list([[1, 2, 3, 4]], times=[[0, 1, 2, 3]]), (0.75, 0.25))
        >>> train[0].times.tolist(), test[0].times.tolist()
        ([0.0, 1.0, 2.0], [3.0])
    """
    shares = _fractions(fractions)
    if not len(s):
        raise ValueError("there is nothing to split.")
    if whole_groups is None:
        whole_groups = s.target is not None and not s.target.per_step
    ordered = np.sort(s.sample.times)
    at = np.round(np.cumsum(shares)[:-1] * len(ordered)).astype(np.int64)
    cuts = np.array([ordered[i] if i < len(ordered) else np.inf for i in at])
    parts = _whole(s, cuts) if whole_groups else _cut(s, cuts)
    for i, (part, share) in enumerate(zip(parts, shares.tolist(), strict=True)):
        if share > 0 and not len(part):
            message = (
                "every group extends over a cut, so it belongs to no part; use whole_groups=False or split by group"
                if whole_groups
                else "use other fractions (split)"
            )
            raise ValueError(f"part {i + 1} of the split by time is empty: {message}.")
    return _with_notes(parts)


def _cut(s: Sequences, cuts: NDArray[np.float64]) -> tuple[Sequences, ...]:
    """Divides every series at the cuts."""
    before = [np.zeros(len(s), dtype=np.int64)]
    for cut in cuts.tolist():
        if s.base_times is None:
            steps = np.minimum(s.lengths, np.ceil(min(cut, 2.0**62)).astype(np.int64))
        elif s.is_stored:
            firsts = ((part.times < cut, np.cumsum(part.lengths) - part.lengths) for part in s.chunks())
            steps = np.concatenate([np.add.reduceat(early, first, dtype=np.int64) for early, first in firsts])
        else:  # times increase within a series: the early steps come first
            sums = np.concatenate([[0], np.cumsum(s.base_times < cut)])
            steps = sums[s.starts + s.lengths] - sums[s.starts]
        before.append(steps)
    before.append(s.lengths)
    parts = []
    for low, high in pairwise(before):
        rows = np.flatnonzero(high > low)
        lead = None if s.lead is None else np.where(low == 0, s.lead, 0.0)[rows]
        parts.append(replace(s[rows], starts=(s.starts + low)[rows], lengths=(high - low)[rows], lead=lead))
    return tuple(parts)


def _whole(s: Sequences, cuts: NDArray[np.float64]) -> tuple[Sequences, ...]:
    """Assigns whole groups to the intervals between the cuts."""
    if s.base_times is None:
        raise ValueError("these series have no times to split by.")
    groups, member = np.unique(s.groups, return_inverse=True)
    first, last = np.full(len(groups), np.inf), np.full(len(groups), -np.inf)
    np.minimum.at(first, member, s.base_times[s.starts])
    np.maximum.at(last, member, s.base_times[s.starts + s.lengths - 1])
    part = np.searchsorted(cuts, first, side="right")
    divided = part != np.searchsorted(cuts, last, side="right")
    part[divided] = -1
    parts = tuple(s[part[member] == i] for i in range(len(cuts) + 1))
    gone = int(divided.sum())
    if not gone:
        return parts
    message = f"{counted(gone, 'group')} dropped because a cut would divide them: {listed(groups[divided], 5)}."
    return tuple(part.with_notes(f"split by time: {message}") for part in parts)


def _fractions(fractions: Sequence[float]) -> NDArray[np.float64]:
    shares = np.array([number("fractions", share, at_least=0.0) for share in fractions])
    if len(shares) < 2 or abs(shares.sum() - 1) > 1e-6 or shares[0] == 0:
        raise ValueError(
            f"fractions must be two or more numbers that add up to 1, training first; got {list(fractions)}."
        )
    return shares


def _strata(s: Sequences, member: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Returns the most frequent class of each group; 0 for all if the target is not a class."""
    target = s.target
    if target is None or target.classes is None or count * len(target.classes) > _MOST_CELLS:
        return np.zeros(count, dtype=np.int64)
    labels = target.values[s.steps] if target.per_step else target.values
    member = np.repeat(member, s.lengths) if target.per_step else member
    width = len(target.classes)
    has_label = labels >= 0
    cells = np.bincount(member[has_label] * width + labels[has_label], minlength=count * width)
    return cells.reshape(count, width).argmax(axis=1)


def _assign(strata: NDArray[np.int64], shares: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Assigns each group to a part."""
    part = np.empty(len(strata), dtype=np.int64)
    owed = np.zeros(len(shares))
    shuffled = rng.permutation(len(strata))
    shuffled = shuffled[np.argsort(strata[shuffled], kind="stable")]
    bounds = np.flatnonzero(np.diff(strata[shuffled], prepend=-1, append=-1))
    for low, high in pairwise(bounds):
        wanted = (high - low) * shares
        counts = np.floor(wanted + 1e-9).astype(np.int64)
        for _ in range(int(high - low - counts.sum())):
            # The number of groups still missing from each part, over all classes so far; training comes first.
            best = 0 if counts[0] == 0 else int(np.argmax(np.where(shares > 0, owed + wanted - counts, -np.inf)))
            counts[best] += 1
        owed += wanted - counts
        part[shuffled[low:high]] = np.repeat(np.arange(len(shares)), counts)
    sizes = np.bincount(part, minlength=len(shares))
    for empty in np.flatnonzero((sizes == 0) & (shares > 0)):
        # Taken from the part and the class that can best spare a group.
        giver = np.flatnonzero(part == np.bincount(part, minlength=len(shares)).argmax())
        frequent = np.bincount(strata[giver]).argmax()
        part[giver[strata[giver] == frequent][-1]] = empty
    return part


def _with_notes(parts: tuple[Sequences, ...]) -> tuple[Sequences, ...]:
    """Adds notes about classes that are in a later part but not in training."""
    target = parts[0].target
    if target is None or target.classes is None:
        return parts
    codes = [np.unique(t.values[p.steps] if t.per_step else t.values) for p in parts if (t := p.target) is not None]
    notes = []
    for i, later in enumerate(codes[1:], start=2):
        gone = [target.classes[c] for c in np.setdiff1d(later, codes[0]).tolist() if c >= 0]
        if gone:
            notes.append(f"split: part {i} has classes that are not in training (part 1): {listed(gone)}.")
    return tuple(part.with_notes(*notes) for part in parts)
