"""Declaration of settings, checks of their values, and errors that name them."""

from ._checks import flag, near, number, one_of, percents, whole
from ._errors import SettingError, SettingTypeError, error_at, named, naming_options
from ._options import PANELS, about, declared, flags_of, option

__all__ = [
    "PANELS",
    "SettingError",
    "SettingTypeError",
    "about",
    "declared",
    "error_at",
    "flag",
    "flags_of",
    "named",
    "naming_options",
    "near",
    "number",
    "one_of",
    "option",
    "percents",
    "whole",
]
