"""Connections between neurons: masks `(from, to)` of ones and zeros for inputs and recurrent connections."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ..settings import SettingError, number, one_of, whole

KINDS = ("full", "sparse", "ncp", "own")


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
    kind: str,
    input_size: int,
    hidden_size: int,
    density: float = 0.5,
    motor: int | None = None,
    seed: int = 0,
    *,
    inter: int | Sequence[int] | None = None,
    connections: Sequence[Sequence[float]] | None = None,
) -> Wiring:
    """Creates a wiring, which depends only on the arguments and the seed.

    Args:
        kind: "full"; "sparse" (each connection exists with probability `density`, every neuron keeps at least one
            input); "ncp" (neural circuit policy: inputs → inter → command → motor neurons, command neurons are also
            connected among themselves, only motor neurons are outputs); "own" (as in `connections`).
        input_size: Number of features D.
        hidden_size: Number of neurons H.
        density: Share of the possible connections that exist.
        motor: Number of motor neurons of an "ncp", by default an eighth of H; of an "own" wiring, the number of its
            last neurons that are outputs, by default all.
        seed: Seed of the random connections.
        inter: Number of inter neurons of an "ncp", or a list with those of several layers, each connected to the next;
            by default 60% of the neurons that are not motor neurons. The others are command neurons.
        connections: Mask of an "own" wiring: `D + H` rows of `H` zeros and ones, 1 where the input feature or neuron of
            the row is connected to the neuron of the column.

    Example:
        >>> make_wiring("ncp", 4, 16, motor=3, inter=[4, 4]).outputs
        3
        >>> make_wiring("own", 1, 2, connections=[[1, 0], [0, 1], [0, 0]]).recurrent.tolist()
        [[0.0, 1.0], [0.0, 0.0]]
    """
    one_of("wiring", kind, KINDS)
    number("density", density, above=0)
    if density > 1:
        raise ValueError(f"density must be at most 1, got {density}.")
    if motor is not None and kind not in ("ncp", "own"):
        raise ValueError(f"motor={motor} needs wiring='ncp' or 'own', got wiring={kind!r}.")
    if inter is not None and kind != "ncp":
        raise SettingError(f"inter={inter} needs wiring='ncp', got wiring={kind!r}", argument="inter")
    if (connections is not None) != (kind == "own"):
        raise SettingError("wiring='own' and connections=... need each other", argument="connections")
    if connections is not None:
        return _own(connections, input_size, hidden_size, motor)
    rng = torch.Generator().manual_seed(whole("wiring_seed", seed, at_least=0))
    if kind == "full":
        return Wiring(torch.ones(input_size, hidden_size), torch.ones(hidden_size, hidden_size), hidden_size)
    if kind == "sparse":
        inputs = _random(input_size, hidden_size, density, rng)
        return Wiring(inputs, _random(hidden_size, hidden_size, density, rng), hidden_size)
    motor = whole("motor", motor if motor is not None else max(1, hidden_size // 8), at_least=1)
    return _ncp(input_size, hidden_size, density, motor, _inter_layers(inter, hidden_size, motor), rng)


def _inter_layers(inter: int | Sequence[int] | None, hidden_size: int, motor: int) -> list[int]:
    """Returns the number of neurons of each inter layer of an "ncp", which leave at least one for commands."""
    if inter is None:
        inter = hidden_size - motor - max(1, round(0.4 * (hidden_size - motor)))
        layers = [inter]
    else:
        layers = [whole("inter", size, at_least=1) for size in ([inter] if isinstance(inter, int) else inter)]
    least = motor + max(1, sum(layers)) + 1
    if hidden_size < least or not layers or min(layers) < 1:
        raise ValueError(
            f"hidden_size={hidden_size} is too small for an 'ncp' with {motor} motor neurons: it needs at least "
            f"{least} (in addition, {max(1, sum(layers))} inter and one command neuron)."
        )
    return layers


def _ncp(
    input_size: int, hidden_size: int, density: float, motor: int, inter: list[int], rng: torch.Generator
) -> Wiring:
    inputs = torch.zeros(input_size, hidden_size)
    recurrent = torch.zeros(hidden_size, hidden_size)
    sizes = [*inter, hidden_size - motor - sum(inter), motor]
    ends = torch.tensor(sizes).cumsum(0).tolist()
    groups = [slice(end - size, end) for size, end in zip(sizes, ends, strict=True)]
    inputs[:, groups[0]] = _random(input_size, inter[0], density, rng)
    for layer in range(len(inter)):
        recurrent[groups[layer], groups[layer + 1]] = _random(sizes[layer], sizes[layer + 1], density, rng)
    commands, motors = groups[-2:]
    recurrent[commands, commands] = _random(sizes[-2], sizes[-2], density, rng)
    recurrent[commands, motors] = _random(sizes[-2], motor, density, rng)
    return Wiring(inputs, recurrent, motor)


def _own(connections: Sequence[Sequence[float]], input_size: int, hidden_size: int, motor: int | None) -> Wiring:
    try:
        mask = torch.tensor(connections, dtype=torch.get_default_dtype())
    except (TypeError, ValueError):
        mask = torch.empty(0)
    rows = input_size + hidden_size
    if mask.shape != (rows, hidden_size) or not bool(((mask == 0) | (mask == 1)).all()):
        raise SettingError(
            f"connections must be {rows} rows (inputs, then neurons) of {hidden_size} zeros and ones",
            argument="connections",
        )
    outputs = hidden_size if motor is None else whole("motor", motor, at_least=1)
    if outputs > hidden_size:
        raise SettingError(f"motor={motor} is more than hidden_size={hidden_size}", argument="motor")
    return Wiring(mask[:input_size], mask[input_size:], outputs)


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
