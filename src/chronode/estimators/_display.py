"""Notebook display of an estimator."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from ..system import drawn
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

    def _fitted_html(self) -> str:
        """Returns what a notebook shows below scikit-learn's diagram."""
        return drawn("fitted_html", self) if hasattr(self, "trained_") else ""
