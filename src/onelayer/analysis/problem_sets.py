"""Problems that come from several benchmarks: a score is a mean of the benchmarks' own means.

    S = Σ_b w_b · (mean over the problems of b)

with equal weights (arXiv 2607.01232, its math score over four benchmarks), or those of a composite of composites. In a
study's own splits a problem's set is what its id names before the row (``math500:12``); problems without such an id are
one set. A bootstrap draws the problems of each set anew by themselves, for the sets are chosen, not sampled.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Self, TypeAlias

import numpy as np
import numpy.typing as npt

Matrix: TypeAlias = npt.NDArray[np.float64]

_OF_A_SET = re.compile(r"([^:]+):\d+")


def set_of(problem: str) -> str:
    """The set that a problem's id names; empty where it names none."""
    named = _OF_A_SET.fullmatch(problem)
    return named.group(1) if named else ""


class ProblemSets:
    """The sets of the problems that every run of a study holds.

    Args:
        sets: each problem's set, in the order of the runs' columns.
        weights: what each set weighs, adding up to 1; None weighs them alike.
    """

    def __init__(self, sets: Sequence[str], weights: Mapping[str, float] | None = None) -> None:
        self._problems = len(sets)
        members: dict[str, list[int]] = {}
        for column, name in enumerate(sets):
            members.setdefault(name, []).append(column)
        self._members = {name: np.array(columns) for name, columns in members.items()}
        self._weights = weights or dict.fromkeys(self._members, 1 / len(self._members))

    @classmethod
    def of_ids(cls, problems: Sequence[str]) -> Self:
        """The sets that the problems' ids name."""
        return cls([set_of(problem) for problem in problems])

    @property
    def names(self) -> tuple[str, ...]:
        """The sets, in the order of their first problems."""
        return tuple(self._members)

    def score(self, runs: Matrix) -> float:
        """The score of an arm: the mean over its runs of S.

        Args:
            runs: each run's mean by problem, shape (seeds, problems), or one run's, shape (problems,).
        """
        if len(self._members) == 1:
            return float(runs.mean())
        return float(sum(self._weights[name] * runs[..., columns].mean() for name, columns in self._members.items()))

    def by_set(self, run: Matrix) -> dict[str, float]:
        """The mean of each set by itself, from one run's means, shape (problems,)."""
        return {name: float(run[columns].mean()) for name, columns in self._members.items()}

    def equalized(self, runs: Matrix) -> Matrix:
        """Scale the problems so that the plain mean over them is S.

        Args:
            runs: means by problem, shape (..., problems).

        Returns:
            The same shape.
        """
        scale = np.empty(self._problems)
        for name, columns in self._members.items():
            scale[columns] = self._weights[name] * self._problems / len(columns)
        return runs * scale

    def residual(self, runs: Matrix) -> float:
        """What of a run's score is seed and problem together: the residual mean square over the number of problems.

            r = Σ_b w_b² · Σ (x − row mean − column mean + mean)² / ((m − 1)(n_b − 1)) / n_b

        Args:
            runs: each run's mean by problem, shape (seeds, problems); two seeds or more.
        """
        seeds, total = len(runs), 0.0
        for name, columns in self._members.items():
            count = len(columns)
            if count > 1:
                left = runs[:, columns] - runs[:, columns].mean(axis=0)
                left -= left.mean(axis=1, keepdims=True)
                total += self._weights[name] ** 2 * float((left**2).sum()) / ((seeds - 1) * (count - 1) * count)
        return total

    def draw(self, generator: np.random.Generator, resamples: int) -> Matrix:
        """Draw the problems of every set with replacement.

        Returns:
            What each problem weighs in each draw, shape (resamples, problems); every row adds up to 1.
        """
        weights = np.empty((resamples, self._problems))
        for name, columns in self._members.items():
            count = len(columns)
            drawn = generator.multinomial(count, np.full(count, 1 / count), size=resamples)
            weights[:, columns] = drawn / count * self._weights[name]
        return weights
