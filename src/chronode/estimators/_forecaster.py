"""SequenceForecaster: how series go on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import r2_score

from .._checks import whole
from ..data import Sequences, forecast, split_by_time, windows
from ..data._names import known_column
from ..training import predict
from ._base import SequenceEstimator
from ._files import Facts

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(frozen=True)
class _Facts(Facts):
    channels: tuple[str, ...]


class SequenceForecaster(SequenceEstimator):
    """The next values of series, learnt by a recurrent network.

    At every step of a training series it learns how much the next values differ from the last ones seen. A forecast is
    of the next `horizon` steps, with gaps as they are usual in the training series.

    Args:
        model: as for `SequenceEstimator`, as are all that are not named here.
        horizon: how many steps ahead.
        channels: what to forecast, by name or number; None: all channels.
        window: the longest piece that it learns from, and the most steps that a forecast looks back; None: any.

    Attributes:
        model_: the trained SequenceModel.
        scaler_: the scaling, fitted on the training part.
        channels_: the names of what is forecast.
        n_features_in_: channels.
        feature_names_in_: their names, after training on a long frame.
        history_: an `Epoch` of each pass over the training series.
        best_epoch_: the one that the weights are of, from 1.
        notes_: what the user should know about the data.

    Example:
        >>> waves = np.sin(0.5 * np.arange(40) + np.arange(20)[:, None])
        >>> f = SequenceForecaster("gru", horizon=3, hidden_size=8, batch_size=2, random_state=0).fit(waves)
        >>> f.predict(waves).shape, f.score(waves) > 0.8
        ((20, 3, 1), True)
    """

    _kind = "value"

    _facts_kind = _Facts

    channels_: tuple[str, ...]

    def __init__(
        self,
        model: str = "mmrnn",
        *,
        horizon: int = 1,
        channels: Sequence[str | int] | None = None,
        window: int | None = 100,
        hidden_size: int = 64,
        num_layers: int = 1,
        epochs: int = 50,
        batch_size: int = 16,
        learning_rate: float = 5e-3,
        validation: float = 0.15,
        early_stop: int = 20,
        order: str = "NDT",
        missing: bool | None = None,
        settings: dict[str, Any] | None = None,
        training: dict[str, Any] | None = None,
        n_threads: int | None = None,
        device: str = "cpu",
        random_state: int | np.random.RandomState | None = None,
    ):
        super().__init__(
            model,
            hidden_size=hidden_size,
            num_layers=num_layers,
            epochs=epochs,
            batch_size=batch_size,
            learning_rate=learning_rate,
            validation=validation,
            early_stop=early_stop,
            order=order,
            missing=missing,
            settings=settings,
            training=training,
            n_threads=n_threads,
            device=device,
            random_state=random_state,
        )
        self.horizon = horizon
        self.channels = channels
        self.window = window

    def fit(
        self,
        X: Any,
        y: Any = None,
        times: Any = None,
        groups: Any = None,
        *,
        id: str | None = None,
        time: str | None = None,
    ) -> Self:
        """Learns how the series go on.

        Args:
            X: `(n, channels, time)`, `(n, time)`, `(time,)`, a list of arrays or frames, a long frame or Sequences.
                NaN is missing.
            y: not used.
            times: `(n, time)`, `(time,)` or a list of arrays. None: steps just count.
            groups: one per series (or the column of a frame): no group is divided by the validation.
            id: the column of a long frame that tells series apart; without it, a frame with times is one series.
            time: its column of times; by default its index, if that holds dates.
        """
        s = replace(self._new_reader().series(X, times=times, groups=groups, id=id, time=time), target=None)
        self._train(s, self._roles(X, id, time), channels_=self._chosen(s))
        return self

    def continue_fit(
        self,
        X: Any,
        y: Any = None,
        times: Any = None,
        groups: Any = None,
        *,
        id: str | None = None,
        time: str | None = None,
        epochs: int | None = None,
    ) -> Self:
        """Learns on from the weights that it has, with more series; the scaling stays.

        Args:
            X: as for `fit`.
            y: not used.
            times: as for `fit`.
            groups: as for `fit`.
            id: as for `fit`.
            time: as for `fit`.
            epochs: passes over these series; None: as many as the argument says.
        """
        s = self._reader().series(X, times=times, groups=groups, id=id, time=time)
        self._train_on(self._like_training(replace(s, target=None)), epochs)
        return self

    def predict(
        self, X: Any, times: Any = None, *, id: str | None = None, time: str | None = None
    ) -> NDArray[np.float64]:
        """`(n, horizon, channels)`: what follows each series; of a frame, in the order of the sorted ids."""
        s = self._series(X, times, id, time).compact()
        ends = s.starts + s.lengths - 1
        at = _places(s, self.channels_)
        # Of a channel without any value so far, the mean of training is known.
        last = np.where(np.isnan(seen := _last_seen(s)[ends][:, at]), np.array(self.scaler_.mean)[at], seen)
        told = predict(self.model_, self.scaler_.transform(self._recent(s)), scaler=self.scaler_)
        moves = np.stack([values[-1] for values in told.values]).astype(np.float64)
        return moves.reshape(len(s), -1, len(self.channels_)) + last[:, None]

    def score(
        self, X: Any, y: Any = None, times: Any = None, *, id: str | None = None, time: str | None = None
    ) -> float:
        """R² of the forecasts, the mean over channels.

        Args:
            X: the series.
            y: `(n, horizon, channels)` what followed them; None: the last `horizon` steps of each series are held back
                and forecast.
            times: as for `fit`.
            id: as for `fit`.
            time: as for `fit`.
        """
        s = self._series(X, times, id, time)
        if y is None:
            s, y = self._held_back(s)
        true, told = np.asarray(y, dtype=np.float64), self.predict(s)
        if true.shape != told.shape:
            raise ValueError(f"y must have shape {told.shape} (series, horizon, channels), got {true.shape}.")
        known = ~np.isnan(true)
        each = [
            r2_score(true[..., i][known[..., i]], told[..., i][known[..., i]])
            for i in range(true.shape[2])
            if known[..., i].sum() > 1
        ]
        if not each:
            raise ValueError("R² needs at least two known values of a channel to compare with; there are none.")
        return float(np.mean(each))

    # ---- inside -----------------------------------------------------------------------------------------

    def _divide(self, s: Sequences, seed: int) -> tuple[Sequences, Sequences]:
        train, valid = super()._divide(s, seed)
        share = float(self.validation)
        if share and len(np.unique(s.groups)) < 2:
            try:
                parts = split_by_time(s, (1 - share, share), whole_groups=False)
                return self._pieces(parts[0]), self._pieces(parts[1])
            except ValueError:  # a part is not longer than the horizon
                return self._pieces(s), self._pieces(s)
        return self._pieces(train), self._pieces(valid)

    def _pieces(self, s: Sequences) -> Sequences:
        """Pieces of the series, with a target at every step: how much the next values differ from the last seen."""
        s = s.compact()
        names = self._chosen(s)
        last = _last_seen(s)[:, _places(s, names)]
        horizon = whole("horizon", self.horizon, at_least=1)
        if self.window is not None:
            window = whole("window", self.window, at_least=1)
            s = windows(s, window + horizon, window, rest="keep")
        s = forecast(s, horizon, names)
        assert s.target is not None
        moves = s.target.values - np.tile(last, horizon)
        return replace(s, target=replace(s.target, values=moves.astype(s.target.values.dtype), source=None))

    def _recent(self, s: Sequences) -> Sequences:
        """The steps that a forecast looks back."""
        if self.window is None:
            return s
        cut = np.maximum(s.lengths - self.window, 0)
        lead = None if s.lead is None else np.where(cut > 0, 0.0, s.lead)
        return replace(s, starts=s.starts + cut, lengths=s.lengths - cut, lead=lead)

    def _held_back(self, s: Sequences) -> tuple[Sequences, NDArray[np.float64]]:
        """The series without their last steps, and those."""
        if s.lengths.min() <= self.horizon:
            at = int(s.lengths.argmin())
            raise ValueError(
                f"series {s.ids[at]!s} has {s.lengths[at]} steps, not more than the horizon {self.horizon}."
            )
        rows = (s.starts + s.lengths)[:, None] - np.arange(self.horizon, 0, -1)
        held = s.base_values[rows][..., _places(s, self.channels_)]
        return replace(s, lengths=s.lengths - self.horizon), held.astype(np.float64)

    def _chosen(self, s: Sequences) -> tuple[str, ...]:
        """The names of the channels to forecast."""
        if self.channels is None:
            return s.channels
        for channel in self.channels:
            if isinstance(channel, int) and not -s.num_channels <= channel < s.num_channels:
                raise ValueError(f"channels has {channel}: the series have {s.num_channels} channels, counted from 0.")
        return tuple(s.channels[c] if isinstance(c, int) else c for c in self.channels)

    def _facts(self) -> dict[str, Any]:
        return {**super()._facts(), "channels": list(self.channels_)}

    def _restore(self, facts: _Facts) -> None:
        super()._restore(facts)
        self.channels_ = facts.channels
        for name in self.channels_:
            known_column(name, self.scaler_.channels, "channels")

    def _num_outputs(self) -> int:
        return self.horizon * len(self.channels_)


def _places(s: Sequences, names: Sequence[str]) -> list[int]:
    return [s.channels.index(known_column(name, s.channels, "channels")) for name in names]


def _last_seen(s: Sequences) -> NDArray[np.float64]:
    """Of every row of the base arrays the values last seen in its series; NaN before the first."""
    rows = np.arange(len(s.base_values))
    begun = np.zeros(len(rows), dtype=np.int64)
    begun[s.starts] = s.starts
    begun = np.maximum.accumulate(begun)
    seen = np.where(np.isnan(s.base_values), -1, rows[:, None])
    seen = np.maximum.accumulate(seen, axis=0)
    values = s.base_values[seen, np.arange(s.num_channels)].astype(np.float64)
    return np.where(seen >= begun[:, None], values, np.nan)
