"""Progress of training: a bar with loss, metric and remaining time, or one line per epoch without a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TaskID, TextColumn, TimeRemainingColumn

from ..training import BatchDone, EpochDone, Event, Note
from .outcome import say_note

if TYPE_CHECKING:
    from typing_extensions import Self


class ProgressDisplay:
    """Progress bars of rich, shown inside a `with` statement if the console is a terminal.

    Args:
        console: Console for the output.
        columns: Columns of a bar, before the remaining time.
        options: Options of `rich.progress.Progress`.
    """

    def __init__(self, console: Console, *columns: ProgressColumn, **options: Any):
        self.console = console
        columns = (*columns, TimeRemainingColumn(elapsed_when_finished=True))
        self.progress = Progress(*columns, console=console, disable=not console.is_terminal, **options)

    def __enter__(self) -> Self:
        self.progress.start()
        return self

    def __exit__(self, *error: Any) -> None:
        self.progress.stop()


class Bars(ProgressDisplay):
    """Display of the events of one or several consecutive runs.

    Args:
        console: Console for the output.
        labels: Labels of the runs.
        epochs: Maximum number of epochs of each training.

    Example:
        >>> import io
        >>> from chronode.training import Epoch
        >>> output = io.StringIO()
        >>> with Bars(Console(file=output), ["mmrnn"], 2) as show:
        ...     show(EpochDone(Epoch(1, 0.5, 0.4, {"accuracy": 0.9}), True))
        >>> print(output.getvalue().strip())
        mmrnn  epoch 1/2  loss 0.5  valid loss 0.4  accuracy 0.9  (best)
    """

    def __init__(self, console: Console, labels: list[str], epochs: int):
        columns = (TextColumn("{task.description:<8}"), BarColumn(16), TextColumn("{task.fields[text]}"))
        super().__init__(console, *columns)
        self.labels, self.epochs = iter(labels), epochs
        self.label, self.done, self.measured = "", 0.0, ""
        self.bar: TaskID | None = None

    def __call__(self, event: Event) -> None:
        """Shows one event."""
        if isinstance(event, Note):
            say_note(self.console, event.text)
        elif isinstance(event, BatchDone):
            self._show(event.epoch, event.epochs_done, f"loss {event.loss:.4g}{self.measured}")
        else:
            self._measured(event)

    def _measured(self, event: EpochDone) -> None:
        epoch = event.epoch
        scores = [f"{name} {value:.4g}" for name, value in epoch.metrics.items()]
        # A bar has room for the first metric, the one that was asked for; a line has room for all.
        self.measured = f"  {(scores or [f'valid loss {epoch.valid_loss:.4g}'])[0]}"
        self._show(epoch.number, epoch.number, f"loss {epoch.loss:.4g}{self.measured}")
        if not self.console.is_terminal:
            self.console.print(
                f"{self.label}  {event.line(self.epochs)}", markup=False, highlight=False, soft_wrap=True
            )

    def _show(self, epoch: int, done: float, text: str) -> None:
        if self.bar is None or done < self.done:
            # A resumed run starts at its position, so that the remaining time is right.
            self.label = next(self.labels)
            self.bar = self.progress.add_task(self.label, total=self.epochs, completed=int(done), text="")
        self.done = done
        self.progress.update(self.bar, completed=done, text=f"epoch {epoch}/{self.epochs}  {text}")
