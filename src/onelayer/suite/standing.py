"""What of a study's evaluation suite is done, benchmark by benchmark; no torch."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from onelayer.config import Study
from onelayer.errors import UserError
from onelayer.fingerprint import Payload, digest, suite_payload
from onelayer.grid import Job, Run, all_runs, jobs
from onelayer.manifest import read_manifest
from onelayer.state import Standing, StudyState
from onelayer.store import read_json, run_folder, suite_folder, suite_scores_file
from onelayer.suite.benchmarks import Benchmark, HarnessBenchmark
from onelayer.suite.harness import task_files, task_files_sha
from onelayer.suite.own import rows_identity


def scored_runs(study: Study) -> tuple[Run, ...]:
    """The runs that are scored on the suite: all but the search's, which choose a rate and report nothing."""
    return tuple(run for run in all_runs(study) if run.kind != "search") if study.suite else ()


def scored_jobs(study: Study) -> tuple[Job, ...]:
    """The jobs of the graph whose runs are scored on the suite; none where the study names no suite."""
    return tuple(job for job in jobs(study) if job.runs[0].kind != "search") if study.suite else ()


def local_rows(study: Study) -> list[str]:
    """The user's own files that the suite's problems come from, for the graph to watch."""
    found: list[str] = []
    for benchmark in study.suite:
        if isinstance(benchmark, HarnessBenchmark):
            found += map(str, task_files(benchmark))
        elif benchmark.source.path is not None:
            found.append(str(benchmark.source.path))
    return list(dict.fromkeys(found))


def benchmark_manifest(benchmark: str) -> str:
    """The manifest's name of one benchmark's records."""
    return f"{benchmark}.json"


class SuiteState:
    """The standing of every run on every benchmark, as the disk is when it is first asked.

    Args:
        study: the settings to hold the disk against.
        state: the standing of its runs.
    """

    def __init__(self, study: Study, state: StudyState) -> None:
        self._study = study
        self._state = state
        self._weights: dict[str, str | None] = {}

    @cached_property
    def _rows(self) -> dict[str, str | UserError | None]:
        """What names each benchmark's rows for good, or why that is not known."""
        found: dict[str, str | UserError | None] = {}
        for benchmark in self._study.suite:
            try:
                found[benchmark.name] = (
                    task_files_sha(benchmark)
                    if isinstance(benchmark, HarnessBenchmark)
                    else rows_identity(benchmark, self._study)
                )
            except UserError as error:
                found[benchmark.name] = error
        return found

    def _weights_of(self, run: Run) -> str | None:
        """The content hash of a run's weights; None where it is not trained. Looked up once, not for each benchmark."""
        if run.name not in self._weights:
            manifest = read_manifest(run_folder(self._study.name, run.name)) if self._state.training(run).done else None
            self._weights[run.name] = None if manifest is None else manifest.content
        return self._weights[run.name]

    def expected(self, run: Run, benchmark: Benchmark) -> Payload | str:
        """All that decides a run's records on a benchmark, or, in words, what it waits for."""
        weights = self._weights_of(run)
        if weights is None:
            return "waits for its training"
        rows = self._rows[benchmark.name]
        if isinstance(rows, UserError):
            return str(rows)
        return suite_payload(self._study, run, benchmark, weights, rows)

    def benchmark(self, run: Run, benchmark: Benchmark) -> Standing:
        """Where a run's records on one benchmark stand."""
        folder = suite_folder(self._study.name, run.name)
        manifest = read_manifest(folder, benchmark_manifest(benchmark.name))
        return self._state.standing(folder, manifest, self.expected(run, benchmark))

    def run(self, run: Run) -> Standing:
        """Where a run stands on the whole suite: done where every benchmark and the scores over them are."""
        for benchmark in self._study.suite:
            standing = self.benchmark(run, benchmark)
            if not standing.done:
                return Standing(False, f"{benchmark.name}: {standing.reason}")
        path = suite_scores_file(self._study.name, run.name)
        try:
            held = read_json(path, "")["benchmarks"]
        except (UserError, KeyError, TypeError):
            return Standing(False, f"damaged: {path}: not the scores of its benchmarks")
        if {name: row.get("fingerprint") for name, row in held.items()} != self._fingerprints(run):
            return Standing(False, "the scores are to be added up")
        return Standing(True, "done")

    def _fingerprints(self, run: Run) -> dict[str, Any]:
        found = {}
        for benchmark in self._study.suite:
            expected = self.expected(run, benchmark)
            found[benchmark.name] = None if isinstance(expected, str) else digest(expected)
        return found
