"""How sure a weighted sum of arms' scores is, such as S_k − S_full, from two or three seeds.

Of an arm of m seeds, a run's score is the mean over the problems, and the arm's score the mean over its runs. Two
things would differ were the study made anew:

- the problems. They are shared by all arms, so the sum is drawn as one: V_P is the variance of the sum, each arm at its
  mean over seeds, over the bootstrap's draws of the problems. The sampling of answers, and what a seed does to one
  problem but not to all, is within it;
- the seeds, of each arm apart: s²/m, s² being the variance over the m runs' scores. It holds that last part once more,
  so r/m is taken off, r being the residual mean square of the table of seeds by problems over the number of problems
  (the variance components of a crossed design; Searle, Casella and McCulloch 1992, *Variance Components*, chapter 4).
  What is left is never taken as less than 0, over the arms together.

    V = V_P + max(0, Σ_a c_a² (s_a² − r_a)/m_a)
    ν = V² / (V_P²/(n − 1) + Σ_a (c_a² s_a²/m_a)²/(m_a − 1))

The sum over √V is taken as t-distributed with ν degrees of freedom (Satterthwaite 1946, Biometrics Bulletin 2:110–114;
Welch 1947, Biometrika 34:28–35). An arm of one seed has nothing to say of seeds and adds nothing to V and ν.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr, stdtrit

from onelayer.analysis.problem_sets import Matrix

# Scores lie between 0 and 1: what differs by less does not differ.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class ArmScore:
    """The score of an arm, and what makes it unsure.

    Attributes:
        value: the mean of its runs' scores.
        draws: that mean in every draw of the problems, shape (resamples,).
        problems: how many there are.
        seeds: how many runs.
        between: s²/m, of the runs' scores; 0 of one run.
        residual: r/m; 0 of one run.
    """

    value: float
    draws: Matrix
    problems: int
    seeds: int
    between: float
    residual: float


@dataclass(frozen=True)
class Contrast:
    """A weighted sum of arms' scores, its variance, and how many degrees of freedom that variance rests on."""

    value: float
    variance: float
    freedom: float

    @property
    def _fixed(self) -> bool:
        """Whether nothing varies, but for the last bits of sums in another order."""
        return self.variance < _ROUNDING**2

    @property
    def p(self) -> float:
        """Two-sided, of the true sum being 0."""
        if self._fixed:
            return 1.0 if abs(self.value) < _ROUNDING else 0.0
        return float(2 * stdtr(self.freedom, -abs(self.value) / math.sqrt(self.variance)))

    def reach(self, confidence: float) -> float:
        """How far the interval reaches to either side."""
        if self._fixed:
            return 0.0
        return float(stdtrit(self.freedom, (1 + confidence) / 2)) * math.sqrt(self.variance)


def contrast(terms: Sequence[tuple[float, ArmScore]], shared: float | None = None) -> Contrast:
    """Add up arms' scores.

    Args:
        terms: each arm once, with its weight; all from one bootstrap.
        shared: V_P, where it is known already.
    """
    problems = terms[0][1].problems
    if shared is None:
        shared = float(np.var(np.sum([weight * arm.draws for weight, arm in terms], axis=0)))
    between = [weight**2 * arm.between for weight, arm in terms]
    residual = [weight**2 * arm.residual for weight, arm in terms]
    variance = shared + max(0.0, math.fsum(between) - math.fsum(residual))
    below = math.fsum(
        part**2 / (count - 1)
        for part, count in [(shared, problems), *zip(between, (arm.seeds for _, arm in terms), strict=True)]
        if part > 0 and count > 1  # of one there is only what rounding leaves
    )
    value = math.fsum(weight * arm.value for weight, arm in terms)
    return Contrast(
        value if abs(value) >= _ROUNDING else 0.0,
        variance,
        variance**2 / below if below > 0 else math.inf,
    )
