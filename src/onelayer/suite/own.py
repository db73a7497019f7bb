"""Benchmarks that we sample and grade ourselves: a benchmark's rows as problems, and the domain that judges them."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from onelayer.config import Study
from onelayer.errors import UserError
from onelayer.store import file_sha256
from onelayer.suite.benchmarks import CodeBenchmark, OwnBenchmark, QuestionsBenchmark, Source
from onelayer.suite.formats import FORMATS, Row, livecodebench_program
from onelayer.task_settings import CodeTask, QuestionsTask
from onelayer.tasks.code import Code
from onelayer.tasks.contract import Grade, Problem, Task
from onelayer.tasks.questions import Questions


@dataclass(frozen=True)
class LiveCodeBench(Code):
    """Programs that LiveCodeBench's tests call as functions or feed through stdin."""

    def program(self, question: str, completion: str) -> str:
        """The last fenced block, as LiveCodeBench takes it; else the whole completion."""
        blocks = completion.split("```")
        if len(blocks) < 3:
            return super().program(question, completion)
        return blocks[-2].partition("\n")[2]  # the fence's own line names the language

    def grade(self, problem: Problem, completion: str) -> Grade:
        """Run the program on the tests. Raises SandboxError where the sandbox does not work."""
        tests = json.loads(problem.answer)
        program = self.program(tests["setup"], completion)
        callable_program = livecodebench_program(program, tests["tests"])
        verdict = self._sandbox.judge_tests(callable_program, tests["tests"], None, tests["setup"])
        return Grade(verdict.passed, program.strip() or None, verdict.status)


def source_file(benchmark: OwnBenchmark) -> Path:
    """The local file of a benchmark's rows. Raises UserError where it has none, or the file is not there."""
    path = benchmark.source.path
    if path is None:
        raise UserError(
            f"benchmark {benchmark.name}: {benchmark.source.hub}: expected a local copy; name it with"
            f" {{benchmark: {benchmark.name}, path: FILE.jsonl}} in evaluation.suite"
        )
    if not path.is_file():
        raise UserError(f"{path}: not found; the benchmark {benchmark.name} is read from it")
    return path


def rows_sha(benchmark: OwnBenchmark) -> str:
    """The content hash of a benchmark's rows. Raises UserError where they are not there."""
    return file_sha256(source_file(benchmark))


def benchmark_task(benchmark: OwnBenchmark, study: Study) -> Questions | Code:
    """The domain that makes and judges a benchmark's problems."""
    source = benchmark.source
    assert isinstance(source, Source)
    # A benchmark is one set, asked whole: the splits of a study's task mean nothing here.
    path = source_file(benchmark)
    shared: dict[str, Any] = {
        "sources": dict.fromkeys(("train", "select", "report"), str(path)),
        "sizes": dict.fromkeys(("train", "select", "report"), 1),
        "question": source.question,
        "prompt": benchmark.prompt,
    }
    match benchmark:
        case QuestionsBenchmark():
            return Questions(
                QuestionsTask(
                    kind="questions",
                    answer=source.answer,
                    answer_after=source.answer_after,
                    grading=benchmark.grading,
                    **shared,
                ),
                study.seed,
            )
        case CodeBenchmark():
            made = Code if source.format != "livecodebench" else LiveCodeBench
            return made(
                CodeTask(
                    kind="code",
                    tests=source.tests,
                    entry_point=source.entry_point,
                    setup=source.setup,
                    complete_prompt=benchmark.complete_prompt,
                    sandbox=benchmark.sandbox,
                    **shared,
                ),
                study.seed,
            )


def benchmark_problems(benchmark: OwnBenchmark, study: Study) -> tuple[tuple[Problem, ...], Task]:
    """Every row of a benchmark as a problem, in the file's order, and the domain that judges their answers.

    Raises UserError, naming the file and row, for what cannot be used.
    """
    path = source_file(benchmark)
    task = benchmark_task(benchmark, study)
    source: Any = task.settings.sources.report[0]
    convert = FORMATS[benchmark.source.format]
    problems = []
    for number, row in _rows(path):
        where = f"{path}: row {number}"
        made = task._problem(convert(row, where), source, where)
        problems.append(replace(made, id=f"{benchmark.name}:{number}"))
    if not problems:
        raise UserError(f"{path}: expected the rows of {benchmark.name}, found none")
    return tuple(problems), task


def _rows(path: Path) -> list[tuple[int, Row]]:
    rows = []
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: expected a readable JSON Lines file, found: {error}") from None
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise UserError(f"{path}: row {number}: expected a JSON object, found: {error}") from None
        if not isinstance(row, dict):
            raise UserError(f"{path}: row {number}: expected a JSON object, found {type(row).__name__}")
        rows.append((number, row))
    return rows
