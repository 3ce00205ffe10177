"""Options that a file answers by itself: roles of its columns, and durations as numbers of steps.

Nothing here needs torch: a wrong column is answered before it is imported.
"""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from ..runs import Config
from ..settings import SettingError, named

_OTHER_LAYOUTS = ("row_per_series", "channel", "order")


def guessed(config: Config, console: Console) -> Config:
    """Returns the config with roles for the columns that have none, and prints them as the options that say the same;
    the columns of a store have the roles with which it was packed.

    Names of columns that the file does not have are refused.
    """
    from ..data import guess_file, is_store

    data, path = config.data, Path(config.data.source)
    if config.model.origin:  # the columns are those of the model that is trained further
        return config
    if is_store(path):
        from ..runs import as_packed

        return replace(config, data=as_packed(data))
    if not path.is_file() or any(getattr(data, name) for name in _OTHER_LAYOUTS):
        return config
    given = {field.name: getattr(data, field.name) for field in fields(data)}
    given = {name: value for name, value in given.items() if value != getattr(type(data)(), name)}
    guess = guess_file(path, given, forecast=bool(data.horizon), wanted=data.guess)
    if config.model.purpose != "any":  # single observations have no static values: those columns are channels
        guess = replace(guess, options={name: value for name, value in guess.options.items() if name != "static"})
    if guess.options:
        options = " ".join(named(name, value) for name, value in guess.options.items())
        series = f" ({guess.series:,} series)" if guess.series > 1 else ""
        line = f"guessed: {options}{series}; other options override this, --no-guess omits it"
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    return config.with_values({"data": guess.options})


def steps_ahead(text: str, source: str, given: dict[str, Any]) -> int:
    """Returns the number of steps of a duration such as "7d" or "2 weeks" in the file to forecast."""
    from ..data import file_gap, seconds_of

    if text.isdecimal():
        return int(text)
    try:
        seconds = seconds_of(text)[1]
    except ValueError:
        raise SettingError(
            f"{named('horizon', text)} must be a number of steps or a duration such as 7d, 2w or 36h.",
            argument="horizon",
        ) from None
    gap = file_gap(Path(source), {name: value for name, value in given.items() if value is not None})
    if gap is None:
        raise SettingError(
            f"{named('horizon', text)} needs dates",
            argument="horizon",
            place=source,
            cure=f"name their column with {named('time', ...)}, or pass a number of steps",
        )
    return max(1, round(seconds / gap))
