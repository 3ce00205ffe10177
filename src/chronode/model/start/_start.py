"""A linear model of a series, as a small module that a network can start from."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ...data import Batch, Sequences, concat, folds_of, is_irregular, step_gap
from ...settings import SettingError, named
from ...system import threads, threads_for
from .._relative import Relative
from ._features import RankedSummaries, Summaries, Values, build_features, dilations_for
from ._linear import Linear, class_columns, fit_classes, fit_linear, standardized
from ._own import OwnMaps
from ._summaries import RunningSummaries

FOLDS = 5
# Above these sizes, a linear model is fitted to a subset of the series, and some kinds of features are left out.
MOST_SERIES = 20_000
_MOST_NUMBERS = 40_000_000
_MOST_PATTERN_NUMBERS = 3_000_000
_WIDE = 1_500
_LEVELS, _MOST_SERIES_OF_MANY_LEVELS = 12, 2_000
# With fewer series, three times as many features rarely help.
_FEWEST_FOR_RANKS = 300
_BATCH_NUMBERS = 2**21


class Start(nn.Module):
    """Model of a series whose outputs a network adds to.

    Attributes:
        name: Name in titles of models whose network adds to it.
        static: Number of static values that it uses.
    """

    name = "start"
    static = 0

    @property
    def starts(self) -> tuple[Start, ...]:
        """The start of each target: several, or this one."""
        return (self,)

    @property
    def kind(self) -> str:
        """Features, or members, in a few words."""
        raise NotImplementedError

    @property
    def title(self) -> str:
        """Model and features in a few words."""
        return f"{self.name} ({self.kind})"

    @property
    def title_alone(self) -> str:
        """Title of a model whose network adds nothing to it."""
        return f"{self.name} alone ({self.kind})"

    def scale_by(self, factor: float) -> None:
        """Multiplies the outputs by a factor."""
        raise NotImplementedError

    @property
    def num_weights(self) -> int:
        """The number of weights, biases and values of leaves."""
        names = ("weight", "bias", "value")
        return sum(part.numel() for path, part in self.named_buffers() if path.rpartition(".")[2] in names)

    @property
    def num_outputs(self) -> int:
        """Number of logits or values."""
        return self.get_buffer("bias").shape[0]

    def needs_whole_series(self) -> tuple[str, str, str] | None:
        """Returns (setting, reason, cure) if it cannot be updated step by step; None if it can."""
        return "start", f"a {self.name} needs whole series", f"train with {named('start', 'summaries')}"


class FeatureStart(Start):
    """Model of features of a series.

    Args:
        description: Argument of `build_features`; "static" is the number of static values, which are features too.
    """

    def __init__(self, description: dict[str, Any]):
        super().__init__()
        settings = dict(description)
        settings.pop("own", None)
        self.static = int(settings.pop("static", 0))
        self.features = build_features(settings)

    @property
    def kind(self) -> str:
        """Kind of the features."""
        return self.features.kind

    def columns(
        self, x: Tensor, *, static: Tensor | None = None, series: Tensor | None = None, **times: Tensor | None
    ) -> Tensor:
        """Returns the features `(B, F)` or `(B, T, F)`, the static values last; NaN where unknown."""
        features = self.features(x, **times)
        if not self.static:
            return features
        assert static is not None
        constant = static.to(features)
        return torch.cat(
            [features, constant if features.dim() == 2 else constant[:, None].expand(*features.shape[:2], -1)], -1
        )


class LinearStart(FeatureStart):
    """Features of a series times weights: `weight^T (features - mean) / std + bias`.

    Args:
        description: Argument of `build_features`; "static" is the number of static values, which are features too, and
            "own" the arguments of `OwnMaps`, if series have maps of their own.
        outputs: Number of logits or values.

    Attributes:
        own: Maps of known series' own; None if all series share one map.

    Example:
        >>> start = LinearStart({"kind": "summaries", "channels": 2}, 3)
        >>> start(torch.randn(4, 6, 2)).shape
        torch.Size([4, 3])
    """

    name = "linear start"

    def __init__(self, description: dict[str, Any], outputs: int):
        super().__init__(description)
        size = self.features.size + self.static
        for name, value in (("mean", 0.0), ("std", 1.0), ("low", -torch.inf), ("high", torch.inf)):
            self.register_buffer(name, torch.full((size,), value, dtype=torch.float64))
        self.register_buffer("weight", torch.zeros(size, outputs, dtype=torch.float64))
        self.register_buffer("bias", torch.zeros(outputs, dtype=torch.float64))
        self.own: OwnMaps | None = None
        if (own := description.get("own")) is not None:
            assert isinstance(self.features, Values)
            self.own = OwnMaps(**own, steps=self.features.steps, width=self.features.channels, outputs=outputs)

    def forward(self, x: Tensor, *, series: Tensor | None = None, **times: Tensor | None) -> Tensor:
        """Returns `(B, K)`, or `(B, T, K)` for a target per step; `series` are the keys of windows."""
        features = self.columns(x, **times)
        outputs = self.of(features, ~features.isnan())
        return outputs if self.own is None or series is None else self.own(features, series, outputs)

    def of_series(self, key: int | None) -> LinearStart:
        """Returns the linear start of a known series by itself; with None, that of unknown ones."""
        alone = copy.deepcopy(self)
        alone.own = None
        if self.own is not None and key is not None:
            shared, added = self.own.of(key)
            alone.get_buffer("weight").mul_(shared).add_(added)
            alone.get_buffer("bias").mul_(shared)
        return alone

    def scale_by(self, factor: float) -> None:
        """Multiplies weights and bias, and those of the maps of series' own."""
        for part in (self.get_buffer("weight"), self.get_buffer("bias")):
            part.mul_(factor)
        if self.own is not None:
            self.own.get_buffer("weight").mul_(factor)

    def of(self, features: Tensor, is_known: Tensor) -> Tensor:
        """Returns the outputs `(..., K)` of features `(..., F)`, of which some are known."""
        moments = [self.get_buffer(name) for name in ("mean", "std", "low", "high")]
        return standardized(features, is_known, *moments) @ self.get_buffer("weight") + self.get_buffer("bias")

    # ---- step by step -------------------------------------------------------------------------------------

    @property
    def running(self) -> RunningSummaries:
        """Running sums that keep the features up to date.

        Raises:
            ValueError: They need the whole series.
        """
        if (reason := self.needs_whole_series()) is not None:
            raise SettingError(reason[1], argument=reason[0], cure=reason[2])
        assert isinstance(self.features, Summaries)
        return self.features.running

    def needs_whole_series(self) -> tuple[str, str, str] | None:
        """Returns (setting, reason, cure) if the features cannot be updated step by step; None if they can."""
        if self.static:
            cure = f"train without {named('static', ...)}"
            return "static", "static values cannot be updated step by step", cure
        if not isinstance(self.features, Summaries):
            reason = f"a linear start that sees {self.features.kind} needs whole series"
            return "start", reason, f"train with {named('start', 'summaries')}"
        return None

    @property
    def kind(self) -> str:
        """Kind of the features, and the number of series with maps of their own."""
        kind = super().kind
        return kind if self.own is None else f"{kind}, with maps of {len(self.own.get_buffer('keys')):,} series' own"

    @property
    def title(self) -> str:
        """Model and features in a few words."""
        return f"linear ({self.kind})"

    @property
    def title_alone(self) -> str:
        """Title of a model whose network adds nothing to it."""
        return f"{self.name} alone (linear model on {self.kind})"

    def take(self, linear: Linear) -> None:
        """Copies the parameters of a fitted linear map."""
        for name in ("mean", "std", "low", "high", "weight", "bias"):
            self.get_buffer(name).copy_(getattr(linear, name))


