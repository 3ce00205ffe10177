"""Small data, small models and a training loop written by hand, for the tests of fit."""

import numpy as np
import torch

from chronode.data import LengthBatches, from_list
from chronode.lab.tasks.bitstream import bitstream
from chronode.model._model import SequenceModel
from chronode.model._spec import ModelSpec


def small(count=48, seed=0):
    return bitstream(count, seed, longest=6)


def spec_for(data, model="mmrnn", **options):
    return ModelSpec.for_data(data, model, **{"hidden_size": 4, **options})


def weights(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def regression(count=40, seed=0):
    rng = np.random.default_rng(seed)
    series = [rng.normal(size=(int(n), 2)) for n in rng.integers(2, 7, size=count)]
    return from_list(series, target=[float(s[:, 0].sum()) for s in series])


BY_HAND = {
    "adam": lambda p: torch.optim.Adam(p, lr=0.02),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.02, weight_decay=0.1),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.02, momentum=0.3, alpha=0.8),
    "sgd": lambda p: torch.optim.SGD(p, lr=0.02, momentum=0.9),
}


def by_hand(data, make, epochs=1, clip=0.0, batch_size=16):
    """The simplest training loop; gives the weights after every step."""
    torch.manual_seed(0)
    model = SequenceModel.build(spec_for(data))
    optimizer, after = make(model.parameters()), []
    for epoch in range(epochs):
        order = LengthBatches(data.lengths, batch_size, seed=0)
        order.set_epoch(epoch)
        for rows in order:
            batch = data.batch(rows)
            output = model(batch.x, **batch.times)
            measure = torch.nn.functional.cross_entropy if data.classes else torch.nn.functional.mse_loss
            optimizer.zero_grad()
            measure(output, batch.target).backward()
            if clip:
                torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
            after.append(weights(model))
    return after
