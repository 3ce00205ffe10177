"""The complete state of a training run as tensors and plain data: what a checkpoint holds."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from torch import Tensor
from torch.optim import Optimizer

from ._events import SavedFacts

if TYPE_CHECKING:
    from ._loop import Training


def state_of(run: Training) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Returns everything the rest of the run depends on: tensors by name, and plain data for JSON."""
    tensors = {f"model.{name}": tensor for name, tensor in run.model.state_dict().items()}
    if run.averaged is not None:
        tensors |= {f"average.{name}": tensor for name, tensor in run.averaged.state_dict().items()}
    tensors |= {f"best.{name}": tensor for name, tensor in run.best.items()}
    for index, parts in run.optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{index}.{name}": part for name, part in parts.items() if part is not None}
    tensors["sums"] = run.sums
    facts = {name: getattr(run.place, name) for name in ("epoch", "batch", "step")}
    facts |= {name: getattr(run, name) for name in ("best_epoch", "best_value", "stopped", "untrained_loss")}
    if run.start is not None:
        facts["start"] = run.start.as_dict()
    facts |= {"schedule": run.schedule.facts(), "history": [epoch.as_dict() for epoch in run.history]}
    facts |= {name: getattr(run, name) for name in ("seconds", "cpu_seconds", "epoch_seconds")}
    facts |= {"about": run.hooks.about}
    return tensors, facts


def restore(run: Training, tensors: dict[str, Tensor], facts: SavedFacts) -> None:
    """Resumes from the result of `state_of`; must be called before `Training.begin`."""
    run.model.load_state_dict(under("model", tensors))
    if run.averaged is not None:
        run.averaged.load_state_dict(under("average", tensors))
    run.best = under("best", tensors)
    run.sums.copy_(tensors["sums"])
    for name in ("epoch", "batch", "step"):
        setattr(run.place, name, getattr(facts, name))
    for name in ("best_epoch", "best_value", "stopped", "seconds", "cpu_seconds", "epoch_seconds", "history"):
        setattr(run, name, getattr(facts, name))
    run.untrained_loss, run.start = facts.untrained_loss, facts.start
    run.schedule.restore(asdict(facts.schedule))
    run.pending = under("optimizer", tensors)


def restore_optimizer(optimizer: Optimizer, tensors: dict[str, Tensor]) -> None:
    """Gives an optimizer the state in the tensors named optimizer.INDEX.NAME, without the first part of the names."""
    parts: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        index, part = name.split(".", 1)
        parts.setdefault(int(index), {})[part] = tensor
    optimizer.load_state_dict({"state": parts, "param_groups": optimizer.state_dict()["param_groups"]})


def under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Returns the tensors whose names begin with `prefix` and a dot, without the prefix."""
    return {name[len(prefix) + 1 :]: tensor for name, tensor in tensors.items() if name.startswith(f"{prefix}.")}
