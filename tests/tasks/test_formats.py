"""EvalPlus's and LiveCodeBench's rows, judged in the real sandbox: right programs pass, wrong ones do not."""

from __future__ import annotations

import base64
import json
import os
import pickle
import shutil
import zlib
from pathlib import Path
from typing import Any

import pytest

from conftest import TINY, deep_copy
from onelayer.config import Study
from onelayer.errors import UserError
from onelayer.source_settings import CodeSource
from onelayer.suite.own import benchmark_problems
from onelayer.task_settings import CodeTask
from onelayer.tasks.code import Code
from onelayer.tasks.contract import Problem, Task
from onelayer.tasks.formats import deepcoder, evalplus, livecodebench

pytestmark = pytest.mark.usefixtures("sandboxes_end")

LCB = CodeSource(path="lcb.jsonl", format="livecodebench", question="question_content")  # type: ignore[arg-type]
needs_bwrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")


def problems_of(benchmark: str, path: Path, rows: list[dict[str, Any]], **source: Any) -> tuple[list[Problem], Task]:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    settings = deep_copy(TINY)
    settings["evaluation"]["suite"] = [{"benchmark": benchmark, "source": {"path": str(path), **source}}]
    study = Study(name="tiny", **settings)
    problems, task = benchmark_problems(study.suite[0], study.seed)  # type: ignore[arg-type]
    return list(problems), task


# In the shape of EvalPlus's rows: comparison with a tolerance where the results are floats, by numpy.
PLUS = {
    "task_id": "HumanEval/0",
    "prompt": 'def halves(xs):\n    """Half of each."""\n',
    "entry_point": "halves",
    "test": (
        "import numpy as np\n\n"
        "def floats(x):\n"
        "    if isinstance(x, np.ndarray):\n"
        "        return x.dtype == np.float64\n"
        "    return isinstance(x, float) or isinstance(x, (list, tuple)) and all(isinstance(i, float) for i in x)\n\n"
        "def assertion(out, exp, atol):\n"
        "    if atol == 0 and floats(exp):\n"
        "        atol = 1e-6\n"
        "    if out != exp and atol != 0:\n"
        "        assert np.allclose(out, exp, rtol=1e-07, atol=atol)\n"
        "    else:\n"
        "        assert out == exp\n\n"
        "def check(candidate):\n"
        "    for given, wanted in [([[2, 4]], [1.0, 2.0]), ([[1]], [0.5]), ([[]], [])]:\n"
        "        assertion(candidate(*given), wanted, 0)\n"
    ),
}


@needs_bwrap
def test_evalplus(tmp_path: Path) -> None:
    problems, task = problems_of("humaneval-plus", tmp_path / "plus.jsonl", [PLUS])
    assert problems[0].id == "humaneval-plus:1"
    assert problems[0].prompt == PLUS["prompt"]
    for body, correct in (
        ("    return [x / 2 for x in xs]\n", True),
        ("    return [x / 2 + 1e-9 for x in xs]\n", True),  # within the tolerance
        ("    return [x / 2 + 1e-3 for x in xs]\n", False),
        ("    return [x / 2 for x in xs][:1]\n", False),
        ("    return [x // 2 for x in xs]\n", False),
    ):
        grade = task.grade(problems[0], body)
        assert (grade.correct, grade.status) == (correct, "ok"), body
    source = CodeSource(path="plus.jsonl", format="evalplus")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="f: row 1: expected a value in 'test'"):
        evalplus({"prompt": "x"}, source, "f: row 1")
    with pytest.raises(UserError, match="f: row 1: expected the tests as a text in 'test', found list"):
        evalplus({"prompt": "x", "test": ["assert True"]}, source, "f: row 1")


def stdin_row(private: Any) -> dict[str, Any]:
    return {
        "question_content": "Print the sum of two numbers.",
        "starter_code": "",
        "public_test_cases": json.dumps([{"input": "1 2\n", "output": "3\n", "testtype": "stdin"}]),
        "private_test_cases": private,
        "metadata": "{}",
    }


def packed(cases: Any) -> str:
    """As LiveCodeBench packs its private tests: JSON, pickled as a text, compressed, in base64."""
    return base64.b64encode(zlib.compress(pickle.dumps(json.dumps(cases)))).decode()


