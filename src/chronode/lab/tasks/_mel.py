"""Log-mel features of one-second recordings."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

RATE = 16_000
WINDOW = 400  # 25 ms
STRIDE = 160  # 10 ms
STEPS = 99  # 1 + ⌈(16,000 - 400) / 160⌉: the last window is padded with zeros
SPECTRUM = 512
BANDS = 32
_FLOOR = 1e-10  # energy of a silent band, so that its logarithm is finite


def to_mel(hertz: NDArray[np.float64]) -> NDArray[np.float64]:
    """Converts hertz to the mel scale, 2595 log10(1 + f / 700)."""
    return 2595 * np.log10(1 + hertz / 700)


def band_edges() -> NDArray[np.float64]:
    """Returns `(BANDS + 2,)` frequencies in hertz, evenly spaced in mel from 0 to half the rate.

    Band b rises from edge b to edge b + 1 and falls to edge b + 2.
    """
    top = to_mel(np.array(RATE / 2))
    return 700 * (10 ** (np.linspace(0, top, BANDS + 2) / 2595) - 1)


def filter_bank() -> NDArray[np.float64]:
    """Returns triangular filters of height 1, `(SPECTRUM // 2 + 1, BANDS)`."""
    hertz = np.arange(SPECTRUM // 2 + 1)[:, None] * RATE / SPECTRUM
    edges = band_edges()
    low, middle, high = edges[:-2], edges[1:-1], edges[2:]
    return np.minimum((hertz - low) / (middle - low), (high - hertz) / (high - middle)).clip(0)


def log_mel(waves: NDArray[np.float32]) -> NDArray[np.float32]:
    """Computes the log energy of each band, `(N, STEPS, BANDS)`, from `(N, RATE)` samples between -1 and 1.

    Each 25 ms frame is multiplied by a Hamming window, and the filters are applied to its power spectrum. There is no
    pre-emphasis: it would only add a constant to each band, which scaling removes.

    Example:
        >>> tone = np.sin(2 * np.pi * 1000 * np.arange(RATE) / RATE, dtype=np.float32)
        >>> features = log_mel(tone[None])
        >>> features.shape, int(features[0, 50].argmax())
        ((1, 99, 32), 11)
    """
    padded = np.pad(waves, ((0, 0), (0, (STEPS - 1) * STRIDE + WINDOW - RATE)))
    frames = np.lib.stride_tricks.sliding_window_view(padded, WINDOW, axis=1)[:, ::STRIDE]
    spectrum = np.fft.rfft(frames * np.hamming(WINDOW).astype(np.float32), SPECTRUM)
    power = (spectrum.real**2 + spectrum.imag**2) / SPECTRUM
    return np.log(power @ filter_bank() + _FLOOR).astype(np.float32)
