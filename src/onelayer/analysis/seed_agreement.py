"""Whether the seeds of one study agree on its layers: what two studies of one seed each would show, all else alike."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from onelayer.analysis.coefficients import all_tied, kendall, pearson, spearman
from onelayer.analysis.correlation import reliability
from onelayer.analysis.evidence import Evidence
from onelayer.analysis.problem_sets import Matrix, ProblemSets
from onelayer.grid import BASE
from onelayer.seeds import derive_seed

_MEASURES = {"spearman": spearman, "kendall": kendall, "pearson": pearson}
# Of two layers, a coefficient can only be −1 or 1.
_FEWEST_LAYERS = 3


def seed_agreement(evidence: Evidence) -> dict[str, Any]:
    """The part ``seed_agreement`` of analysis.json: each pair of seeds' correlation of layer scores, and their mean.

    Scores are those on ``report``. The coefficients of contributions are the same, for within a study C is one straight
    line of the score. ``reliability`` is that of the profile over all seeds (`onelayer.analysis.correlation`), over the
    layers that every seed trained; null, as the mean is, where there is a ``reason``.
    """
    study = evidence.study
    arms = evidence.layers
    sets = ProblemSets.of_ids(list(evidence.means["report"][BASE.name].index))
    seeds = [seed for seed in study.runs.seeds if any(run.seed == seed for runs in arms.values() for run in runs)]
    runs: dict[int, dict[int, Matrix]] = {
        layer: {run.seed: row for run, row in zip(found, evidence.matrix("report", found), strict=True)}  # type: ignore[misc]
        for layer, found in arms.items()
    }
    pairs = [_pair(sets, runs, pair) for pair in combinations(seeds, 2)]
    known = [pair for pair in pairs if pair["reason"] is None]
    everywhere = [layer for layer, found in runs.items() if len(found) == len(seeds)]
    return {
        "pairs": pairs,
        "mean": {name: float(np.mean([pair[name] for pair in known])) if known else None for name in _MEASURES},
        "reliability": reliability(
            sets.equalized(np.stack([np.stack([runs[layer][seed] for seed in seeds]) for layer in everywhere])),
            derive_seed(study.seed, study.name, "halves"),
        )
        if known and everywhere
        else None,
        "reason": _reason(seeds, bool(known)),
    }


def _pair(sets: ProblemSets, runs: dict[int, dict[int, Matrix]], seeds: tuple[int, int]) -> dict[str, Any]:
    shared = [layer for layer, found in runs.items() if set(seeds) <= found.keys()]
    row: dict[str, Any] = {"seeds": list(seeds), "layers": len(shared), **dict.fromkeys(_MEASURES), "reason": None}
    if len(shared) < _FEWEST_LAYERS:
        return row | {"reason": f"both trained {len(shared)} layers, fewer than {_FEWEST_LAYERS}"}
    profiles = [np.array([sets.score(runs[layer][seed]) for layer in shared]) for seed in seeds]
    tied = [seed for seed, profile in zip(seeds, profiles, strict=True) if all_tied(profile)]
    if tied:
        return row | {"reason": f"all layers score alike with seed {tied[0]}"}
    return row | {name: float(measure(*profiles)) for name, measure in _MEASURES.items()}


def _reason(seeds: list[int], known: bool) -> str | None:
    if known:
        return None
    return "no two seeds can be compared" if len(seeds) > 1 else "there is one seed, so none to compare it with"
