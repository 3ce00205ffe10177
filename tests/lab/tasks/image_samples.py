"""Small files in the publishers' formats."""

import numpy as np


def idx(array):
    """The bytes of an idx file."""
    head = bytes([0, 0, 8, array.ndim]) + b"".join(size.to_bytes(4, "big") for size in array.shape)
    return head + array.astype(np.uint8).tobytes()


def digit_like(count, seed):
    """Images with runs of bright pixels, and labels."""
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 256, size=(count, 28, 28), dtype=np.uint8)
    images[:, rng.integers(0, 2, size=28).astype(bool)] = 0
    return images, rng.integers(0, 10, size=count, dtype=np.uint8)


def write_mnist(folder, train=60, test=20):
    """Writes the four files; gives (train images, labels, test images, labels)."""
    folder.mkdir(exist_ok=True)
    found = []
    for part, count in (("train", train), ("t10k", test)):
        images, labels = digit_like(count, seed=count)
        (folder / f"{part}-images-idx3-ubyte").write_bytes(idx(images))
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(idx(labels))
        found += [images, labels]
    return found


def write_cifar(folder, batches=(1, 2, 3, 4, 5), count=10):
    """Writes batches of `count` images; gives them (N, 3, 32, 32) and the labels, the test batch at last."""
    folder = folder / "cifar-10-batches-bin"
    folder.mkdir(parents=True, exist_ok=True)
    images, labels = [], []
    for i, name in enumerate([*(f"data_batch_{i}" for i in batches), "test_batch"]):
        rng = np.random.default_rng(i)
        images.append(rng.integers(0, 256, size=(count, 3, 32, 32), dtype=np.uint8))
        labels.append(rng.integers(0, 10, size=count, dtype=np.uint8))
        records = np.concatenate([labels[-1][:, None], images[-1].reshape(count, -1)], axis=1)
        (folder / f"{name}.bin").write_bytes(records.tobytes())
    return np.concatenate(images), np.concatenate(labels)
