"""Sets of layers that no score decides: evenly over the depth, and at random. (The middle: `analysis.contribution`.)"""

from __future__ import annotations

import math

from onelayer.seeds import derive_seed


def spread_layers(layers: int, count: int) -> tuple[int, ...]:
    """The layers in the middle of ``count`` equal stretches of the depth: ⌊(i + ½) L / k⌋ for i = 0 … k − 1.

    They are all different, for two neighbours are L / k ≥ 1 apart.
    """
    return tuple((2 * index + 1) * layers // (2 * count) for index in range(count))


def random_sets(seed: int, layers: int, count: int, draws: int) -> tuple[tuple[int, ...], ...]:
    """Different sets of ``count`` layers, each set equally likely; the first draws stay where there are more.

    A draw takes the layers whose hashes are lowest, which is the same on every machine and Python version. One that
    was drawn before is drawn anew.

    Args:
        seed: the study's.
        layers: of the model.
        count: layers of a set.
        draws: how many sets.

    Returns each set ascending. Raises ValueError where there are not so many sets.
    """
    if draws > math.comb(layers, count):
        raise ValueError(f"expected at most {math.comb(layers, count)} sets of {count} of {layers} layers")
    found: list[tuple[int, ...]] = []
    attempt = 0
    while len(found) < draws:
        order = sorted(range(layers), key=lambda layer: derive_seed(seed, "random-layers", count, attempt, layer))
        drawn = tuple(sorted(order[:count]))
        attempt += 1
        if drawn not in found:
            found.append(drawn)
    return tuple(found)
