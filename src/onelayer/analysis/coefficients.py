"""How alike two profiles of layers are: correlation coefficients, over many draws at once, and their p-values.

A profile is one figure a layer. Every coefficient here is blind to a rising straight-line change of either side, and
C(k) is one of S_k wherever the gain is positive: the coefficients of contributions are therefore those of scores.

- ``spearman`` (Spearman 1904), ``kendall`` (tau-b, Kendall 1945) and ``pearson`` (Pearson 1896);
- ``partial_spearman`` and ``partial_pearson``: the same once a covariate is removed from both sides, which is the
  partial correlation (Fisher 1924, *The distribution of the partial correlation coefficient*);
- ``permutation_p`` and ``partial_p``: how often layers in an order at random would agree, or disagree, as much.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import permutations
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata

from onelayer.analysis.problem_sets import Matrix

# A coefficient of two arrays of profiles, along their last axis.
Measure: TypeAlias = Callable[[Matrix, Matrix], Matrix]

# Up to 8 layers every order is counted (8! = 40320); beyond, as many are drawn.
_ORDERS = 40320
# So many orders at a time, for Kendall's pairs of 80 layers would fill the memory.
_CHUNK = 1000
# Figures that differ by less are ties: sums in another order differ in their last bits.
_DECIMALS = 12
# What is left of ranks or scores once a straight line through them is removed is no figure below this.
_LEFT = 1e-9
# The fewest layers that leave a partial correlation more than one direction to lie in; of one it is always 1 or −1.
FEWEST_FOR_PARTIAL = 5


def spearman(first: Matrix, second: Matrix) -> Matrix:
    """Correlate the ranks along the last axis; 0 where one side is all ties, for it ranks nothing.

    Args:
        first: figures of shape (..., layers).
        second: figures of the same shape.

    Returns:
        Shape (...).
    """
    return _cosine(ranks(first), ranks(second))


def kendall(first: Matrix, second: Matrix) -> Matrix:
    """Tau-b along the last axis: the cosine of the signs of all pairs' differences. As ``spearman`` else."""
    return _cosine(_signs(first), _signs(second))


def pearson(first: Matrix, second: Matrix) -> Matrix:
    """Pearson's r along the last axis: the cosine of the figures less their means. As ``spearman`` else."""
    return _cosine(_centered(first), _centered(second))


def hump(depths: Matrix) -> Matrix:
    """The covariates that stand for depth: 1, d and d².

    Profiles tend to rise and fall again with depth. A straight line through such a hump is flat and would remove
    nothing of it; a parabola is the simplest curve that does.

    Args:
        depths: relative depth of each layer, shape (layers,).

    Returns:
        Shape (layers, 3).
    """
    covariates: Matrix = np.stack([np.ones_like(depths), depths, depths * depths], axis=1)
    return covariates


def removed(figures: Matrix, covariates: Matrix) -> Matrix:
    """What a least-squares fit of the covariates leaves of each profile.

    Args:
        figures: shape (..., layers).
        covariates: shape (layers, covariates), the constant among them.

    Returns:
        The shape of ``figures``; exactly zero where the fit leaves nothing but rounding.
    """
    basis, _ = np.linalg.qr(covariates)
    left: Matrix = figures - (figures @ basis) @ basis.T
    scale = np.sqrt((figures * figures).sum(axis=-1, keepdims=True))
    left[np.broadcast_to(np.sqrt((left * left).sum(axis=-1, keepdims=True)) <= _LEFT * scale, left.shape)] = 0.0
    return left


def partial_pearson(first: Matrix, second: Matrix, covariates: Matrix) -> Matrix:
    """Pearson's r of what the covariates leave of both sides; 0 where they leave nothing of one.

    Args:
        first: figures of shape (..., layers).
        second: figures of the same shape.
        covariates: shape (layers, covariates), such as ``hump``.
    """
    return _cosine(removed(_centered(first), covariates), removed(_centered(second), covariates))


def partial_spearman(first: Matrix, second: Matrix, covariates: Matrix) -> Matrix:
    """As ``partial_pearson``, of the ranks; the covariates stay as they are."""
    return _cosine(removed(ranks(first), covariates), removed(ranks(second), covariates))


