"""Composite scores: the mean of a category's benchmarks, and the mean of the categories.

    S(category) = (1/B) Σ S_b                    SE = (1/B) √(Σ SE_b²)
    S(overall)  = (1/C) Σ S(category)            SE likewise

(arXiv 2607.01232, evaluation: unweighted means. The errors are ours: benchmarks share no problem, so their errors are
independent.) A composite of which a part is missing is undefined: a mean over what happens to be there would be another
figure under the same name.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from onelayer.analysis.sampling import Estimate


def mean_of(parts: Sequence[Estimate]) -> Estimate:
    """The unweighted mean of independent estimates; its error is None where a part has none."""
    count = len(parts)
    errors = [part.se for part in parts if part.se is not None]
    se = math.sqrt(sum(error**2 for error in errors)) / count if len(errors) == count else None
    return Estimate(sum(part.value for part in parts) / count, se)


def composites(scores: Mapping[str, Estimate], members: Mapping[str, Sequence[str]]) -> dict[str, Estimate | None]:
    """Every composite's score, None where a part of it is missing.

    Args:
        scores: the benchmarks that were scored.
        members: what each composite is the mean of: benchmarks, or composites that stand before it.
    """
    known: dict[str, Estimate | None] = dict(scores)
    found: dict[str, Estimate | None] = {}
    for name, parts in members.items():
        there = [part for part in (known.get(part) for part in parts) if part is not None]
        found[name] = known[name] = mean_of(there) if len(there) == len(parts) else None
    return found
