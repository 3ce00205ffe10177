"""summary.json: the result of a run."""

from __future__ import annotations

from dataclasses import dataclass, field

from .._checks import one_of

OUTCOMES = ("finished", "stopped", "interrupted", "failed")
Scores = dict[str, float | None]


@dataclass(frozen=True)
class Summary:
    """Fields of summary.json that chronode reads; a number is None if it is not finite.

    Attributes:
        status: One of OUTCOMES.
        stopped: Reason for the end of training.
        epochs: Number of epochs.
        best_epoch: Epoch of the weights.
        metric: Metric by which it was chosen.
        valid: Metrics on the validation part.
        test: Metrics on the test part; empty if it was not tested.
        baselines: Metrics of the baselines on the test part.
        parameters: Number of trained parameters.
        seconds: Training time.
        notes: Remarks for the user.
        fault: Reason for a failure.
    """

    status: str
    stopped: str = ""
    epochs: int | None = None
    best_epoch: int | None = None
    metric: str = ""
    valid: Scores = field(default_factory=dict)
    test: Scores = field(default_factory=dict)
    baselines: dict[str, Scores] = field(default_factory=dict)
    parameters: int | None = None
    seconds: float | None = None
    notes: list[str] = field(default_factory=list)
    fault: str = ""

    def __post_init__(self) -> None:
        one_of("status", self.status, OUTCOMES)
