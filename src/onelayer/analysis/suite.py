"""The suite's part of a study's analysis: scores by run, their spread over seeds, and contributions by composite.

A contribution to a composite is the contribution of `onelayer.analysis.contribution` to a weighted mean of its
benchmarks' means (`onelayer.analysis.problem_sets`).
"""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd

from onelayer.analysis.contribution import Bootstrap, scan
from onelayer.analysis.problem_sets import Matrix, ProblemSets
from onelayer.config import Study
from onelayer.errors import UserError
from onelayer.grid import BASE, Run, full_runs, layer_name, layer_runs
from onelayer.records import aligned, judged_means
from onelayer.seeds import derive_seed
from onelayer.state import StudyState
from onelayer.suite import benchmarks as library
from onelayer.suite.benchmarks import HarnessBenchmark
from onelayer.suite.scores import read_benchmark_records, read_suite_scores, shown_composites
from onelayer.suite.standing import SuiteState, scored_runs


def suite_section(study: Study, state: StudyState) -> dict[str, Any]:
    """The suite's part of analysis.json. Raises UserError where a run's records on it are missing or stale."""
    standings = SuiteState(study, state)
    runs = scored_runs(study)
    for run in runs:
        standing = standings.run(run)
        if not standing.done:
            raise UserError(
                f"{study.name}/{run.name}: not scored on the suite ({standing.reason}); `onelayer suite {study.name}"
                f" {run.name}` scores it"
            )
    scores = {run.name: read_suite_scores(study.name, run.name) for run in runs}
    names = [benchmark.name for benchmark in study.suite]
    means = {
        name: {run.name: judged_means(read_benchmark_records(study.name, run.name, name)) for run in runs}
        for name in names
    }
    shown = shown_composites(study)
    whole = [name for name in shown if scores[BASE.name]["composites"][name]["score"] is not None]
    return {
        "benchmarks": {benchmark.name: _made(scores[BASE.name], benchmark.name) for benchmark in study.suite},
        "composites": {name: list(parts) for name, parts in shown.items()},
        "scores": {run.name: _scores(scores[run.name]) for run in runs},
        "spread": _spread(study, scores, [*names, *whole]),
        "contributions": {name: _contributions(study, name, means) for name in [*names, *whole]},
        "notes": _notes(study, scores[BASE.name]),
    }


def _made(scores: dict[str, Any], name: str) -> dict[str, Any]:
    row = scores["benchmarks"][name]
    return {key: row[key] for key in ("category", "problems", "k", "made")}


def _scores(scores: dict[str, Any]) -> dict[str, Any]:
    return {
        "benchmarks": {
            name: {key: row[key] for key in row if key not in ("category", "made", "fingerprint")}
            for name, row in scores["benchmarks"].items()
        },
        "composites": scores["composites"],
    }


def _spread(study: Study, scores: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """Each adaptation's mean over its seeds with their standard deviation, as the paper gives its repeats."""
    arms = {BASE.name: [BASE], "full": list(full_runs(study))}
    for run in layer_runs(study):
        arms.setdefault(layer_name(run.layers[0]), []).append(run)
    return {arm: {name: _mean_and_deviation(scores, runs, name) for name in names} for arm, runs in arms.items()}


def _mean_and_deviation(scores: dict[str, Any], runs: list[Run], name: str) -> dict[str, Any]:
    kind = "benchmarks" if name in scores[BASE.name]["benchmarks"] else "composites"
    figures = [scores[run.name][kind][name]["score"] for run in runs]
    deviation = float(np.std(figures, ddof=1)) if len(figures) > 1 else None
    return {"mean": math.fsum(figures) / len(figures), "sd": deviation, "seeds": len(figures)}


def _contributions(study: Study, name: str, means: dict[str, dict[str, pd.Series]]) -> dict[str, Any]:
    """Every layer's contribution to one benchmark or composite."""
    weights = library.weights(name, library.composites())
    sets = ProblemSets([part for part in weights for _ in means[part][BASE.name]], weights)

    def matrix(runs: list[Run]) -> Matrix:
        parts = [aligned([means[part][BASE.name], *(means[part][run.name] for run in runs)])[1:] for part in weights]
        stacked: Matrix = np.hstack(parts)
        return stacked

    arms: dict[int, list[Run]] = {}
    for run in layer_runs(study):
        arms.setdefault(run.layers[0], []).append(run)
    bootstrap = Bootstrap(
        sets, study.analysis.resamples, study.analysis.confidence, derive_seed(study.seed, "bootstrap", "suite", name)
    )
    found = scan(
        matrix([BASE]),
        matrix(list(full_runs(study))),
        {layer: matrix(runs) for layer, runs in arms.items()},
        bootstrap,
    )
    rows = []
    for layer in study.layers:
        chosen = found.contributions[layer]
        rows.append(
            {
                "layer": layer,
                "score": asdict(found.scores[layer]),
                "contribution": asdict(chosen.interval) if chosen else None,
                "per_seed": list(chosen.per_seed) if chosen else None,
            }
        )
    return {
        "base": asdict(found.base),
        "full": asdict(found.full),
        "gain": asdict(found.gain),
        "defined": found.defined,
        "layers": rows,
    }


def _notes(study: Study, scores: dict[str, Any]) -> list[str]:
    notes = []
    for name, row in scores["composites"].items():
        if row["missing"]:
            notes.append(f"{name} is undefined: {', '.join(row['missing'])} not in the suite.")
    for benchmark in study.suite:
        path = benchmark.path if isinstance(benchmark, HarnessBenchmark) else benchmark.source.path
        if path is not None:
            notes.append(f"{benchmark.name} was read from {path}, not from where it is published.")
    return notes
