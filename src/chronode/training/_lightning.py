"""Training on several devices with Lightning."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import pytorch_lightning as pl
import torch

from ..data import Batch
from ._loop import Training
from ._schedule import make_optimizer


class _Module(pl.LightningModule):
    """Adapter that forwards the calls of Lightning to a training run."""

    automatic_optimization = False

    def __init__(self, run: Training):
        super().__init__()
        self.run = run
        self.model, self.averaged = (
            run.model,
            run.averaged,
        )  # Lightning moves them to the devices and reduces their gradients

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return make_optimizer(self.run.model, self.run.settings)

    def transfer_batch_to_device(self, batch: Batch, device: torch.device, dataloader_idx: int) -> Batch:
        return batch  # `Training.step` moves it

    def on_train_start(self) -> None:
        run = self.run
        run.rank, run.batches.share = self.global_rank, (self.global_rank, self.trainer.world_size)
        optimizer = self.optimizers(use_pl_optimizer=False)
        assert isinstance(optimizer, torch.optim.Optimizer)
        run.begin(optimizer, self.device, self.manual_backward)

    def training_step(self, batch: Batch, index: int) -> None:
        self.run.step(batch)

    def on_train_epoch_end(self) -> None:
        self.trainer.should_stop = self.run.end_epoch()


def learn_on_devices(run: Training) -> None:
    """Trains on `Settings.devices` devices."""
    settings = run.settings
    try:
        with _quiet():
            trainer = pl.Trainer(
                accelerator=settings.accelerator,
                devices=settings.devices,
                strategy=settings.strategy,
                precision="bf16-mixed" if settings.precision == "bf16" else "32-true",
                max_epochs=settings.epochs - run.place.epoch,
                logger=False,
                enable_checkpointing=False,
                enable_progress_bar=False,
                enable_model_summary=False,
            )
            trainer.fit(_Module(run), run.batches)
    except SystemExit as error:
        if isinstance(error.__context__, KeyboardInterrupt):  # Lightning would end the process
            raise KeyboardInterrupt from error
        raise


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppresses the messages of Lightning."""
    loggers = [logging.getLogger(name) for name in ("pytorch_lightning", "lightning_fabric", "lightning")]
    loggers += [logging.getLogger(f"{log.name}.utilities.rank_zero") for log in loggers]
    levels = [log.level for log in loggers]
    for log in loggers:
        log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            for module in ("pytorch_lightning", "lightning_fabric", "torchmetrics"):
                warnings.filterwarnings("ignore", module=module)
            yield
    finally:
        for log, level in zip(loggers, levels, strict=True):
            log.setLevel(level)
