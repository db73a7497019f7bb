"""The compare phase: one file of figures over all studies, which `dvc metrics diff` reads."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from onelayer.config import study_file
from onelayer.errors import UserError
from onelayer.grid import layer_name
from onelayer.pairs import BETWEEN, correlations
from onelayer.published import published_metrics, shown_published
from onelayer.store import REPORTS, analysis_file, read_json, write_json

METRICS = REPORTS / "metrics.json"
# The keys of metrics.json that are no study of ours, and what they hold.
CORRELATIONS = "correlations"
PUBLISHED = "published"
_TAKEN = {CORRELATIONS: "the correlations between studies", PUBLISHED: "what others published"}


def read_analysis(study: str) -> dict[str, Any]:
    """Read a study's analysis. Raises UserError where there is none."""
    analysis: dict[str, Any] = read_json(analysis_file(study), f"onelayer analyze {study}")
    return analysis


def compare(studies: Sequence[str]) -> Path:
    """Write reports/metrics.json, every undefined figure as null.

    Raises UserError where a study has no analysis or records, or a name that is taken, or where a published study that
    is to stand beside them cannot be read.
    """
    for name, held in _TAKEN.items():
        if name in studies:
            raise UserError(
                f"{study_file(name)}: found a study named {name!r}, expected another name: in {METRICS} this one holds"
                f" {held}"
            )
    published = published_metrics(shown_published())
    metrics = {study: study_metrics(read_analysis(study)) for study in studies}
    write_json(METRICS, metrics | {CORRELATIONS: correlations(studies)} | ({PUBLISHED: published} if published else {}))
    return METRICS


def headlines() -> list[str]:
    """What reports/metrics.json says, in a line a study and pair. Raises UserError where it is not there."""
    lines = []
    metrics = read_json(METRICS, "onelayer compare")
    pairs = metrics.pop(CORRELATIONS, {})
    metrics.pop(PUBLISHED, None)
    for study, figures in metrics.items():
        full, best = figures["full"], figures["best_layer"]
        gain = f"full gain {full['gain']:.3f} ({full['gain_low']:.3f} to {full['gain_high']:.3f})"
        name = f"{study} ({figures['missing_runs']} runs missing)" if "missing_runs" in figures else study
        if full["gain_low"] <= 0:
            lines.append(f"{name}: {gain}, not clearly above zero: contributions are undefined")
        elif best["layer"] is None:
            lines.append(f"{name}: {gain}; no layer is done yet")
        else:
            lines.append(
                f"{name}: {gain}; layer {best['layer']} alone carries {best['contribution']:.2f} of it"
                f" ({best['low']:.2f} to {best['high']:.2f})"
            )
    for pair, figures in pairs.items():
        if figures["reason"]:
            lines.append(f"{pair}: no rank correlation: {figures['reason']}")
        else:
            lines.append(
                f"{pair}: {figures['kind']}, Spearman {figures['spearman']:.2f} ({figures['low']:.2f} to"
                f" {figures['high']:.2f}) over {figures['layers']} layers, p {figures['p']:.2g}"
            )
    return lines


def study_metrics(analysis: dict[str, Any]) -> dict[str, Any]:
    """A study's headline figures, all measured on ``report``; null where a study, or what is done of it, has none."""
    best = analysis["best_layer"] or {"layer": None, "score": {"value": None}, "contribution": None}
    found = best["contribution"] or {"value": None, "low": None, "high": None}
    return {
        "base": {"score": analysis["base"]["value"]},
        "full": {
            "score": analysis["full"]["value"],
            "gain": analysis["gain"]["value"],
            "gain_low": analysis["gain"]["low"],
            "gain_high": analysis["gain"]["high"],
        },
        "best_layer": {
            "layer": best["layer"],
            "score": best["score"]["value"],
            "contribution": found["value"],
            "low": found["low"],
            "high": found["high"],
        },
        "contribution": {
            layer_name(row["layer"]): row["contribution"]["value"] if row["contribution"] else None
            for row in analysis["layers"]
        },
        **_baselines(analysis),
        **({"missing_runs": len(analysis["missing"])} if analysis["missing"] else {}),
        **_strategies(analysis),
    }


def _baselines(analysis: dict[str, Any]) -> dict[str, Any]:
    """What each baseline scored and its share of the gain; nothing where the study has none."""
    # Full training and the best layer have no search of their own, and stand above.
    figures = {row["name"]: _share(row) for row in analysis["baselines"] if row["search"] is not None}
    return {"baselines": figures} if figures else {}


def _strategies(analysis: dict[str, Any]) -> dict[str, Any]:
    """What each strategy scored and its share of the gain, and how far another rate moves C; nothing without runs."""
    figures: dict[str, Any] = {}
    if analysis["strategies"]:
        figures["strategies"] = {row["name"]: _share(row) for row in analysis["strategies"]}
    if analysis["rate_sensitivity"] is not None:
        figures["rate_sensitivity"] = {"largest_move": analysis["rate_sensitivity"]["largest_move"]}
    return figures


def _share(row: dict[str, Any]) -> dict[str, Any]:
    found = row["contribution"] or {"value": None, "low": None, "high": None}
    return {
        "score": row["score"]["value"],
        "share_of_gain": found["value"],
        "low": found["low"],
        "high": found["high"],
    }


def read_correlations(studies: Sequence[str]) -> dict[tuple[str, str], dict[str, Any]]:
    """Read every pair's figures from reports/metrics.json. Raises UserError where a pair has none."""
    made_by = f"onelayer compare {' '.join(studies)}"
    found = read_json(METRICS, made_by).get(CORRELATIONS, {})
    pairs = list(combinations(studies, 2))
    for pair in pairs:
        if BETWEEN.join(pair) not in found:
            raise UserError(f"{METRICS}: found no figures of {BETWEEN.join(pair)}; `{made_by}` makes them")
    return {pair: found[BETWEEN.join(pair)] for pair in pairs}
