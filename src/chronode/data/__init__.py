"""Reading files, frames and arrays as Sequences, and splitting, windowing and batching them."""

from typing import TYPE_CHECKING

from ..system import lazy

if TYPE_CHECKING:
    from ._arrays import from_list, from_numpy
    from ._batches import Batch, LengthBatches, batches_by_length
    from ._build import CONSTANT, ids_of, value_type
    from ._channel_rows import from_channel_rows
    from ._columns import arrow, as_columns, is_frame, numbers
    from ._csv_file import read_csv
    from ._dates import EPOCHS, NUMBER
    from ._defaults import CLIP, GAPS, PARTS, VALIDATION
    from ._describe import Facts, percent
    from ._files import LikeOptions, options_like, read
    from ._forecast_windows import forecast_windows, recent
    from ._frame_index import series_times
    from ._future import (
        calendar_periods,
        followed,
        forecast_channels,
        known_channels,
        with_calendar,
        with_future,
        without_future,
    )
    from ._future_times import future_times
    from ._gaps import is_irregular, note_on_gaps, step_gap
    from ._moments import moments_of
    from ._names import counted, listed
    from ._npz import load
    from ._parts import Parts
    from ._pipe import is_pipe, keep
    from ._reading import Reading
    from ._remarks import canonical, outside, ranges_of, remarks
    from ._scaling import Scaler
    from ._sequences import Sequences, Series
    from ._series_rows import from_series_rows
    from ._shaping import invert_columns, logarithms, shaping
    from ._split import folds_of, hold_out, split, split_by_time, split_for_training
    from ._static import source_columns
    from ._table import from_long, from_wide
    from ._table_files import column_names, suffix_of
    from ._target import UNKNOWN, Target, array_target, number_names
    from ._times import Clock, Moments, is_number, seconds_of
    from ._ts_format import read_ts, write_ts
    from ._usable_windows import usable_windows
    from ._windows import concat, forecast, windows


__getattr__, __dir__, __all__ = lazy(__name__)
