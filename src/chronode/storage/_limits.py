"""Limits on the cost of reading untrusted files; each can be raised by an environment variable."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

MIB = 2**20
GIB = 2**30

_MOST_TIMES_THE_FILE = 100  # tables compress 3 to 30 times, gzip at most about 1,000 times


@dataclass(frozen=True)
class Limit:
    """Whole number that an environment variable may override.

    Attributes:
        variable: Name of the environment variable.
        default: Limit if the variable is not set.

    Example:
        >>> Limit("CHRONODE_MAX_EXAMPLE", 1000).value
        1000
    """

    variable: str
    default: int

    @property
    def value(self) -> int:
        """The limit in force."""
        given = self.given
        return self.default if given is None else given

    @property
    def given(self) -> int | None:
        """The value of the environment variable; None if it is not set."""
        text = os.environ.get(self.variable, "").strip()
        if not text:
            return None
        if not text.isdecimal() or len(text) > 18:
            raise ValueError(f"{self.variable}={text!r} must be a whole number.")
        return int(text)

    @property
    def cure(self) -> str:
        """Advice on raising the limit, for the end of an error message."""
        return f"Set {self.variable} to raise this limit."


JSON_BYTES = Limit("CHRONODE_MAX_JSON", 16 * MIB)
"""Size of a JSON file, or of one line of a JSON Lines file."""

YAML_BYTES = Limit("CHRONODE_MAX_YAML", MIB // 4)
"""Size of a YAML file."""

UNPACKED_BYTES = Limit("CHRONODE_MAX_UNPACKED", 256 * MIB)
"""Unpacked size of a data file in bytes; by default at least 100 times the size of the file."""

ARCHIVE_BYTES = Limit("CHRONODE_MAX_ARCHIVE", 16 * GIB)
"""Unpacked size of a downloaded archive in bytes."""

DOWNLOAD_BYTES = Limit("CHRONODE_MAX_DOWNLOAD", 16 * GIB)
"""Size of a download."""

DOWNLOAD_SPEED = Limit("CHRONODE_MIN_DOWNLOAD_SPEED", 1000)
"""Bytes per second, averaged over a minute, below which a download is aborted; 0 waits forever."""

COLUMNS = Limit("CHRONODE_MAX_COLUMNS", 20_000)
"""Columns of a table; each costs time and memory, however few rows there are."""

LAYERS = Limit("CHRONODE_MAX_LAYERS", 1000)
"""Layers of a model."""


def check_columns(path: Path, count: int) -> None:
    """Rejects a table with too many columns."""
    if count > COLUMNS.value:
        raise ValueError(f"{path}: more than {COLUMNS.value:,} columns. {COLUMNS.cure}")


def check_grown(size: int, source: int, what: str) -> None:
    """Rejects `what` if its `size` bytes in memory are far more than the `source` bytes it was read from."""
    limit = _limit_for(source)
    if size > limit:
        raise ValueError(f"{what} would take more than {limit:,} bytes. {UNPACKED_BYTES.cure}")


def unpacked_limit(path: Path) -> int:
    """Returns the number of bytes that the data file `path` may unpack to.

    Example:
        >>> unpacked_limit(Path(__file__))
        268435456
    """
    return _limit_for(path.stat().st_size)


def _limit_for(source: int) -> int:
    given = UNPACKED_BYTES.given
    return max(UNPACKED_BYTES.default, _MOST_TIMES_THE_FILE * source) if given is None else given


def check_unpacked(path: Path, size: int) -> None:
    """Rejects a data file whose `size` bytes of content are far more than the size of the file."""
    check_grown(size, path.stat().st_size, f"{path} ({path.stat().st_size:,} bytes) unpacked")
