"""Benchmark tasks: reading or generating their data, splitting it and scoring predictions."""

from ...data import Parts
from ...training import Sizes, Task, add_task, find_task, tasks
from . import (
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
    one_bit,
    ozone,
    person_activity,
    physionet2012,
    power,
    ptb,
    robots,
    speech,
    spoken_digits,
    traffic,
    yelp,
)

__all__ = ["Parts", "Sizes", "Task", "add_task", "find_task", "tasks"]
