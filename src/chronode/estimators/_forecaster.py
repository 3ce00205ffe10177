"""SequenceForecaster: forecasts of series."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.metrics import r2_score

from ..data import Sequences, followed, forecast_channels, without_future
from ..settings import number, percents, whole
from ..system import threads
from ..training import USUAL_INTERVALS, ProgressBar
from ._arguments import COMMON, Argument, settings_named
from ._backtest import Backtest, Progress, backtest
from ._base import SequenceEstimator

if TYPE_CHECKING:
    from typing_extensions import Self

    from ..search.engine import Engine


class SequenceForecaster(SequenceEstimator):
    """Forecaster of the next values of series with a recurrent network.

    It learns from overlapping windows, each seen relative to its own level and scale, so that trends and series of
    different size do not matter. A linear model of the last values is fitted first; the network learns the residuals.
    A forecast covers the next `horizon` steps, assuming the typical gaps of the training series.

    Attributes:
        model_: The trained SequenceModel.
        scaler_: Scaler, fitted on the training part.
        channels_: Names of the forecast channels.
        window_: Number of steps that a forecast looks back.
        n_features_in_: Number of channels.
        feature_names_in_: Names of the channels, after training on a long frame.
        history_: One `Epoch` for each pass over the training series.
        best_epoch_: Epoch of the weights, from 1.
        notes_: Remarks about the data.

    Example:
        >>> waves = np.sin(0.5 * np.arange(40) + np.arange(20)[:, None])
        >>> f = SequenceForecaster("gru", horizon=3, hidden_size=8, epochs=2, random_state=0).fit(waves)
        >>> f.predict(waves).shape, f.score(waves) > 0.8
        ((20, 3, 1), True)
    """

    _kind = "value"
    _races = False

    _arguments: ClassVar = {
        "model": COMMON["model"],
        "horizon": Argument(int, 1, "Number of steps ahead."),
        "channels": Argument(
            Sequence[str | int] | None, None, "Channels to forecast, by name or number; None: all channels."
        ),
        **settings_named("known calendar holidays window stride"),
        **{name: argument for name, argument in COMMON.items() if name not in ("model", "budget", "refit")},
        "intervals": Argument(
            Sequence[float],
            USUAL_INTERVALS,
            "Levels of the prediction intervals of `predict_intervals`, in percent.",
        ),
    }

    horizon: int
    channels: Sequence[str | int] | None
    known: Sequence[str] | None
    intervals: Sequence[float]

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
        """Trains on series.

        Args:
            X: `(n, channels, time)`, `(n, time)`, `(time,)`, a list of arrays or frames, a long frame or Sequences.
                NaN means missing.
            y: Not used.
            times: `(n, time)`, `(time,)` or a list of arrays. None: the steps are counted.
            groups: One per series (or the column of a frame): validation does not divide groups.
            id: Column of a long frame that identifies the series; without it, a frame with times is a single series.
            time: Column of times; by default the index, if it holds dates.
        """
        s = replace(self._new_reader().series(X, times=times, groups=groups, id=id, time=time), target=None)
        self._train(s, self._roles(X, id, time))
        return self

    def fit_each(
        self,
        X: Any,
        times: Any = None,
        *,
        id: str | None = None,
        time: str | None = None,
        n_jobs: int | None = None,
    ) -> list[Self]:
        """Trains a forecaster for each series by itself, in parallel; the estimator is unchanged.

        For many short series with little in common. One network for all of them is trained by `fit`.

        Args:
            X: As for `fit`.
            times: As for `fit`.
            id: As for `fit`.
            time: As for `fit`.
            n_jobs: Number of processes, as for scikit-learn: -1 for all cores; None for this process.

        Returns:
            One fitted estimator per series; of a frame, in the order of the sorted ids. With `verbose`, a progress bar
            is shown.

        Example:
            >>> walks = np.random.default_rng(0).normal(size=(3, 30)).cumsum(1)
            >>> each = SequenceForecaster(horizon=2, random_state=0).fit_each(walks)
            >>> np.concatenate([own.predict(walk[None]) for own, walk in zip(each, walks)]).shape
            (3, 2, 1)
        """
        s = replace(self._new_reader().series(X, times=times, id=id, time=time), target=None)
        alone = clone(self).set_params(verbose=False)
        work = (delayed(_fitted_to)(alone, s[row : row + 1].compact()) for row in range(len(s)))
        fitted: list[Self] = []
        with ProgressBar(1, runs=len(s)) as bar:
            for one in Parallel(n_jobs, return_as="generator")(work):
                fitted.append(one)
                if self.verbose:
                    name = str(s.ids[len(fitted) - 1])
                    bar.end(name, f"{name}: {', '.join(one.notes_[-1:]) or 'fitted'}")
        return fitted

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
        """Continues training on more series; the scaling is unchanged.

        Args:
            X: As for `fit`.
            y: Not used.
            times: As for `fit`.
            groups: As for `fit`.
            id: As for `fit`.
            time: As for `fit`.
            epochs: Passes over these series; by default the argument of the estimator.
        """
        s = self._reader().series(X, times=times, groups=groups, id=id, time=time)
        self._train_on(self._like_training(replace(s, target=None)), epochs)
        return self

    def predict(
        self, X: Any, times: Any = None, *, id: str | None = None, time: str | None = None
    ) -> NDArray[np.float64]:
        """Returns the forecast of each series, `(n, horizon, channels)`; of a frame, in the order of the sorted ids."""
        s = self._series(X, times, id, time).compact()
        forecast = self.trained_.predict(self.reading_.inputs(s))
        return np.stack(forecast.values).astype(np.float64).reshape(len(s), -1, len(self.channels_))

    def predict_intervals(
        self, X: Any, times: Any = None, *, id: str | None = None, time: str | None = None
    ) -> dict[float, NDArray[np.float64]]:
        """Returns lower and upper ends of the forecasts, `(n, horizon, channels, 2)`, by level in percent.

        They are calibrated on the validation part, where they contained the given share of the true values.

        Example:
            >>> waves = np.sin(0.5 * np.arange(40) + np.arange(20)[:, None])
            >>> f = SequenceForecaster("gru", horizon=3, epochs=1, random_state=0, intervals=[90]).fit(waves)
            >>> f.predict_intervals(waves)[90].shape
            (20, 3, 1, 2)
        """
        s = self._series(X, times, id, time).compact()
        levels = percents("intervals", self.intervals)
        shape = (2, len(s), -1, len(self.channels_))
        ends = self.trained_.intervals(self.reading_.inputs(s), levels)
        return {level: np.moveaxis(pair.reshape(shape), 0, -1) for level, pair in ends.items()}

    def score(
        self, X: Any, y: Any = None, times: Any = None, *, id: str | None = None, time: str | None = None
    ) -> float:
        """Returns the R² of the forecasts, averaged over channels.

        Args:
            X: The series.
            y: True continuations `(n, horizon, channels)`; None: the last `horizon` steps of each series are held out
                and forecast.
            times: As for `fit`.
            id: As for `fit`.
            time: As for `fit`.
        """
        s = self._series(X, times, id, time)
        if y is None:
            s, y = self._held_back(s)
        true, predicted = np.asarray(y, dtype=np.float64), self.predict(s)
        if true.shape != predicted.shape:
            raise ValueError(f"y must have shape {predicted.shape} (series, horizon, channels), got {true.shape}.")
        mask = ~np.isnan(true)
        each = [
            r2_score(true[..., i][mask[..., i]], predicted[..., i][mask[..., i]])
            for i in range(true.shape[2])
            if mask[..., i].sum() > 1
        ]
        if not each:
            raise ValueError("R² needs at least two known values of a channel, but there are none.")
        return float(np.mean(each))

    def backtest(
        self,
        X: Any,
        times: Any = None,
        *,
        origins: int = 5,
        stride: int | None = None,
        refit: bool = True,
        season: int | None = None,
        id: str | None = None,
        time: str | None = None,
        engine: Engine | None = None,
        folder: str | Path | None = None,
        progress: Progress | None = None,
    ) -> Backtest:
        """Forecasts the last steps of series from several origins, beside simple baselines; the estimator is unchanged.

        Args:
            X: As for `fit`.
            times: As for `fit`.
            origins: Number of origins; the last one is `horizon` steps before the end of each series.
            stride: Steps from one origin to the next; the horizon by default.
            refit: Whether to train again at every origin, on all steps before it, or only once before the first.
            season: Season of the seasonal naive forecast in steps; detected by default.
            id: As for `fit`.
            time: As for `fit`.
            engine: Engine that trains the runs (`chronode.search.Engine`); by default this process does.
            folder: Folder for the forecasts of finished runs, so that the same call resumes after an interruption.
            progress: Object with `begin(label)`, `event(label, event)` and `end(label, line)`, which are called as runs
                begin, train (with events of `chronode.training`) and end.
        """
        s = replace(self._new_reader().series(X, times=times, id=id, time=time), target=None)
        s = without_future(s, self._chosen(s)).compact() if self.known else s.compact()
        settings = {"origins": origins, "stride": stride, "refit": refit, "season": season, "engine": engine}
        path = None if folder is None else Path(folder)
        return backtest(self, s, self._chosen(s), **settings, folder=path, progress=progress)

    # ---- inside -----------------------------------------------------------------------------------------

    @property
    def channels_(self) -> tuple[str, ...]:
        return self.reading_.forecast_channels

    @property
    def window_(self) -> int:
        return self.reading_.window

    def _data(self, s: Sequences) -> dict[str, Any]:
        for name, size in self._given("horizon window stride").items():
            whole(name, size, at_least=1)
        return {**self._given("horizon known calendar holidays window stride"), "channels": self._chosen(s)}

    def _split(self, s: Sequences) -> tuple[float, ...]:
        share = number("validation", self.validation, at_least=0, below=1)
        divides = share and (len(s) > 1 or s.lengths.max() >= 3 * self.horizon + 2)
        return (1 - share, share, 0.0) if divides else (1.0, 0.0, 0.0)

    def _held_back(self, s: Sequences) -> tuple[Sequences, NDArray[np.float64]]:
        """Returns the series without their last steps, and these steps."""
        if s.lengths.min() <= self.horizon:
            at = int(s.lengths.argmin())
            raise ValueError(
                f"series {s.ids[at]!s} has {s.lengths[at]} steps, which is not more than the horizon {self.horizon}."
            )
        rows = (s.starts + s.lengths)[:, None] - np.arange(self.horizon, 0, -1)
        held = s.base_values[rows][..., self.reading_.relative]
        return followed(replace(s, lengths=s.lengths - self.horizon), self.horizon), held.astype(np.float64)

    def _chosen(self, s: Sequences) -> tuple[str, ...]:
        """Returns the names of the channels to forecast."""
        if self.channels is None:
            return forecast_channels(s, (), self.known or ())
        for channel in self.channels:
            if isinstance(channel, int) and not -s.num_channels <= channel < s.num_channels:
                raise ValueError(
                    f"channels contains {channel}, but the series have {s.num_channels} channels, counted from 0."
                )
        names = [s.channels[c] if isinstance(c, int) else c for c in self.channels]
        return forecast_channels(s, names, self.known or ())


def _fitted_to(forecaster: SequenceForecaster, s: Sequences) -> SequenceForecaster:
    """Returns a copy of the estimator that is fitted to one series; a mistake in it is reported with its id."""
    try:
        with threads(1):
            return clone(forecaster).fit(s)
    except ValueError as error:
        raise type(error)(f"series {s.ids[0]!s}: {error}") from error
