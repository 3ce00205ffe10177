"""Declaration of settings and checks of their values."""

from ._checks import flag, near, number, one_of, percents, whole
from ._options import PANELS, about, option

__all__ = ["PANELS", "about", "flag", "near", "number", "one_of", "option", "percents", "whole"]