METHOD = {
    "question_content": "Swap a pair.",
    "starter_code": "class Solution:\n    def swap(self, pair: List[int]) -> List[int]:\n        ",
    "public_test_cases": json.dumps([{"input": "[1, 2]", "output": "[2, 1]", "testtype": "functional"}]),
    "private_test_cases": json.dumps([{"input": "[3, 4]", "output": "[4, 3]", "testtype": "functional"}]),
    "metadata": json.dumps({"func_name": "swap"}),
}


@needs_bwrap
def test_livecodebench_programs_that_read_stdin(tmp_path: Path) -> None:
    cases = [{"input": "10 -4\n", "output": "6.0\n", "testtype": "stdin"}]
    problems, task = problems_of("livecodebench", tmp_path / "lcb.jsonl", [stdin_row(packed(cases))])
    assert "reads its input from stdin" in problems[0].prompt
    for program, correct in (
        ("a, b = map(int, input().split())\nprint(a + b)", True),
        ("import sys\na, b = map(int, sys.stdin.read().split())\nprint(a + b, end='')", True),
        ("a, b = map(int, open(0).read().split())\nprint(f'{a + b}  ')", True),
        ("import sys, os\na, b = map(int, os.read(0, 99).split())\nsys.stdout.write(str(a + b))\nsys.exit()", True),
        ("def main():\n    print(sum(map(int, input().split())))\nif __name__ == '__main__':\n    main()", True),
        ("a, b = map(int, input().split())\nprint(a + b)\nprint()\nprint(1)", False),
        ("print(3)", False),  # the public test alone
        ("a, b = map(int, input().split())\nprint(a - b)", False),
        ("raise ValueError", False),
        ("exit()", False),
    ):
        grade = task.grade(problems[0], f"Here it is:\n```python\n{program}\n```\n")
        assert grade.correct is correct, program
        assert grade.extracted == program
    assert not task.grade(problems[0], "I do not know.").correct


@needs_bwrap
def test_livecodebench_methods(tmp_path: Path) -> None:
    problems, task = problems_of("livecodebench", tmp_path / "lcb.jsonl", [METHOD])
    assert "class Solution:\n    def swap" in problems[0].prompt
    head = "class Solution:\n    def swap(self, pair: List[int]) -> List[int]:\n        "
    for body, correct in (
        ("return pair[::-1]", True),
        ("return (pair[1], pair[0])", True),  # a tuple counts as a list
        ("return sorted(pair, reverse=True)", True),
        ("return [2, 1]", False),
        ("return pair", False),
    ):
        assert task.grade(problems[0], f"```python\n{head}{body}\n```").correct is correct, body


class _Runs:
    """What a hostile pickle would do."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("reached",)


def test_a_pickle_runs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    hostile = base64.b64encode(zlib.compress(pickle.dumps(_Runs()))).decode()
    with pytest.raises(
        UserError, match=r"f: row 1: expected a row of LiveCodeBench, found: UnpicklingError: it asks for"
    ):
        livecodebench(stdin_row(hostile), LCB, "f: row 1")
    assert not (tmp_path / "reached").exists()


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({}, "KeyError"),
        (stdin_row("!"), "expected a row of LiveCodeBench, found"),
        (stdin_row(json.dumps({"input": 1})), "private tests are a list, not a dict"),
        ({**stdin_row("[]"), "public_test_cases": "[]"}, "found: ValueError: no tests"),
        ({**METHOD, "private_test_cases": json.dumps([{"input": "[1", "output": "1"}])}, "JSONDecodeError"),
    ],
)
def test_rows_that_are_none(row: dict[str, Any], expected: str) -> None:
    with pytest.raises(UserError, match=expected):
        livecodebench(row, LCB, "f: row 1")


def code_task(path: Path, rows: list[dict[str, Any]], **more: Any) -> Code:
    """Rows as a study's own problems; where there is one row, as its report's."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    sources = {"train": str(path), "select": str(path), "report": str(path)}
    settings = {"kind": "code", "sources": sources, "sizes": dict.fromkeys(sources, 1), "complete_prompt": False,
                "decontamination": None, "prompt": "{question}\n", **more}  # fmt: skip
    return Code(CodeTask.model_validate(settings), 0)


