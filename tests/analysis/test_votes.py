"""Votes against a count by hand, and what ballots hold."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.made_evidence import make_evidence, make_study
from onelayer.analysis import votes
from onelayer.analysis.votes import Form, form_of, read_ballots, vote
from onelayer.config import Study
from onelayer.errors import UserError
from onelayer.grid import BASE

# Rows of voters: each voter's answer, −1 for none, and whether it is right.
ROWS = st.integers(1, 6).flatmap(
    lambda voters: st.lists(
        st.lists(st.tuples(st.integers(-1, 3), st.booleans()), min_size=voters, max_size=voters), min_size=1, max_size=6
    )
)


def vote_by_hand(voters: list[tuple[int, bool]], ranked: bool) -> float:
    counted = Counter(answer for answer, _ in voters if answer >= 0)
    if not counted:
        return 0.0
    top = [
        answer for answer in dict.fromkeys(answer for answer, _ in voters) if counted[answer] == max(counted.values())
    ]
    top = [answer for answer in top if answer >= 0]
    credits = [
        sum(right for answer, right in voters if answer == winner) / counted[winner]
        for winner in (top[:1] if ranked else top)
    ]
    return sum(credits) / len(credits)


@given(ROWS, st.booleans(), st.sampled_from([1, 2**24]))
def test_votes_by_hand(rows: list[list[tuple[int, bool]]], ranked: bool, at_once: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(votes, "_AT_ONCE", at_once)
        found = vote(
            np.array([[a for a, _ in row] for row in rows]), np.array([[r for _, r in row] for row in rows]), ranked
        )
    assert found == pytest.approx([vote_by_hand(row, ranked) for row in rows])


def test_ties() -> None:
    answers, right = np.array([[1, 2, 2, 1]]), np.array([[False, True, True, False]])
    assert vote(answers, right, ranked=True)[0] == 0  # the highest-ranked voter said 1
    assert vote(answers, right, ranked=False)[0] == 0.5
    assert vote(answers[:, ::-1][:, 1:], right[:, ::-1][:, 1:], ranked=True)[0] == 1


QUESTIONS = {"kind": "questions", "sources": {"train": "a.jsonl", "select": "b.jsonl", "report": "c.jsonl"},
             "sizes": {"train": 9, "select": 9, "report": 9}}  # fmt: skip
FOLDER = {"kind": "folder", "path": "model"}


@pytest.mark.parametrize(
    ("task", "pairs"),
    [
        ({"grading": "math"}, [("0.5", r"\frac{1}{2}"), ("(1,2)", "(1, 2)")]),
        ({"grading": "number"}, [("1,000", "1000.0"), ("2/4", "0.5")]),
        ({"grading": "choice"}, [("A", "A")]),
        ({"grading": "exact"}, [("yes", "yes")]),
    ],
)
def test_answers_vote_as_their_grader_calls_them_equal(task: dict[str, Any], pairs: list[tuple[str, str]]) -> None:
    form = form_of(Study(**_questions(task)))
    assert isinstance(form, Form)
    for one, other in pairs:
        assert form.of(one) == form.of(other)
    assert form.of("1") != form.of("2")


def _questions(task: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": "made", "model": FOLDER, "task": QUESTIONS | task, "algorithm": "grpo",
        "training": {"learning_rates": [1e-3], "steps": 1},
    }  # fmt: skip


def test_programs_and_episodes_do_not_vote() -> None:
    programs = make_study(task={"kind": "expressions", "sizes": {"train": 9, "select": 9, "report": 9}})
    assert "two programs" in str(form_of(programs))
    episodes = make_study(
        task={"kind": "household", "sizes": {"train": 9, "select": 9, "report": 9}}, algorithm="gigpo"
    )
    assert "an episode is won or lost" in str(form_of(episodes))


def test_ballots_are_numbered_alike_in_all_runs() -> None:
    evidence = make_evidence(
        make_study(seeds=1),
        {
            "base": [[("a", True), (None, False)], [("b", False), ("c", True)]],
            "full-s0": [[("c", False), ("a", True)], [("b", False), ("b", False)]],
        },
    )
    evidence.frames["full-s0"].loc[0, "status"] = "broken"  # p000's first sample, on both splits
    full = next(run for run in evidence.runs if run.name == "full-s0")
    found = read_ballots(evidence, [BASE, full], "report", Form("", str))
    assert found["base"].answers.tolist() == [[0, -1], [1, 2]]
    assert found["full-s0"].answers.tolist() == [[-1, 0], [1, 1]]
    assert found["full-s0"].judged.tolist() == [[False, True], [True, True]]
    assert found["base"].fewest == 2
    assert found["full-s0"].fewest == 1
    assert (read_ballots(evidence, [BASE], "report", None)["base"].answers == -1).all()


def test_runs_of_other_samples_are_refused() -> None:
    evidence = make_evidence(
        make_study(seeds=1), {"base": [[("a", True)], [("a", True)]], "full-s0": [[("a", True)]] * 2}
    )
    evidence.frames["full-s0"] = pd.concat([evidence.frames["full-s0"], evidence.frames["full-s0"].head(1)])
    full = next(run for run in evidence.runs if run.name == "full-s0")
    with pytest.raises(UserError, match="as many samples of the same problems"):
        read_ballots(evidence, [full], "report", None)
