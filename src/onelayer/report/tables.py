"""The tables behind the figures, as data frames: written as CSV, and shown in the page."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

import pandas as pd

from onelayer.grid import layer_name, setting_name
from onelayer.report.figures import earned

_CONTRIBUTIONS = (
    "study", "layer", "depth", "rank", "contribution", "low", "high", "score", "score_low", "score_high",
    "select_score",
)  # fmt: skip


def contributions(analysis: dict[str, Any]) -> pd.DataFrame:
    """One row a layer: what the profile figure draws, and each seed's figure."""
    rows = []
    for row in analysis["layers"]:
        found = row["contribution"] or {"value": None, "low": None, "high": None}
        per_seed = row["per_seed"] or [None] * len(row["seeds"])
        rows.append(
            {
                "study": analysis["study"],
                "layer": row["layer"],
                "depth": row["depth"],
                "rank": row["rank"],
                "contribution": found["value"],
                "low": found["low"],
                "high": found["high"],
                "score": row["score"]["value"],
                "score_low": row["score"]["low"],
                "score_high": row["score"]["high"],
                "select_score": row["select_score"],
                **{f"contribution_s{seed}": figure for seed, figure in zip(row["seeds"], per_seed, strict=True)},
            }
        )
    by_seed = [f"contribution_s{seed}" for seed in analysis["seeds"]]
    return pd.DataFrame(rows, columns=[*_CONTRIBUTIONS, *by_seed])


def learning_rates(analysis: dict[str, Any]) -> pd.DataFrame:
    """One row a run of a search, the study's and each baseline's own; no row where there was none."""
    searches = {"full": analysis["search"]} | {
        row["name"]: row["search"] for row in analysis["baselines"] if row["search"]
    }
    return pd.DataFrame(
        [
            {
                "study": analysis["study"],
                "searched_on": name,
                "learning_rate": row["learning_rate"],
                "seed": row["seed"],
                "select_score": row["select_score"],
                "chosen": row["learning_rate"] == search["learning_rate"],
            }
            for name, search in searches.items()
            for row in search["search"]
        ],
        columns=["study", "searched_on", "learning_rate", "seed", "select_score", "chosen"],
    )


def settings(analysis: dict[str, Any]) -> pd.DataFrame:
    """One row a setting: its seeds' mean score, their standard deviation, the mean's interval, and each score."""
    full = analysis["full"]
    rows = [("full", full, full["deviation"], full["seeds"], full["per_seed"])]
    named = [(layer_name(row["layer"]), row) for row in analysis["layers"]]
    named += [(row["name"], row) for row in analysis["baselines"] if row["search"] is not None]
    named += [(row["name"], row) for row in analysis["strategies"] if row["kind"] != "random"]
    named += [(row["name"], row) for row in (analysis["rate_sensitivity"] or {"rows": []})["rows"]]
    rows += [(name, row["score"], row["score_deviation"], row["seeds"], row["score_per_seed"]) for name, row in named]
    return pd.DataFrame(
        [
            {
                "study": analysis["study"],
                "setting": name,
                "mean": score["value"],
                "deviation": deviation,
                "low": score["low"],
                "high": score["high"],
                **{f"s{seed}": one for seed, one in zip(seeds, per_seed, strict=True)},
            }
            for name, score, deviation, seeds, per_seed in rows
        ],
        columns=["study", "setting", "mean", "deviation", "low", "high", *(f"s{seed}" for seed in analysis["seeds"])],
    ).astype({"deviation": float})  # numbers, even where one seed of each leaves none


_BASELINES = (
    "layer", "learning_rate", "score", "score_deviation", "score_low", "score_high", "share_of_gain", "share_low",
    "share_high", "trained_parameters", "checkpoint_kb", "train_seconds", "search_seconds", "peak_memory_mb",
)  # fmt: skip


