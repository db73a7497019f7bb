"""The compare phase: one file of figures over all studies, which `dvc metrics diff` reads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from onelayer.grid import layer_name
from onelayer.store import REPORTS, analysis_file, read_json, write_json

METRICS = REPORTS / "metrics.json"


def read_analysis(study: str) -> dict[str, Any]:
    """Read a study's analysis. Raises UserError where there is none."""
    analysis: dict[str, Any] = read_json(analysis_file(study), f"onelayer analyze {study}")
    return analysis


def compare(studies: Sequence[str]) -> Path:
    """Write reports/metrics.json, every undefined figure as null."""
    write_json(METRICS, {study: study_metrics(read_analysis(study)) for study in studies})
    return METRICS


def headlines() -> list[str]:
    """What reports/metrics.json says, in a line a study. Raises UserError where it is not there."""
    lines = []
    for study, figures in read_json(METRICS, "onelayer compare").items():
        full, best = figures["full"], figures["best_layer"]
        gain = f"full gain {full['gain']:.3f} ({full['gain_low']:.3f} to {full['gain_high']:.3f})"
        if best["contribution"] is None:
            lines.append(f"{study}: {gain}, not clearly above zero: contributions are undefined")
        else:
            lines.append(
                f"{study}: {gain}; layer {best['layer']} alone carries {best['contribution']:.2f} of it"
                f" ({best['low']:.2f} to {best['high']:.2f})"
            )
    return lines


def study_metrics(analysis: dict[str, Any]) -> dict[str, Any]:
    """A study's headline figures, all measured on ``report``."""
    best = analysis["best_layer"]
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
    }
