"""Numbers of the tables of the papers and the settings behind them."""

from ._numbers import PaperNumber, numbers
from ._settings import PaperSetting, setting_for, settings, settings_in

__all__ = ["PaperNumber", "PaperSetting", "numbers", "setting_for", "settings", "settings_in"]
