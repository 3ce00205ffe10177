"""Cost of the training loop beside forward, backward and the optimizer's step: writes loop_overhead.md.

    python benchmarks/loop_overhead.py

Event-coded bit streams, mmRNN, H = 64, batch 256, one thread. The bare loop has its batches ready and does nothing
but forward, loss, backward and step; `fit` also makes the batches, clips, checks that all is finite, counts and
reports. Both take the same batches, interleaved, in process CPU time (a busy machine matters little); the least of all
rounds is reported.
"""

import time
from pathlib import Path

import torch

from chronode.data import LengthBatches
from chronode.lab.tasks.bitstream import bitstream
from chronode.model._model import SequenceModel
from chronode.model._spec import ModelSpec
from chronode.training import BatchDone, Settings, fit

BATCHES, ROUNDS = 60, 7
CASES = (("mmrnn", "rmsprop"), ("mmrnn", "adam"), ("lstm", "rmsprop"))


def bare(data, spec, optimizer):
    """Milliseconds per batch of the loop that everyone would write."""
    torch.manual_seed(0)
    model = SequenceModel.build(spec)
    steps = {"adam": torch.optim.Adam, "rmsprop": torch.optim.RMSprop}[optimizer](model.parameters(), lr=5e-3)
    batches = [data.batch(rows) for rows in LengthBatches(data.lengths, 256)]
    start = 0.0
    for number, batch in enumerate(batches):
        if number == 1:  # the first batch warms up
            start = time.process_time()
        steps.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(batch.x, **batch.times), batch.target)
        loss.backward()
        steps.step()
    return 1000 * (time.process_time() - start) / (len(batches) - 1)


def fitted(data, valid, spec, optimizer):
    """Milliseconds per batch of `fit`, from the end of the first batch to the end of the last."""
    at = []

    def on_event(event):
        if isinstance(event, BatchDone):
            at.append(time.process_time())

    settings = Settings(epochs=1, batch_size=256, optimizer=optimizer, threads=1)
    fit(data, spec, settings, valid=valid, on_event=on_event)
    return 1000 * (at[-1] - at[0]) / (len(at) - 1)


def main():
    torch.set_num_threads(1)
    data, valid = bitstream(BATCHES * 256, seed=0), bitstream(64, seed=1)
    lines = [f"mmRNN and LSTM, H = 64, batches of 256 event-coded bit streams, one thread, torch {torch.__version__};"]
    lines += [f"process CPU time, the least of {ROUNDS} interleaved rounds.", ""]
    lines += ["| model | optimizer | bare loop, ms/batch | `fit`, ms/batch | ratio |"]
    lines.append("| --- | --- | ---: | ---: | ---: |")
    for model, optimizer in CASES:
        spec = ModelSpec.for_data(data, model, hidden_size=64)
        times = [(bare(data, spec, optimizer), fitted(data, valid, spec, optimizer)) for _ in range(ROUNDS)]
        one, other = (min(column) for column in zip(*times, strict=True))
        lines.append(f"| {model} | {optimizer} | {one:.2f} | {other:.2f} | {other / one:.2f} |")
        print(lines[-1], flush=True)
    Path(__file__).with_suffix(".md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
