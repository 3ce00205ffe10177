"""Settings."""

from typing import TYPE_CHECKING

from ..system import lazy

if TYPE_CHECKING:
    from ._checks import flag, near, number, one_of, percents, whole
    from ._options import PANELS, about, option

__getattr__, __dir__, __all__ = lazy(__name__)
