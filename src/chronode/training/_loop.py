"""A training run: batches and ends of epochs."""

from __future__ import annotations

import time
from typing import cast

import torch
from torch import Tensor
from torch.nn.utils import clip_grads_with_norm_, get_total_norm
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from ..data import UNKNOWN, Batch, Sequences
from ..model import SequenceModel
from ..model.start import raw_outputs
from ._crew import Crew
from ._events import BatchDone, Epoch, EpochDone, Event, Hooks, Interrupted, restore_optimizer, state_of
from ._loaders import TrainingBatches, batch_seed, pieces
from ._objective import Loss, Objective, mean_loss
from ._predict import evaluate, row_losses, standard_error, start_losses
from ._schedule import LOOK_EVERY, SOLVED, Schedule, chance_of, exploded, explosion, last_progress, not_finite
from ._settings import Settings


class Training:
    """Training run: `begin` once, `step` for every batch, `end_epoch` after each epoch.

    All random numbers of a batch (dropout, sub-sampling) depend only on the seed and the position of the batch, so a
    run that resumes from a saved state produces the same weights as one that was never stopped.
    """

    def __init__(
        self,
        model: SequenceModel,
        objective: Objective,
        settings: Settings,
        batches: TrainingBatches,
        valid: Sequences,
        hooks: Hooks,
        started: Tensor | None = None,
        valid_started: Tensor | None = None,
    ):
        self.model, self.objective, self.settings = model, objective, settings
        self.batches, self.valid, self.hooks, self.started = batches, valid, hooks, started
        self.valid_started = _start_outputs(model, objective, valid) if valid_started is None else valid_started
        self.chance = chance_of(model, objective, valid)
        self.start_losses: Tensor | None = None
        self.place = batches.place
        self.device, self.crew = torch.device("cpu"), Crew()
        limit = settings.epochs if settings.steps is None else settings.steps / len(batches)
        self.schedule = Schedule(settings, min(settings.epochs, limit))
        self.averaged: AveragedModel | None = None
        if settings.average != "none":
            ema = get_ema_multi_avg_fn(settings.average_decay) if settings.average == "ema" else None
            self.averaged = AveragedModel(model, multi_avg_fn=ema).requires_grad_(False)
        self.sums = torch.zeros(2, dtype=torch.float64)
        self.history: list[Epoch] = []
        self.best: dict[str, Tensor] = {}
        self.best_epoch = 0
        self.best_value: float | None = None
        self.stopped: str | None = None
        self.untrained_loss: float | None = None
        self.start: Epoch | None = None
        self.stop_wanted = False
        self.seconds = self.cpu_seconds = self.epoch_seconds = 0.0
        self.pending: dict[str, Tensor] | None = None
        self._start_clocks()

    # ---- batches and epochs -----------------------------------------------------------------------------

    def begin(self, optimizer: torch.optim.Optimizer, device: torch.device, crew: Crew) -> None:
        """Starts the run, or resumes it from the state passed to `restore`.

        Args:
            optimizer: Optimizer of the model's parameters, on the device.
            device: Device of the model.
            crew: This process among those that train the model.
        """
        self.optimizer, self.device, self.crew = optimizer, device, crew
        self.batches.share = crew.rank, crew.size
        if device.type == "cuda":
            self.sums = self.sums.to(device)  # adding to it must not wait for the device
        if self.place.step == 0:
            self.measure_untrained()
        self._start_clocks()
        if self.pending is not None:
            restore_optimizer(self.optimizer, self.pending)
            self.pending = None

    def step(self, batch: Batch) -> None:
        """Trains on one batch on the CPU: one optimizer step, or one per piece with T-BPTT."""
        place = self.place
        self._seed(batch_seed(self.settings.seed, place, self.crew.rank))
        for group in self.optimizer.param_groups:
            group["lr"] = self._rate(place.batch)
        if self.settings.tbptt:
            loss = self._learn_pieces(batch)
        else:
            batch = batch.to(self.device)
            unit = self.model.unit(batch.x, **batch.times)
            loss = self._learn(mean_loss(self._losses(batch, unit)), batch)
        place.batch += 1
        self._tick()
        if time.perf_counter() - self._saved >= self.hooks.save_seconds:
            self.save()
        if self.hooks.on_event is not None and self._reads_loss():
            self._emit(BatchDone(place.epoch + 1, place.batch, len(self.batches), place.step, float(loss)))
        if self.stop_wanted:
            raise Interrupted

    def end_epoch(self) -> bool:
        """Validates, keeps the best weights, and returns whether the run is over."""
        s = self.settings
        if s.average == "swa" and self.averaged is not None and self.place.epoch + 1 >= s.average_start:
            self.averaged.update_parameters(self.model)
        metrics, better = self.crew.of_first(self._validated)
        loss, weight = self.sums.tolist()
        number, valid_loss = self.place.epoch + 1, metrics.pop("loss")
        rate = self._rate(self.place.batch - 1)
        epoch = Epoch(number, loss / weight if weight else float("nan"), valid_loss, metrics, rate, self.epoch_seconds)
        value = self.objective.value_of(valid_loss, metrics)
        if better or not self.best:
            self.best_epoch, self.best_value = number, value if better else None
            self.best = {name: tensor.clone() for name, tensor in self.candidate().state_dict().items()}
        self.history.append(epoch)
        self.schedule.epoch_ended(better or self._last_progress() == number)
        self.place.epoch, self.place.batch = number, 0
        self.sums.zero_()
        over = self.decide() is not None
        self._tick()
        self.epoch_seconds = 0.0
        self.save()
        self._emit(EpochDone(epoch, better))
        if exploded(valid_loss, self.untrained_loss):
            self.stopped = None
            raise explosion(self, valid_loss)
        if self.stop_wanted and self.stopped is None:
            raise Interrupted
        return over

    # ---- learning ---------------------------------------------------------------------------------------

    def _losses(self, batch: Batch, unit: Tensor | None) -> list[Loss]:
        """Returns the loss of each network of an ensemble: they learn on their own."""
        assert batch.target is not None
        if not self.model.others:  # by `forward`, which may have hooks
            outputs = [self.model(batch.x, **batch.inputs, **self._given(batch))]
        else:
            outputs = self.model.each(batch.x, **batch.inputs, **self._given(batch))
        return [self.objective.loss_of(output, batch.target, unit, batch.weights) for output in outputs]

    def _validated(self) -> tuple[dict[str, float], bool]:
        """Returns loss and metrics on the validation part, and whether this epoch is the best so far."""
        found = evaluate(self.candidate(), self.objective, self.valid, self.valid_started)
        value = self.objective.value_of(found["loss"], found)
        return found, bool(self.settings.refit) or self._is_better(value, found["loss"])

    def measure_untrained(self) -> None:
        """Evaluates the loss before training; with a linear start, these weights are the first candidate."""
        metrics = self.crew.of_first(lambda: evaluate(self.model, self.objective, self.valid, self.valid_started))
        self.untrained_loss = metrics["loss"]
        if self.model.start is None:
            return
        loss = metrics.pop("loss")
        self.start = Epoch(0, float("nan"), loss, metrics, 0.0, 0.0)
        value = self.objective.value_of(loss, metrics)
        self.best_value = value if value == value else None
        self.best = {name: tensor.clone() for name, tensor in self.model.state_dict().items()}

    def _is_better(self, value: float, valid_loss: float) -> bool:
        """Whether an epoch is the best so far; a linear start has to be beaten by more than chance allows."""
        if self.best_epoch == 0 and self.start is not None and self.best_value is not None:
            return self._beats_start(value, self.best_value)
        if value == self.best_value:  # on small data many epochs have the same accuracy; the lower loss decides
            return valid_loss < self.history[self.best_epoch - 1].valid_loss
        return self.objective.better(value, self.best_value)

    def _beats_start(self, value: float, than: float) -> bool:
        """Whether an epoch is better than the start by more than one standard error of the mean difference of their
        losses, series by series; forecasts and targets at every step by a share of what is left to gain.
        """
        if not self.objective.better(value, than):
            return False
        if self.model.relative is not None or self.objective.per_step:
            return self.objective.gain(value, than) > self.chance
        candidate = self.candidate()
        if self.start_losses is None:
            self.start_losses = start_losses(candidate, self.objective, self.valid, self.valid_started)
        gaps = self.start_losses - row_losses(candidate, self.objective, self.valid, self.valid_started)
        self.chance = standard_error(gaps) / max(float(self.start_losses.nanmean()), 1e-12)
        return float(gaps.nanmean()) > standard_error(gaps)

    def _last_progress(self) -> int:
        """Returns the best epoch; before any beats the linear start clearly, the last that improved at all."""
        if self.best_epoch or self.start is None:
            return self.best_epoch
        return last_progress(self.objective, self.start, self.history)

    def _given(self, batch: Batch) -> dict[str, Tensor]:
        """Returns the out-of-sample outputs of the linear start for these series, if there are any."""
        return {} if self.started is None else {"started": self.started[batch.rows.cpu()].to(batch.x.device)}

    def _rate(self, batch: int) -> float:
        """Returns the learning rate in the middle of a batch of this epoch, so that a warm-up does not start at 0."""
        return self.schedule.rate(self.place.epoch + (batch + 0.5) / len(self.batches))

    def _seed(self, seed: int) -> None:
        """Seeds torch without torch.manual_seed, which also seeds unused devices and takes 100 times as long."""
        torch.default_generator.manual_seed(seed)
        if self.device.type == "cuda":
            torch.cuda.manual_seed(seed)

    def _learn(self, loss: Loss, batch: Batch) -> Tensor:
        """Takes one optimizer step; before one with a loss or gradient that is not finite, the run is set back."""
        self.optimizer.zero_grad()
        loss = self.crew.backward(loss, self.model)
        mean = loss.mean
        parameters = [p for p in self.model.parameters() if p.grad is not None]
        gradients = [p.grad for p in parameters if p.grad is not None]
        norm = get_total_norm(gradients)
        if self._reads_loss() and not torch.isfinite(mean + norm):
            if self.settings.clip:  # the squares of a gradient that can still be clipped may overflow
                norm = get_total_norm([gradient.double() for gradient in gradients])
            if not torch.isfinite(mean + norm):
                self._set_back(mean, batch)
                return mean
        if self.settings.clip:
            clip_grads_with_norm_(parameters, self.settings.clip, norm)
        self.optimizer.step()
        self.place.step += 1
        if self.settings.average == "ema" and self.averaged is not None:
            self.averaged.update_parameters(self.model)
        self.sums += torch.stack([*loss]).to(self.sums)
        return mean

    def _set_back(self, loss: Tensor, batch: Batch) -> None:
        """Returns to the best weights at half the learning rate; before there are any, the step is left out.

        Gradients overflow if the network becomes chaotic: the clipped ones before have drawn the weights there.
        """
        curable = bool(self.best) or (self.device.type == "cpu" and bool(loss.isfinite()))
        curable = curable and bool(self.settings.clip)
        if not curable or not self.schedule.set_back():
            raise not_finite(self, loss, batch)
        if self.best:
            self.model.load_state_dict(self.best)
            if self.averaged is not None:
                self.averaged.module.load_state_dict(self.best)
        self.optimizer.state.clear()

    def _reads_loss(self) -> bool:
        """Returns whether to read the numbers of this step; on a GPU this waits for the device. NaN persists until
        then.
        """
        return self.device.type == "cpu" or self.place.batch % LOOK_EVERY == 0

    def _learn_pieces(self, batch: Batch) -> Tensor:
        """Trains with truncated backpropagation: one optimizer step per piece with a target.

        Batches are cut on the CPU, where lengths and targets can be read without waiting for a device.
        """
        state, mean, size = None, torch.zeros(()), self.settings.tbptt
        started = None
        if self.model.start is not None:
            whole = batch.to(self.device)
            started = self.model.start(whole.x, **whole.times)
        for index, (piece, alive, target) in enumerate(pieces(batch, size, per_step=self.objective.per_step)):
            if state is not None:
                state = tuple(part.detach()[:, alive] for part in state)
            has_target, piece = _any_known(target), piece.to(self.device)
            outputs = (
                None if started is None else started[batch.lengths > index * size, index * size : (index + 1) * size]
            )
            with torch.set_grad_enabled(has_target):
                output, state = self.model.run(piece.x, state, started=outputs, **piece.times)
                if has_target and piece.target is not None:
                    mean = self._learn(self.objective.loss_of(output, piece.target, None, piece.weights), piece)
        return mean

    def decide(self) -> str | None:
        """Returns why the run is over, between two epochs; None if it continues."""
        s, place = self.settings, self.place
        self.stopped = None
        if s.steps is not None and place.step >= s.steps:
            self.stopped = "steps"
        elif place.epoch >= s.epochs:
            self.stopped = "epochs"
        elif s.early_stop and (place.epoch - self._last_progress() >= s.early_stop or self._solved()):
            self.stopped = "early"
        return self.stopped

    def _solved(self) -> bool:
        """Returns whether the best epoch predicts the classes of the validation part with next to no loss."""
        if self.objective.kind != "class" or not self.best_epoch or self.best_epoch > len(self.history):
            return False
        return self.history[self.best_epoch - 1].valid_loss < SOLVED

    def candidate(self) -> SequenceModel:
        """Returns the model that is validated and kept: the average, if there is one."""
        if self.averaged is None or not self.averaged.n_averaged:
            return self.model
        return cast(SequenceModel, self.averaged.module)

    # ---- events and saving ------------------------------------------------------------------------------

    def _emit(self, event: Event) -> None:
        if self.hooks.on_event is None or self.crew.rank:
            return
        try:
            self.hooks.on_event(event)
        except KeyboardInterrupt as error:
            raise Interrupted from error

    def _start_clocks(self) -> None:
        self._clock = self._saved = time.perf_counter()
        self._cpu_clock = time.process_time()

    def _tick(self) -> None:
        now, cpu = time.perf_counter(), time.process_time()
        self.epoch_seconds += now - self._clock
        self.seconds += now - self._clock
        self.cpu_seconds += cpu - self._cpu_clock
        self._clock, self._cpu_clock = now, cpu

    def save(self) -> None:
        """Saves the state of the run in the store, if there is one; only the first process does so."""
        if self.hooks.store is not None and not self.crew.rank:
            self.hooks.store.save(*state_of(self))
        self._saved = time.perf_counter()


def _start_outputs(model: SequenceModel, objective: Objective, valid: Sequences) -> Tensor | None:
    """Returns the outputs of the linear start, which does not change in training, for the validation series."""
    if model.start is None or objective.per_step or not len(valid) or model.head.weight.device.type != "cpu":
        return None
    return raw_outputs(model.start, valid, model.relative)


def _any_known(target: Tensor) -> bool:
    return bool((~target.isnan()).any() if target.dtype.is_floating_point else (target != UNKNOWN).any())
