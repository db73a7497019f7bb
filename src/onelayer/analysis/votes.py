"""Votes: which answers count as equal, the ballots that runs cast, and what a vote over them gives.

Answers vote by their extracted text, written in one way where the domain has one: as its grader would call two equal
that are not the same text, as far as equality can be told from each by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from onelayer.analysis.evidence import Evidence
from onelayer.analysis.problem_sets import Matrix
from onelayer.config import Study
from onelayer.errors import UserError
from onelayer.grading.canonical import canonical
from onelayer.grading.numbers import number_value
from onelayer.grid import BASE, Run

# What a vote compares at once, voters by voters by problems: bounds its memory.
_AT_ONCE = 2**24
_COLUMNS = ("problem", "decoding", "sample", "extracted", "correct", "status")


@dataclass(frozen=True)
class Form:
    """How answers are written before they vote.

    Attributes:
        words: which answers count as equal, in words.
        of: the text that an extracted answer votes by.
    """

    words: str
    of: Callable[[str], str]


def form_of(study: Study) -> Form | str:
    """How a study's answers vote, or, in words, why they cannot."""
    if study.is_agent:
        return "an episode is won or lost and leaves no answer that another could agree with"
    if study.task.kind in ("code", "expressions"):
        return "two programs that do the same are rarely the same text, so they do not vote"
    match getattr(study.task, "grading", "exact"):
        case "math":
            return Form("answers vote as mathematics, written in one way (numbers by their exact value)", canonical)
        case "number":
            return Form("answers vote by the value of their final number", _number)
        case "choice":
            return Form("answers vote by their option's letter", str)
    return Form("answers vote by their extracted text", str)


def _number(text: str) -> str:
    value = number_value(text)
    return text if value is None else str(value)


@dataclass(frozen=True)
class Ballots:
    """What one run's samples on a split say, shape (problems, samples) each.

    Attributes:
        answers: a number for each different answer, the same in all runs read together; −1 where no answer was found
            or its judgement broke.
        right: whether the sample is right.
        judged: whether it was judged at all.
    """

    answers: npt.NDArray[np.int64]
    right: npt.NDArray[np.bool_]
    judged: npt.NDArray[np.bool_]

    @property
    def fewest(self) -> int:
        """The fewest judged samples of a problem."""
        return int(self.judged.sum(axis=1).min())


def read_ballots(evidence: Evidence, runs: Sequence[Run], split: str, form: Form | None) -> dict[str, Ballots]:
    """Read what the runs' samples say, by run.

    Args:
        evidence: what the runs left.
        runs: the runs.
        split: of whose problems.
        form: how answers vote; None where they do not (every ballot is then empty).

    Raises UserError where a run was not sampled as the base was.
    """
    problems = evidence.means[split][BASE.name].index
    numbers: dict[str, int] = {}
    return {run.name: _ballots(evidence.records(run, split, _COLUMNS), problems, form, numbers) for run in runs}


def _ballots(records: pd.DataFrame, problems: pd.Index, form: Form | None, numbers: dict[str, int]) -> Ballots:
    """One run's; ``numbers`` holds the answers met so far and takes the new ones."""
    sampled = records[records["decoding"] == "sample"].sort_values(["problem", "sample"], kind="stable")
    each = len(sampled) // len(problems)
    if len(sampled) != each * len(problems) or not (sampled["problem"].to_numpy()[::each] == problems).all():
        raise UserError(
            "records: expected every run to hold as many samples of the same problems; evaluate the study again"
            f" ({len(sampled)} samples of {len(problems)} problems)"
        )
    shape = (len(problems), each)
    judged = (sampled["status"] != "broken").to_numpy()
    answers = np.full(len(sampled), -1, dtype=np.int64)
    if form is not None:
        codes, texts = pd.factorize(sampled["extracted"])
        number = np.array([numbers.setdefault(form.of(text), len(numbers)) for text in texts], dtype=np.int64)
        votes = judged & (codes >= 0)
        answers[votes] = number[codes[votes]]
    return Ballots(answers.reshape(shape), sampled["correct"].to_numpy(bool).reshape(shape), judged.reshape(shape))


def vote(answers: npt.NDArray[np.int64], right: npt.NDArray[np.bool_], ranked: bool) -> Matrix:
    """The credit of the commonest answer of each row.

    Of answers that are equally common, the one that the highest-ranked voter gave wins (``ranked``), or each with the
    same chance. Equal answers are judged alike; were they not, the winner's credit is the share of right ones among
    them. A row without a single answer is lost.

    Args:
        answers: each voter's answer, −1 for none, shape (rows, voters); in ranked votes the highest-ranked voter first.
        right: whether it is right, same shape.
        ranked: whether ties go by the voters' order.

    Returns:
        Between 0 and 1, shape (rows,).
    """
    rows, voters = answers.shape
    step = max(1, _AT_ONCE // voters**2)
    found = np.empty(rows)
    for start in range(0, rows, step):
        part = slice(start, start + step)
        found[part] = _vote(answers[part], right[part], ranked)
    return found


def _vote(answers: npt.NDArray[np.int64], right: npt.NDArray[np.bool_], ranked: bool) -> Matrix:
    equal = (answers[:, :, None] == answers[:, None, :]) & (answers >= 0)[:, :, None]
    support = equal.sum(axis=2)
    if ranked:
        first = support.argmax(axis=1)  # of equal ones the first
        behind = equal[np.arange(len(answers)), first]
    else:
        # Every answer on top has equally many voters: a mean over these voters weighs the answers alike.
        behind = (support == support.max(axis=1, keepdims=True)) & (answers >= 0)
    count = behind.sum(axis=1)
    credit: Matrix = np.divide((behind & right).sum(axis=1), count, out=np.zeros(len(answers)), where=count > 0)
    return credit