def baselines(analysis: dict[str, Any]) -> pd.DataFrame:
    """One row for full training, for the best single layer and for each baseline; no row where there is no baseline."""
    rows = []
    for row in analysis["baselines"]:
        found = row["contribution"] or {"value": None, "low": None, "high": None}
        rows.append(
            {
                "study": analysis["study"],
                "runs": row["name"],
                "layer": row["layer"],
                "learning_rate": row["learning_rate"],
                "score": row["score"]["value"],
                "score_deviation": row["score_deviation"],
                "score_low": row["score"]["low"],
                "score_high": row["score"]["high"],
                "share_of_gain": found["value"],
                "share_low": found["low"],
                "share_high": found["high"],
                "trained_parameters": row["trained_parameters"],
                "checkpoint_kb": _kilobytes(row["checkpoint_bytes"]),
                "train_seconds": row["train_seconds"],
                "search_seconds": row["search_seconds"],
                "peak_memory_mb": row["peak_memory_bytes"] / 1e6,
            }
        )
    frame = pd.DataFrame(rows, columns=["study", "runs", *_BASELINES])
    return frame.astype({"layer": "Int64", "trained_parameters": "Int64"})  # whole numbers, even beside a row of none


def _kilobytes(size: int | None) -> float:
    return float("nan") if size is None else size / 1e3


def curves(analysis: dict[str, Any]) -> pd.DataFrame:
    """One row a run and step."""
    frames = [
        pd.DataFrame(history).assign(study=analysis["study"], run=run)
        for run, history in analysis["curves"].items()
        if history
    ]
    frame = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=["step", "reward"])
    return frame.reindex(columns=["study", "run", *(name for name in frame.columns if name not in ("study", "run"))])


def curve_ends(analysis: dict[str, Any]) -> pd.DataFrame:
    """One row a setting: what its batches earned, over its seeds, in the first and the last five steps."""
    groups: dict[str, list[list[float]]] = {}
    for run, history in analysis["curves"].items():
        if history:
            groups.setdefault(setting_name(run), []).append(earned(history))
    rows = [
        {
            "study": analysis["study"],
            "setting": setting,
            "seeds": len(runs),
            "steps": min(len(run) for run in runs),
            "first": fmean(fmean(run[:_END]) for run in runs),
            "last": fmean(fmean(run[-_END:]) for run in runs),
        }
        for setting, runs in groups.items()
    ]
    return pd.DataFrame(rows, columns=["study", "setting", "seeds", "steps", "first", "last"])