def permutation_p(first: Matrix, second: Matrix, seed: int, measure: Measure = spearman) -> float:
    """The two-sided p-value of a coefficient were every order of the layers equally likely.

    The share of all orders whose coefficient is as far from zero; beyond 8 layers of drawn orders, the one found
    counted among them (Phipson and Smyth 2010).

    Args:
        first: figures of shape (layers,).
        second: figures of the same shape.
        seed: of the drawn orders.
        measure: the coefficient.
    """
    if measure in (spearman, pearson):  # figures in another order have their ranks and means in that order
        prepare = ranks if measure is spearman else _centered
        first, second, measure = prepare(first), prepare(second), _cosine
    orders = random_orders(len(first), _ORDERS, seed)
    found = abs(float(measure(first, second))) - 10.0**-_DECIMALS  # equal ones are equal, whatever their last bits
    as_far = 0
    for start in range(0, len(orders), _CHUNK):
        chosen = second[orders[start : start + _CHUNK]]
        as_far += int((np.abs(measure(np.broadcast_to(first, chosen.shape), chosen)) >= found).sum())
    if math.factorial(len(first)) <= _ORDERS:
        return as_far / len(orders)
    return (1 + as_far) / (1 + len(orders))


def partial_p(first: Matrix, second: Matrix, covariates: Matrix, seed: int) -> float:
    """The two-sided p-value of a partial correlation: what the covariates leave of one side is put in every order.

    (Freedman and Lane 1983, *A nonstochastic interpretation of reported significance levels*.) After each order the
    covariates are removed again. The counting is that of ``permutation_p``.

    Args:
        first: figures of shape (layers,), or, for the ranks' partial correlation, their ``ranks``.
        second: figures of the same shape.
        covariates: shape (layers, covariates).
        seed: of the drawn orders.
    """

    def again(one: Matrix, other: Matrix) -> Matrix:
        return _cosine(removed(one, covariates), removed(other, covariates))

    left = removed(_centered(first), covariates), removed(_centered(second), covariates)
    return permutation_p(*left, seed, again)


def random_orders(count: int, most: int, seed: int) -> npt.NDArray[np.int64]:
    """Every order of ``count`` things, or ``most`` random ones where there are more; shape (orders, count)."""
    if math.factorial(count) <= most:
        return np.array(list(permutations(range(count))), dtype=np.int64)
    generator = np.random.Generator(np.random.Philox(seed))
    return generator.permuted(np.tile(np.arange(count, dtype=np.int64), (most, 1)), axis=1)


def all_tied(figures: Matrix) -> bool:
    """Whether all figures are the same, so that there is no ranking and no correlation."""
    return bool(np.ptp(_rounded(figures)) == 0)


def ranks(figures: Matrix) -> Matrix:
    """Twice the ranks along the last axis, less their mean: whole numbers, ties or not."""
    found: Matrix = 2 * rankdata(_rounded(figures), axis=-1) - (figures.shape[-1] + 1)
    return found


def _rounded(figures: Matrix) -> Matrix:
    return np.round(figures, _DECIMALS)


def _centered(figures: Matrix) -> Matrix:
    """Less their mean; exactly zero where all are the same but for rounding."""
    centered: Matrix = figures - figures.mean(axis=-1, keepdims=True)
    return np.where(np.ptp(_rounded(figures), axis=-1, keepdims=True) == 0, 0.0, centered)


def _signs(figures: Matrix) -> Matrix:
    rounded = _rounded(figures)
    lower, upper = np.triu_indices(figures.shape[-1], 1)
    signs: Matrix = np.sign(rounded[..., upper] - rounded[..., lower])
    return signs


def _cosine(first: Matrix, second: Matrix) -> Matrix:
    length = np.sqrt((first * first).sum(axis=-1) * (second * second).sum(axis=-1))
    product = np.asarray((first * second).sum(axis=-1))
    cosine: Matrix = np.divide(product, length, out=np.zeros_like(product), where=length > 0)
    return np.clip(cosine, -1.0, 1.0)
