from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Iterator

import pytest

from onelayer.task_settings import ExpressionsTask
from onelayer.tasks.contract import Problem
from onelayer.tasks.expressions import Expressions


def task(careless: float = 0.5, **sizes: int) -> Expressions:
    settings = {
        "kind": "expressions", "careless": careless, "sizes": {"train": 200, "select": 30, "report": 50} | sizes,
        "sandbox": {"seconds": 2, "memory_mb": 256, "fallback": "limits-only"},
    }  # fmt: skip
    return Expressions(ExpressionsTask.model_validate(settings), 7)


def value(expression: str, x: int) -> int:
    found = eval(expression, {}, {"x": x})  # the test's own expressions
    assert isinstance(found, int)
    return found


def shown(prompt: str) -> list[tuple[int, int]]:
    """Independently: the examples of a prompt."""
    return [(x, int(y)) for x, y in zip((0, 100), prompt.removesuffix("=").split(","), strict=True)]


def test_lines_answer_with_care_or_fit_the_first_example_alone() -> None:
    careless = 0
    for prompt, answer in ((a[0], b[0]) for a, b in itertools.islice(task(0.5).corpus(3), 2000)):
        fits = [value(answer, x) == y for x, y in shown(prompt)]
        assert fits[0]
        careless += not all(fits)
        assert set(prompt + answer) <= set(task().alphabet)
    assert 900 < careless < 1100
    for line in itertools.islice(task(0.0).corpus(3), 500):
        assert all(value(line[1][0], x) == y for x, y in shown(line[0][0]))


def test_the_hidden_tests_are_those_of_the_function_that_the_examples_show() -> None:
    for problem in task().splits()["report"].problems:
        tests = json.loads(problem.answer)
        (x0, y0), (x1, y1) = shown(problem.prompt)
        slope = (y1 - y0) // (x1 - x0)
        assert tests["outputs"] == [y0 + slope * (x - x0) for x in tests["inputs"]]
        assert not {x0, x1} & set(tests["inputs"])


def test_splits_are_disjoint_and_stable_and_the_corpus_shows_none_of_them() -> None:
    small, large = task().splits(), task(train=300).splits()
    assert small["report"] == large["report"]
    assert large["train"].problems[:200] == small["train"].problems
    prompts = [problem.prompt for split in large.values() for problem in split.problems]
    assert len(set(prompts)) == len(prompts)
    held_out = {problem.prompt for name in ("select", "report") for problem in small[name].problems}
    assert not held_out & {line[0][0] for line in itertools.islice(task().corpus(3), 5000)}


PROBLEM = Problem("x", "17,2317=", json.dumps({"inputs": [2, 3, -7], "outputs": [63, 86, -144]}))


@pytest.fixture(scope="module")
def judge() -> Iterator[Expressions]:
    one = task()
    yield one
    one._sandbox.close()


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
@pytest.mark.parametrize(
    ("answer", "correct"),
    [
        ("23*x+17", True),
        ("x*23+17", True),
        (" 23*x+17 ", True),
        ("17+23*x", True),
        ("(23*x)+9+8", True),
        ("23*x+18", False),
        ("x+17", False),
        ("23*x+17.0", True),  # equal in Python
        ("", False),
        ("23*x+", False),
        ("x/0", False),
        ("1if x else 2", False),
        ("23*x+17 if x<3 else 0", False),
    ],
)
def test_any_expression_that_computes_the_same_is_right(judge: Expressions, answer: str, correct: bool) -> None:
    grade = judge.grade(PROBLEM, answer)
    assert (grade.correct, grade.status) == (correct, "ok")
    assert grade.extracted == (answer.strip() or None)


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_an_endless_computation_ends_and_is_said_to_have_timed_out(judge: Expressions) -> None:
    grade = judge.grade(PROBLEM, "9**9**9**9")
    assert (grade.correct, grade.status) in ((False, "timeout"), (False, "crashed"))
    assert judge.grade(PROBLEM, "23*x+17").correct
