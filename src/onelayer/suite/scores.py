"""A run's scores on the suite: a pure function of its records, and of how the manifests say they were made."""

from __future__ import annotations

from typing import Any

import pandas as pd

from onelayer.analysis.composite import composites
from onelayer.analysis.sampling import Estimate, describe
from onelayer.config import Study
from onelayer.errors import UserError
from onelayer.grid import Run
from onelayer.manifest import read_manifest
from onelayer.records import read_record_file
from onelayer.store import read_json, suite_folder, suite_scores_file, write_json
from onelayer.suite import benchmarks as library
from onelayer.suite.standing import benchmark_manifest


def read_benchmark_records(study: str, run: str, benchmark: str) -> pd.DataFrame:
    """Read a run's records on a benchmark. Raises UserError where there are none."""
    return read_record_file(suite_folder(study, run) / f"{benchmark}.parquet", f"onelayer suite {study} {run}")


def shown_composites(study: Study) -> dict[str, tuple[str, ...]]:
    """The composites that have a benchmark in the study's suite."""
    named = {benchmark.name for benchmark in study.suite}
    members = library.composites()
    return {name: parts for name, parts in members.items() if named.intersection(library.leaves(name, members))}


def write_suite_scores(study: Study, run: Run) -> dict[str, Any]:
    """Score a run's records on every benchmark, add them up to composites, and write suite.json.

    Raises UserError where records are missing or a problem has no judged answer.
    """
    rows: dict[str, Any] = {}
    for benchmark in study.suite:
        manifest = read_manifest(suite_folder(study.name, run.name), benchmark_manifest(benchmark.name))
        assert manifest is not None  # written, or found whole, a moment ago
        try:
            figures = describe(read_benchmark_records(study.name, run.name, benchmark.name))
        except ValueError as error:
            raise UserError(f"{study.name}/{run.name}: {benchmark.name}: {error}") from None
        rows[benchmark.name] = {
            "category": benchmark.category,
            **figures,
            "made": {key: value for key, value in manifest.details.items() if key not in ("records", "tokens")},
            "fingerprint": manifest.fingerprint,
        }
    members = shown_composites(study)
    found = composites({name: Estimate(row["score"], row["se"]) for name, row in rows.items()}, members)
    scores = {
        "benchmarks": rows,
        "composites": {
            name: {
                "score": None if estimate is None else estimate.value,
                "se": None if estimate is None else estimate.se,
                "missing": [part for part in library.leaves(name, library.composites()) if part not in rows],
            }
            for name, estimate in found.items()
        },
    }
    write_json(suite_scores_file(study.name, run.name), scores)
    return scores


def read_suite_scores(study: str, run: str) -> dict[str, Any]:
    """Read a run's scores on the suite. Raises UserError where there are none."""
    scores: dict[str, Any] = read_json(suite_scores_file(study, run), f"onelayer suite {study} {run}")
    return scores