@dataclass(frozen=True)
class StartFit:
    """A fitted linear start.

    Attributes:
        start: The module.
        description: Description from which it is built.
        held_out: Out-of-fold outputs `(N, K)` of the training series; None for a target per step.
        losses: Mean loss over held-out and validation series by kind of features.
        penalty: The chosen penalty.
        relative: For forecasts, the transform of windows to their own level and scale, applied before `start`.
        scale: Logits per unit of the outputs of a ridge regression; None for a logistic regression and for numbers.
        note: Remark for the user.
        held_out_valid: Outputs of the validation series of a fold, by models that did not see them; None if none did.
    """

    start: Start
    description: dict[str, Any]
    held_out: Tensor | None
    losses: dict[str, float]
    penalty: float
    relative: Relative | None = None
    scale: float | None = field(default=None, kw_only=True)
    note: str = field(default="", kw_only=True)
    held_out_valid: Tensor | None = field(default=None, kw_only=True)

    def outputs(self, s: Sequences) -> Tensor:
        """Returns logits or values `(N, K)` of all series; for a target per step, `(steps, K)`."""
        return outputs_of(self.start, s, self.relative)

    def fold(self, train: Tensor, valid: Tensor) -> StartFit:
        """Returns the fit for a fold of its training series: their out-of-fold outputs in place of its own.

        Args:
            train: Row numbers of the series to train on.
            valid: Row numbers of the series to compare by.
        """
        assert self.held_out is not None
        return replace(self, held_out=self.held_out[train], held_out_valid=self.held_out[valid])

    def refitted(self, *parts: Sequences) -> StartFit:
        """Returns the same features and penalty, fitted to all series of these parts."""
        s = parts[0] if len(parts) == 1 else concat(parts)
        assert s.target is not None
        assert isinstance(self.start, LinearStart)
        features, goal, _, weights = rows_of(self.start, _some(s), None, self.relative)
        classes = len(s.target.classes or ())
        if self.scale is not None:
            goal, classes = class_columns(goal, classes), 0
        folds = torch.arange(len(features)) % 2
        options: dict[str, Any] = {"clip": self.start.features.clip, "penalties": (self.penalty,), "weights": weights}
        linear = fit_linear(features, goal, folds, classes=classes, **options).linear
        start = LinearStart(self.description, linear.weight.shape[1])
        start.load_state_dict(self.start.state_dict())
        start.take(linear if self.scale is None else linear.scaled(self.scale))
        return replace(self, start=start)


