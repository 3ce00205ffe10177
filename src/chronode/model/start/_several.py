"""Start of a network of several targets: a linear model or a stack for each of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from ...data import Sequences
from ._features import Summaries
from ._stacked import StackedStart, build_single
from ._start import LinearStart, Start, StartFit


def build_start(description: dict[str, Any], outputs: int) -> Start:
    """Builds the linear model or the stack of a description, or those of several targets."""
    return SeveralStart(description) if "targets" in description else build_single(description, outputs)


class SeveralStart(Start):
    """Starts of several targets, whose outputs follow one another.

    Args:
        description: "targets" are the descriptions of the starts, "outputs" their numbers of outputs.
    """

    def __init__(self, description: dict[str, Any]):
        super().__init__()
        pairs = zip(description["targets"], description["outputs"], strict=True)
        self.members = nn.ModuleList(build_single(part, count) for part, count in pairs)
        stacked = any(isinstance(member, StackedStart) for member in self.members)
        self.name = StackedStart.name if stacked else LinearStart.name
        self.static = max(int(part.get("static", 0)) for part in description["targets"])

    @property
    def num_outputs(self) -> int:
        """Number of logits and values."""
        return sum(start.num_outputs for start in self.starts)

    @property
    def starts(self) -> tuple[Start, ...]:
        """The start of each target."""
        return tuple(member for member in self.members if isinstance(member, Start))

    @property
    def kind(self) -> str:
        """Kind of the starts, if they are of one kind."""
        kinds = {start.kind for start in self.starts}
        return kinds.pop() if len(kinds) == 1 else "one for each target"

    def forward(self, x: Tensor, **times: Tensor | None) -> Tensor:
        """Returns `(B, K)`, or `(B, T, K)` for targets per step."""
        return torch.cat([member(x, **times) for member in self.members], dim=-1)

    def scale_by(self, factor: float) -> None:
        """Multiplies the outputs of all starts."""
        for start in self.starts:
            start.scale_by(factor)

    # ---- step by step, with the same sums for all targets -------------------------------------------------

    @property
    def features(self) -> Summaries:
        """Features of all starts."""
        first = self.starts[0]
        assert isinstance(first, LinearStart) and isinstance(first.features, Summaries)
        return first.features

    @property
    def running(self) -> Any:
        """Running sums that keep the features up to date."""
        first = self.starts[0]
        assert isinstance(first, LinearStart)
        return first.running

    def of(self, features: Tensor, is_known: Tensor) -> Tensor:
        """Returns the outputs `(..., K)` of features `(..., F)`, of which some are known."""
        return torch.cat([start.of(features, is_known) for start in self.starts if isinstance(start, LinearStart)], -1)

    def needs_whole_series(self) -> tuple[str, str, str] | None:
        """Returns (setting, reason, cure) if it cannot be updated step by step; None if it can."""
        return next((reason for start in self.starts if (reason := start.needs_whole_series()) is not None), None)


@dataclass(frozen=True)
class SeveralFit(StartFit):
    """Fitted starts of several targets; `members` are those of each."""

    members: tuple[StartFit, ...] = field(default=(), kw_only=True)

    def refitted(self, *parts: Sequences) -> StartFit:
        """Returns the same features and penalties, fitted to all series of these parts."""
        targets = zip(*(part.by_target for part in parts), strict=True)
        pairs = zip(self.members, targets, strict=True)
        return _together([fit.refitted(*(one.labeled() for one in own)) for fit, own in pairs], self.held_out)


def fit_targets(fit: Callable[..., StartFit], train: Sequences, valid: Sequences, **options: Any) -> StartFit:
    """Returns what `fit` makes of the target of these series, or of each of several targets.

    Args:
        fit: `fit_start` or `fit_stack`.
        train: Series with one target or several.
        valid: Series to choose by.
        options: Further arguments of `fit`.
    """
    pairs = list(zip(train.by_target, valid.by_target, strict=True))
    if len(pairs) == 1:
        return fit(train, valid, **options)
    fits = [fit(own.labeled(), judge.labeled(), **options) for own, judge in pairs]
    if any(fitted.held_out is None for fitted in fits):
        return _together(fits, None)
    held_out = []
    for fitted, (own, _) in zip(fits, pairs, strict=True):
        assert own.target is not None and fitted.held_out is not None
        rows = fitted.held_out.new_zeros(len(own), fitted.held_out.shape[1])
        rows[torch.from_numpy(own.target.known)] = fitted.held_out
        held_out.append(rows)
    return _together(fits, torch.cat(held_out, dim=1))


def _together(fits: Sequence[StartFit], held_out: Tensor | None) -> SeveralFit:
    description = {
        "kind": "targets",
        "targets": [fit.description for fit in fits],
        "outputs": [fit.start.num_outputs for fit in fits],
    }
    start = SeveralStart(description)
    for module, fit in zip(start.members, fits, strict=True):
        module.load_state_dict(fit.start.state_dict())
    return SeveralFit(start, description, held_out, {}, 0.0, members=tuple(fits))
