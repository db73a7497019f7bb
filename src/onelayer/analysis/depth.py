"""Profiles of models of different depth, laid over each other by relative depth.

Layer k of L stands at k / (L − 1). The points of the comparison are the scanned layers of the shallower model; the
deeper one's profile is read there by linear interpolation between its two scanned layers on either side. A point
outside the deeper model's scanned range is left out, for nothing was measured there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from onelayer.analysis.contribution import relative_depth
from onelayer.analysis.problem_sets import Matrix


@dataclass(frozen=True)
class Grid:
    """Where two models' profiles are compared.

    Attributes:
        depths: the relative depths, ascending, shape (points,).
        shallow: the shallower model's layer at each.
        deep: the deeper model's scanned layers, ascending.
        weights: what each of these counts at each point, shape (points, deep); every row adds up to 1.
    """

    depths: Matrix
    shallow: tuple[int, ...]
    deep: tuple[int, ...]
    weights: Matrix


def lay_over(shallow: Sequence[int], shallow_depth: int, deep: Sequence[int], deep_depth: int) -> Grid:
    """The grid of two models' scanned layers; it may have no point.

    Args:
        shallow: the scanned layers of the model with fewer layers.
        shallow_depth: how many it has.
        deep: the scanned layers of the other.
        deep_depth: how many it has.
    """
    known = tuple(sorted(deep))
    places = np.array([relative_depth(layer, deep_depth) for layer in known])
    # Two fractions of one value may differ in their last bits; a layer on the edge of the range is inside.
    found = [
        (layer, min(max(depth, places[0]), places[-1]))
        for layer, depth in ((layer, relative_depth(layer, shallow_depth)) for layer in sorted(shallow))
        if places[0] - 1e-12 <= depth <= places[-1] + 1e-12
    ]
    depths = np.array([depth for _, depth in found])
    # Interpolation is linear in the profile: its weights are the interpolated unit profiles.
    weights = np.array([np.interp(depths, places, unit) for unit in np.eye(len(known))]).T
    return Grid(depths, tuple(layer for layer, _ in found), known, weights.reshape(len(found), len(known)))
