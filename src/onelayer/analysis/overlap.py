"""Whether layers solve the same problems: the overlap of solved sets, and what one layer alone solves.

A run solves a problem if more than half of its judged samples are right. The overlap of two sets is their Jaccard index

    J(A, B) = |A ∩ B| / |A ∪ B|            (Jaccard 1912, New Phytologist 11:37–50)

undefined where neither holds a problem. Two runs of one setting do not overlap wholly either, for samples and seeds
differ. So the overlap of two layers, the mean over all pairs of a run of one and a run of the other, stands beside that
of a layer with itself: the mean over the pairs of its runs of different seeds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import combinations, product
from typing import Any

import numpy as np
import numpy.typing as npt

from onelayer.analysis.contribution import Bootstrap, Interval
from onelayer.analysis.evidence import Evidence
from onelayer.analysis.problem_sets import Matrix, ProblemSets
from onelayer.grid import BASE, full_runs, layer_name
from onelayer.seeds import derive_seed

Sets = npt.NDArray[np.bool_]

# Of the problems that one layer alone solves, so many are named.
_NAMED = 5
# Pairs of runs that are drawn together: bounds the memory.
_PAIRS_AT_ONCE = 256


def solved(means: Matrix) -> Sets:
    """Which problems are solved, from the shares of right samples; of any shape."""
    found: Sets = means > 0.5
    return found


def jaccard(first: Sets, second: Sets) -> float | None:
    """The Jaccard index of two sets of problems, shape (problems,) each; None where both are empty."""
    either = int((first | second).sum())
    return int((first & second).sum()) / either if either else None


def overlap(evidence: Evidence, layers: list[int]) -> dict[str, Any]:
    """The overlaps of some layers' solved sets on ``report``, and what one scanned layer alone solves.

    Args:
        evidence: what the runs left.
        layers: those whose overlaps are given, two or more, in the order of the matrix.
    """
    of_layer = {layer: solved(evidence.matrix("report", evidence.layers[layer])) for layer in layers}
    full = solved(evidence.matrix("report", evidence.of(full_runs(evidence.study))))
    apart = [pair for one, other in combinations(layers, 2) for pair in product(of_layer[one], of_layer[other])]
    again = [pair for layer in layers for pair in combinations(of_layer[layer], 2)]
    bootstrap = Bootstrap(
        ProblemSets([""] * full.shape[1]),  # a set of solved problems counts them alike, whatever their benchmark
        evidence.study.analysis.resamples,
        evidence.study.analysis.confidence,
        derive_seed(evidence.study.seed, "bootstrap", "overlap"),
    )
    between, within = _Mean.of(apart, bootstrap), _Mean.of(again, bootstrap)
    excess = None
    if between and within:
        excess = bootstrap.interval(within.value - between.value, within.draws - between.draws)
    seeds = _Mean.of(list(combinations(full, 2)), bootstrap)
    return {
        "layers": layers,
        "jaccard": _matrix(of_layer),
        "mean": between and asdict(between.interval(bootstrap)),
        "same_layer": within and asdict(within.interval(bootstrap)),
        "excess": excess and asdict(excess),
        "full": seeds and asdict(seeds.interval(bootstrap)),
        "alone": _alone(evidence),
    }


@dataclass(frozen=True)
class _Mean:
    """The mean Jaccard index of pairs of sets, and its draws, shape (resamples,)."""

    value: float
    draws: Matrix

    @classmethod
    def of(cls, pairs: list[tuple[Sets, Sets]], bootstrap: Bootstrap) -> _Mean | None:
        """None where there is no pair, or no pair that solves anything."""
        values = [index for index in (jaccard(*pair) for pair in pairs) if index is not None]
        if not values:
            return None
        drawn = []
        for start in range(0, len(pairs), _PAIRS_AT_ONCE):
            some = pairs[start : start + _PAIRS_AT_ONCE]
            both = bootstrap.each(np.array([first & second for first, second in some], dtype=float))
            either = bootstrap.each(np.array([first | second for first, second in some], dtype=float))
            drawn.append(np.divide(both, either, out=np.zeros_like(both), where=either > 0))
        # A draw that holds no problem which a pair solves counts as no overlap.
        return cls(float(np.mean(values)), np.hstack(drawn).mean(axis=1))

    def interval(self, bootstrap: Bootstrap) -> Interval:
        return bootstrap.interval(self.value, self.draws)


def _matrix(of_layer: Mapping[int, Sets]) -> list[list[float | None]]:
    """By pair of layers the mean overlap of their runs, of different seeds where the layers are one."""

    def cell(one: int, other: int) -> float | None:
        pairs = (
            combinations(of_layer[one], 2)
            if one == other
            else product(of_layer[min(one, other)], of_layer[max(one, other)])
        )
        found = [index for index in (jaccard(*pair) for pair in pairs) if index is not None]
        return float(np.mean(found)) if found else None

    return [[cell(one, other) for other in of_layer] for one in of_layer]


def _alone(evidence: Evidence) -> dict[str, Any]:
    """Of all scanned layers, by the samples of all seeds together: which problems one layer alone solves."""
    layers = list(evidence.layers)
    found = solved(np.stack([evidence.matrix("report", runs).mean(axis=0) for runs in evidence.layers.values()]))
    full = solved(evidence.matrix("report", evidence.of(full_runs(evidence.study))).mean(axis=0))
    base = solved(evidence.matrix("report", [BASE])[0])
    problems = evidence.means["report"][BASE.name].index
    solvers = found.sum(axis=0)
    rows = []
    for layer, own in zip(layers, found, strict=True):
        alone = own & (solvers == 1)
        rows.append(
            {
                "layer": layer,
                "name": layer_name(layer),
                "solved": int(own.sum()),
                "alone": int(alone.sum()),
                "alone_nor_full": int((alone & ~full).sum()),
                "problems": [str(problem) for problem in problems[alone][:_NAMED]],
            }
        )
    return {
        "layers": rows,
        "problems": len(problems),
        "any": int((solvers > 0).sum()),
        "all": int((solvers == len(layers)).sum()),
        "base": int(base.sum()),
        "full": int(full.sum()),
        "full_alone": int((full & (solvers == 0)).sum()),
        "layers_not_full": int((~full & (solvers > 0)).sum()),
    }