def fit_start(train: Sequences, valid: Sequences, *, kinds: Sequence[str] | None = None, seed: int = 0) -> StartFit:
    """Returns the linear model of the target of `train` with the lowest loss on held-out series.

    Args:
        train: Series with a target.
        valid: Series to choose by, in addition to folds of the training series.
        kinds: Kinds of features to choose from; by default those that suit the series.
        seed: Random seed of the folds.

    Example:
        >>> from chronode.data import from_list
        >>> s = from_list([[1.0, 2.0], [3.0, 1.0]] * 20, target=["up", "down"] * 20)
        >>> fitted = fit_start(s, s)
        >>> fitted.start(s.batch([0, 1]).x).argmax(1).tolist(), fitted.held_out.argmax(1)[:4].tolist()
        ([1, 0], [1, 0, 1, 0])
    """
    return fit_features(train, valid, describe_features(train, kinds), seed=seed)


def describe_features(train: Sequences, kinds: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Returns the features that suit these series and their static values, as `LinearStart` takes them."""
    static = {"static": train.num_static} if train.num_static else {}
    return [kind | static for kind in feature_kinds(train, kinds)]


def fit_features(
    train: Sequences,
    valid: Sequences,
    descriptions: Sequence[dict[str, Any]],
    *,
    view: Relative | None = None,
    seed: int = 0,
) -> StartFit:
    """Returns the linear model of the best of these features; of windows to forecast from, by `valid` alone."""
    fits = fit_each(train, valid, descriptions, view=view, seed=seed)
    best = min(fits, key=lambda fitted: fitted.losses[fitted.start.kind])
    losses: dict[str, float] = {}
    for fitted in fits:
        for kind, loss in fitted.losses.items():
            losses[kind] = min(loss, losses.get(kind, loss))
    return replace(best, losses=losses)


def fit_each(
    train: Sequences,
    valid: Sequences,
    descriptions: Sequence[dict[str, Any]],
    *,
    view: Relative | None = None,
    seed: int = 0,
) -> list[StartFit]:
    """Returns the linear model of each of these features; the arguments are those of `fit_features`."""
    assert train.target is not None
    classes = len(train.target.classes or ())
    few = _some(train)
    folds = folds_for(few, seed)
    fits = []
    for description in descriptions:
        start = LinearStart(description, classes or train.target.values.shape[1])
        _learn_features(start, few)
        features, goal, fold, weights = rows_of(start, few, folds, view)
        if len(fold.unique()) < 2:  # a single series with a target at every step: stretches of it
            fold = torch.arange(len(fold)) * FOLDS // len(fold)
        judged = rows_of(start, valid, None, view) if len(valid) else None
        judge = None if judged is None else (judged.features, judged.goal, judged.weights)
        options: dict[str, Any] = {"clip": start.features.clip, "judge": judge, "weights": weights}
        with threads(threads_for(features.numel())):
            if classes:
                choice = fit_classes(features, goal, fold, classes, logistic=start.features.few, **options)
            else:
                choice = fit_linear(features, goal, fold, weight=0.5 if view is None else 1.0, **options)
        start.take(choice.linear)
        held_out = None
        if not train.target.per_step:
            held_out = choice.held_out if len(few) == len(train) else raw_outputs(start, train, view)
        losses = {start.kind: choice.loss}
        fits.append(StartFit(start, description, held_out, losses, choice.penalty, view, scale=choice.scale))
    return fits


def folds_for(s: Sequences, seed: int) -> Tensor:
    """Returns the fold `(N,)` of each series."""
    return torch.tensor(folds_of(s, FOLDS, seed=seed))


def feature_kinds(s: Sequences, kinds: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Returns the features that suit these series, as `build_features` takes them; at least the summaries."""
    assert s.target is not None
    gap = step_gap(s)
    if s.target.per_step:
        running = {"kind": "summaries", "channels": s.num_channels, "every_step": True}
        return [running, {**running, "newest": True}]
    suitable: list[dict[str, Any]] = [{"kind": "summaries", "channels": s.num_channels}]
    if len(s) >= _FEWEST_FOR_RANKS and RankedSummaries(s.num_channels).size <= _WIDE:
        suitable.append({"kind": "ranked summaries", "channels": s.num_channels})
    spans = s.lengths if s.base_times is None else _spans(s) / gap + 1
    steps = round(float(np.median(spans)))
    fits = steps >= 2 and len(s) * steps * s.num_channels <= _MOST_NUMBERS
    size = {"channels": s.num_channels, "steps": steps, "gap": gap}
    if fits and np.ptp(spans) <= 0.1 * steps:
        suitable.append({"kind": "values", **size})
    # Steps that have little to do with their neighbors are better left out than interpolated.
    if fits and np.ptp(spans) <= 0.1 * steps and s.has_missing:
        suitable.append({"kind": "readings", **size})
    narrow = steps >= 2 and 2 * steps * s.num_channels <= _WIDE
    if narrow and np.ptp(spans) <= 0.5 * steps and is_irregular(s):
        suitable.append({"kind": "positions", **size})
    if steps >= 8 and min(len(s), MOST_SERIES) * steps * s.num_channels <= _MOST_PATTERN_NUMBERS:
        description = {
            "kind": "patterns",
            "channels": s.num_channels,
            "dilations": list(dilations_for(steps)),
            "levels": _LEVELS if len(s) <= _MOST_SERIES_OF_MANY_LEVELS else 2,
            "gap": gap,
        }
        suitable += [description, {**description, "kind": "patterns of changes"}]
    return [description for description in suitable if kinds is None or description["kind"] in kinds] or suitable[:1]


def outputs_of(start: Start, s: Sequences, relative: Relative | None = None) -> Tensor:
    """Returns outputs `(N, K)` of all series in units of the target; for a target per step, `(steps, K)`."""
    outputs = []
    for batch, _ in _batches(s):
        if relative is not None:
            view = relative.view(batch.x, batch.lengths, batch.observed, batch.static)
            outputs.append(relative.back(start(view.x, **batch.inputs), view))
        else:
            out = start(batch.x, **batch.inputs)
            outputs.append(out[_inside(batch)] if out.dim() == 3 else out)
    return torch.cat(outputs)


def raw_outputs(start: Start, s: Sequences, relative: Relative | None = None) -> Tensor:
    """Returns outputs in the units of the network's head: for windows, relative to their level and scale."""
    return torch.cat([start(_seen(batch, relative)[0], **batch.inputs) for batch, _ in _batches(s)])


def _seen(batch: Batch, relative: Relative | None) -> tuple[Tensor, Tensor | None]:
    """Returns the values and targets of a batch as a linear model sees them."""
    if relative is None:
        return batch.x, batch.target
    view = relative.view(batch.x, batch.lengths, batch.observed, batch.static)
    return view.x, None if batch.target is None else relative.there(batch.target, view)


def _some(s: Sequences) -> Sequences:
    """Returns all series, or an evenly spaced subset if there are very many."""
    if len(s) <= MOST_SERIES:
        return s
    return s[np.linspace(0, len(s) - 1, MOST_SERIES).round().astype(np.int64)]


def _learn_features(start: LinearStart, s: Sequences) -> None:
    """Fits features that have learned levels to some of the series."""
    some = s[np.linspace(0, len(s) - 1, min(len(s), start.features.learns_from)).round().astype(np.int64)]
    batch = some.batch()
    start.features.fit(batch.x, **batch.times)


class FeatureRows(NamedTuple):
    """Features, targets, folds and weights (None for equal weights) with one row per series, or per step."""

    features: Tensor
    goal: Tensor
    folds: Tensor
    weights: Tensor | None


def rows_of(start: FeatureStart, s: Sequences, folds: Tensor | None, relative: Relative | None) -> FeatureRows:
    """Returns the rows that a start is fitted to."""
    assert s.target is not None
    tables, goals, parts = [], [], []
    for batch, rows in _batches(s):
        x, goal = _seen(batch, relative)
        features = start.columns(x, **batch.inputs)
        assert goal is not None
        fold = torch.zeros(len(rows), dtype=torch.int64) if folds is None else folds[rows]
        if s.target.per_step:
            inside = _inside(batch)
            fold = fold[:, None].expand(inside.shape)[inside]
            features, goal = features[inside], goal[inside]
        tables.append(features)
        goals.append(goal)
        parts.append(fold)
    goal = torch.cat(goals)
    goal = goal.double() if goal.dtype.is_floating_point else goal
    weights = s.target_weights()
    return FeatureRows(
        torch.cat(tables), goal, torch.cat(parts), None if weights is None else torch.from_numpy(weights)
    )


def _inside(batch: Batch) -> Tensor:
    return torch.arange(batch.x.shape[1]) < batch.lengths[:, None]


def _batches(s: Sequences) -> Iterator[tuple[Batch, Tensor]]:
    """Yields all series in order, in batches of moderate size, with their row numbers."""
    size = max(1, min(64, int(_BATCH_NUMBERS // (max(1, int(s.lengths.max())) * s.num_channels))))
    for first in range(0, len(s), size):
        rows = torch.arange(first, min(first + size, len(s)))
        yield s.batch(rows), rows


def _spans(s: Sequences) -> np.ndarray:
    ends = np.cumsum(s.lengths)
    later = s.dt
    later[ends - s.lengths] = 0  # before the first step
    return np.add.reduceat(later, ends - s.lengths)
