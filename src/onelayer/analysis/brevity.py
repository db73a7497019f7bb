"""Whether a gain is only shorter answers: what of it can be told from lengths and cut-off answers.

Where the base runs into the token limit, brevity alone lifts the score. With the answers in classes c, q_c the share of
a class and a_c the share of right answers in it, a gain is the sum of two parts (Kitagawa 1955, JASA 50:1168–1194):

    Σ_c (q′_c − q_c) (a_c + a′_c)/2        that answers moved to other classes
    Σ_c (a′_c − a_c) (q_c + q′_c)/2        that within a class more are right

- ``fewer_cut_off``: the first part, of the two classes cut off and not;
- ``other_lengths``: the first part, of what was cut off and, of the rest, classes by length;
- ``never_cut_off``: the gain on the problems of which no answer of either side was cut off.

docs/method.md, "Behaviour", says what they do not show.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pandas as pd

from onelayer.analysis.contribution import Bootstrap
from onelayer.analysis.evidence import Evidence
from onelayer.analysis.problem_sets import Matrix, ProblemSets
from onelayer.grid import BASE, Run
from onelayer.seeds import derive_seed

Classes = npt.NDArray[np.int64]

WORLDS_REASON = "an episode that runs out of turns is lost, so its length is part of what is scored"
# Lengths in so many classes at most, by quantiles of both sides' answers together.
_LENGTHS = 10
_COLUMNS = ("problem", "decoding", "correct", "tokens", "clipped", "status")


@dataclass(frozen=True)
class Answers:
    """The judged samples of one side, shape (samples,) each.

    Attributes:
        problem: the column of the sample's problem.
        right: whether it is right.
        clipped: whether it was cut off.
        tokens: its length.
        weight: one over how many judged samples this side has of the problem.
    """

    problem: npt.NDArray[np.int64]
    right: npt.NDArray[np.bool_]
    clipped: npt.NDArray[np.bool_]
    tokens: npt.NDArray[np.int64]
    weight: Matrix

    @classmethod
    def of(cls, records: pd.DataFrame, problems: pd.Index) -> Self:
        """Take the judged samples of one split's records, which are of these problems."""
        judged = records[(records["decoding"] == "sample") & (records["status"] != "broken")]
        column = problems.get_indexer(pd.Index(judged["problem"])).astype(np.int64)
        return cls(
            column,
            judged["correct"].to_numpy(bool),
            judged["clipped"].to_numpy(bool),
            judged["tokens"].to_numpy(np.int64),
            1 / np.bincount(column, minlength=len(problems))[column],
        )

    def by_class(self, classes: Classes, count: int, problems: int) -> tuple[Matrix, Matrix]:
        """Each problem's share of samples in each class, and of right samples in it; shape (classes, problems) each."""
        place = classes * problems + self.problem
        weights = (self.weight, self.weight * self.right)
        summed = [np.bincount(place, weight, count * problems).astype(np.float64) for weight in weights]
        return summed[0].reshape(count, problems), summed[1].reshape(count, problems)


def brevity(evidence: Evidence, arms: dict[str, Sequence[Run]]) -> dict[str, Any]:
    """What of each arm's gain over the base on ``report`` can be told from lengths; a reason alone of episodes.

    The answers of all seeds are taken together, so the intervals cover the choice of problems alone.

    Args:
        evidence: what the runs left.
        arms: the runs of each, by name.
    """
    if evidence.study.is_agent:
        return {"reason": WORLDS_REASON, "arms": []}
    base = _answers(evidence, [BASE])
    return {"reason": None, "arms": [_row(evidence, name, runs, base) for name, runs in arms.items()]}


