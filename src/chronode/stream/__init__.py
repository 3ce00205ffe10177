"""Live data: many series at a time, one observation after another."""

from typing import TYPE_CHECKING

from ..system._lazy import lazy

if TYPE_CHECKING:
    from ._stream import Counts, Stream

__all__ = ["Counts", "Stream"]

__getattr__, __dir__ = lazy(__name__, {"_stream": "Counts Stream"})
