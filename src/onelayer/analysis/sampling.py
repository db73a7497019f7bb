"""What k samples a problem say: avg@k, pass@k and maj@k of a benchmark, each with its standard error.

Problems are taken as a sample of all the problems a benchmark could have held, and the samples of one problem belong
together. So the standard error of a mean over problems is the standard deviation of the problems' own figures over the
square root of their number: the standard error clustered by problem (Miller 2024, *Adding error bars to evals*, arXiv
2411.00640, section 2.2), with the n − 1 of an unbiased variance. One problem has no such error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pandas as pd


@dataclass(frozen=True)
class Estimate:
    """A mean over problems with its standard error; the error is None where one problem cannot tell."""

    value: float
    se: float | None


def over_problems(figures: Sequence[float] | npt.NDArray[np.float64]) -> Estimate:
    """The mean of one figure a problem, and its standard error s / √n. Raises ValueError where there is no problem."""
    values = np.asarray(figures, dtype=np.float64)
    if not len(values):
        raise ValueError("expected at least one problem")
    # Equal figures have no deviation at all; what rounding leaves of it would only look like one.
    spread = 0.0 if np.ptp(values) == 0 else float(values.std(ddof=1)) if len(values) > 1 else 0.0
    return Estimate(float(values.mean()), spread / math.sqrt(len(values)) if len(values) > 1 else None)


def avg_at_k(outcomes: Sequence[Sequence[bool]]) -> Estimate:
    """avg@k: the mean over problems of the share of right samples; ``outcomes`` holds one list of samples a problem."""
    return over_problems([sum(samples) / len(samples) for samples in outcomes])


def sampling_error(outcomes: Sequence[Sequence[bool]]) -> float | None:
    """The standard error of avg@k that the draw of the samples alone brings, the problems being these and no others.

    √(Σ p (1 − p) / (k − 1)) / n with p the share of right ones among a problem's k samples: the within-cluster part of
    the variance (Miller 2024, section 3.1). None where some problem has one sample.
    """
    variance = 0.0
    for samples in outcomes:
        if len(samples) < 2:
            return None
        share = sum(samples) / len(samples)
        variance += share * (1 - share) / (len(samples) - 1)
    return math.sqrt(variance) / len(outcomes)


def pass_at_k(outcomes: Sequence[Sequence[bool]], k: int) -> Estimate:
    """pass@k, unbiased: the mean over problems of 1 − C(n − c, k) / C(n, k), c of a problem's n samples being right.

    (Chen et al. 2021, *Evaluating large language models trained on code*, arXiv 2107.03374, equation 1.)
    Raises ValueError where a problem has fewer than k samples.
    """
    _enough(outcomes, k)
    return over_problems(pass_chances(np.array([sum(one) for one in outcomes]), np.array([*map(len, outcomes)]), k))


def pass_chances(right: npt.NDArray[np.int64], samples: npt.NDArray[np.int64], k: int) -> npt.NDArray[np.float64]:
    """pass@k of each problem: of all choices of k of its samples, the share that hold a right one.

    Args:
        right: how many of a problem's samples are right, shape (problems,).
        samples: how many it has, k or more, shape (problems,).
        k: how many are chosen.
    """
    drawn = np.arange(k)[:, None]
    none_right: npt.NDArray[np.float64] = np.prod(np.maximum(samples - right - drawn, 0) / (samples - drawn), axis=0)
    return 1 - none_right


def maj_at_k(outcomes: Sequence[Sequence[bool]], answers: Sequence[Sequence[str | None]], k: int) -> Estimate:
    """maj@k: the chance that the commonest answer of k samples is right, the mean over problems.

    Of a problem's n samples, every choice of k counts alike (its exact expectation, not a draw). Answers vote by their
    extracted text; of equally common ones each is taken with the same chance. A sample in which no answer was found
    takes its place among the k and votes for nothing; where none of the k has an answer the vote is lost.

    Args:
        outcomes: whether each sample is right, one list a problem.
        answers: the extracted answer of each, None where there is none, in the same order.
        k: how many vote.

    Raises ValueError where a problem has fewer than k samples.
    """
    return over_problems(majority_chances(outcomes, answers, k))


def majority_chances(
    outcomes: Sequence[Sequence[bool]], answers: Sequence[Sequence[str | int | None]], k: int
) -> list[float]:
    """maj@k of each problem. Arguments and errors as of `maj_at_k`."""
    _enough(outcomes, k)
    return [_chance_of_majority(right, texts, k) for right, texts in zip(outcomes, answers, strict=True)]


def _chance_of_majority(outcomes: Sequence[bool], answers: Sequence[str | int | None], k: int) -> float:
    groups: dict[str | int, list[bool]] = {}
    for right, text in zip(outcomes, answers, strict=True):
        if text is not None:
            groups.setdefault(text, []).append(right)
    # The order of the groups is irrelevant: many problems are one case.
    cases = tuple(sorted((len(members), sum(members)) for members in groups.values()))
    return _chance_in_case(cases, len(outcomes), k)


@lru_cache(maxsize=4096)
def _chance_in_case(groups: tuple[tuple[int, int], ...], samples: int, k: int) -> float:
    """The chance for one problem, by counting the choices of k samples in which a right answer is (jointly) on top.

    For each height v of the top, groups of equal answers are added one by one to a table over (samples chosen so far,
    groups that reach v): how many choices there are, and the sum over them of the credits of the groups at v.

    Args:
        groups: of each different answer, how many samples gave it and how many of them are right.
        samples: how many there are, those without an answer among them.
        k: how many vote.
    """
    silent = samples - sum(size for size, _ in groups)
    won = 0.0
    for top in range(1, min(k, max((size for size, _ in groups), default=0)) + 1):
        most = k // top
        choices = np.zeros((k + 1, most + 1))
        credits = np.zeros_like(choices)
        choices[0, 0] = 1
        for size, right in groups:
            # Equal texts are judged alike; were they not (a judge that runs a program, say), one is taken at random.
            credit = right / size
            before, before_credits = choices, credits
            choices, credits = np.zeros_like(before), np.zeros_like(before)
            for taken in range(min(size, top) + 1):
                ways = math.comb(size, taken)
                reaches = taken == top
                from_, to = slice(0, k + 1 - taken), slice(taken, k + 1)
                ties, onto = slice(0, most + 1 - reaches), slice(int(reaches), most + 1)
                choices[to, onto] += ways * before[from_, ties]
                credits[to, onto] += ways * before_credits[from_, ties]
                if reaches:
                    credits[to, onto] += ways * credit * before[from_, ties]
        for chosen in range(top, k + 1):
            rest = math.comb(silent, k - chosen)
            won += rest * sum(credits[chosen, tied] / tied for tied in range(1, most + 1))
    return won / math.comb(samples, k)


def _enough(outcomes: Sequence[Sequence[bool]], k: int) -> None:
    fewest = min(map(len, outcomes))
    if not 1 <= k <= fewest:
        raise ValueError(f"expected k between 1 and the fewest samples of a problem, {fewest}, found {k}")


def describe(records: pd.DataFrame) -> dict[str, object]:
    """The figures of one benchmark's records: avg@k, and pass@k and maj@k for k of 1, 2, 4, … and all samples.

    ``k`` is the fewest judged samples of a problem: a sample whose judgement broke counts for nothing, as in the
    score. Raises ValueError where every sample of some problem broke.
    """
    problems = [part for _, part in records.groupby("problem", sort=True)]
    judged = [part[part["status"] != "broken"] for part in problems]
    lost = [part["problem"].iloc[0] for part, kept in zip(problems, judged, strict=True) if not len(kept)]
    if lost:
        raise ValueError(f"the judgement of every sample of problem {lost[0]} broke ({len(lost)} such problems)")
    outcomes = [part["correct"].astype(bool).tolist() for part in judged]
    answers = [part["extracted"].astype(object).where(part["extracted"].notna(), None).tolist() for part in judged]
    score, fewest = avg_at_k(outcomes), min(map(len, outcomes))
    sizes = sorted({fewest, *(2**power for power in range(fewest.bit_length()) if 2**power <= fewest)})
    return {
        "score": score.value,
        "se": score.se,
        "sampling_se": sampling_error(outcomes),
        "problems": len(problems),
        "k": fewest,
        "pass": {str(k): _as_json(pass_at_k(outcomes, k)) for k in sizes},
        "maj": {str(k): _as_json(maj_at_k(outcomes, answers, k)) for k in sizes},
        "clipped": float(records["clipped"].mean()),
        "unparsed": float(records["extracted"].isna().mean()),
        "mean_tokens": float(records["tokens"].mean()),
        **{status: float((records["status"] == status).mean()) for status in ("timeout", "crashed", "broken")},
    }


def _as_json(estimate: Estimate) -> dict[str, float | None]:
    return {"value": estimate.value, "se": estimate.se}
