"""Speech Commands (Warden 2018): classification of spoken words."""

from __future__ import annotations

import hashlib
import math
import wave
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...data import Parts, Sequences, Target
from ...storage import replacing
from ..datasets._download import cache_folder, folder
from . import _mel
from ._mel import BANDS, RATE, STEPS, log_mel
from ._parts import add, equal_series, located, scaled
from ._text import utf8

COMMANDS = ("yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go")
OTHERS = (
    *("bed", "bird", "cat", "dog", "eight", "five", "four", "happy", "house", "marvin"),
    *("nine", "one", "seven", "sheila", "six", "three", "tree", "two", "wow", "zero"),
)
SILENCE, UNKNOWN = "silence", "unknown"
NOISE = "_background_noise_"
LISTS = {"valid": "validation_list.txt", "test": "testing_list.txt"}
# Under "clean", the section of each background recording from which the silences of a part are taken.
STRETCHES = {"train": (0.0, 0.7), "valid": (0.7, 0.85), "test": (0.85, 1.0)}
_AT_ONCE = 16  # recordings: their windows fit into the CPU cache, seven times faster than 256


class Clip(NamedTuple):
    """A recording, or a second of one: file, class, first sample and volume."""

    file: Path
    label: str
    start: int = 0
    volume: float = 1.0


def read_wave(path: Path, rate: int = RATE) -> NDArray[np.float32]:
    """Reads all samples of a 16 bit, one-channel .wav file with `rate` samples per second, between -1 and 1."""
    try:
        with wave.open(str(path), "rb") as file:
            form = file.getnchannels(), file.getsampwidth(), file.getframerate()
            content = file.readframes(file.getnframes())
    except (wave.Error, EOFError, OSError, RuntimeError) as error:  # RuntimeError: a chunk longer than the file
        raise ValueError(f"{path}: this is not a valid .wav file: {error or 'it ends early'}.") from None
    if form != (1, 2, rate):
        form_text = "{} channels of {} bytes at {} Hz".format(*form)
        raise ValueError(f"{path}: expected one channel of 2 bytes at {rate} Hz, got {form_text}.")
    if not content or len(content) % 2:
        raise ValueError(f"{path}: {len(content)} bytes are not a whole number of samples.")
    return (np.frombuffer(content, dtype="<i2") / 2**15).astype(np.float32)


def listed_parts(top: Path, words: Sequence[str]) -> dict[str, list[tuple[Path, str]]]:
    """Returns the (file, word) pairs of each part: the published lists define validation and test, the rest is
    training.

    The lists keep all recordings of a speaker in one part.
    """
    part_of: dict[str, str] = {}
    for part, name in LISTS.items():
        path = top / name
        for line, text in enumerate(utf8(path.read_bytes(), path).splitlines(), start=1):
            if not (top / text).is_file():
                raise ValueError(f"{path}, line {line}: file {text[:60]!r} not found.")
            part_of[text] = part
    parts: dict[str, list[tuple[Path, str]]] = {"train": [], "valid": [], "test": []}
    for word in words:
        recordings = sorted((top / word).glob("*.wav"))
        if not recordings:
            raise ValueError(f"{top / word}: no recordings of {word!r} found.")
        for file in recordings:
            parts[part_of.get(f"{word}/{file.name}", "train")].append((file, word))
    return parts


def clips_of(
    top: Path, part: str, files: Sequence[tuple[Path, str]], rng: np.random.Generator, clean: bool
) -> list[Clip]:
    """Returns the recordings of the ten commands, and for every ten of them a silence and another word.

    This is the rule of the TensorFlow example, and gives the counts of the paper. A silence is a second of background
    noise at a random volume; with `clean` each part has its own section of the noise recordings.
    """
    commands = [Clip(file, word) for file, word in files if word in COMMANDS]
    others = [file for file, word in files if word not in COMMANDS]
    extra = math.ceil(len(commands) / 10)
    if len(others) < extra:
        raise ValueError(
            f"{top}: the {part} part needs {extra} words that are not commands, but there are {len(others)}."
        )
    unknown = [Clip(others[i], UNKNOWN) for i in rng.choice(len(others), extra, replace=False)]
    noises = sorted((top / NOISE).glob("*.wav"))
    if not noises:
        raise ValueError(f"{top / NOISE}: no recordings of noise found.")
    sizes = [len(read_wave(noise)) for noise in noises]
    silence = []
    for which in rng.integers(len(noises), size=extra):
        low, high = STRETCHES[part] if clean else (0.0, 1.0)
        first, last = int(low * sizes[which]), int(high * sizes[which]) - RATE
        if last < first:
            raise ValueError(f"{noises[which]}: too short: the {part} part needs a full second of its own.")
        start, volume = int(rng.integers(first, last + 1)), float(rng.uniform())
        silence.append(Clip(noises[which], SILENCE, start, volume))
    return [*commands, *silence, *unknown]


