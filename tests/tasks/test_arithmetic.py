from __future__ import annotations

import itertools

import pytest

from onelayer.errors import UserError
from onelayer.task_settings import ArithmeticTask
from onelayer.tasks.arithmetic import Arithmetic, worked
from onelayer.tasks.contract import Problem


def task(careless: float = 0.5, seed: int = 0, **sizes: int) -> Arithmetic:
    sizes = {"train": 300, "select": 60, "report": 90, **sizes}
    return Arithmetic(
        ArithmeticTask(kind="arithmetic", digits=2, operations=("+", "-", "#"), careless=careless, sizes=sizes),
        seed,
    )


def right_answer(prompt: str) -> str:
    """Independently: parse the prompt and work it out."""
    expression = prompt.removesuffix("=")
    value = max(map(int, expression.split("#"))) if "#" in expression else eval(expression)
    return "".join(reversed(str(value)))


def test_splits_are_disjoint_distinct_and_right() -> None:
    splits = task().splits()
    prompts = {name: {problem.prompt for problem in split.problems} for name, split in splits.items()}
    assert {name: len(found) for name, found in prompts.items()} == {"train": 300, "select": 60, "report": 90}
    for one, other in itertools.combinations(prompts.values(), 2):
        assert not one & other
    for split in splits.values():
        for problem in split.problems:
            assert problem.answer == right_answer(problem.prompt)


def test_a_larger_split_keeps_the_old_problems_and_leaves_the_others() -> None:
    small, large = task().splits(), task(train=500).splits()
    assert large["train"].problems[:300] == small["train"].problems
    assert large["select"] == small["select"]
    assert large["report"] == small["report"]


def test_the_seed_decides() -> None:
    assert task(seed=0).splits() == task(seed=0).splits()
    assert task(seed=0).splits() != task(seed=1).splits()


def test_corpus_never_shows_a_held_out_problem() -> None:
    splits = task().splits()
    held_out = {p.prompt for name in ("select", "report") for p in splits[name].problems}
    lines = list(itertools.islice(task().corpus(3), 5000))
    assert not held_out & {prompt for prompt, _ in lines}
    assert set("".join(prompt + answer for (prompt, _), (answer, _) in lines)) <= set(task().alphabet)


@pytest.mark.parametrize("careless", [0.0, 1.0])
def test_careless_share(careless: float) -> None:
    lines = list(itertools.islice(task(careless=careless).corpus(3), 2000))
    wrong = sum(answer != right_answer(prompt) for (prompt, _), (answer, _) in lines) / len(lines)
    assert wrong == 0 if careless == 0 else 0.5 < wrong < 1.0  # where nothing is carried both ways agree


@pytest.mark.parametrize(
    ("a", "operation", "b", "right", "careless"),
    [(57, "+", 68, "521", "51"), (52, "-", 38, "41", "42"), (31, "#", 87, "78", "13"), (99, "+", 99, "891", "88")],
)
def test_answers_by_hand(a: int, operation: str, b: int, right: str, careless: str) -> None:
    assert worked(a, operation, b) == (right, careless)


def test_grading() -> None:
    problem = Problem("57+68", "57+68=", "521")
    assert task().grade(problem, "521").correct
    assert not task().grade(problem, "5210").correct
    assert not task().grade(problem, "51").correct
    assert task().grade(problem, "").extracted is None


def test_more_problems_than_there_are() -> None:
    with pytest.raises(UserError, match=r"task\.sizes\.report: found 9000, expected at most"):
        task(report=9000).splits()
