"""The suite phase: a run's answers to every benchmark, graded and kept as records, and the scores over them.

Each benchmark has a manifest of its own, so a benchmark that is added, or changed, is the only one that is sampled.
"""

from __future__ import annotations

from contextlib import closing
from importlib.metadata import version
from typing import Any, cast

from onelayer.config import Study
from onelayer.errors import UserError
from onelayer.evaluate import Asked, load_run, open_sampler, sampled_answers
from onelayer.fingerprint import Payload
from onelayer.grading.worker import Grader
from onelayer.grid import Run
from onelayer.manifest import Meter, write_manifest
from onelayer.records import write_records
from onelayer.rl.vllm_backend import VllmSampler, check_vllm
from onelayer.source_commits import settle
from onelayer.state import StudyState
from onelayer.store import suite_folder
from onelayer.suite.benchmarks import Benchmark, HarnessBenchmark, OwnBenchmark, QuestionsBenchmark
from onelayer.suite.harness import check_harness, harness_versions, run_harness
from onelayer.suite.own import benchmark_problems
from onelayer.suite.scores import write_suite_scores
from onelayer.suite.standing import SuiteState, benchmark_manifest
from onelayer.tasks.contract import Problem, Task

_Own = tuple[tuple[Problem, ...], Task]


def score_run(study: Study, run: Run) -> None:
    """Sample and grade a run on the benchmarks that it has no valid records of, then write its scores.

    Every benchmark's rows are read before the first is sampled. Raises UserError where the run is not trained, rows
    cannot be used, the harness is not installed, or the disk is full.
    """
    at_commits = settle(study)
    state = SuiteState(study, StudyState(study, thorough=True))
    missing: dict[str, tuple[Benchmark, Payload]] = {}
    for benchmark in study.suite:
        if not state.benchmark(run, benchmark).done:
            expected = state.expected(run, benchmark)
            if isinstance(expected, str):
                raise UserError(f"{study.name}/{run.name}: {benchmark.name}: {expected}")
            missing[benchmark.name] = benchmark, expected
    read_from = {benchmark.name: benchmark for benchmark in at_commits.suite}
    own: dict[str, _Own] = {}
    for name, (benchmark, _) in missing.items():
        if isinstance(benchmark, HarnessBenchmark):
            check_harness(benchmark)
        else:
            own[name] = benchmark_problems(cast(OwnBenchmark, read_from[name]), study.seed)
    if own and study.generation.backend == "vllm":
        check_vllm(study.name)
    sampler = None
    if missing:
        model, tokenizer = load_run(study, run)
    if own:
        asked = [problem for problems, _ in own.values() for problem in problems]
        limit = max(
            benchmark.max_tokens for benchmark, _ in missing.values() if not isinstance(benchmark, HarnessBenchmark)
        )
        sampler = open_sampler(study, model, tokenizer, asked, limit)
    for name, (benchmark, payload) in missing.items():
        meter = Meter()
        if isinstance(benchmark, HarnessBenchmark):
            batch_size = study.evaluation.batch_size
            rows, how = run_harness(benchmark, run.name, model, tokenizer, batch_size, study.model)
            how = {"k": 1, "graders": harness_versions(), **how}
        else:
            rows, how = _sampled(study, run, benchmark, own[name], model, tokenizer, sampler)
        _keep(study, run, name, payload, rows, how | {"device": str(model.device)}, meter)
    write_suite_scores(study, run)


def _sampled(
    study: Study,
    run: Run,
    benchmark: OwnBenchmark,
    own: _Own,
    model: Any,
    tokenizer: Any,
    sampler: VllmSampler | None,
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    problems, task = own
    asked = Asked(study, run, benchmark.name, problems, benchmark.samples, benchmark.temperature, benchmark.max_tokens)
    with closing(Grader(task, study.grading)) as grader:
        rows = sampled_answers(asked, grader, model, tokenizer, sampler)
    return rows, {
        "k": benchmark.samples,
        "temperature": benchmark.temperature,
        "max_tokens": benchmark.max_tokens,
        "prompt": benchmark.prompt,
        "seed": study.seed,
        "graders": _grader_versions(benchmark),
    }


def _keep(
    study: Study, run: Run, name: str, payload: Payload, rows: list[dict[str, Any]], how: dict[str, Any], meter: Meter
) -> None:
    folder = suite_folder(study.name, run.name)
    path = folder / f"{name}.parquet"
    write_records(path, rows)
    write_manifest(
        folder,
        study.name,
        run.name,
        payload,
        [path],
        meter.seconds,
        meter.peak_memory_bytes,
        {"records": len(rows), "tokens": sum(row["tokens"] for row in rows), **how},
        name=benchmark_manifest(name),
    )
    right = sum(row["correct"] for row in rows) / len(rows)
    print(f"{study.name}/{run.name}: {name}: {len(rows)} answers, {right:.3f} right", flush=True)


def _grader_versions(benchmark: OwnBenchmark) -> dict[str, str]:
    """What judges a benchmark, and the versions that its judgement can depend on."""
    found = {"onelayer": version("onelayer")}
    if isinstance(benchmark, QuestionsBenchmark) and benchmark.grading == "math":
        found |= {package: version(package) for package in ("math-verify", "sympy", "latex2sympy2-extended")}
    return found
