"""Declaration of settings, checks of their values, and errors that name them."""

from ._checks import check_declared, flag, near, number, one_of, percents, whole
from ._errors import SettingError, SettingTypeError, error_at, named, naming_options
from ._options import PANELS, about, declared, flags_of, help_texts, option, setting_named

__all__ = [
    "PANELS",
    "SettingError",
    "SettingTypeError",
    "about",
    "check_declared",
    "declared",
    "error_at",
    "flag",
    "flags_of",
    "help_texts",
    "named",
    "naming_options",
    "near",
    "number",
    "one_of",
    "option",
    "percents",
    "setting_named",
    "whole",
]
