"""What a notebook shows of an estimator."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from ._files import Stored


class Displayed(Stored):
    """Base class that adds facts of the fitted model to scikit-learn's diagram."""

    def _repr_html_inner(self) -> str:
        return super()._repr_html_inner() + self._fitted_html()  # pyrefly: ignore[missing-attribute]

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        bundle = super()._repr_mimebundle_(**options)  # pyrefly: ignore[missing-attribute]
        return {kind: text + self._fitted_html() if kind == "text/html" else text for kind, text in bundle.items()}

    validated_: Mapping[str, float] = MappingProxyType({})
    baselines_: Mapping[str, Mapping[str, float]] = MappingProxyType({})

    def _scores_html(self) -> str:
        """Returns the table of this model and the baselines on held-out series; empty if none were measured."""
        from ..report.pages import table
        from ..training import labelled

        names = list(self.validated_)
        if not names:
            return ""
        scores = {"this model": self.validated_, **self.baselines_}
        rows = [[name, *(own.get(key, "") for key in names)] for name, own in scores.items()]
        positive = getattr(self, "positive_", None)
        shown = [labelled(name, None if positive is None else str(positive)) for name in names]
        return table(("held-out series", *shown), rows, numeric=shown)

    def _fitted_html(self) -> str:
        """Returns what a notebook shows below scikit-learn's diagram: size, baselines and learning curves."""
        if not hasattr(self, "model_"):
            return ""
        from ..report import learning_pictures
        from ..report.pages import grid, piece, table

        rows = [epoch.as_row() for epoch in self.history_]
        facts = {"model": self.model_.title, "channels": self.n_features_in_, "parameters": self.model_.num_weights}
        facts |= {"epochs": len(rows), "best epoch": self.best_epoch_} if self.best_epoch_ else {}
        listed = table(("fitted", ""), list(facts.items()), numeric=("",))
        return piece(listed, self._scores_html(), grid(*learning_pictures(rows, "", self.best_epoch_)))
