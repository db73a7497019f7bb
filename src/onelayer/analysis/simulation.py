"""Studies with a known truth: what the estimators are held against.

On the scale of log-odds, a run of arm k with seed s answers problem j rightly with the chance

    logit p = level + difficulty_j                                                             (base)
    logit p = level + shift_k + difficulty_j + item_j + fit_kj + luck_ks + fate_ksj            (a trained run)

and answers k times: item_j is what training as such does to a problem, fit_kj what this arm does to it, luck_ks what
the seed does to all problems, fate_ksj to one (crossed random effects, as answers to items are commonly described;
Baayen, Davidson and Bates 2008, Journal of Memory and Language 59:390–412). All but level and shift are normal. The
score of an arm over all problems and seeds there could be is so known by Gauss–Hermite quadrature, and shift_k is
chosen to give C(k) the value wanted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

from onelayer.analysis.problem_sets import Matrix

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(81)


@dataclass(frozen=True)
class Design:
    """How studies are made.

    Attributes:
        contributions: C of every layer.
        problems: of each split.
        seeds: runs of full training and of every layer.
        samples: answers a problem.
        base: S_base.
        full: S_full.
        difficulty: standard deviation over problems, in log-odds, as are all below.
        item: what training does to a problem, alike in all arms.
        fit: what an arm does to a problem, alike in all its seeds.
        luck: what a seed does to all problems.
        fate: what a seed does to one problem.
    """

    contributions: tuple[float, ...]
    problems: int = 300
    seeds: int = 3
    samples: int = 4
    base: float = 0.45
    full: float = 0.7
    difficulty: float = 1.5
    item: float = 0.5
    fit: float = 0.3
    luck: float = 0.08
    fate: float = 0.5

    @property
    def level(self) -> float:
        """Of the base, in log-odds."""
        return _level(self.base, self.difficulty)

    @property
    def shifts(self) -> dict[int | str, float]:
        """How far every arm lies above the base, in log-odds."""
        spread = math.hypot(self.difficulty, self.item, self.fit, self.luck, self.fate)
        scores: dict[int | str, float] = {"full": self.full}
        scores |= {k: self.base + c * (self.full - self.base) for k, c in enumerate(self.contributions)}
        return {arm: _level(score, spread) - self.level for arm, score in scores.items()}


@dataclass(frozen=True)
class SimulatedSplit:
    """One split of a study: means by problem, the base's of shape (1, problems), the others' (seeds, problems)."""

    base: Matrix
    full: Matrix
    layers: dict[int, Matrix]


def simulate(
    design: Design, generator: np.random.Generator, splits: Sequence[str] = ("select", "report")
) -> dict[str, SimulatedSplit]:
    """Make one study. Its runs are the same on every split, so a seed's luck is too; the problems are others."""
    shifts = design.shifts
    luck = {arm: generator.normal(0, design.luck, (design.seeds, 1)) for arm in shifts}
    return {split: _answers(design, shifts, luck, *_problems(design, shifts, generator), generator) for split in splits}


def repeats(design: Design, generator: np.random.Generator) -> list[SimulatedSplit]:
    """Make one split of a study twice: the same problems and all that they bring, with other seeds and answers."""
    shifts = design.shifts
    problems = _problems(design, shifts, generator)
    both = [{arm: generator.normal(0, design.luck, (design.seeds, 1)) for arm in shifts} for _ in range(2)]
    return [_answers(design, shifts, luck, *problems, generator) for luck in both]


def _problems(
    design: Design, arms: Iterable[int | str], generator: np.random.Generator
) -> tuple[Matrix, Matrix, dict[int | str, Matrix]]:
    """Difficulty, item and fit."""
    size = design.problems
    difficulty, item = generator.normal(0, design.difficulty, size), generator.normal(0, design.item, size)
    return difficulty, item, {arm: generator.normal(0, design.fit, size) for arm in arms}


def _answers(
    design: Design,
    shifts: dict[int | str, float],
    luck: dict[int | str, Matrix],
    difficulty: Matrix,
    item: Matrix,
    fit: dict[int | str, Matrix],
    generator: np.random.Generator,
) -> SimulatedSplit:
    def answered(logit: Matrix) -> Matrix:
        return generator.binomial(design.samples, expit(logit)) / design.samples

    shape = (design.seeds, design.problems)
    runs = {
        arm: answered(
            design.level + shift + difficulty + item + fit[arm] + luck[arm] + generator.normal(0, design.fate, shape)
        )
        for arm, shift in shifts.items()
    }
    return SimulatedSplit(
        base=answered(design.level + difficulty)[None],
        full=runs["full"],
        layers={arm: means for arm, means in runs.items() if isinstance(arm, int)},
    )


@cache
def _level(score: float, spread: float) -> float:
    """The log-odds about which chances of that spread have that mean."""

    def excess(level: float) -> float:
        return float(expit(level + spread * _NODES) @ _WEIGHTS / _WEIGHTS.sum()) - score

    return float(brentq(excess, -30, 30))
