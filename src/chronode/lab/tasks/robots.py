"""Next-step prediction for simulated walking robots, or for a synthetic gait."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...data import Parts, Sequences, forecast, from_list, windows
from ...settings import number, one_of, whole
from ..datasets._download import folder
from ._parts import add, range_windows

OBSERVATIONS = 17
CHANNELS = {
    "half_cheetah": ("back_thigh", "back_shin", "back_foot", "front_thigh", "front_shin", "front_foot"),
    "walker2d": ("thigh", "leg", "foot", "left_thigh", "left_leg", "left_foot"),
}
# The roll-outs of each part: as in the LTC code, and with the counts of mmRNN.
CHEETAH_PARTS = {"train": range(15, 25), "valid": range(5), "test": range(5, 15)}
WALKER_PARTS = {"train": range(300), "valid": range(300, 340), "test": range(340, 400)}
RECORDINGS = 400
SOURCES = ("built", "scripted")
SPLIT_SEED, DROP_SEED = 125487, 891374
"""Seeds of NumPy's RandomState in the code of mmRNN: of the order of the roll-outs, and of the frames that are kept."""
KEPT = 0.9
"""Probability with which the code of mmRNN keeps a frame."""


def channels(robot: str) -> list[str]:
    """Returns the names of the observations: positions and angles, then their velocities."""
    joints = CHANNELS[robot]
    return ["height", "pitch", *joints, "forward", "climb", "turn", *(f"{joint}_speed" for joint in joints)]


def read_traces(top: Path, count: int, cure: str) -> list[NDArray[np.float64]]:
    """Reads `count` roll-outs `(frames, 17)` from trace_0000.npy, trace_0001.npy, ... in the folder `top`."""
    return [_read_trace(top / f"trace_{number:04d}.npy", cure) for number in range(count)]


def read_recordings(top: Path) -> list[NDArray[np.float64]] | None:
    """Reads the authors' roll-outs rollout_000.npy, rollout_001.npy, ...; None if the folder has none."""
    files = sorted(top.glob("rollout_???.npy"))
    if files and len(files) != RECORDINGS:
        raise ValueError(f"{top}: expected {RECORDINGS} roll-outs rollout_000.npy, ..., found {len(files)}.")
    return [_read_trace(file, "") for file in files] or None


def _read_trace(path: Path, cure: str) -> NDArray[np.float64]:
    if not path.is_file():
        raise ValueError(f"{path}: no such roll-out; {cure}.")
    try:
        trace = np.load(path, allow_pickle=False)
    except Exception as error:  # untrusted bytes: NumPy evaluates the header as Python, with any of its errors
        raise ValueError(f"{path}: this is not a valid .npy file of numbers: {str(error)[:100]}.") from None
    if not isinstance(trace, np.ndarray) or trace.dtype.kind != "f" or trace.ndim != 2:
        raise ValueError(f"{path}: expected a table of numbers (frames, {OBSERVATIONS}).")
    if trace.shape[1] != OBSERVATIONS or len(trace) < 2:
        raise ValueError(f"{path}: expected at least two frames of {OBSERVATIONS} numbers, got shape {trace.shape}.")
    if not np.isfinite(trace).all():
        frame, number = (int(i) for i in np.argwhere(~np.isfinite(trace))[0])
        raise ValueError(f"{path}: number {number} of frame {frame} is not finite.")
    return trace


def names_of(numbers: Sequence[int] | NDArray[np.int64]) -> NDArray[np.str_]:
    """Returns the names of the roll-outs."""
    return np.array([f"trace_{number:04d}" for number in numbers])


def frames_ahead(traces: Sequence[NDArray[Any]], numbers: Sequence[int], robot: str) -> Sequences:
    """Creates series whose target is the next frame; the group is the roll-out."""
    return forecast(from_list(traces, ids=names_of(numbers), channels=channels(robot)))


def frames_dropped(
    traces: Sequence[NDArray[Any]], numbers: Sequence[int], robot: str, drop: float, rng: np.random.Generator
) -> Sequences:
    """Creates the same series with a random share of the frames missing; the target is still the next frame.

    Time is counted in frames of the simulation, so that dt is 1, or more after a gap.
    """
    kept = [np.sort(rng.permutation(len(t) - 1)[: len(t) - 1 - round(drop * (len(t) - 1))]) for t in traces]
    return _frames_kept(traces, numbers, robot, kept)


def _frames_kept(
    traces: Sequence[NDArray[Any]], numbers: Sequence[int] | NDArray[np.int64], robot: str, kept: Sequence[NDArray[Any]]
) -> Sequences:
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
    """Creates the parts; they are fixed, so both protocols are the same and the seed has no effect."""
    count = max(numbers.stop for numbers in CHEETAH_PARTS.values())
    cure = "run `chronode data fetch half_cheetah` (of the authors) or `chronode data build half_cheetah` (new)"
    traces = read_traces(folder("half_cheetah"), count, cure)

    def part(name: str) -> Sequences:
        numbers = CHEETAH_PARTS[name]
        return windows(frames_ahead([traces[i] for i in numbers], numbers, "half_cheetah"), length, stride)

    return Parts(part("train"), part("valid"), part("test"))


