"""Image files as published: the idx files of MNIST and the binary batches of CIFAR-10."""

from __future__ import annotations

import math
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ._parts import located

DIGITS = tuple("0123456789")
CIFAR_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
CIFAR_BATCHES = 5
_RECORD = 1 + 3 * 32 * 32
_UNSIGNED_BYTES = 0x08
_AGAIN = "Delete it and download it again."


class Images(NamedTuple):
    """Images and labels as bytes.

    Attributes:
        train: `(N, ...)` training images.
        train_labels: `(N,)` training labels.
        test: `(M, ...)` test images.
        test_labels: `(M,)` test labels.
        notes: Differences from the published data.
    """

    train: NDArray[np.uint8]
    train_labels: NDArray[np.uint8]
    test: NDArray[np.uint8]
    test_labels: NDArray[np.uint8]
    notes: tuple[str, ...] = ()


def read_idx(path: str | Path) -> NDArray[np.uint8]:
    """Reads an idx file as an array of bytes.

    The format: two zero bytes, the type (8: bytes), the number of axes, their sizes (4 bytes each, big-endian), then
    the values.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     file = Path(folder) / "labels"
        ...     _ = file.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 2, 1]))
        ...     read_idx(file).tolist()
        [7, 2, 1]
    """
    data = _bytes(Path(path))
    if len(data) < 4 or data[:2] != b"\0\0":
        raise ValueError(f"{path} is not an idx file: it must begin with two zero bytes. {_AGAIN}")
    kind, axes = data[2], data[3]
    if kind != _UNSIGNED_BYTES or not axes:
        raise ValueError(f"{path} has values of type {kind} with {axes} axes; images and labels are bytes (type 8).")
    begin = 4 + 4 * axes
    sizes = tuple(np.frombuffer(data[4:begin], dtype=">u4").tolist()) if len(data) >= begin else ()
    if len(sizes) != axes or math.prod(sizes) != len(data) - begin:
        raise ValueError(f"{path} has {len(data)} bytes, which does not match its header {sizes}. {_AGAIN}")
    return np.frombuffer(data, dtype=np.uint8, offset=begin).reshape(sizes)


def mnist(folder: Path) -> Images:
    """Reads MNIST from its four idx files in `folder`."""
    train, test = (_labeled(folder, part) for part in ("train", "t10k"))
    return Images(*train, *test)


def cifar10(folder: Path) -> Images:
    """Reads CIFAR-10 `(N, 3, 32, 32)` from its binary batches; missing training batches are noted."""
    folder = located(folder, "test_batch.bin").parent
    batches = [folder / f"data_batch_{i}.bin" for i in range(1, CIFAR_BATCHES + 1)]
    there = [path for path in batches if path.is_file()]
    if not there:
        raise ValueError(f"{folder} contains no data_batch_1.bin: unpack cifar-10-binary.tar.gz again.")
    parts = [read_cifar_batch(path) for path in there]
    images, labels = (np.concatenate(each) for each in zip(*parts, strict=True))
    missing = [path.name for path in batches if path not in there]
    notes = (f"only {len(images):,} training images: {', '.join(missing)} missing.",) if missing else ()
    return Images(images, labels, *read_cifar_batch(folder / "test_batch.bin"), notes)


def read_cifar_batch(path: Path) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Reads (images `(N, 3, 32, 32)`, labels) from records of a label and the red, green and blue planes."""
    data = np.frombuffer(_bytes(path), dtype=np.uint8)
    if not len(data) or len(data) % _RECORD:
        raise ValueError(
            f"{path} has {len(data)} bytes, which is not a multiple of the record size {_RECORD}. {_AGAIN}"
        )
    records = data.reshape(-1, _RECORD)
    labels = _checked(records[:, 0], path)
    return records[:, 1:].reshape(-1, 3, 32, 32), labels


def _labeled(folder: Path, part: str) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Reads (images, labels) of one part of MNIST."""
    images = read_idx(folder / f"{part}-images-idx3-ubyte")
    if images.ndim != 3 or images.shape[1:] != (28, 28) or not len(images):
        raise ValueError(f"{folder}/{part}-images-idx3-ubyte has the shape {images.shape}; it must be (N, 28, 28).")
    labels = read_idx(folder / f"{part}-labels-idx1-ubyte")
    if labels.shape != images.shape[:1]:
        raise ValueError(f"{folder} has {len(images)} {part} images but labels of shape {labels.shape}.")
    return images, _checked(labels, folder / f"{part}-labels-idx1-ubyte")


def _checked(labels: NDArray[np.uint8], path: Path) -> NDArray[np.uint8]:
    if labels.max() > 9:
        raise ValueError(f"{path} has a label {labels.max()}; labels are 0 to 9. {_AGAIN}")
    return labels


def _bytes(path: Path) -> bytes:
    if not path.is_file():
        raise ValueError(f"{path.parent} contains no {path.name}: put the published file there.")
    return path.read_bytes()
