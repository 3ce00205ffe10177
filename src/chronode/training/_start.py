"""A network that starts from a linear model."""

from __future__ import annotations

import copy
from dataclasses import replace

from torch import nn

from ..data import Parts
from ..model import SequenceModel
from ..model.start import StartFit, fit_forecast, fit_start
from ..settings import SettingError, named
from ._settings import Settings


def add_start(network: SequenceModel, parts: Parts, settings: Settings, start: str | StartFit = "linear") -> StartFit:
    """Puts the network behind a linear model, and returns how that model was fitted.

    Its held-out outputs are those of models that did not see the series, so that the network does not learn to trust a
    linear model more than it deserves on other series.

    Args:
        network: Built from a spec; changed in place.
        parts: Series to train and to choose by.
        settings: Training settings; the seed divides the series into folds.
        start: "linear": the features that validate best; "summaries": those that can be updated step by step; or a
            linear model that was fitted to the same training series before.
    """
    spec = network.spec
    if spec is None:
        raise SettingError(
            f"{named('start', start)} needs a model that is built from a spec or a name.", argument="start"
        )
    if spec.symbols is not None:
        raise SettingError(f"{named('start', start)} needs numbers: symbols have no linear start.", argument="start")
    if isinstance(start, StartFit):
        put_start(network, start)
        return start
    if start == "summaries" and spec.relative is not None:
        raise SettingError(
            f"a forecast from windows starts from their last values: use {named('start', 'linear')}.", argument="start"
        )
    valid = parts.valid[:0] if settings.refit else parts.valid  # with a refit, they are training series too
    if spec.relative is None:
        fitted = fit_start(parts.train, valid, kinds=kinds_of(start), seed=settings.seed)
    else:
        fitted = fit_forecast(parts.train, valid, spec.relative, seed=settings.seed)
    put_start(network, fitted)
    return fitted


def kinds_of(start: str) -> tuple[str, ...] | None:
    """Returns the kinds of features to choose from; None for all that suit the series."""
    return ("summaries",) if start == "summaries" else None


def refit_start(model: SequenceModel, fitted: StartFit, parts: Parts) -> None:
    """Fits the linear part once more, to training and validation series together.

    For forecasts, the newest steps are the most telling ones of what follows.
    """
    assert model.start is not None
    valid = parts.valid.with_classes(parts.train.classes)
    model.start.load_state_dict(fitted.refitted(parts.train, valid).start.state_dict())


def put_start(network: SequenceModel, fitted: StartFit) -> None:
    """Puts the network behind the fitted linear model, with a head of zeros: at first, only the linear model counts.

    Example:
        >>> import torch
        >>> from chronode import ModelSpec
        >>> from chronode.data import from_list
        >>> s = from_list([[1.0, 2.0], [3.0, 1.0]] * 20, target=["up", "down"] * 20)
        >>> model = SequenceModel.build(ModelSpec.for_data(s, "gru", 4))
        >>> put_start(model, fit_start(s, s))
        >>> model(s.batch([0, 1]).x).argmax(1).tolist()
        [1, 0]
    """
    assert network.spec is not None
    network.spec = replace(network.spec, start=fitted.description)
    network.start = copy.deepcopy(fitted.start)
    if network.relative is not None and fitted.relative is not None:
        network.relative.load_state_dict(fitted.relative.state_dict())
    nn.init.zeros_(network.head.weight)
    nn.init.zeros_(network.head.bias)
