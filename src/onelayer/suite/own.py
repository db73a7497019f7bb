"""Benchmarks that we sample and grade ourselves: a benchmark's rows as problems, and the domain that judges them."""

from __future__ import annotations

from onelayer.config import Study
from onelayer.errors import UserError
from onelayer.source_commits import known_origin
from onelayer.store import file_sha256
from onelayer.suite.benchmarks import OwnBenchmark, QuestionsBenchmark
from onelayer.tasks.code import Code
from onelayer.tasks.contract import Problem, Task
from onelayer.tasks.questions import Questions
from onelayer.tasks.rows import every_problem


def rows_identity(benchmark: OwnBenchmark, study: Study) -> str:
    """What names a benchmark's rows for good: a file's content hash, or where on the hub they lie, with the commit.

    Raises UserError where a file is not there, or no commit was resolved yet.
    """
    path = benchmark.source.path
    if path is None:
        return known_origin(study, benchmark.source)
    if not path.is_file():
        raise UserError(f"{path}: not found; the benchmark {benchmark.name} is read from it")
    return file_sha256(path)


def benchmark_problems(benchmark: OwnBenchmark, seed: int) -> tuple[tuple[Problem, ...], Task]:
    """Every row of a benchmark as a problem, in the set's order, and the domain that judges their answers.

    Args:
        benchmark: its revision, where it has one, is a commit.
        seed: orders the options of questions that have them.

    Raises UserError, naming the set and row, for what cannot be read or used.
    """
    domain: Questions | Code
    if isinstance(benchmark, QuestionsBenchmark):
        domain = Questions(benchmark.task(), seed)
    else:
        domain = Code(benchmark.task(), seed)
    return every_problem(benchmark.named_source, domain.problem), domain
