"""The suite's part of a study's analysis: scores by run, their spread over seeds, and contributions by composite.

A contribution to a composite is the contribution of `onelayer.analysis.contribution` to a weighted mean of its
benchmarks' means (`onelayer.analysis.problem_sets`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd

from onelayer.analysis.coefficients import all_tied, pearson, permutation_p
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

# Of two layers, a coefficient can only be −1 or 1.
_FEWEST_LAYERS = 3


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
    contributions = {name: _contributions(study, name, means) for name in [*names, *whole]}
    return {
        "benchmarks": {benchmark.name: _made(scores[BASE.name], benchmark.name) for benchmark in study.suite},
        "composites": {name: list(parts) for name, parts in shown.items()},
        "scores": {run.name: _scores(scores[run.name]) for run in runs},
        "spread": _spread(study, scores, [*names, *whole]),
        "contributions": contributions,
        "math_and_all": _math_and_all(study, means, contributions) if {"math", "overall"} <= set(whole) else None,
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
    bootstrap = _bootstrap(study, means, weights, name)
    found = scan(
        _matrix(means, weights, [BASE]),
        _matrix(means, weights, list(full_runs(study))),
        {layer: _matrix(means, weights, runs) for layer, runs in _arms(study).items()},
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


def _arms(study: Study) -> dict[int, list[Run]]:
    arms: dict[int, list[Run]] = {}
    for run in layer_runs(study):
        arms.setdefault(run.layers[0], []).append(run)
    return arms


def _matrix(means: dict[str, dict[str, pd.Series]], parts: Iterable[str], runs: list[Run]) -> Matrix:
    """The runs' means by problem over several benchmarks, shape (runs, problems)."""
    columns = [aligned([means[part][BASE.name], *(means[part][run.name] for run in runs)])[1:] for part in parts]
    stacked: Matrix = np.hstack(columns)
    return stacked


def _bootstrap(study: Study, means: dict[str, dict[str, pd.Series]], weights: dict[str, float], name: str) -> Bootstrap:
    """Draws of the benchmarks' problems; of one name and the same benchmarks the same, whatever the weights."""
    return Bootstrap(
        ProblemSets([part for part in weights for _ in means[part][BASE.name]], weights),
        study.analysis.resamples,
        study.analysis.confidence,
        derive_seed(study.seed, "bootstrap", "suite", name),
    )


def _math_and_all(
    study: Study, means: dict[str, dict[str, pd.Series]], contributions: dict[str, Any]
) -> dict[str, Any]:
    """Pearson's r over layers of C in mathematics with C in all categories, as the paper gives it.

    C is a straight line of the score, so r is that of the scores. Both are drawn on the same problems and seeds.
    Mathematics is itself one of the four categories, so r leans up.
    """
    result: dict[str, Any] = {"layers": len(study.layers), "pearson": None, "reason": None}
    undefined = [name for name in ("math", "overall") if not contributions[name]["defined"]]
    if undefined:
        return result | {"reason": f"the full gain is not clearly above zero in {' and '.join(undefined)}"}
    if len(study.layers) < _FEWEST_LAYERS:
        return result | {"reason": f"{len(study.layers)} layers were scanned, fewer than {_FEWEST_LAYERS}"}
    overall, math_alone = (library.weights(name, library.composites()) for name in ("overall", "math"))
    profiles, draws = [], []
    for weights in (dict.fromkeys(overall, 0.0) | math_alone, overall):
        bootstrap = _bootstrap(study, means, weights, "math and all")
        arms = [_matrix(means, weights, runs) for runs in _arms(study).values()]
        profiles.append(np.array([bootstrap.sets.score(arm) for arm in arms]))
        draws.append(np.stack([bootstrap.scores(arm) for arm in arms], axis=1))
    if all_tied(profiles[0]) or all_tied(profiles[1]):
        return result | {"reason": "all layers score alike in one of the two"}
    figure = asdict(bootstrap.interval(float(pearson(*profiles)), pearson(*draws)))
    p = permutation_p(profiles[0], profiles[1], derive_seed(study.seed, study.name, "math and all"), pearson)
    return result | {"pearson": figure | {"p": p}}


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
