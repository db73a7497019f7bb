"""Whether two arms of a study, such as a layer and full training, score differently, and how sure that is.

An arm is the runs of one setting, one a seed. Both hold the same problems, so the difference is paired over them; their
seeds are apart. Interval and p-value are those of `onelayer.analysis.contrasts`, as C's interval is: where the interval
of a layer's difference from full training holds 0, that of its C holds 1, and the p-value is above 1 − confidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from onelayer.analysis.contrasts import contrast
from onelayer.analysis.contribution import Bootstrap, Interval
from onelayer.analysis.problem_sets import Matrix


@dataclass(frozen=True)
class Comparison:
    """The difference of two arms' scores.

    Attributes:
        difference: S of the first less S of the second, with its interval.
        p: two-sided, of no difference; not corrected for other comparisons (`holm`).
    """

    difference: Interval
    p: float


def compare_arms(first: Matrix, second: Matrix, bootstrap: Bootstrap) -> Comparison:
    """Compare two arms of a study.

    Args:
        first: each run's mean by problem, shape (seeds, problems).
        second: the same problems in the same order; the number of seeds can differ. Not the runs of ``first``.
        bootstrap: the draws of these problems.
    """
    found = contrast([(1.0, bootstrap.arm(first)), (-1.0, bootstrap.arm(second))])
    return Comparison(bootstrap.around(found), found.p)


def comparison_row(comparison: Comparison) -> dict[str, Any]:
    """A comparison as the analysis keeps it; its corrected p-value is for `correct` to fill in."""
    found = comparison.difference
    return {"difference": found.value, "low": found.low, "high": found.high, "p": comparison.p, "p_adjusted": None}


def correct(rows: Sequence[dict[str, Any]]) -> None:
    """Write each row's p-value, corrected for all of them (`holm`)."""
    for row, corrected in zip(rows, holm([row["p"] for row in rows]), strict=True):
        row["p_adjusted"] = corrected


def holm(ps: Sequence[float]) -> list[float]:
    """Correct p-values for the family that they make (Holm 1979, Scandinavian Journal of Statistics 6:65–70).

    The i-th smallest of n is multiplied by n − i + 1, raised to any that stands before it, and cut at 1. Were no
    difference of the family real, the chance of any corrected p-value of at most α is at most α, however they depend.

    Returns:
        In the order of ``ps``.
    """
    corrected = [0.0] * len(ps)
    highest = 0.0
    for place, index in enumerate(sorted(range(len(ps)), key=lambda one: ps[one])):
        highest = max(highest, min((len(ps) - place) * ps[index], 1.0))
        corrected[index] = highest
    return corrected
