"""Robots that walk in a simulation: what is the next frame?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._checks import number, one_of, whole
from ..data import Sequences, forecast, from_list, windows
from ..data.sets._download import folder
from ._gait import walk
from ._task import Parts, Sizes, Task, add

OBSERVATIONS = 17
CHANNELS = {
    "half_cheetah": ("back_thigh", "back_shin", "back_foot", "front_thigh", "front_shin", "front_foot"),
    "walker2d": ("thigh", "leg", "foot", "left_thigh", "left_leg", "left_foot"),
}
# The numbers of each part's roll-outs: by LTC's code and by mmRNN's counts.
CHEETAH_PARTS = {"train": range(15, 25), "valid": range(5), "test": range(5, 15)}
WALKER_PARTS = {"train": range(300), "valid": range(300, 340), "test": range(340, 400)}
SOURCES = ("built", "scripted")


def channels(robot: str) -> list[str]:
    """The names of the observations: places and angles, then their speeds."""
    joints = CHANNELS[robot]
    return ["height", "pitch", *joints, "forward", "climb", "turn", *(f"{joint}_speed" for joint in joints)]


def read_traces(top: Path, count: int, cure: str) -> list[NDArray[np.float64]]:
    """`count` roll-outs `(frames, 17)` from trace_0000.npy, trace_0001.npy, ... in the folder `top`.

    Args:
        top: the folder.
        count: how many are needed; more may be there.
        cure: what to do if they are not there.
    """
    return [_read_trace(top / f"trace_{number:04d}.npy", cure) for number in range(count)]


def _read_trace(path: Path, cure: str) -> NDArray[np.float64]:
    if not path.is_file():
        raise ValueError(f"{path}: there is no such roll-out; {cure}.")
    try:
        trace = np.load(path, allow_pickle=False)
    except Exception as error:  # foreign bytes: NumPy reads the header as Python, with all its errors
        raise ValueError(f"{path}: this is no whole .npy file of numbers: {str(error)[:100]}.") from None
    if not isinstance(trace, np.ndarray) or trace.dtype.kind != "f" or trace.ndim != 2:
        raise ValueError(f"{path}: a table of numbers (frames, {OBSERVATIONS}) is expected.")
    if trace.shape[1] != OBSERVATIONS or len(trace) < 2:
        raise ValueError(f"{path}: two frames or more of {OBSERVATIONS} numbers are expected, got {trace.shape}.")
    if not np.isfinite(trace).all():
        frame, place = (int(i) for i in np.argwhere(~np.isfinite(trace))[0])
        raise ValueError(f"{path}: number {place} of frame {frame} is not finite.")
    return trace


def names_of(numbers: Sequence[int]) -> NDArray[np.str_]:
    """The roll-outs' names."""
    return np.array([f"trace_{number:04d}" for number in numbers])


def frames_ahead(traces: Sequence[NDArray[Any]], numbers: Sequence[int], robot: str) -> Sequences:
    """Every frame with the next one as its target; a group is a roll-out."""
    return forecast(from_list(traces, ids=names_of(numbers), channels=channels(robot)))


def frames_dropped(
    traces: Sequence[NDArray[Any]], numbers: Sequence[int], robot: str, drop: float, dice: np.random.Generator
) -> Sequences:
    """The same, with a share of the frames left out at random; the target stays the next frame of the simulation.

    The time is counted in frames of the simulation, so that dt is 1, or more after a gap.
    """
    kept = [np.sort(dice.permutation(len(t) - 1)[: len(t) - 1 - round(drop * (len(t) - 1))]) for t in traces]
    return from_list(
        [trace[rows] for trace, rows in zip(traces, kept, strict=True)],
        times=kept,
        target=[trace[rows + 1] for trace, rows in zip(traces, kept, strict=True)],
        per_step=True,
        kind="value",
        target_names=[f"{name}+1" for name in channels(robot)],
        ids=names_of(numbers),
        channels=channels(robot),
        unit=1.0,
    )


def _make_cheetah(protocol: str, seed: int, *, length: int, stride: int) -> Parts:
    """The roll-outs and their parts are fixed: both protocols are one and the seed draws nothing."""
    count = max(numbers.stop for numbers in CHEETAH_PARTS.values())
    cure = "`chronode data fetch half_cheetah` brings the authors', `chronode data build half_cheetah` makes new ones"
    traces = read_traces(folder("half_cheetah"), count, cure)

    def part(name: str) -> Sequences:
        numbers = CHEETAH_PARTS[name]
        return windows(frames_ahead([traces[i] for i in numbers], numbers, "half_cheetah"), length, stride)

    return Parts(part("train"), part("valid"), part("test"))


def _make_walker(protocol: str, seed: int, *, length: int, stride: int, drop: float, source: str, frames: int) -> Parts:
    """No roll-out is in two parts, so both protocols are one; the seed draws the frames that are left out."""
    drop = number("drop", drop, at_least=0, below=1)
    count = max(numbers.stop for numbers in WALKER_PARTS.values())
    if one_of("source", source, SOURCES) == "scripted":
        traces = list(walk(count, seed, whole("frames", frames, at_least=2)))
    else:
        cure = "build them once with `chronode data build walker2d`, or take source='scripted'"
        traces = read_traces(folder("walker2d"), count, cure)
    dice = np.random.default_rng(seed)

    def part(name: str) -> Sequences:
        numbers = WALKER_PARTS[name]
        seen = frames_dropped([traces[i] for i in numbers], numbers, "walker2d", drop, dice)
        return windows(seen, length, stride, lead="gap")

    return Parts(part("train"), part("valid"), part("test"))


add(
    Task(
        name="half-cheetah",
        what="Half-cheetah: next-step prediction",
        make=_make_cheetah,
        sizes=Sizes(train=970, valid=485, test=970, steps=32, channels=OBSERVATIONS),
        loss="squared",
        metric="mse",
        protocols={
            "clean": "by roll-out: traces 0 to 4 validation, 5 to 14 test, 15 to 24 training, in the simulation's "
            "units; the authors' files 25 to 30 are not used, by them neither",
            "paper": "the same",
        },
        options={"length": 32, "stride": 10},
        data="half_cheetah",
    )
)
add(
    Task(
        name="walker2d",
        what="Walker2d: next-step prediction with a tenth of the frames missing",
        make=_make_walker,
        # Of roll-outs without a fall: 899 of their 999 frames, 14 windows each.
        sizes=Sizes(train=4_200, valid=560, test=840, steps=64, channels=OBSERVATIONS),
        loss="squared",
        metric="mse",
        protocols={
            "clean": "by roll-out: 300 training, 40 validation, 60 test; a roll-out ends with a fall or after 1,000 "
            "frames",
            "paper": "the same; the authors' roll-outs came from RLlib's PPO at 562 to 1,104 iterations, ours from "
            "`chronode data build walker2d`",
        },
        options={"length": 64, "stride": 64, "drop": 0.1, "source": "built", "frames": 1000},
        data="walker2d",
    )
)
