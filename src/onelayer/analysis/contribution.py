"""The contribution of a layer, and how sure it is.

    C(k) = (S_k − S_base) / (S_full − S_base)

(arXiv 2607.01232, its definition of layer contribution.) Scores are avg@k over the same problems in every
run. The paper gives no interval; ours rests on a paired bootstrap over problems with the seeds as a second level:

- problems are drawn with replacement (each benchmark's by themselves), the same draw for base, full and layer, so
  that what makes a problem hard for all of them cancels;
- the seeds of full and of the layer add their own variance, apart from each other, and how few they are is in the
  degrees of freedom (`onelayer.analysis.contrasts`). Of one seed nothing is known of its luck: the interval then
  covers the problems alone, and the study's count of seeds says so;
- the interval of C holds every c for which S_k − (1 − c) S_base − c S_full is not told apart from 0 (Fieller 1954,
  Journal of the Royal Statistical Society B 16:175–185). So C's interval holds 1 just where that of S_k − S_full
  holds 0, and a small gain, known badly, makes it wide.

C divides by the gain, so it means nothing where the gain may be zero: where the gain's own interval does not
lie above zero, C is undefined and no number is given. (Fieller's interval has two ends just where it does.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from scipy.optimize import brentq

from onelayer.analysis.contrasts import ArmScore, Contrast, contrast
from onelayer.analysis.problem_sets import Matrix, ProblemSets

# What is held against full training: a layer by its number, a baseline by its name.
Arm: TypeAlias = int | str


@dataclass(frozen=True)
class Interval:
    """A figure with the ends of its interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Contribution:
    """C of one layer or baseline: the figure, its interval, and the figure of each of its seeds."""

    interval: Interval
    per_seed: tuple[float, ...]


class Bootstrap:
    """One set of draws, shared by every figure of a study, so that figures can be compared.

    Args:
        sets: the sets of the problems that every run holds.
        resamples: how many draws.
        confidence: the share of draws inside an interval, such as 0.95.
        seed: of the draws.
    """

    def __init__(self, sets: ProblemSets, resamples: int, confidence: float, seed: int) -> None:
        self._generator = np.random.Generator(np.random.Philox(seed))
        self._resamples = resamples
        tail = (1 - confidence) / 2
        self._tails = (tail, 1 - tail)
        self.confidence = confidence
        self.sets = sets
        self._weights = sets.draw(self._generator, resamples)

    def each(self, figures: Matrix) -> Matrix:
        """Draw the mean of every row by itself, seeds left as they are.

        Args:
            figures: figures by problem, shape (rows, problems).

        Returns:
            Shape (resamples, rows).
        """
        drawn: Matrix = self._weights @ figures.T
        return drawn

    def scores(self, runs: Matrix) -> Matrix:
        """Draw the score of an arm of a study, such as the full runs, for figures that are no sums of scores.

        Within each draw of the problems, the seeds are drawn with replacement. With m seeds such a draw has only
        (m − 1)/m of their variance; deviations from the mean over seeds are therefore stretched by sqrt(m/(m − 1))
        (Rao and Wu 1988, JASA 83:231–241).

        Args:
            runs: each run's mean by problem, shape (seeds, problems).

        Returns:
            Shape (resamples,).
        """
        by_seed = self._weights @ runs.T
        seeds = runs.shape[0]
        if seeds == 1:
            return by_seed[:, 0]
        drawn = self._generator.integers(seeds, size=(self._resamples, seeds))
        center = by_seed.mean(axis=1)
        deviation = np.take_along_axis(by_seed, drawn, axis=1).mean(axis=1) - center
        stretched: Matrix = center + math.sqrt(seeds / (seeds - 1)) * deviation
        return stretched

    def arm(self, runs: Matrix) -> ArmScore:
        """The score of an arm and what makes it unsure.

        Args:
            runs: each run's mean by problem, shape (seeds, problems).
        """
        seeds, problems = runs.shape
        by_seed = [self.sets.score(run) for run in runs]
        return ArmScore(
            value=self.sets.score(runs),
            draws=self._weights @ runs.mean(axis=0),
            problems=problems,
            seeds=seeds,
            between=float(np.var(by_seed, ddof=1)) / seeds if seeds > 1 else 0.0,
            residual=self.sets.residual(runs) / seeds if seeds > 1 else 0.0,
        )

    def around(self, found: Contrast) -> Interval:
        """The interval of a weighted sum of arms' scores."""
        reach = found.reach(self.confidence)
        return Interval(found.value, found.value - reach, found.value + reach)

    def interval(self, value: float, draws: Matrix) -> Interval:
        """The percentile interval of the draws around a figure."""
        low, high = np.quantile(draws, self._tails)
        return Interval(value, float(low), float(high))


