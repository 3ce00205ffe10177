"""Result: the base class of all analysis results."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ._files import replacing


@dataclass(frozen=True)
class Result:
    """Frozen dataclass of numbers and arrays that can be written as JSON.

    Example:
        >>> @dataclass(frozen=True)
        ... class Norms(Result):
        ...     values: np.ndarray
        >>> print(Norms(np.array([1.0, np.inf])).to_json())
        {
          "values": [
            1.0,
            null
          ]
        }
    """

    def as_dict(self) -> dict[str, Any]:
        """Returns the fields as plain lists, numbers and texts; values that are not finite become None."""
        return {field.name: _plain(getattr(self, field.name)) for field in fields(self)}

    def to_json(self, path: str | Path | None = None) -> str:
        """Returns the numbers as JSON text and writes it to `path` if given."""
        text = json.dumps(self.as_dict(), indent=2, ensure_ascii=False, allow_nan=False)
        if path is not None:
            with replacing(Path(path)) as draft:
                draft.write_text(text + "\n", encoding="utf-8")
        return text


def _plain(value: Any) -> Any:
    if isinstance(value, Result):
        return value.as_dict()
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, complex):
        return [_plain(value.real), _plain(value.imag)]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
