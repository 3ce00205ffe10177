"""Candidates of a race: models and settings that suit the series, and how many of them a budget allows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from ..data import Parts, Sequences, is_irregular
from ..training import Settings

FOLDS = 3
_FEWEST_EPOCHS = 3
_MOST_EPOCHS = 20
_ENOUGH_UPDATES = 1_000
_MANY_UPDATES, _MOST_UPDATES = 800, 6_000
_PATIENT_UPDATES, _PATIENT_SHARE = 500, 0.25
# Microseconds: of an optimizer step, of a time step of a batch (more if values are missing), of a step of one series
# with 64 units.
_PER_UPDATE = 4_000.0
_PER_MISSING_STEP = 300.0
_COSTS = {
    "mmrnn": (5.0, 4.0),
    "lstm": (5.0, 2.0),
    "lstm-dt": (5.0, 2.0),
    "unicornn": (1.0, 0.3),
    "gru-d": (600.0, 13.0),
}
_UNKNOWN_COSTS = (300.0, 10.0)
_PATIENCE = 8


@dataclass(frozen=True)
class Candidate:
    """A model with settings.

    Attributes:
        model: Name of the model.
        network: Its size and settings, as for `ModelSpec.for_data`.
        training: Training settings that belong to it.
        is_apart: Whether it is trained without the start, and their weighted mean is the answer.

    Example:
        >>> print(Candidate("gru", {"hidden_size": 16, "dropout": 0.2}, {"average": "ema"}))
        gru H=16 dropout=0.2 average=ema
    """

    model: str
    network: dict[str, Any] = field(default_factory=dict)
    training: dict[str, Any] = field(default_factory=dict)
    is_apart: bool = False

    def __str__(self) -> str:
        settings = {"H": self.network.get("hidden_size", 64), **self.network, **self.training}
        hidden = {"hidden_size", "average_decay"}
        return " ".join([self.model, *(f"{name}={value}" for name, value in settings.items() if name not in hidden)])


def candidates_for(train: Sequences, network: Mapping[str, Any], *, small: bool) -> list[Candidate]:
    """Returns the models and settings that suit the series, at most four.

    Args:
        train: Training series.
        network: Sizes and settings given by the user, which all candidates have.
        small: Whether there are few series.
    """
    gated = _gated(train)
    averaged = {"average": "ema", "average_decay": 0.98}
    candidates = [
        Candidate("mmrnn", {"hidden_size": 64}),
        Candidate(gated, {"hidden_size": 32 if small else 64, "dropout": 0.2}, {"weight_decay": 0.001, **averaged}),
        Candidate("mmrnn", {"hidden_size": 16, "dropout": 0.2}, {"weight_decay": 0.001, **averaged}),
    ]
    # First the one that learns from few series, or that knows how old a reading is.
    candidates = candidates[1:] + candidates[:1] if small or train.has_missing else candidates
    unique = {
        str(candidate): candidate
        for candidate in (replace(one, network=one.network | dict(network)) for one in candidates)
    }
    return list(unique.values())


def pools_for(network: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns how else the head of the best candidate may pool the steps, unless the user chose."""
    return () if "pool" in network else ("mean", "max")


def hard_candidates(train: Sequences, network: Mapping[str, Any]) -> list[Candidate]:
    """Returns models for what features do not explain, such as a single event far back: gated ones whose head sees the
    maximum or the sum over all steps, so that gradients reach every step.
    """
    sizes, pools = {"hidden_size": 32} | dict(network), () if "pool" in network else ("max", "sum")
    return [Candidate(_gated(train), {**sizes, "pool": pool}) for pool in pools]


def _gated(train: Sequences) -> str:
    """Returns the gated model that suits the series."""
    if train.has_missing:
        return "gru-d"
    return "lstm-dt" if is_irregular(train) else "lstm"


class Plan(NamedTuple):
    """Candidates, folds, epochs and epochs without improvement that fit into a budget; `seconds` by candidate."""

    candidates: list[Candidate]
    folds: int
    epochs: int
    patience: int
    seconds: dict[str, float]


def affordable(
    candidates: Sequence[Candidate], parts: Parts, settings: Settings, seconds: float, *, variants: int = 0
) -> Plan:
    """Returns what fits into the budget: first fewer epochs, then fewer of the rest.

    Args:
        candidates: Models to train.
        parts: The series.
        settings: Training settings.
        seconds: The budget.
        variants: Number of times that one of the candidates is trained with other settings.
    """
    costs, updates = _costs(candidates, parts, settings)
    kept, folds = list(candidates), FOLDS if settings.refit else 1
    while True:
        seconds_each = [costs[str(one)] for one in kept]
        epochs = int(seconds / (folds * (sum(seconds_each) + variants * max(seconds_each))))
        if epochs >= _FEWEST_EPOCHS or (len(kept) == 1 and folds == 1):
            enough = max(_MOST_EPOCHS, -(-_ENOUGH_UPDATES // updates))  # few series are trained on more often
            epochs = max(1, min(_asked(settings, enough), enough, epochs))
            return Plan(kept, folds, epochs, _PATIENCE, {one: epochs * folds * cost for one, cost in costs.items()})
        if len(kept) > 1:
            kept.remove(max(kept, key=lambda one: costs[str(one)]))
        else:
            folds = max(1, folds // 2)


def many_updates(candidates: Sequence[Candidate], parts: Parts, settings: Settings, seconds: float) -> Plan:
    """Returns the first candidates that can take 800 optimizer steps within the budget, one at least; if all of them
    can, they take up to 6,000 steps, as far as the budget allows.
    """
    costs, updates = _costs(candidates, parts, settings)
    wanted, most = (-(-count // updates) for count in (_MANY_UPDATES, _MOST_UPDATES))
    epochs = max(1, min(_asked(settings, wanted), int(seconds / costs[str(candidates[0])])))
    total, kept = 0.0, []
    for one in candidates:
        if not kept or total + epochs * costs[str(one)] <= seconds:
            total += epochs * costs[str(one)]
            kept.append(one)
    if len(kept) == len(candidates):
        epochs = max(epochs, min(_asked(settings, most), int(epochs * seconds / total)))
    patience = max(2, -(-_PATIENT_UPDATES // updates), int(_PATIENT_SHARE * epochs))
    return Plan(kept, 1, epochs, patience, {one: epochs * cost for one, cost in costs.items()})


def _asked(settings: Settings, usual: int) -> int:
    return usual if settings.epochs == Settings.epochs else settings.epochs


def _costs(candidates: Sequence[Candidate], parts: Parts, settings: Settings) -> tuple[dict[str, float], int]:
    """Returns the seconds of an epoch by candidate, and its number of optimizer steps."""
    series = len(parts.train) + (len(parts.valid) if settings.refit else 0)
    updates, length = -(-series // settings.batch), float(parts.train.lengths.mean())
    costs = {}
    for candidate in candidates:
        per_step, per_series = _COSTS.get(candidate.model, _UNKNOWN_COSTS)
        per_step += _PER_MISSING_STEP if parts.train.has_missing and candidate.model != "gru-d" else 0.0
        per_series *= settings.batch * max(0.25, candidate.network.get("hidden_size", 64) / 64)
        costs[str(candidate)] = 1e-6 * updates * (_PER_UPDATE + length * (per_step + per_series))
    return costs, updates
