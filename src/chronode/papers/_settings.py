"""The settings that the papers' authors trained with, and how to find the one for a row of a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

OTHERS = "others"
"""The model of a setting for every model that the paper compares its own with."""

SHARED = ("hidden_size", "embedding_size", "word_dropout")
"""Network settings that the authors give for their own model and that the models beside it take over."""


@dataclass(frozen=True)
class PaperSetting:
    """How a paper's authors trained a model on a task.

    Attributes:
        paper: "mmrnn", "unicornn", "ltc", "irnn" or "ernn"; "beyond" for tables of our own.
        task: Name of the task.
        model: Model that it is for: a name in the registry, or "others".
        source: Where the authors say so: "text", "program", or a table or appendix.
        network: Settings of the network, in the words of `chronode.create`.
        training: Settings of the training, in the words of `chronode.training.Settings`.
        hidden: The row of the table that it is for, by its units; None for every row.
        used: Whether tables are run with it; False for what the authors also mention.
    """

    paper: str
    task: str
    model: str
    source: str
    network: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)
    hidden: int | None = None
    used: bool = True

    def network_for(self, model: str) -> dict[str, Any]:
        """The settings of a model's network: all of them for the model they are for, else those that are shared."""
        return {name: value for name, value in self.network.items() if model == self.model or name in SHARED}


@cache
def _all() -> tuple[PaperSetting, ...]:
    from . import beyond, irnn, ltc, mmrnn, unicornn

    return (*mmrnn.SETTINGS, *unicornn.SETTINGS, *ltc.SETTINGS, *irnn.SETTINGS, *beyond.SETTINGS)


def settings(task: str | None = None, paper: str | None = None) -> list[PaperSetting]:
    """The settings for a task, of a paper, or all of them.

    Example:
        >>> [(s.model, s.training["learning_rate"]) for s in settings("gesture", "ltc")]
        [('ltc', 0.01), ('others', 0.001)]
    """
    return [s for s in _all() if task in (None, s.task) and paper in (None, s.paper)]


def setting_for(paper: str, task: str, model: str, hidden: int | None = None) -> PaperSetting | None:
    """The setting with which a row of a paper's table is run; None if the paper says nothing about the task.

    A setting for the model itself comes first, then one for rows of this size, then one for all others, then that of
    the authors' own model. ERNN's authors are those of iRNN: what one paper leaves open, the other answers.

    Example:
        >>> setting_for("unicornn", "psmnist", "unicornn", 128).training["learning_rate"]
        0.00114
        >>> setting_for("ltc", "gesture", "lstm").training["learning_rate"]
        0.001
    """
    known = [s for s in settings(task, paper) if s.used]
    if not known and paper == "ernn":
        return setting_for("irnn", task, model, hidden)
    own = paper if any(s.model == paper for s in known) else ""
    ranked = [
        *(s for s in known if s.model == model != own and s.hidden in (None, hidden)),
        *(s for s in known if s.hidden is not None and s.hidden == hidden),
        *(s for s in known if s.model == OTHERS and model != own),
        *(s for s in known if s.model == own and s.hidden is None),
    ]
    return ranked[0] if ranked else None