def _log_mels(clips: Sequence[Clip]) -> NDArray[np.float32]:
    values = np.empty((len(clips), STEPS, BANDS), dtype=np.float32)
    for begin in range(0, len(clips), _AT_ONCE):
        some = clips[begin : begin + _AT_ONCE]
        waves = np.zeros((len(some), RATE), dtype=np.float32)
        for row, clip in zip(waves, some, strict=True):
            sound = read_wave(clip.file)[clip.start : clip.start + RATE]
            row[: len(sound)] = clip.volume * sound
        values[begin : begin + len(some)] = log_mel(waves)
    return values


def _word_features(word: Path) -> Mapping[str, NDArray[np.float32]]:
    """Returns the features of each recording in a folder; they are kept in the cache, under a hash of the files."""
    files = sorted(word.glob("*.wav"))
    digest = hashlib.sha256(Path(_mel.__file__).read_bytes())
    for file in files:
        facts = file.stat()
        digest.update(f"{file} {facts.st_size} {facts.st_mtime_ns}\n".encode())
    path = cache_folder() / "log_mel" / f"{digest.hexdigest()}.npy"
    if not path.is_file():
        with replacing(path) as draft, draft.open("wb") as stream:
            np.save(stream, _log_mels([Clip(file, word.name) for file in files]))
    return dict(zip((file.name for file in files), np.load(path, mmap_mode="r"), strict=True))


def features(clips: Sequence[Clip], part: str, classes: Sequence[str]) -> Sequences:
    """Computes a series of log-mel features per clip; the group is the speaker or, for noise, the recording and
    part.
    """
    of_word = cache(_word_features)
    values = np.empty((len(clips), STEPS, BANDS), dtype=np.float32)
    for row, clip in zip(values, clips, strict=True):
        row[:] = _log_mels([clip])[0] if clip.label == SILENCE else of_word(clip.file.parent)[clip.file.name]
    speakers = [f"{c.file.stem}/{part}" if c.label == SILENCE else c.file.name.split("_")[0] for c in clips]
    labels = np.array([classes.index(clip.label) for clip in clips], dtype=np.int32)
    target = Target(labels, classes=tuple(classes), names=("word",))
    series = equal_series(values, target, tuple(f"mel{band}" for band in range(BANDS)))
    names = [f"{clip.file.parent.name}/{clip.file.name}@{clip.start}" for clip in clips]
    return replace(series, ids=np.array(names), groups=np.array(speakers))


def _parts(clips: dict[str, list[Clip]], classes: Sequence[str]) -> Parts:
    train, valid, test = (features(clips[part], part, classes) for part in ("train", "valid", "test"))
    return scaled(train, valid, test)


def _make_thirty(protocol: str, seed: int) -> Parts:
    """Creates the parts; the split is published, so both protocols are the same and the seed has no effect."""
    classes = sorted((*COMMANDS, *OTHERS))
    parts = listed_parts(located(folder("speech_commands"), LISTS["test"]).parent, classes)
    return _parts({part: [Clip(*each) for each in files] for part, files in parts.items()}, classes)


def _make_twelve(protocol: str, seed: int) -> Parts:
    top = located(folder("speech_commands"), LISTS["test"]).parent
    rng = np.random.default_rng(seed)
    parts = listed_parts(top, (*COMMANDS, *OTHERS))
    clips = {part: clips_of(top, part, files, rng, protocol == "clean") for part, files in parts.items()}
    return _parts(clips, (*COMMANDS, SILENCE, UNKNOWN))


add("google-12", _make_twelve)
add("google-30", _make_thirty)
