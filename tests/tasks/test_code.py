from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT
from onelayer.errors import UserError
from onelayer.task_settings import CodeTask
from onelayer.tasks.code import Code
from onelayer.tasks.contract import Problem

DATA = ROOT.parent / "shared/data"
QUESTION = 'def twice(x: int) -> int:\n    """Double x."""\n'
ROW = {
    "prompt": QUESTION, "entry_point": "twice",
    "test": "def check(candidate):\n    assert candidate(3) == 6\n    assert candidate(0) == 0\n",
}  # fmt: skip
needs_bwrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")


def task(path: Path, sizes: tuple[int, int, int] = (1, 1, 1), **more: Any) -> Code:
    settings: dict[str, Any] = {
        "kind": "code", "sources": dict.fromkeys(("train", "select", "report"), path),
        "decontamination": None,  # these rows are nearly the same
        "sizes": dict(zip(("train", "select", "report"), sizes, strict=True)), **more,
    }  # fmt: skip
    return Code(CodeTask.model_validate(settings), 0)


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    return write(tmp_path / "code.jsonl", [ROW | {"prompt": f"# {number}\n{QUESTION}"} for number in range(3)])


def test_a_row_becomes_a_problem(rows: Path) -> None:
    splits = task(rows).splits()
    (problem,) = splits["report"].problems
    assert problem.id.startswith("code:")
    assert problem.prompt.endswith(QUESTION)
    tests = json.loads(problem.answer)
    assert tests["entry_point"] == "twice"
    assert tests["tests"].endswith("check(twice)\n")
    assert tests["setup"] == problem.prompt


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"test": "def check(:"}, "code.jsonl: row 2: expected Python in the tests, found: invalid syntax"),
        ({"prompt": "def f(x"}, r"code.jsonl: row 2: expected Python in the setup, found: '\(' was never closed"),
        ({"entry_point": None}, "code.jsonl: row 2: expected a value in 'entry_point', found None"),
        ({"test": []}, "code.jsonl: row 2: expected a value in 'test', found \\[\\]"),
    ],
)
def test_rows_that_cannot_be_used(tmp_path: Path, row: dict[str, Any], message: str) -> None:
    path = write(tmp_path / "code.jsonl", [ROW, ROW | row, ROW])
    with pytest.raises(UserError, match=message):
        task(path).splits()


@pytest.mark.parametrize(
    ("completion", "program"),
    [
        ("    return 2 * x\n", QUESTION + "    return 2 * x\n\n"),
        ("    return 2 * x\n\nThat is all.\nBye", QUESTION + "    return 2 * x\n\n"),
        ("    return helper(x)\n\ndef helper(x):\n    return x + x\n",
         QUESTION + "    return helper(x)\n\ndef helper(x):\n    return x + x\n\n"),
        ("Sure:\n```python\ndef twice(x):\n    return 2 * x\n```\nDone.",
         QUESTION + "\n    pass\n\ndef twice(x):\n    return 2 * x\n"),
        ("```\n    return 2 * x\n```", QUESTION + "    return 2 * x\n"),
    ],
)  # fmt: skip
def test_the_program_in_a_completion(rows: Path, completion: str, program: str) -> None:
    assert task(rows).program(QUESTION, completion) == program


def test_without_a_prompt_to_complete_the_completion_is_the_program(rows: Path) -> None:
    plain = task(rows, complete_prompt=False)
    assert plain.program(QUESTION, "def f(): pass") == "def f(): pass"
    assert plain.program(QUESTION, "So:\n```py\ndef f(): pass\n```") == "def f(): pass\n"


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Code]:
    made = task(write(tmp_path_factory.mktemp("code") / "code.jsonl", [ROW]), sandbox={"seconds": 2})
    yield made
    made._sandbox.close()


@needs_bwrap
@pytest.mark.parametrize(
    ("completion", "correct", "status"),
    [
        ("    return 2 * x\n", True, "ok"),
        ("    return 3 * x\n", False, "ok"),
        ("    return 2 *\n", False, "ok"),
        ("    while True: pass\n", False, "timeout"),
        ("    import os; os._exit(0)\n", False, "crashed"),
        ("```python\nimport sys\nsys.exit(0)\n```", False, "ok"),
        ("```python\ndef check(candidate): pass\ndef twice(x): return 0\n```", False, "ok"),
    ],
)
def test_grades(judge: Code, completion: str, correct: bool, status: str) -> None:
    answer = json.dumps({"tests": ROW["test"] + "\ncheck(twice)\n", "entry_point": "twice", "setup": QUESTION})
    grade = judge.grade(Problem("x", QUESTION, answer), completion)
    assert (grade.correct, grade.status) == (correct, status)


@needs_bwrap
@pytest.mark.skipif(not DATA.is_dir(), reason="the public benchmark files are not beside the repository")
def test_public_rows_go_through_the_loader() -> None:
    """HumanEval and MBPP as their repositories ship them: a field mapping alone, and their own solutions pass."""
    human = task(DATA / "HumanEval.jsonl", (100, 30, 34))
    mbpp = task(
        DATA / "mbpp_test.jsonl", (380, 50, 50), entry_point=None, complete_prompt=False,
        prompt="{question}\n{tests}\n",
    )  # fmt: skip
    for made, field in ((human, "canonical_solution"), (mbpp, "code")):
        rows = [json.loads(line) for line in made.settings.sources.train[0].path.read_text().splitlines()]
        problems = [problem for split in made.splits().values() for problem in split.problems]
        assert len(problems) == (164 if made is human else 480)
        for problem in problems[:20]:
            row = rows[int(problem.id.rpartition(":")[2]) - 1]
            assert made.grade(problem, row[field]).correct, problem.id
            assert not made.grade(problem, "    return None\n" if made is human else "x = 1\n").correct, problem.id
        made._sandbox.close()