def recorded_parts(traces: Sequence[NDArray[Any]], length: int) -> Parts:
    """Creates the parts of the code of mmRNN: its order of the roll-outs, its missing frames and its windows.

    60 roll-outs are test, the next 40 validation and 300 training, in an order that is drawn once; frames are dropped
    part by part. The dt of a frame is the number of frames since the previous one that was kept or the beginning.
    """
    order = np.random.RandomState(SPLIT_SEED).permutation(len(traces))
    test, valid = int(0.15 * len(traces)), int(0.25 * len(traces))
    draw = np.random.RandomState(DROP_SEED)

    def part(numbers: NDArray[np.int64]) -> Sequences:
        kept = [np.flatnonzero(draw.rand(len(traces[number]) - 1) < KEPT) for number in numbers]
        series = _frames_kept([traces[number] for number in numbers], numbers, "walker2d", kept)
        lead = np.array([rows[0] + 1.0 for rows in kept])
        return range_windows(replace(series, lead=lead), length, length // 4)

    return Parts(part(order[valid:]), part(order[test:valid]), part(order[:test]))


def _make_walker(protocol: str, seed: int, *, length: int, stride: int, drop: float, source: str, frames: int) -> Parts:
    """Creates the parts; no roll-out is in two parts. The seed draws the missing frames, except those of the authors'
    recordings in protocol "paper".
    """
    drop = number("drop", drop, at_least=0, below=1)
    count = max(numbers.stop for numbers in WALKER_PARTS.values())
    if one_of("source", source, SOURCES) == "scripted":
        traces = list(walk(count, seed, whole("frames", frames, at_least=2)))
    else:
        top, cure = folder("walker2d"), "build them once with `chronode data build walker2d`, or use source='scripted'"
        recorded = read_recordings(top)
        if recorded is not None and protocol == "paper":
            return recorded_parts(recorded, length)
        traces = recorded or read_traces(top, count, cure)
    rng = np.random.default_rng(seed)

    def part(name: str) -> Sequences:
        numbers = WALKER_PARTS[name]
        series = frames_dropped([traces[i] for i in numbers], numbers, "walker2d", drop, rng)
        return windows(series, length, stride, lead="gap")

    return Parts(part("train"), part("valid"), part("test"))


add("half-cheetah", _make_cheetah)
# For roll-outs without a fall: 899 of their 999 frames, 14 windows each.
add("walker2d", _make_walker)


FRAME = 0.008  # seconds, as in Walker2d
AGES = 4  # as many speeds as there are policies
_KICK = 0.01  # share of frames with a phase jump, as random actions would cause
_COUPLING = 4.0
_SWING = np.array([0.5, 0.7, 0.3, 0.5, 0.7, 0.3])
# Thigh, leg and foot are phase-shifted; the left leg is half a period behind the right.
_PHASE = np.array([0.0, -1.0, -1.6, np.pi, np.pi - 1.0, np.pi - 1.6])


def walk(count: int, seed: int, frames: int = 1000) -> NDArray[np.float32]:
    """Returns `(count, frames, 17)`: height, pitch, six joint angles, then the velocities of the body and of those
    values.

    The phases θ of the joints obey θ_i' = ω + κ/6 Σ_j sin(θ_j - φ_j - θ_i + φ_i), so that a perturbed joint returns to
    the common rhythm. The velocities of height, pitch and joints are the derivatives of those values.

    Example:
        >>> walk(3, seed=0, frames=50).shape
        (3, 50, 17)
    """
    rng = np.random.default_rng(seed)
    pace = 5.0 + rng.integers(AGES, size=(count, 1)) + rng.normal(0, 0.1, (count, 1))  # radians per second
    phase = rng.uniform(-np.pi, np.pi, (count, 6))
    shown = np.empty((count, frames, 17), dtype=np.float32)
    for frame in range(frames):
        lag = phase - _PHASE
        # The sum of sines over all joints is computed from their mean in the complex plane.
        turns = np.exp(1j * lag)
        speed = pace + _COUPLING * (turns.mean(1, keepdims=True) * turns.conj()).imag
        shown[:, frame] = _observed(phase, speed)
        kicked = rng.uniform(size=(count, 1)) < _KICK
        phase = phase + FRAME * speed + kicked * rng.normal(0, 1, (count, 6))
    return shown


def _observed(phase: NDArray[np.float64], speed: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the 17 observations for joints with these phases and angular velocities."""
    angle, turning = _SWING * np.sin(phase), _SWING * np.cos(phase) * speed
    thighs, thigh_speeds = phase[:, ::3], speed[:, ::3]
    height = 1.25 + 0.05 * np.cos(2 * thighs).mean(1)
    climbing = -0.1 * (np.sin(2 * thighs) * thigh_speeds).mean(1)
    pitch, pitching = 0.1 * angle.mean(1), 0.1 * turning.mean(1)
    forward = 0.4 * speed.mean(1) + 0.2 * turning[:, 0] * np.cos(phase[:, 0])
    body = np.stack([height, pitch], axis=1)
    return np.concatenate([body, angle, np.stack([forward, climbing, pitching], axis=1), turning], axis=1)
