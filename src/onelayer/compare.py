"""The compare phase: one file of figures over all studies, which `dvc metrics diff` reads."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

from onelayer.analysis.correlation import Ranking, correlate
from onelayer.config import Study, load_study, study_file
from onelayer.errors import UserError
from onelayer.grid import layer_name, layer_runs
from onelayer.prepare import read_problems
from onelayer.records import SCORED, aligned, problem_means, read_records
from onelayer.store import REPORTS, analysis_file, problems_file, read_json, write_json

METRICS = REPORTS / "metrics.json"
# The one key of metrics.json that is no study; inside it, a pair is named by its studies with this between.
CORRELATIONS = "correlations"
_BETWEEN = "~"
# Of two layers, rho can only be −1 or 1.
_FEWEST_LAYERS = 3


def read_analysis(study: str) -> dict[str, Any]:
    """Read a study's analysis. Raises UserError where there is none."""
    analysis: dict[str, Any] = read_json(analysis_file(study), f"onelayer analyze {study}")
    return analysis


def compare(studies: Sequence[str]) -> Path:
    """Write reports/metrics.json, every undefined figure as null.

    Raises UserError where a study has no analysis or records, or the one name that is taken.
    """
    if CORRELATIONS in studies:
        raise UserError(
            f"{study_file(CORRELATIONS)}: found a study named {CORRELATIONS!r}, expected another name: in {METRICS}"
            " this one holds the correlations between studies"
        )
    metrics = {study: study_metrics(read_analysis(study)) for study in studies}
    write_json(METRICS, metrics | {CORRELATIONS: correlations(studies)})
    return METRICS


def headlines() -> list[str]:
    """What reports/metrics.json says, in a line a study and pair. Raises UserError where it is not there."""
    lines = []
    metrics = read_json(METRICS, "onelayer compare")
    pairs = metrics.pop(CORRELATIONS, {})
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
    }


def _baselines(analysis: dict[str, Any]) -> dict[str, Any]:
    """What each baseline scored and its share of the gain; nothing where the study has none."""
    figures = {}
    for row in analysis["baselines"]:
        if row["search"] is None:  # full training and the best layer, which stand above
            continue
        found = row["contribution"] or {"value": None, "low": None, "high": None}
        figures[row["name"]] = {
            "score": row["score"]["value"],
            "share_of_gain": found["value"],
            "low": found["low"],
            "high": found["high"],
        }
    return {"baselines": figures} if figures else {}


def read_correlations(studies: Sequence[str]) -> dict[tuple[str, str], dict[str, Any]]:
    """Read every pair's figures from reports/metrics.json. Raises UserError where a pair has none."""
    made_by = f"onelayer compare {' '.join(studies)}"
    found = read_json(METRICS, made_by).get(CORRELATIONS, {})
    pairs = list(combinations(studies, 2))
    for pair in pairs:
        if _BETWEEN.join(pair) not in found:
            raise UserError(f"{METRICS}: found no figures of {_BETWEEN.join(pair)}; `{made_by}` makes them")
    return {pair: found[_BETWEEN.join(pair)] for pair in pairs}


