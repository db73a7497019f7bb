"""Benchmarks read from local files: small ones made here, and the published sets where a copy is at hand."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT, TINY, deep_copy
from onelayer.config import Study
from onelayer.suite.own import benchmark_problems
from onelayer.tasks.contract import Problem, Task

DATA = ROOT.parent / "shared/data"


def problems_of(entry: dict[str, Any] | str) -> tuple[tuple[Problem, ...], Task]:
    settings = deep_copy(TINY)
    settings["evaluation"]["suite"] = [entry]
    study = Study(name="tiny", **settings)
    return benchmark_problems(study.suite[0], study.seed)  # type: ignore[arg-type]


def published(name: str) -> Path:
    if not (DATA / name).is_file():
        pytest.skip(f"no {DATA / name} on this machine")
    return DATA / name


def test_every_row_is_asked_in_its_order(tmp_path: Path) -> None:
    """Unlike a split of a study, a benchmark is asked whole: no draw, and no row left out."""
    path = tmp_path / "set.jsonl"
    rows = [{"question": "1+1", "answer": "#### 2"}, {"question": "2+2", "answer": "#### 4"}] * 2
    path.write_text("\n\n".join(json.dumps(row) for row in rows))
    problems, task = problems_of({"benchmark": "gsm8k", "path": str(path)})
    assert [problem.id for problem in problems] == ["gsm8k:1", "gsm8k:3", "gsm8k:5", "gsm8k:7"]
    assert [problem.answer for problem in problems] == ["2", "4"] * 2
    assert problems[0].prompt.startswith("1+1\nPlease reason step by step")
    assert task.grade(problems[1], "so it is 4.").correct


def test_gsm8k() -> None:
    problems, task = problems_of({"benchmark": "gsm8k", "path": str(published("gsm8k_test.jsonl"))})
    assert len(problems) == 1319
    assert all(task.grade(problem, f"The answer is \\boxed{{{problem.answer}}}.").correct for problem in problems)
    assert not any(task.grade(problem, f"It is {problem.answer}1.").correct for problem in problems)


def test_amc() -> None:
    """In this copy the answer is a float, 27.0."""
    problems, task = problems_of({"benchmark": "amc", "path": str(published("amc23_test.jsonl")), "grading": "number"})
    assert len(problems) == 40
    assert all(task.grade(problem, f"\\boxed{{{float(problem.answer):.0f}}}").correct for problem in problems)


@pytest.mark.usefixtures("sandboxes_end")
def test_mbpp() -> None:
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed")
    path = published("mbpp_test.jsonl")
    source = {"path": str(path), "question": "prompt", "tests": "test", "setup": None}
    problems, task = problems_of({"benchmark": "mbpp", "source": source})
    assert len(problems) == 500
    codes = [json.loads(line)["code"] for line in path.read_text().splitlines()]
    for problem, code in list(zip(problems, codes, strict=True))[:20]:
        assert problem.prompt.startswith("Write a Python program. ")
        assert task.grade(problem, f"```python\n{code}\n```").correct, problem.id
        assert not task.grade(problem, "```python\npass\n```").correct
