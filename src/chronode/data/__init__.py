"""Data: files, frames and arrays become Sequences; Sequences become batches."""

from .arrays import from_list, from_numpy
from .batches import Batch, LengthBatches, batches_by_length
from .channel_rows import from_channel_rows
from .describe import Facts
from .files import options_like, read
from .npz import load
from .scaling import Scaler
from .sequences import Sequences, Series
from .series_rows import from_series_rows
from .split import split, split_by_time
from .table import from_long, from_wide
from .target import UNKNOWN, Target
from .times import Clock
from .ts_format import read_ts, write_ts
from .windows import concat, forecast, windows

__all__ = [
    "UNKNOWN",
    "Batch",
    "Clock",
    "Facts",
    "LengthBatches",
    "Scaler",
    "Sequences",
    "Series",
    "Target",
    "batches_by_length",
    "concat",
    "forecast",
    "from_channel_rows",
    "from_list",
    "from_long",
    "from_numpy",
    "from_series_rows",
    "from_wide",
    "load",
    "options_like",
    "read",
    "read_ts",
    "split",
    "split_by_time",
    "windows",
    "write_ts",
]
