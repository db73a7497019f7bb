"""The judge in a process of its own: what raises, hangs, dies or answers nonsense stops the run or is counted."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from odd_judge import OddJudge, TimedJudge

from onelayer.config import Grading
from onelayer.errors import UserError
from onelayer.grading.worker import Grader, GradingError
from onelayer.rl.grpo import make_reward
from onelayer.tasks.contract import Grade, Problem

PROBLEM = Problem("the problem", "?", "")
FAILURES = {
    "raise": "ValueError: what is this?",
    "hang": "no judgement within 3 s",
    "die": r"the judge's process died \(exit code 3\)",
    "nan": "expected a judgement of true or false, found Grade",
    "none": "expected a judgement of true or false, found None",
}


def judged(answers: list[str], failures: str = "stop", seconds: float = 3) -> list[Grade]:
    with closing(Grader(OddJudge(), Grading(failures=failures, seconds=seconds))) as grader:  # type: ignore[arg-type]
        return grader.grade([(PROBLEM, answer) for answer in answers])


@pytest.mark.parametrize("answer", FAILURES)
def test_a_failure_stops_the_run(answer: str) -> None:
    with pytest.raises(GradingError, match=f"problem the problem: judging an answer failed: {FAILURES[answer]}"):
        judged(["2", answer, "4"])


def test_or_is_counted_and_the_others_are_judged_all_the_same() -> None:
    answers = ["2", "raise", "3", "hang", "4", "die", "6", "nan", "8", "none", "9"]
    grades = judged(answers, failures="count")
    assert [grade.status for grade in grades] == ["broken" if answer in FAILURES else "ok" for answer in answers]
    assert [grade.correct for grade in grades] == [answer in ("2", "4", "6", "8") for answer in answers]


def test_an_overdue_judgement_can_be_the_answer_s_fault() -> None:
    with closing(Grader(TimedJudge(), Grading(seconds=3))) as grader:
        grades = grader.grade([(PROBLEM, answer) for answer in ("ready", "hang", "hang", "2", "ready")])
        assert [grade.correct for grade in grades] == [True, False, False, True, True]
        assert [grade.status for grade in grades] == ["ok", "timeout", "timeout", "ok", "ok"]
        with pytest.raises(GradingError, match="died"):  # death is the judge's failure all the same
            grader.grade([(PROBLEM, "die")])


def test_a_judge_that_cannot_work_at_all_always_stops_the_run() -> None:
    with pytest.raises(UserError, match="the sandbox does not start"):
        judged(["no sandbox"], failures="count")


def test_one_worker_serves_until_it_fails_and_is_gone_at_the_end() -> None:
    with closing(Grader(OddJudge(), Grading(failures="count", seconds=3))) as grader:
        pids = [grader.grade([(PROBLEM, answer)])[0].extracted for answer in ("pid", "pid", "hang", "pid")]
    assert pids[0] == pids[1] != pids[3]
    for pid in (pids[0], pids[3]):
        assert pid is not None
        assert not Path(f"/proc/{pid}").exists() or "zombie" in Path(f"/proc/{pid}/status").read_text()


def test_a_broken_judgement_is_no_reward_and_is_logged() -> None:
    logged: dict[str, float] = {}
    with closing(Grader(OddJudge(), Grading(failures="count", seconds=3))) as grader:
        reward = make_reward(grader, [PROBLEM])
        found = reward(completions=["2", "raise", "3", "5"], problem=[0] * 4, log_metric=logged.__setitem__)
        assert found == [1.0, None, 0.0, 0.0]
        assert logged == {"broken": 0.25}
        logged.clear()
        reward(completions=["2"], problem=[0], log_metric=logged.__setitem__)
        assert logged == {}
