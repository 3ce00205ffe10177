"""Which neuron listens to which: masks `(from, to)` of ones and zeros for inputs and recurrent connections."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from .._checks import number, one_of, whole

KINDS = ("full", "sparse", "ncp")


class Wiring(NamedTuple):
    """Masks of the connections.

    Attributes:
        inputs: `(D, H)`, 1 where input feature i reaches neuron j.
        recurrent: `(H, H)`, 1 where neuron i reaches neuron j.
        outputs: the number of neurons that are read, the last ones of H.
    """

    inputs: Tensor
    recurrent: Tensor
    outputs: int


def make_wiring(
    kind: str, input_size: int, hidden_size: int, density: float = 0.5, motor: int | None = None, seed: int = 0
) -> Wiring:
    """The wiring of that kind, the same for the same seed.

    Args:
        kind: "full"; "sparse" (each connection there with probability `density`, every neuron keeps at least one
            input); "ncp" (neural circuit policy: inputs → inter → command → motor neurons, command neurons also
            among themselves, only motor neurons are read).
        input_size: features D.
        hidden_size: neurons H.
        density: share of the possible connections that are made.
        motor: number of motor neurons of an "ncp", by default an eighth of H.
        seed: of the random choice.

    Example:
        >>> make_wiring("ncp", 4, 16, motor=3).outputs
        3
    """
    one_of("wiring", kind, KINDS)
    number("density", density, above=0)
    if density > 1:
        raise ValueError(f"density must be at most 1, got {density}.")
    if motor is not None and kind != "ncp":
        raise ValueError(f"motor={motor} goes with wiring='ncp', not {kind!r}.")
    dice = torch.Generator().manual_seed(whole("wiring_seed", seed, at_least=0))
    if kind == "full":
        return Wiring(torch.ones(input_size, hidden_size), torch.ones(hidden_size, hidden_size), hidden_size)
    if kind == "sparse":
        inputs = _random(input_size, hidden_size, density, dice)
        return Wiring(inputs, _random(hidden_size, hidden_size, density, dice), hidden_size)
    return _ncp(input_size, hidden_size, density, motor, dice)


def _ncp(input_size: int, hidden_size: int, density: float, motor: int | None, dice: torch.Generator) -> Wiring:
    motor = whole("motor", motor if motor is not None else max(1, hidden_size // 8), at_least=1)
    command = max(1, round(0.4 * (hidden_size - motor)))
    inter = hidden_size - motor - command
    if inter < 1:
        raise ValueError(
            f"hidden_size={hidden_size} is too small for an 'ncp' with {motor} motor neurons: it needs at least "
            f"{motor + 2} (one inter and one command neuron more)."
        )
    inputs = torch.zeros(input_size, hidden_size)
    recurrent = torch.zeros(hidden_size, hidden_size)
    inters, commands, motors = slice(0, inter), slice(inter, inter + command), slice(inter + command, None)
    inputs[:, inters] = _random(input_size, inter, density, dice)
    recurrent[inters, commands] = _random(inter, command, density, dice)
    recurrent[commands, commands] = _random(command, command, density, dice)
    recurrent[commands, motors] = _random(command, motor, density, dice)
    return Wiring(inputs, recurrent, motor)


def _random(sources: int, targets: int, density: float, dice: torch.Generator) -> Tensor:
    """A random mask in which every target has a source and every source, where there is room, a target."""
    # float32 dice, so that a seed means the same wiring under any default dtype.
    mask = (torch.rand(sources, targets, generator=dice, dtype=torch.float32) < density).to(torch.get_default_dtype())
    chosen = torch.randint(sources, (targets,), generator=dice)
    mask[chosen[mask.sum(0) == 0], torch.arange(targets)[mask.sum(0) == 0]] = 1
    deaf = mask.sum(1) == 0
    chosen = torch.randint(targets, (sources,), generator=dice)
    mask[torch.arange(sources)[deaf], chosen[deaf]] = 1
    return mask