def _row(evidence: Evidence, name: str, runs: Sequence[Run], base: Answers) -> dict[str, Any]:
    problems = [str(problem) for problem in evidence.means["report"][BASE.name].index]
    bootstrap = _bootstrap(evidence, problems)
    trained = _answers(evidence, runs)
    sides = (base, trained)
    never = np.ones(len(problems), dtype=bool)
    for side in sides:
        never[side.problem[side.clipped]] = False
    kept = np.flatnonzero(never)
    of_those = None
    if len(kept) > 1:
        only = _bootstrap(evidence, [problems[column] for column in kept])
        before, after = (evidence.matrix("report", one)[:, kept] for one in ([BASE], runs))
        gain = only.scores(after) - only.scores(before)
        of_those = asdict(only.interval(only.sets.score(after) - only.sets.score(before), gain))
    lengths = length_classes(base, trained)
    whole = [_sums(side, np.zeros_like(side.problem), 1, len(problems), bootstrap) for side in sides]
    gains = [after - before for before, after in zip(whole[0][1], whole[1][1], strict=True)]
    return {
        "name": name,
        "clipped": {"base": float(base.clipped.mean()), name: float(trained.clipped.mean())},
        "gain": asdict(bootstrap.interval(float(gains[0].sum()), gains[1].sum(axis=1))),
        "fewer_cut_off": _moved(sides, [side.clipped.astype(np.int64) for side in sides], len(problems), bootstrap),
        "other_lengths": _moved(sides, lengths, len(problems), bootstrap),
        "never_cut_off": {"problems": len(kept), "gain": of_those},
    }


def _answers(evidence: Evidence, runs: Sequence[Run]) -> Answers:
    records = pd.concat([evidence.records(run, "report", _COLUMNS) for run in runs])
    return Answers.of(records, evidence.means["report"][BASE.name].index)


def _bootstrap(evidence: Evidence, problems: Sequence[str]) -> Bootstrap:
    settings = evidence.study.analysis
    seed = derive_seed(evidence.study.seed, "bootstrap", "brevity")
    return Bootstrap(ProblemSets.of_ids(problems), settings.resamples, settings.confidence, seed)


def length_classes(base: Answers, trained: Answers) -> list[Classes]:
    """Class 0 for what was cut off; the others by length, so that each holds about as many answers of both sides."""
    sides = (base, trained)
    ended = np.concatenate([side.tokens[~side.clipped] for side in sides])
    inner = np.quantile(ended, np.arange(1, _LENGTHS) / _LENGTHS) if len(ended) else np.zeros(0)
    edges = np.unique(np.floor(inner))
    return [np.where(side.clipped, 0, 1 + np.searchsorted(edges, side.tokens)) for side in sides]


def _moved(
    sides: Sequence[Answers], classes: Sequence[Classes], problems: int, bootstrap: Bootstrap
) -> dict[str, float]:
    """The part of the gain that answers moved between these classes, with its interval."""
    count = max(int(one.max(initial=0)) for one in classes) + 1
    before, after = (_sums(side, own, count, problems, bootstrap) for side, own in zip(sides, classes, strict=True))
    value = composition(before[0][0], before[1][0], after[0][0], after[1][0])
    draws = composition(before[0][1], before[1][1], after[0][1], after[1][1])
    return asdict(bootstrap.interval(float(value[0]), draws))


def _sums(
    side: Answers, classes: Classes, count: int, problems: int, bootstrap: Bootstrap
) -> tuple[tuple[Matrix, Matrix], tuple[Matrix, Matrix]]:
    """The shares of the classes and the shares of right answers in them: as found, shape (1, classes), and drawn."""
    shares, right = side.by_class(classes, count, problems)
    found = tuple(np.array([[bootstrap.sets.score(row) for row in part]]) for part in (shares, right))
    return (found[0], bootstrap.each(shares)), (found[1], bootstrap.each(right))


def composition(before: Matrix, right_before: Matrix, after: Matrix, right_after: Matrix) -> Matrix:
    """The part of a gain that answers moved between classes; shape (draws,).

    A class in which one side has no answer has the other side's share of right ones.

    Args:
        before: the share of the base's answers in each class, shape (draws, classes).
        right_before: the share of its answers that are in the class and right, same shape.
        after: as ``before``, after training.
        right_after: as ``right_before``, after training.
    """
    rates = [
        np.divide(right, share, out=np.full_like(right, np.nan), where=share > 0)
        for share, right in ((before, right_before), (after, right_after))
    ]
    known = [np.where(np.isnan(one), other, one) for one, other in (rates, rates[::-1])]
    moved: Matrix = ((after - before) * np.nan_to_num(known[0] + known[1]) / 2).sum(axis=1)
    return moved