def correlations(studies: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The rank correlation of every pair of studies, by name such as ``micro-math~micro-code``.

    A pair that cannot be correlated has null figures and a reason in words. Raises UserError where a study
    has no analysis or its records are missing.
    """
    settings = {name: load_study(name) for name in studies}
    found = {name: read_analysis(name) for name in studies}
    ranking = cache(
        lambda name: read_ranking(settings[name], found[name])
    )  # no records are read unless a pair needs them
    pairs = {}
    for names in combinations(settings, 2):
        both = [settings[name] for name in names]
        analyses = [found[name] for name in names]
        layers = sorted(set.intersection(*({*complete_layers(one)} for one in analyses)))
        figures: dict[str, Any] = {
            "kind": _kind(*both),
            "layers": len(layers),
            "spearman": None,
            "low": None,
            "high": None,
            "p": None,
            "kendall": None,
            "kendall_low": None,
            "kendall_high": None,
            "ceiling": None,
            "reliability": dict.fromkeys(names),
            "confidence": max(one.analysis.confidence for one in both),
            "shared_problems": None,
            "paired": None,
            "same_base": len({one["provenance"]["fingerprints"]["base"] for one in analyses}) == 1,
            "reason": _reason(analyses, len(layers)),
        }
        if figures["reason"] is None:
            figures |= _figures(
                [ranking(name) for name in names],
                layers,
                max(one.analysis.resamples for one in both),
                figures["confidence"],
            )
        pairs[_BETWEEN.join(names)] = figures
    return pairs


def complete_layers(analysis: dict[str, Any]) -> list[int]:
    """The layers of which every seed is done: a ranking draws the same repeats of each."""
    return [row["layer"] for row in analysis["layers"] if row["seeds"] == analysis["seeds"]]


def read_ranking(study: Study, analysis: dict[str, Any]) -> Ranking:
    """Read what a study's records say on ``report`` of the layers of which every seed is done.

    Raises UserError where records or problems are missing, or do not belong together.
    """
    arms: dict[int, list[Any]] = {}
    complete = complete_layers(analysis)
    for run in layer_runs(study):
        if run.layers[0] not in complete:
            continue
        means = problem_means(read_records(study.name, run.name, SCORED), "report")
        arms.setdefault(run.layers[0], []).append(means)
    first = arms[complete[0]][0]
    prompts = {problem.id: problem.prompt for problem in read_problems(study, "report")}
    unknown = [one for one in first.index if one not in prompts]
    if unknown:
        raise UserError(
            f"{problems_file(study.name, 'report')}: expected the problems of the records, found none with the id"
            f" {unknown[0]!r}; evaluate the study again"
        )
    return Ranking(
        study=study.name,
        seed=study.seed,
        seeds=study.runs.seeds,
        problems=tuple((str(one), prompts[one]) for one in first.index),
        runs={layer: aligned([first, *arm])[1:] for layer, arm in arms.items()},
    )


def _kind(first: Study, second: Study) -> str:
    crossed = [
        what
        for what, differs in (
            ("cross-domain", first.task.kind != second.task.kind),
            ("cross-algorithm", first.algorithm != second.algorithm),
        )
        if differs
    ]
    return " and ".join(crossed) or "same domain and algorithm"


def _reason(analyses: list[dict[str, Any]], shared: int) -> str | None:
    """Why a pair cannot be correlated, as far as the analyses tell."""
    undefined = [one["study"] for one in analyses if not one["defined"]]
    if undefined:
        return f"contributions are undefined in {' and '.join(undefined)}, for the full gain is not clearly above zero"
    depths = [one["layers_of_model"] for one in analyses]
    if depths[0] != depths[1]:
        return f"the models differ in depth ({depths[0]} and {depths[1]} layers), so no layer of one is the other's"
    if shared < _FEWEST_LAYERS:
        unfinished = any(one["missing"] for one in analyses)
        without = " (those that lack a seed's run not counted)" if unfinished else ""
        return f"the studies share {shared} scanned layers{without}, fewer than {_FEWEST_LAYERS}"
    return None


def _figures(rankings: list[Ranking], layers: list[int], resamples: int, confidence: float) -> dict[str, Any]:
    first, second = rankings
    shared: dict[str, Any] = {
        "shared_problems": len({*first.problems} & {*second.problems}),
        "paired": first.problems == second.problems,
    }
    tied = [one.study for one in rankings if one.ties(layers)]
    if tied:
        return shared | {"reason": f"all layers score alike in {' and '.join(tied)}, so there is no ranking"}
    found = correlate(first, second, layers, resamples, confidence)
    return shared | {
        "spearman": found.spearman.value,
        "low": found.spearman.low,
        "high": found.spearman.high,
        "p": found.p,
        "kendall": found.kendall.value,
        "kendall_low": found.kendall.low,
        "kendall_high": found.kendall.high,
        "ceiling": found.ceiling,
        "reliability": {one.study: found.reliability[one.study] for one in rankings},
    }
