"""Benchmark tasks: reading or generating their data, splitting it and scoring predictions."""

from ...data import Parts
from ...training import Sizes, Task, add_task, find_task, tasks
from . import (
    bidmc,
    bitstream,
    digits,
    dsa,
    eigenworms,
    gesture,
    har,
    images,
    imdb,
    noisy,
    occupancy,
    ozone,
    person_activity,
    physionet2012,
    power,
    ptb,
    robots,
    speech,
    spoken_digits,
    synthetic,
    traffic,
    yelp,
)

__all__ = ["Parts", "Sizes", "Task", "add_task", "find_task", "tasks"]
