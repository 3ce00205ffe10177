"""Stores with a few checkpoints in them, for the tests of the store."""

import torch

from chronode.runs._checkpoints import Store


def files(store):
    """Its checkpoints, oldest first."""
    return sorted(store.folder.glob("checkpoint-*"))


def filled(folder, epochs, keep=2):
    """A store that epochs 1, 2, ... were saved to."""
    store = Store(folder, keep)
    for epoch in range(1, epochs + 1):
        store.save({"w": torch.tensor([epoch / 7, -1.0])}, {"epoch": epoch})
    return store
