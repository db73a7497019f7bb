"""The baselines beside full training and the best single layer: score, share of the gain, and what each takes."""

from __future__ import annotations

from dataclasses import asdict
from statistics import fmean
from typing import Any

from onelayer.analysis.contribution import Arm, Scan, deviation
from onelayer.config import Study
from onelayer.grid import (
    Run,
    families,
    family_runs,
    family_search_runs,
    full_runs,
    layer_name,
    layer_runs,
    search_runs,
)
from onelayer.manifest import Manifest
from onelayer.search import read_choice


def baselines(
    study: Study,
    report: Scan,
    scores: dict[str, list[float]],
    best: dict[str, Any],
    learning_rate: float,
    manifests: dict[str, Manifest],
    costs: dict[str, dict[str, Any]],
) -> list[dict[str, Any]]:
    """One row for full training, one for the layer ranked first on ``select``, and one a baseline; none without any.

    The share of the gain is C's formula and estimator, and undefined where C is.

    Args:
        study: the study.
        report: the estimates on ``report``.
        scores: the scores of each setting's seeds there.
        best: the best layer's row of the analysis.
        learning_rate: the study's own.
        manifests: by run.
        costs: by run, as the analysis has them.
    """
    if not families(study):
        return []
    layer: int = best["layer"]
    of_layer = tuple(run for run in layer_runs(study) if run.layers == (layer,))
    searched = {"search_seconds": _seconds(search_runs(study), costs)}  # both take the rate of the study's search
    rows = [
        _row("full", None, full_runs(study), learning_rate, scores, costs)
        | {
            "score": asdict(report.full),
            # By the definition of C, whatever the draw.
            "contribution": {"value": 1.0, "low": 1.0, "high": 1.0} if report.defined else None,
        }
        | searched,
        _row(layer_name(layer), layer, of_layer, learning_rate, scores, costs) | _estimates(report, layer) | searched,
    ]
    for family in families(study):
        runs = family_runs(study, family)
        search = read_choice(study, family)
        trained = manifests[runs[0].name].details.get("layers") or [None]
        rows.append(
            _row(family.name, trained[0], runs, search["learning_rate"], scores, costs)
            | _estimates(report, family.name)
            | {"search": search, "search_seconds": _seconds(family_search_runs(study, family), costs)}
        )
    return rows


def _row(
    name: str,
    layer: int | None,
    runs: tuple[Run, ...],
    learning_rate: float,
    scores: dict[str, list[float]],
    costs: dict[str, dict[str, Any]],
) -> dict[str, Any]:
    """What a setting is and took: parameters and bytes of one run, its mean seconds, its highest memory."""
    of = [costs[run.name] for run in runs]
    return {
        "name": name,
        "layer": layer,
        "learning_rate": learning_rate,
        "score_per_seed": scores[name],
        "score_deviation": deviation(scores[name]),
        "trained_parameters": of[0]["trained_parameters"],
        "checkpoint_bytes": of[0]["checkpoint_bytes"],
        "train_seconds": fmean(one["train_seconds"] for one in of),
        "peak_memory_bytes": max(one["peak_memory_bytes"] for one in of),
        "search": None,
    }


def _estimates(report: Scan, arm: Arm) -> dict[str, Any]:
    found = report.contributions[arm]
    return {"score": asdict(report.scores[arm]), "contribution": asdict(found.interval) if found else None}


def _seconds(runs: tuple[Run, ...], costs: dict[str, dict[str, Any]]) -> float:
    """What a search took: its runs' training and sampling."""
    return float(sum(costs[run.name]["train_seconds"] + costs[run.name]["evaluate_seconds"] for run in runs))
