"""Tasks: how each one's data is made or read, split and scored."""

from . import bitstream  # noqa: F401 - importing a family adds its tasks
from .task import Parts, Sizes, Task, add, find, tasks

__all__ = ["Parts", "Sizes", "Task", "add", "find", "tasks"]
