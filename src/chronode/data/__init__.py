"""Data: files, frames and arrays become Sequences; Sequences become batches."""

from ._arrays import from_list, from_numpy
from ._batches import Batch, LengthBatches, batches_by_length
from ._channel_rows import from_channel_rows
from ._describe import Facts
from ._files import options_like, read
from ._npz import load
from ._scaling import Scaler
from ._sequences import Sequences, Series
from ._series_rows import from_series_rows
from ._split import split, split_by_time
from ._table import from_long, from_wide
from ._target import UNKNOWN, Target
from ._times import Clock
from ._ts_format import read_ts, write_ts
from ._windows import concat, forecast, windows

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