@dataclass(frozen=True)
class Scan:
    """A study's contributions on one split.

    Attributes:
        base: S_base and its interval.
        full: S_full and its interval.
        gain: S_full − S_base and its interval.
        scores: S_k and its interval, by layer or baseline.
        contributions: C(k), or a baseline's share of the gain; None where the gain is not clearly above zero.
    """

    base: Interval
    full: Interval
    gain: Interval
    scores: dict[Arm, Interval]
    contributions: dict[Arm, Contribution | None]

    @property
    def defined(self) -> bool:
        """Whether the gain's interval lies above zero."""
        return self.gain.low > 0


def scan(base: Matrix, full: Matrix, arms: dict[Arm, Matrix], bootstrap: Bootstrap) -> Scan:
    """Estimate on one split every layer's contribution, and every baseline's share of the gain by the same formula.

    Args:
        base: the base's mean by problem, shape (1, problems).
        full: the full runs' means by problem, shape (seeds, problems).
        arms: each layer's or baseline's runs, shape (seeds, problems).
        bootstrap: the draws of the problems.
    """
    score_of = bootstrap.sets.score
    of_base, of_full = bootstrap.arm(base), bootstrap.arm(full)
    gain = bootstrap.around(contrast([(1.0, of_full), (-1.0, of_base)]))
    scores: dict[Arm, Interval] = {}
    contributions: dict[Arm, Contribution | None] = {}
    for arm, runs in arms.items():
        of_arm = bootstrap.arm(runs)
        scores[arm] = _score(of_arm, bootstrap)
        contributions[arm] = None
        if gain.low > 0:
            contributions[arm] = Contribution(
                _share(of_arm, of_base, of_full, bootstrap.confidence),
                tuple(contribution(score_of(one), of_base.value, of_full.value) for one in runs),
            )
    return Scan(
        base=_score(of_base, bootstrap),
        full=_score(of_full, bootstrap),
        gain=gain,
        scores=scores,
        contributions=contributions,
    )


def _score(arm: ArmScore, bootstrap: Bootstrap) -> Interval:
    """A score, with no end of its interval where no score can be."""
    found = bootstrap.around(contrast([(1.0, arm)]))
    return Interval(found.value, max(found.low, 0.0), min(found.high, 1.0))


def _share(arm: ArmScore, base: ArmScore, full: ArmScore, confidence: float) -> Interval:
    """C of an arm, with Fieller's interval; the gain's interval lies above zero."""
    (own, common), (_, gain) = np.cov(arm.draws - base.draws, full.draws - base.draws, ddof=0)

    def excess(share: float) -> float:
        """By how much the arm's distance from that share of the gain passes what chance explains."""
        shared = max(0.0, float(own - 2 * share * common + share**2 * gain))
        found = contrast([(1.0, arm), (share - 1, base), (-share, full)], shared)
        return abs(found.value) - found.reach(confidence)

    value = contribution(arm.value, base.value, full.value)
    reach = -excess(value)
    if reach <= 0:  # nothing varies
        return Interval(value, value, value)
    return Interval(value, *(_crossing(excess, value, side * reach / (full.value - base.value)) for side in (-1, 1)))


def _crossing(function: Callable[[float], float], start: float, step: float) -> float:
    """Where a function that is negative at the start and positive far off, towards the step, is zero."""
    while function(start + step) < 0:
        step *= 2
    return float(brentq(function, start, start + step))


def contribution(score: float, base: float, full: float) -> float:
    """C of one score. Raises ZeroDivisionError where full equals base."""
    return (score - base) / (full - base)


def deviation(figures: Sequence[float]) -> float | None:
    """The standard deviation over seeds, unbiased in its square (n − 1); None of a single one."""
    return float(np.std(figures, ddof=1)) if len(figures) > 1 else None


def relative_depth(layer: int, layers: int) -> float:
    """Where a layer stands between the first (0) and the last (1): k / (L − 1); 0 in a model of one layer."""
    return layer / (layers - 1) if layers > 1 else 0.0


def ranked(figures: dict[int, float]) -> list[int]:
    """Layers from the highest figure to the lowest; of equal ones, the lower layer first."""
    return sorted(figures, key=lambda layer: (-figures[layer], layer))


def middle_layers(layers: int, count: int) -> list[int]:
    """The middle-k layers: from ⌊L/2 − k/2⌋ up to but without ⌊L/2 + k/2⌋ (arXiv 2607.01232, strategies)."""
    return list(range(math.floor(layers / 2 - count / 2), math.floor(layers / 2 + count / 2)))
