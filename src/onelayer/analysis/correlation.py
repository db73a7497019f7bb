"""Whether two studies' layers agree, and how sure that is.

C(k) rises with S_k, on a straight line, wherever the gain is positive, and a correlation is only asked for where it is
clearly so. The coefficients of two studies' contributions are therefore those of their layers' scores, in the data and
in every draw; base and full need not be drawn (`onelayer.analysis.coefficients`).

- ``correlate`` puts intervals on them: every study draws its problems and seeds anew (`Bootstrap.scores`);
- ``correlate_over_depth`` does so for models of different depth, by relative depth (`onelayer.analysis.depth`);
- ``reliability``: how far a study's ranking would agree with a repeat of itself. Two studies that share one
  true ranking cannot be expected to agree better than the mean of their reliabilities (the geometric one;
  Spearman's attenuation, 1904), so a correlation means little without it.

docs/method.md, "Correlation between studies", says what the figures do not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from onelayer.analysis.coefficients import (
    FEWEST_FOR_PARTIAL,
    Measure,
    all_tied,
    hump,
    kendall,
    partial_p,
    partial_pearson,
    partial_spearman,
    pearson,
    permutation_p,
    random_orders,
    ranks,
    spearman,
)
from onelayer.analysis.contribution import Bootstrap, Interval, relative_depth
from onelayer.analysis.depth import Grid
from onelayer.analysis.problem_sets import Matrix, ProblemSets
from onelayer.seeds import derive_seed

# Up to 5 seeds every halving is counted (5! = 120 orders); beyond, and for problems, as many are drawn.
_HALVINGS = 120


@dataclass(frozen=True)
class Ranking:
    """What a study's records say of its layers.

    Attributes:
        study: the study's name.
        seed: the study's own seed, which its runs' random draws derive from.
        seeds: the repeats of every layer.
        problems: (id, prompt) of every problem, in the order of the runs' columns.
        runs: each layer's means by problem, shape (seeds, problems).
        depth: how many layers the model has.
    """

    study: str
    seed: int
    seeds: tuple[int, ...]
    problems: tuple[tuple[str, str], ...]
    runs: dict[int, Matrix]
    depth: int

    @property
    def sets(self) -> ProblemSets:
        """The sets of the problems."""
        return ProblemSets.of_ids([problem for problem, _ in self.problems])

    def scores(self, layers: Sequence[int]) -> Matrix:
        """S_k of the layers, shape (layers,)."""
        return np.array([self.sets.score(self.runs[layer]) for layer in layers])

    def ties(self, layers: Sequence[int]) -> bool:
        """Whether all these layers score alike, so that there is no ranking."""
        return all_tied(self.scores(layers))


@dataclass(frozen=True)
class Coefficient(Interval):
    """A correlation with its interval, and its two-sided p were the layers exchangeable."""

    p: float


@dataclass(frozen=True)
class Correlation:
    """How far two studies' layers agree.

    Attributes:
        points: the layers, or the relative depths, that are compared.
        spearman: rho.
        kendall: tau-b.
        pearson: r.
        partial_spearman: rho with depth removed; None of fewer than 5 points.
        partial_pearson: r with depth removed; None of fewer than 5 points.
        reliability: by study, of its own ranking; None where there is nothing to halve.
    """

    points: int
    spearman: Coefficient
    kendall: Coefficient
    pearson: Coefficient
    partial_spearman: Coefficient | None
    partial_pearson: Coefficient | None
    reliability: dict[str, float | None]

    @property
    def ceiling(self) -> float | None:
        """What rho to expect of two studies with one true ranking and this much noise."""
        found = [one for one in self.reliability.values() if one is not None]
        return None if len(found) < len(self.reliability) else math.prod(found) ** (1 / len(found))


def correlate(first: Ranking, second: Ranking, layers: Sequence[int], resamples: int, confidence: float) -> Correlation:
    """Correlate two studies' profiles over the layers that both hold. The order of the two is irrelevant.

    Args:
        first: a study.
        second: another one, of a model as deep.
        layers: the shared layers, ascending; in neither study all alike (``Ranking.ties``).
        resamples: how many draws.
        confidence: the share of draws inside an interval.
    """
    depths = np.array([relative_depth(layer, first.depth) for layer in layers])
    grid = Grid(depths, tuple(layers), tuple(layers), np.eye(len(layers)))
    return _correlate(first, second, grid, resamples, confidence)


def correlate_over_depth(shallow: Ranking, deep: Ranking, grid: Grid, resamples: int, confidence: float) -> Correlation:
    """Correlate the profiles of two models of different depth, the deeper one's read at the other's relative depths.

    Args:
        shallow: the study of the model with fewer layers.
        deep: the other one.
        grid: of their scanned layers; in neither study all points alike.
        resamples: how many draws.
        confidence: the share of draws inside an interval.
    """
    return _correlate(shallow, deep, grid, resamples, confidence)


def _correlate(shallow: Ranking, deep: Ranking, grid: Grid, resamples: int, confidence: float) -> Correlation:
    sides = sorted(
        ((shallow, grid.shallow, np.eye(len(grid.shallow))), (deep, grid.deep, grid.weights)),
        key=lambda side: side[0].study,
    )
    (first, *_), (second, *_) = sides
    bootstraps = _bootstraps(first, second, resamples, confidence)
    one, other = (weights @ study.scores(layers) for study, layers, weights in sides)
    drawn = [
        _draws(study, layers, bootstrap) @ weights.T
        for (study, layers, weights), bootstrap in zip(sides, bootstraps, strict=True)
    ]
    interval, seed = bootstraps[0].interval, derive_seed(first.study, second.study, "permutation")
    covariates = hump(grid.depths)

    def of(measure: Measure, p: float) -> Coefficient:
        found = interval(float(measure(one, other)), measure(*drawn))
        return Coefficient(found.value, found.low, found.high, p)

    def without_depth(
        measure: Callable[[Matrix, Matrix, Matrix], Matrix], first: Matrix, second: Matrix
    ) -> Coefficient | None:
        if len(grid.depths) < FEWEST_FOR_PARTIAL:
            return None
        return of(lambda x, y: measure(x, y, covariates), partial_p(first, second, covariates, seed))

    return Correlation(
        points=len(grid.depths),
        spearman=of(spearman, permutation_p(one, other, seed)),
        kendall=of(kendall, permutation_p(one, other, seed, kendall)),
        pearson=of(pearson, permutation_p(one, other, seed, pearson)),
        partial_spearman=without_depth(partial_spearman, ranks(one), ranks(other)),
        partial_pearson=without_depth(partial_pearson, one, other),
        reliability={
            study.study: reliability(
                np.tensordot(weights, study.sets.equalized(np.stack([study.runs[layer] for layer in layers])), 1),
                derive_seed(study.seed, study.study, "halves"),
            )
            for study, layers, weights in sides
        },
    )


def _bootstraps(first: Ranking, second: Ranking, resamples: int, confidence: float) -> tuple[Bootstrap, Bootstrap]:
    """The draws of two studies: together where their errors are, else apart.

    On the same problems both draw the same ones. Runs of one seed also share the random draws of training and
    evaluation, which derive from the study's seed and the run's name: where the seeds are the same too, both
    draw the same repeats. Equal seeds make equal draws; one set of draws used twice makes its repeats apart.
    """

    def begin(ranking: Ranking, *name: object) -> Bootstrap:
        return Bootstrap(ranking.sets, resamples, confidence, derive_seed("correlation", *name))

    if first.problems != second.problems:
        return begin(first, first.seed, first.study), begin(second, second.seed, second.study)
    names = (first.study, second.study)
    together = begin(first, *names)
    if (first.seed, first.seeds) == (second.seed, second.seeds):
        return together, begin(second, *names)
    return together, together


def _draws(ranking: Ranking, layers: Sequence[int], bootstrap: Bootstrap) -> Matrix:
    """Draw every layer's score, shape (resamples, layers)."""
    return np.stack([bootstrap.scores(ranking.runs[layer]) for layer in layers], axis=1)


def reliability(runs: Matrix, seed: int) -> float | None:
    """How far a ranking would agree with a repeat of itself: split halves, stepped up to the whole.

        r_whole = g · r_half / (1 + (g − 1) · r_half),   g = whole / half     (Spearman 1910, Brown 1910)

    r_half is the mean of rho over disjoint halves of the seeds (of one seed: of the problems), each of
    ⌊n/2⌋ of the n. A mean below zero counts as 0. None where there is one seed and one problem.

    Args:
        runs: means by problem, shape (layers, seeds, problems).
        seed: of the halvings, where there are too many to count all.
    """
    parts = runs.mean(axis=2) if runs.shape[1] > 1 else runs[:, 0]
    whole = int(parts.shape[1])
    half = whole // 2
    if half == 0:
        return None
    orders = random_orders(whole, _HALVINGS, seed)
    one, other = (parts[:, chosen].mean(axis=2).T for chosen in (orders[:, :half], orders[:, half : 2 * half]))
    found = max(float(spearman(one, other).mean()), 0.0)
    step = whole / half
    return step * found / (1 + (step - 1) * found)
