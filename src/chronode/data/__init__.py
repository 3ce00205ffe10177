"""Reading files, frames and arrays as Sequences, and splitting, windowing and batching them."""

from typing import TYPE_CHECKING

from ..system import lazy

if TYPE_CHECKING:
    from ._arrays import from_list, from_numpy
    from ._batches import Batch, LengthBatches, batches_by_length
    from ._cells import numbers
    from ._channel_rows import from_channel_rows
    from ._columns import arrow, as_columns, is_frame, series_times
    from ._csv import read_csv
    from ._dates import moments_of
    from ._describe import Facts, canonical, outside, percent, ranges_of, remarks
    from ._future import (
        calendar_periods,
        followed,
        forecast_channels,
        future_names,
        future_times,
        holiday_periods,
        holiday_place,
        known_channels,
        with_calendar,
        with_future,
        without_future,
    )
    from ._gaps import is_irregular, note_on_gaps, step_gap
    from ._guess import ColumnFacts, describe_columns, file_gap, guess_file
    from ._keys import id_keys, series_keys
    from ._many_files import files_of, is_there, size_and_hash
    from ._names import counted, listed
    from ._npz import load
    from ._opening import check_lines, is_pipe, keep, suffix_of
    from ._packing import last_change, pack
    from ._readers import Reader, column_names, options_like, read, register_reader
    from ._reading import Reading, Reference
    from ._scaling import Scaler
    from ._sequences import Sequences, Series
    from ._settings import CLIP, GAPS, PARTS, VALIDATION, LikeOptions, ReadOptions, kinds_of
    from ._shaping import invert_columns, logarithms, shaping
    from ._split import Parts, drawn, folds_of, hold_out, split, split_by_time, split_for_training
    from ._store import check_store, is_store, made_from, open_store, read_header, state_of
    from ._stored_rows import StoredRows
    from ._table import from_long, from_series_rows, from_wide
    from ._table_columns import source_columns
    from ._table_source import database_of
    from ._target import CONSTANT, UNKNOWN, ClassNames, Target, array_target, ids_of, number_names, value_type
    from ._times import EPOCHS, NUMBER, Clock, Moments, is_number, seconds_of
    from ._ts_format import read_ts, write_ts
    from ._windows import concat, forecast, forecast_windows, recent, usable_windows, windows


__getattr__, __dir__, __all__ = lazy(__name__)
