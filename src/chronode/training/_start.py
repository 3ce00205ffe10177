"""A network that starts from a linear model."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from .._model import SequenceModel
from ..baselines import StartFit, fit_start
from ..tasks._task import Parts
from ._settings import Settings

STARTS = ("none", "linear")


def with_start(network: SequenceModel, parts: Parts, settings: Settings) -> tuple[SequenceModel, Tensor | None]:
    """The network behind a linear model, and that model's outputs for the training series.

    Each output is that of a model that did not see the series, so that the network does not learn to trust a linear
    model more than it deserves on other series. Where new series are drawn in every epoch there are none.

    Args:
        network: built from a spec.
        parts: series to train and to choose by.
        settings: how to train; the seed divides the series into folds.
    """
    spec = network.spec
    if spec is None:
        raise ValueError("start='linear' needs a model that is built from a spec or a name.")
    if spec.symbols is not None:
        raise ValueError("start='linear' needs numbers: symbols have no linear start.")
    fitted = fit_start(parts.train, parts.valid, relative=spec.relative, seed=settings.seed)
    network = put_start(network, fitted)
    return network, None if parts.fresh is not None else fitted.held_out


def put_start(network: SequenceModel, fitted: StartFit) -> SequenceModel:
    """The same layer with a head of zeros behind the fitted linear model.

    Example:
        >>> import torch
        >>> from chronode import ModelSpec
        >>> from chronode.data import from_list
        >>> s = from_list([[1.0, 2.0], [3.0, 1.0]] * 20, target=["up", "down"] * 20)
        >>> network = SequenceModel.build(ModelSpec.for_data(s, "gru", 4))
        >>> model = put_start(network, fit_start(s, s))
        >>> model(s.batch([0, 1]).x).argmax(1).tolist()
        [1, 0]
    """
    assert network.spec is not None
    made = SequenceModel.build(replace(network.spec, start=fitted.told))
    made.layer, made.embedding = network.layer, network.embedding
    assert made.start is not None
    made.start.load_state_dict(fitted.start.state_dict())
    if made.relative is not None and fitted.relative is not None:
        made.relative.load_state_dict(fitted.relative.state_dict())
    return made