def learning_curve_ends(analyses: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """One row a study: its algorithm, and what full training earned in the first and the last five steps."""
    rows = []
    for analysis in analyses:
        ends = curve_ends(analysis)
        full = ends[ends["setting"] == "full"].drop(columns="setting")
        full.insert(1, "algorithm", analysis["algorithm"])
        rows.append(full)
    return pd.concat(rows, ignore_index=True)


def agreement(first: dict[str, Any], second: dict[str, Any]) -> pd.DataFrame:
    """One row a layer that both studies hold: its contribution in each, with the intervals."""
    other = {row["layer"]: row["contribution"] for row in second["layers"]}
    return pd.DataFrame(
        [
            {"layer": row["layer"]}
            | {
                f"{end} in {analysis['study']}": found[key]
                for analysis, found in ((first, row["contribution"]), (second, other[row["layer"]]))
                for end, key in (("C", "value"), ("low", "low"), ("high", "high"))
            }
            for row in first["layers"]
            if row["layer"] in other
        ]
    )


def provenance(analysis: dict[str, Any]) -> pd.DataFrame:
    """One row a run that has records: its fingerprint."""
    fingerprints = analysis["provenance"]["fingerprints"]
    return pd.DataFrame(
        [{"study": analysis["study"], "run": run, "fingerprint": one} for run, one in fingerprints.items()]
    )


# Steps at either end of a training curve that its table gives the mean of.
_END = 5
_STATUSES = ("timeout", "crashed", "broken")


def runs(analysis: dict[str, Any]) -> pd.DataFrame:
    """One row a run: its score with what a score alone hides, and what it cost.

    The shares of judgements that timed out, crashed or broke stand there where any run of the study has one.
    """
    rows = []
    for run, summary in analysis["summaries"].items():
        split = "report" if "report" in summary else "select"
        cost = analysis["cost"][run]
        rows.append(
            {
                "study": analysis["study"],
                "run": run,
                "split": split,
                "score": summary[split]["score"],
                "greedy": summary[split]["greedy"],
                "clipped": summary[split]["clipped"],
                "unparsed": summary[split]["unparsed"],
                **{status: summary[split][status] for status in _STATUSES},
                "mean_tokens": summary[split]["mean_tokens"],
                "train_seconds": cost["train_seconds"],
                "evaluate_seconds": cost["evaluate_seconds"],
                "peak_memory_mb": cost["peak_memory_bytes"] / 1e6,
                "checkpoint_kb": _kilobytes(cost["checkpoint_bytes"]),
            }
        )
    frame = pd.DataFrame(rows)
    return frame.drop(columns=[status for status in _STATUSES if not frame[status].any()])


def suite_scores(suite: dict[str, Any]) -> pd.DataFrame:
    """One row a run: every benchmark's score and every composite's; a composite that lacks a part has none."""
    rows = []
    for run, scores in suite["scores"].items():
        figures = {name: row["score"] for kind in ("benchmarks", "composites") for name, row in scores[kind].items()}
        rows.append({"run": run, **figures})
    return pd.DataFrame(rows).astype(dict.fromkeys(suite["composites"], float))


def suite_benchmarks(suite: dict[str, Any]) -> pd.DataFrame:
    """One row a benchmark: how it was sampled and judged, and, of the base, what samples say beyond their mean."""
    rows = []
    for name, made in suite["benchmarks"].items():
        base = suite["scores"]["base"]["benchmarks"][name]
        most = str(made["k"])
        rows.append(
            {
                "benchmark": name,
                "category": made["category"],
                "problems": made["problems"],
                "samples": made["k"],
                "temperature": made["made"].get("temperature") or "greedy",
                "judged by": ", ".join(f"{judge} {version}" for judge, version in made["made"]["graders"].items()),
                "base": base["score"],
                "SE": base["se"],
                "pass@k": base["pass"][most]["value"],
                "maj@k": base["maj"][most]["value"],
                "clipped": base["clipped"],
                "unparsed": base["unparsed"],
            }
        )
    return pd.DataFrame(rows)


def suite_contributions(suite: dict[str, Any]) -> pd.DataFrame:
    """One row a layer: its contribution to every benchmark and composite that has a clear gain."""
    rows: dict[int, dict[str, Any]] = {}
    for name, found in suite["contributions"].items():
        for row in found["layers"]:
            value = row["contribution"]["value"] if row["contribution"] else None
            rows.setdefault(row["layer"], {"layer": row["layer"]})[name] = value
    frame = pd.DataFrame(list(rows.values()))
    return frame.astype(dict.fromkeys(suite["contributions"], float))


_CORRELATIONS = ("kind", "layers", "spearman", "low", "high", "p", "kendall", "kendall_low", "kendall_high", "ceiling")


def correlations(pairs: dict[tuple[str, str], dict[str, Any]]) -> pd.DataFrame:
    """One row a pair of studies: how far they rank the layers alike, or why that cannot be said."""
    rows = []
    for (first, second), figures in pairs.items():
        rows.append(
            {
                "first": first,
                "second": second,
                **{name: figures[name] for name in _CORRELATIONS},
                "reliability_first": figures["reliability"][first],
                "reliability_second": figures["reliability"][second],
                "shared_problems": figures["shared_problems"],
                "paired": figures["paired"],
                "same_base": figures["same_base"],
                "reason": figures["reason"],
            }
        )
    columns = ["first", "second", *_CORRELATIONS, "reliability_first", "reliability_second", "shared_problems"]
    frame = pd.DataFrame(rows, columns=[*columns, "paired", "same_base", "reason"])
    return frame.astype({"shared_problems": "Int64"})  # whole numbers, even beside a pair that has none
