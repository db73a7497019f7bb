"""What the runs of a study took: time, memory, disk and tokens by setting, and a whole scan beside one full run.

Everything is as measured, in the runs' manifests. Seconds are of the wall clock: they depend on the machine and on what
else ran on it. `onelayer.cost` is the other half: what runs would take, before they ran.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from statistics import fmean
from typing import Any

from onelayer.analysis.evidence import Evidence
from onelayer.grid import BASE, Run

# What a full run's is the measure of.
_COMPARED = ("train_seconds", "peak_memory_bytes", "checkpoint_bytes", "trained_parameters")
_HOUR = 3600


def economics(evidence: Evidence, costs: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The cost's part of the analysis.

    Args:
        evidence: what the runs left.
        costs: by run, as the analysis has them: seconds, peak memory, bytes of the checkpoint, trained parameters.
    """
    arms = evidence.settings
    settings = [_setting(evidence, name, runs, costs) for name, runs in arms.items()]
    full = next(row for row in settings if row["kind"] == "full")
    for row in settings:
        row["of_full"] = {
            key: row[key] / full[key] if row["kind"] != "base" and row[key] is not None and full[key] else None
            for key in _COMPARED
        }
    _add_gain_per_hour(evidence, arms, settings)
    return {"settings": settings, "scan": _scan(evidence, costs), "machines": _machines(evidence)}


def _setting(evidence: Evidence, name: str, runs: Sequence[Run], costs: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Means over a setting's seeds; the memory is the highest of them."""
    of = [costs[run.name] for run in runs]
    trained = [evidence.trainings[run.name].details.get("tokens") for run in runs]
    sampled = [evidence.evaluations[run.name].details.get("tokens") for run in runs]
    return {
        "name": name,
        "kind": runs[0].kind,
        "layers": evidence.trained_layers(runs),
        "runs": len(runs),
        "train_seconds": fmean(one["train_seconds"] for one in of),
        "evaluate_seconds": fmean(one["evaluate_seconds"] for one in of),
        "peak_memory_bytes": max(one["peak_memory_bytes"] for one in of),
        "checkpoint_bytes": _mean([one["checkpoint_bytes"] for one in of]),
        "trained_parameters": of[0]["trained_parameters"],
        "train_tokens": _mean(trained),
        "evaluate_tokens": _mean(sampled),
    }


def _mean(figures: Sequence[float | None]) -> float | None:
    """The mean; None where any is missing."""
    there = [figure for figure in figures if figure is not None]
    return fmean(there) if len(there) == len(figures) else None


def _add_gain_per_hour(evidence: Evidence, arms: dict[str, list[Run]], settings: Sequence[dict[str, Any]]) -> None:
    """Give each row its gain over the base on ``report``, and that a training hour, the hours taken as they are."""
    bootstrap = evidence.bootstrap("report", "cost")
    base = evidence.matrix("report", [BASE])
    base_score, base_draws = bootstrap.sets.score(base), bootstrap.scores(base)
    for row in settings:
        row["gain"] = row["gain_per_hour"] = None
        if row["kind"] == "base":
            continue
        runs = evidence.matrix("report", arms[row["name"]])
        gain = bootstrap.interval(bootstrap.sets.score(runs) - base_score, bootstrap.scores(runs) - base_draws)
        row["gain"] = asdict(gain)
        if row["train_seconds"] > 0:
            row["gain_per_hour"] = {end: figure / row["train_seconds"] * _HOUR for end, figure in asdict(gain).items()}


# The parts of a study, by the kinds of their runs, and what they are for.
_PARTS = (
    ("search", ("search",)),
    ("full", ("full",)),
    ("layers", ("layer",)),
)


def _scan(evidence: Evidence, costs: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """What the scan took: the search, the full runs and every layer, trained and evaluated, beside one full run.

    Only runs that have records count; the base, and runs that a scan does not need, stand apart.
    """

    def spent(runs: Sequence[Run]) -> dict[str, float]:
        trained = float(sum(costs[run.name]["train_seconds"] for run in runs))
        evaluated = float(sum(costs[run.name]["evaluate_seconds"] for run in runs))
        return {"runs": len(runs), "train_seconds": trained, "evaluate_seconds": evaluated}

    parts = {name: spent([run for run in evidence.runs if run.kind in kinds]) for name, kinds in _PARTS}
    scanned = {kind for _, kinds in _PARTS for kind in kinds}
    others = spent([run for run in evidence.runs if run.kind not in scanned and run is not BASE])
    total = sum(part["train_seconds"] + part["evaluate_seconds"] for part in parts.values())
    full = parts["full"]
    one_full = (full["train_seconds"] + full["evaluate_seconds"]) / full["runs"]
    sizes = [costs[run.name]["checkpoint_bytes"] for run in evidence.runs if run is not BASE]
    return {
        "parts": parts,
        "others": others,
        "base": spent([BASE]),
        "seconds": total,
        "one_full_run_seconds": one_full,
        "in_full_runs": total / one_full if one_full > 0 else None,
        "missing": len(evidence.missing),
        "checkpoint_bytes": None if None in sizes else float(sum(sizes)),
    }


def _machines(evidence: Evidence) -> list[str]:
    """The devices and processors that the runs were trained on, each once."""
    found = {
        f"{manifest.details['device']}, {manifest.machine['cpus']} processors"
        for manifest in evidence.trainings.values()
        if "device" in manifest.details and "cpus" in manifest.machine
    }
    return sorted(found)
