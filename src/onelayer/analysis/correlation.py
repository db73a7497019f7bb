"""Whether two studies rank the layers alike, and how sure that is.

C(k) rises with S_k wherever the gain is positive, and a correlation is only asked for where it is clearly so.
The ranks of a study's contributions are therefore the ranks of its layers' scores, in the data and in every
draw; base and full need not be drawn. Ties share the mean of their ranks.

- ``spearman`` (Spearman 1904) and ``kendall`` (tau-b, Kendall 1945), over many draws at once;
- ``correlate`` puts intervals on both: every study draws its problems and seeds anew (`Bootstrap.scores`);
- ``permutation_p``: how often an order of the layers at random would agree, or disagree, as much;
- ``reliability``: how far a study's ranking would agree with a repeat of itself. Two studies that share one
  true ranking cannot be expected to agree better than the mean of their reliabilities (the geometric one;
  Spearman's attenuation, 1904), so a correlation means little without it.

docs/method.md, "Rank correlation between studies", says what the figures do not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata

from onelayer.analysis.contribution import Bootstrap, Interval
from onelayer.analysis.problem_sets import Matrix, ProblemSets
from onelayer.seeds import derive_seed

# Up to 8 layers every order is counted (8! = 40320); beyond, as many are drawn.
_ORDERS = 40320
# Up to 5 seeds every halving is counted (5! = 120 orders); beyond, and for problems, as many are drawn.
_HALVINGS = 120
# Scores that differ by less are ties: sums in another order differ in their last bits.
_DECIMALS = 12


@dataclass(frozen=True)
class Ranking:
    """What a study's records say of its layers.

    Attributes:
        study: the study's name.
        seed: the study's own seed, which its runs' random draws derive from.
        seeds: the repeats of every layer.
        problems: (id, prompt) of every problem, in the order of the runs' columns.
        runs: each layer's means by problem, shape (seeds, problems).
    """

    study: str
    seed: int
    seeds: tuple[int, ...]
    problems: tuple[tuple[str, str], ...]
    runs: dict[int, Matrix]

    @property
    def sets(self) -> ProblemSets:
        """The sets of the problems."""
        return ProblemSets.of_ids([problem for problem, _ in self.problems])

    def scores(self, layers: Sequence[int]) -> Matrix:
        """S_k of the layers, shape (layers,)."""
        return np.array([self.sets.score(self.runs[layer]) for layer in layers])

    def ties(self, layers: Sequence[int]) -> bool:
        """Whether all these layers score alike, so that there is no ranking."""
        return bool(np.ptp(np.round(self.scores(layers), _DECIMALS)) == 0)


@dataclass(frozen=True)
class Correlation:
    """How far two studies rank the layers alike.

    Attributes:
        spearman: rho, with its interval.
        kendall: tau-b, with its interval.
        p: two-sided, of rho, were the layers exchangeable.
        reliability: by study, of its own ranking; None where there is nothing to halve.
    """

    spearman: Interval
    kendall: Interval
    p: float
    reliability: dict[str, float | None]

    @property
    def ceiling(self) -> float | None:
        """What rho to expect of two studies with one true ranking and this much noise."""
        found = [one for one in self.reliability.values() if one is not None]
        return None if len(found) < len(self.reliability) else math.prod(found) ** (1 / len(found))


def correlate(first: Ranking, second: Ranking, layers: Sequence[int], resamples: int, confidence: float) -> Correlation:
    """Correlate two studies' rankings of the layers that both hold. The order of the two is irrelevant.

    Args:
        first: a study.
        second: another one.
        layers: the shared layers, ascending; in neither study all alike (``Ranking.ties``).
        resamples: how many draws.
        confidence: the share of draws inside an interval.
    """
    first, second = sorted((first, second), key=lambda ranking: ranking.study)
    names = (first.study, second.study)
    bootstraps = _bootstraps(first, second, resamples, confidence)
    drawn = [_draws(ranking, layers, one) for ranking, one in zip((first, second), bootstraps, strict=True)]
    scores = first.scores(layers), second.scores(layers)
    interval = bootstraps[0].interval
    return Correlation(
        spearman=interval(float(spearman(*scores)), spearman(*drawn)),
        kendall=interval(float(kendall(*scores)), kendall(*drawn)),
        p=permutation_p(*scores, derive_seed(*names, "permutation")),
        reliability={
            one.study: reliability(
                one.sets.equalized(np.stack([one.runs[layer] for layer in layers])),
                derive_seed(one.seed, one.study, "halves"),
            )
            for one in (first, second)
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


def spearman(first: Matrix, second: Matrix) -> Matrix:
    """Correlate the ranks along the last axis; 0 where one side is all ties, for it ranks nothing.

    Args:
        first: figures of shape (..., layers).
        second: figures of the same shape.

    Returns:
        Shape (...).
    """
    return _cosine(_ranks(first), _ranks(second))


def kendall(first: Matrix, second: Matrix) -> Matrix:
    """Tau-b along the last axis: the cosine of the signs of all pairs' differences. As ``spearman`` else."""
    return _cosine(_signs(first), _signs(second))


def permutation_p(first: Matrix, second: Matrix, seed: int) -> float:
    """The two-sided p-value of rho were every order of the layers equally likely.

    The share of all orders whose rho is as far from zero; beyond 8 layers of drawn orders, the one found
    counted among them (Phipson and Smyth 2010).

    Args:
        first: figures of shape (layers,).
        second: figures of the same shape.
        seed: of the drawn orders.
    """
    one, other = _ranks(first), _ranks(second)
    orders = _orders(len(one), _ORDERS, seed)
    as_far = np.abs(other[orders] @ one) >= abs(other @ one)  # whole numbers: equal ones are equal
    if math.factorial(len(one)) <= _ORDERS:
        return float(as_far.mean())
    return float((1 + as_far.sum()) / (1 + len(orders)))


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
    orders = _orders(whole, _HALVINGS, seed)
    one, other = (parts[:, chosen].mean(axis=2).T for chosen in (orders[:, :half], orders[:, half : 2 * half]))
    found = max(float(spearman(one, other).mean()), 0.0)
    step = whole / half
    return step * found / (1 + (step - 1) * found)


def _orders(count: int, most: int, seed: int) -> npt.NDArray[np.int64]:
    """Every order of ``count`` things, or ``most`` random ones where there are more; shape (orders, count)."""
    if math.factorial(count) <= most:
        return np.array(list(permutations(range(count))), dtype=np.int64)
    generator = np.random.Generator(np.random.Philox(seed))
    return generator.permuted(np.tile(np.arange(count, dtype=np.int64), (most, 1)), axis=1)


def _ranks(figures: Matrix) -> Matrix:
    """Twice the ranks, less their mean: whole numbers, ties or not."""
    ranks: Matrix = 2 * rankdata(np.round(figures, _DECIMALS), axis=-1) - (figures.shape[-1] + 1)
    return ranks


def _signs(figures: Matrix) -> Matrix:
    rounded = np.round(figures, _DECIMALS)
    lower, upper = np.triu_indices(figures.shape[-1], 1)
    signs: Matrix = np.sign(rounded[..., upper] - rounded[..., lower])
    return signs


def _cosine(first: Matrix, second: Matrix) -> Matrix:
    length = np.sqrt((first * first).sum(axis=-1) * (second * second).sum(axis=-1))
    product = np.asarray((first * second).sum(axis=-1))
    cosine: Matrix = np.divide(product, length, out=np.zeros_like(product), where=length > 0)
    return cosine
