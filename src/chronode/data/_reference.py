"""Reference: features of stretches of the training series, with which live data are compared."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..settings import whole


@dataclass(frozen=True)
class Reference:
    """Features of some stretches of the training series.

    Attributes:
        steps: Observations of a stretch.
        first: Whether they are the first ones of series; otherwise any.
        few: Whether they are all stretches of a few series; otherwise one of each series.
        stretches: Number of stretches of a series of usual length.
        features: Feature -> a number per stretch, None where it is not known.
    """

    steps: int
    first: bool
    few: bool
    stretches: int
    features: dict[str, tuple[float | None, ...]] = field(repr=False)

    def __post_init__(self) -> None:
        whole("steps", self.steps, at_least=2)
        whole("stretches", self.stretches, at_least=1)
        if len({len(column) for column in self.features.values()}) != 1:
            raise ValueError("the features of a reference must have a number per stretch each.")
