"""Benchmark tasks: reading or generating their data, splitting it and scoring predictions."""

from ...training import Parts, Sizes, Task, add, find_task, tasks
from . import (  # noqa: F401 - importing a family adds its tasks
    adding,
    bidmc,
    bitstream,
    circle,
    copying,
    digits,
    dsa,
    eigenworms,
    gesture,
    har,
    images,
    imdb,
    lorenz,
    noisy,
    occupancy,
    ozone,
    person_activity,
    physionet2012,
    power,
    ptb,
    robots,
    speech,
    traffic,
    yelp,
)

__all__ = ["Parts", "Sizes", "Task", "add", "find_task", "tasks"]
