"""Reading files, frames and arrays as Sequences, and splitting, windowing and batching them."""

from typing import TYPE_CHECKING

from ..system._lazy import lazy

if TYPE_CHECKING:
    from ._arrays import from_list, from_numpy
    from ._batches import Batch, LengthBatches, batches_by_length
    from ._channel_rows import from_channel_rows
    from ._describe import Facts
    from ._files import options_like, read
    from ._forecast_windows import forecast_windows, recent
    from ._npz import load
    from ._reading import Reading
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
    "Reading",
    "Scaler",
    "Sequences",
    "Series",
    "Target",
    "batches_by_length",
    "concat",
    "forecast",
    "forecast_windows",
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
    "recent",
    "split",
    "split_by_time",
    "windows",
    "write_ts",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "_arrays": "from_list from_numpy",
        "_batches": "Batch LengthBatches batches_by_length",
        "_channel_rows": "from_channel_rows",
        "_describe": "Facts",
        "_files": "options_like read",
        "_forecast_windows": "forecast_windows recent",
        "_npz": "load",
        "_reading": "Reading",
        "_scaling": "Scaler",
        "_sequences": "Sequences Series",
        "_series_rows": "from_series_rows",
        "_split": "split split_by_time",
        "_table": "from_long from_wide",
        "_target": "UNKNOWN Target",
        "_times": "Clock",
        "_ts_format": "read_ts write_ts",
        "_windows": "concat forecast windows",
    },
)
