"""Live data: many series at a time, one observation after another."""

from typing import TYPE_CHECKING

from ..system import lazy

if TYPE_CHECKING:
    from ._events import Answered, Events, Refused
    from ._lines import Lines, RangeWatch, batches
    from ._stream import Counts, Stream


__getattr__, __dir__, __all__ = lazy(__name__)
