"""The baselines beside full training and the best single layer: score, share of the gain, and what each takes."""

from __future__ import annotations

from dataclasses import asdict
from statistics import fmean
from typing import Any

from onelayer.analysis.contribution import Arm, Scan, deviation
from onelayer.analysis.evidence import Evidence
from onelayer.grid import Run, families, family_runs, family_search_runs, full_runs, layer_name, search_runs
from onelayer.search import read_choice


def baselines(
    evidence: Evidence,
    report: Scan,
    best: dict[str, Any] | None,
    learning_rate: float,
    costs: dict[str, dict[str, Any]],
) -> list[dict[str, Any]]:
    """One row for full training, one for the layer ranked first on ``select``, and one a baseline; none without any.

    The share of the gain is C's formula and estimator, and undefined where C is. A baseline of which no run is there
    has no row.

    Args:
        evidence: what the runs left.
        report: the estimates on ``report``.
        best: the best layer's row of the analysis; None where no layer is there.
        learning_rate: the study's own.
        costs: by run, as the analysis has them.
    """
    study = evidence.study
    if not families(study):
        return []

    def row(name: str, layer: int | None, runs: list[Run], rate: float) -> dict[str, Any]:
        took = [costs[run.name] for run in runs]
        return _row(name, layer, rate, evidence.scores(runs), took) | {"seeds": [run.seed for run in runs]}

    # Full training and the best layer take the rate of the study's search.
    searched = {"search_seconds": _seconds(evidence.of(search_runs(study)), costs)}
    rows = [
        row("full", None, evidence.of(full_runs(study)), learning_rate)
        | {
            "score": asdict(report.full),
            # By the definition of C, whatever the draw.
            "contribution": {"value": 1.0, "low": 1.0, "high": 1.0} if report.defined else None,
        }
        | searched
    ]
    if best is not None:
        layer: int = best["layer"]
        rows.append(
            row(layer_name(layer), layer, evidence.layers[layer], learning_rate) | _estimates(report, layer) | searched
        )
    for family in families(study):
        runs = evidence.of(family_runs(study, family))
        if not runs:
            continue
        search = read_choice(study, family)
        trained = evidence.trained_layers(runs[:1])
        rows.append(
            row(family.name, trained[0] if trained else None, runs, search["learning_rate"])
            | _estimates(report, family.name)
            | {
                "search": search,
                "search_seconds": _seconds(evidence.of(family_search_runs(study, family)), costs),
            }
        )
    return rows


def _row(
    name: str, layer: int | None, learning_rate: float, scores: list[float], of: list[dict[str, Any]]
) -> dict[str, Any]:
    """What a setting is and took: parameters and bytes of one run, its mean seconds, its highest memory."""
    return {
        "name": name,
        "layer": layer,
        "learning_rate": learning_rate,
        "score_per_seed": scores,
        "score_deviation": deviation(scores),
        "trained_parameters": of[0]["trained_parameters"],
        "checkpoint_bytes": of[0]["checkpoint_bytes"],
        "train_seconds": fmean(one["train_seconds"] for one in of),
        "peak_memory_bytes": max(one["peak_memory_bytes"] for one in of),
        "search": None,
    }


def _estimates(report: Scan, arm: Arm) -> dict[str, Any]:
    found = report.contributions[arm]
    return {"score": asdict(report.scores[arm]), "contribution": asdict(found.interval) if found else None}


def _seconds(runs: list[Run], costs: dict[str, dict[str, Any]]) -> float:
    """What a search took: its runs' training and sampling."""
    return float(sum(costs[run.name]["train_seconds"] + costs[run.name]["evaluate_seconds"] for run in runs))
