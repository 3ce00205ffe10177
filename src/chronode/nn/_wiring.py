"""Connections between neurons: masks `(from, to)` of ones and zeros for inputs and recurrent connections."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ..settings import number, one_of, whole

KINDS = ("full", "sparse", "ncp")


class Wiring(NamedTuple):
    """Masks of the connections.

    Attributes:
        inputs: `(D, H)`, 1 where input feature i is connected to neuron j.
        recurrent: `(H, H)`, 1 where neuron i is connected to neuron j.
        outputs: The number of output neurons, the last ones of H.
    """

    inputs: Tensor
    recurrent: Tensor
    outputs: int


def make_wiring(
    kind: str, input_size: int, hidden_size: int, density: float = 0.5, motor: int | None = None, seed: int = 0
) -> Wiring:
    """Creates a wiring, which depends only on the arguments and the seed.

    Args:
        kind: "full"; "sparse" (each connection exists with probability `density`, every neuron keeps at least one
            input); "ncp" (neural circuit policy: inputs → inter → command → motor neurons, command neurons are also
            connected among themselves, only motor neurons are outputs).
        input_size: Number of features D.
        hidden_size: Number of neurons H.
        density: Share of the possible connections that exist.
        motor: Number of motor neurons of an "ncp", by default an eighth of H.
        seed: Seed of the random connections.

    Example:
        >>> make_wiring("ncp", 4, 16, motor=3).outputs
        3
    """
    one_of("wiring", kind, KINDS)
    number("density", density, above=0)
    if density > 1:
        raise ValueError(f"density must be at most 1, got {density}.")
    if motor is not None and kind != "ncp":
        raise ValueError(f"motor={motor} needs wiring='ncp', got wiring={kind!r}.")
    rng = torch.Generator().manual_seed(whole("wiring_seed", seed, at_least=0))
    if kind == "full":
        return Wiring(torch.ones(input_size, hidden_size), torch.ones(hidden_size, hidden_size), hidden_size)
    if kind == "sparse":
        inputs = _random(input_size, hidden_size, density, rng)
        return Wiring(inputs, _random(hidden_size, hidden_size, density, rng), hidden_size)
    return _ncp(input_size, hidden_size, density, motor, rng)


def _ncp(input_size: int, hidden_size: int, density: float, motor: int | None, rng: torch.Generator) -> Wiring:
    motor = whole("motor", motor if motor is not None else max(1, hidden_size // 8), at_least=1)
    command = max(1, round(0.4 * (hidden_size - motor)))
    inter = hidden_size - motor - command
    if inter < 1:
        raise ValueError(
            f"hidden_size={hidden_size} is too small for an 'ncp' with {motor} motor neurons: it needs at least "
            f"{motor + 2} (in addition, one inter and one command neuron)."
        )
    inputs = torch.zeros(input_size, hidden_size)
    recurrent = torch.zeros(hidden_size, hidden_size)
    inters, commands, motors = slice(0, inter), slice(inter, inter + command), slice(inter + command, None)
    inputs[:, inters] = _random(input_size, inter, density, rng)
    recurrent[inters, commands] = _random(inter, command, density, rng)
    recurrent[commands, commands] = _random(command, command, density, rng)
    recurrent[commands, motors] = _random(command, motor, density, rng)
    return Wiring(inputs, recurrent, motor)


def _random(sources: int, targets: int, density: float, rng: torch.Generator) -> Tensor:
    """Returns a random mask in which every target has a source and, if possible, every source has a target."""
    # float32, so that a seed gives the same wiring under any default dtype.
    mask = (torch.rand(sources, targets, generator=rng, dtype=torch.float32) < density).to(torch.get_default_dtype())
    chosen = torch.randint(sources, (targets,), generator=rng)
    mask[chosen[mask.sum(0) == 0], torch.arange(targets)[mask.sum(0) == 0]] = 1
    deaf = mask.sum(1) == 0
    chosen = torch.randint(targets, (sources,), generator=rng)
    mask[torch.arange(sources)[deaf], chosen[deaf]] = 1
    return mask
