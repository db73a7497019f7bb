from __future__ import annotations

import json
import pickle
from typing import Any

import pytest

from onelayer.errors import UserError
from onelayer.task_settings import ReasoningGymTask
from onelayer.tasks.contract import Problem
from onelayer.tasks.reasoning_gym import ReasoningGym, _as_json, _from_json, find_answer

pytest.importorskip("reasoning_gym", reason="reasoning-gym is not installed (onelayer[reasoning])")

SIZES = {"train": 12, "select": 4, "report": 6}


def task(dataset: str = "chain_sum", sizes: dict[str, int] = SIZES, seed: int = 0, **more: Any) -> ReasoningGym:
    settings = {"kind": "reasoning-gym", "dataset": dataset, "sizes": sizes, **more}
    return ReasoningGym(ReasoningGymTask.model_validate(settings), seed)


def problems(made: ReasoningGym) -> list[Problem]:
    return [problem for split in made.splits().values() for problem in split.problems]


def test_splits_are_disjoint_and_grow_at_their_end() -> None:
    small = task().splits()
    assert {name: len(split.problems) for name, split in small.items()} == SIZES
    prompts = [problem.prompt for split in small.values() for problem in split.problems]
    assert len(set(prompts)) == len(prompts)
    large = task(sizes={"train": 40, "select": 4, "report": 6}).splits()
    assert large["train"].problems[:12] == small["train"].problems
    assert (large["select"], large["report"]) == (small["select"], small["report"])
    assert task(seed=1).splits()["report"] != small["report"]
    assert task().splits() == small


@pytest.mark.parametrize(
    ("dataset", "parameters"),
    [
        ("chain_sum", {"min_terms": 2, "max_terms": 3, "min_digits": 1, "max_digits": 2}),
        ("basic_arithmetic", {}),
        ("countdown", {"min_numbers": 3, "max_numbers": 3}),
        ("leg_counting", {}),
        ("rearc", {}),
    ],
)
def test_right_answers_are_right_and_others_wrong(dataset: str, parameters: dict[str, Any]) -> None:
    made = task(dataset, {"train": 4, "select": 2, "report": 2}, parameters=parameters)
    made = pickle.loads(pickle.dumps(made))  # as it goes to the judge's process
    for problem in problems(made):
        answer = str(_from_json(json.loads(problem.answer))["answer"])
        for completion in (f"<answer>{answer}</answer>", f"I think.\n<answer>no</answer> <answer>{answer}</answer>"):
            assert made.grade(problem, completion).correct
        for junk in ("<answer>junk</answer>", "<answer>1 + 1</answer>", "no idea", "<answer>99999999</answer>"):
            grade = made.grade(problem, junk)
            assert not grade.correct
            assert grade.extracted is not None
        assert made.grade(problem, " \n").extracted is None


def test_an_answer_that_the_judge_cannot_read_is_wrong_and_said_to_be_none() -> None:
    made = task("prime_factorization", {"train": 1, "select": 1, "report": 1})
    for problem in problems(made):
        grade = made.grade(problem, "<answer>two times three</answer>")
        assert (grade.correct, grade.extracted) == (False, None)


@pytest.mark.parametrize(
    ("completion", "answer"),
    [
        ("<answer> 4 </answer> and more", "4"),
        ("<answer>\n1 2\n3 4\n</answer>", "1 2\n3 4"),
        ("<answer>1</answer>, no, <answer>2</answer>", "2"),
        (r"So \boxed{5}. The answer is 6", "5"),
        ("The answer is 7.\nThat was easy", "7"),
        ("**Answer:** 8", "8"),
        ("The final answer is: **9**.", "9"),
        ("2 + 2\n= 4\n\n", "= 4"),
        ("-3", "-3"),
        ("3.5", "3.5"),
        ("answers differ", "answers differ"),
        ("<answer></answer>", None),
        ("", None),
        (" \n ", None),
    ],
)
def test_the_answer_in_a_completion(completion: str, answer: str | None) -> None:
    assert find_answer(completion) == answer


def test_entries_come_back_as_they_were() -> None:
    entry = {"a": (1, [2, (3,)]), 4: {"x": None}, "s": {(1, 2)}, "f": 0.5, "t": True, "d": {"$tuple": [1]}}
    assert _from_json(_as_json(entry)) == entry


@pytest.mark.parametrize(
    ("dataset", "more", "message"),
    [
        ("chain_summ", {}, "task.dataset: found 'chain_summ', expected one of .*chain_sum, "),
        ("chain_sum", {"parameters": {"terms": 3}}, "task.parameters.terms: unknown; chain_sum has .*min_terms"),
        ("chain_sum", {"parameters": {"min_terms": 0}}, "task.parameters: chain_sum refuses .*min_terms must be pos"),
        ("chain_sum", {"parameters": {"min_terms": "x"}}, "task.parameters: chain_sum refuses"),
        ("chain_sum", {"sizes": {"train": 9, "select": 900, "report": 9},
                       "parameters": {"max_terms": 2, "max_digits": 1}},
         "task.sizes.select: found 900, expected at most"),
    ],
)  # fmt: skip
def test_bad_settings_are_one_message(dataset: str, more: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        task(dataset, **more).splits()


def test_what_the_study_sets_cannot_be_a_parameter() -> None:
    with pytest.raises(ValueError, match=r"parameters\.seed is the study's to set"):
        task(parameters={"seed": 3})
    with pytest.raises(ValueError, match=r"prompt must contain \{question\}"):
        task(prompt="Q:")
