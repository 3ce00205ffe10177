"""Numbers of the tables of the papers and the settings behind them."""

from ._tables import PaperNumber, PaperSetting, numbers, setting_for, settings, settings_in

__all__ = ["PaperNumber", "PaperSetting", "numbers", "setting_for", "settings", "settings_in"]