SUM = "```python\na, b = map(int, input().split())\nprint(a + b)\n```"


@needs_bwrap
def test_a_study_trains_on_rows_of_livecodebench(tmp_path: Path) -> None:
    rows = [stdin_row("[]") | {"question_content": f"Print the sum of two numbers ({number})."} for number in range(3)]
    task = code_task(tmp_path / "lcb.jsonl", rows, question="question_content", format="livecodebench")
    for split in task.splits().values():
        (problem,) = split.problems
        assert "reads its input from stdin" in problem.prompt
        assert task.grade(problem, SUM).correct
        assert not task.grade(problem, SUM.replace("+", "-")).correct


def deepcoder_row(tests: Any, **more: Any) -> dict[str, Any]:
    return {"problem": "Print the sum of two numbers.", "tests": json.dumps(tests), **more}


LIST = [{"input": "1 2\n", "output": "3\n"}, {"input": "5 -7\n", "output": "-2\n"}]
DEEP = CodeSource(path="d.jsonl", format="deepcoder", question="problem", tests="tests")  # type: ignore[arg-type]


@needs_bwrap
@pytest.mark.parametrize(
    "tests",
    [
        {"inputs": ["1 2\n", "5 -7\n"], "outputs": ["3\n", ["-2\n"]]},  # taco
        [{"type": "stdin_stdout", **case} for case in LIST],  # primeintellect
        LIST,  # codeforces
        [{"testtype": "stdin", **case} for case in LIST],  # lcbv5
    ],
)
def test_deepcoder_programs_that_read_stdin(tmp_path: Path, tests: Any) -> None:
    rows = [deepcoder_row(tests) | {"problem": f"Print the sum of two numbers ({number})."} for number in range(3)]
    task = code_task(tmp_path / "deep.jsonl", rows, question="problem", tests="tests", format="deepcoder")
    (problem,) = task.splits()["report"].problems
    assert task.grade(problem, SUM).correct
    assert not task.grade(problem, SUM.replace("a + b", "3")).correct


@needs_bwrap
@pytest.mark.parametrize("metadata", [{"func_name": "swap"}, json.dumps({"func_name": "swap"})])
def test_deepcoder_methods(tmp_path: Path, metadata: Any) -> None:
    tests = [{"input": "[1, 2]", "output": "[2, 1]", "testtype": "functional"}]
    row = deepcoder_row(tests, metadata=metadata, starter_code=METHOD["starter_code"])
    rows = [row | {"problem": f"Swap a pair ({number})."} for number in range(3)]
    task = code_task(tmp_path / "deep.jsonl", rows, question="problem", tests="tests", format="deepcoder")
    (problem,) = task.splits()["report"].problems
    assert "class Solution:\n    def swap" in problem.prompt
    assert task.grade(problem, f"```python\n{METHOD['starter_code']}return pair[::-1]\n```").correct
    assert not task.grade(problem, f"```python\n{METHOD['starter_code']}return pair\n```").correct


@pytest.mark.parametrize(
    ("tests", "expected"),
    [
        ([], "expected a value in 'tests'|no tests"),
        ({"inputs": [[1]], "outputs": [[1]], "fn_name": "f"}, "call a function by fn_name, which are not supported"),
        ([{"type": "function_call", "input": [1], "output": [1]}], "by fn_name, which are not supported"),
        ({"inputs": ["1"], "outputs": []}, r"zip\(\) argument 2 is shorter"),
        ({"inputs": [["1", "2"]], "outputs": ["3"]}, "an input or output that is no text, but list"),
        ([{"testtype": "functional", "input": "1", "output": "1"}], "tests of a function without its name"),
        ([LIST[0], {"testtype": "functional", "input": "1", "output": "1", "metadata": {"func_name": "f"}}],
         "tests of several kinds"),
        (["a"], "AttributeError"),
        (3, "TypeError"),
    ],
)  # fmt: skip
def test_rows_that_are_none_of_deepcoders(tests: Any, expected: str) -> None:
    with pytest.raises(UserError, match=rf"f: row 1: (expected a row of DeepCoder, found: .*)?({expected})"):
        deepcoder(deepcoder_row(tests), DEEP, "f: row 1")
