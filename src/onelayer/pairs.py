"""Pairs of studies: whether their layers agree, from the records of both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import cache
from itertools import combinations
from typing import Any

from onelayer.analysis.coefficients import all_tied
from onelayer.analysis.correlation import Coefficient, Correlation, Ranking, correlate, correlate_over_depth
from onelayer.analysis.depth import lay_over
from onelayer.config import Study, load_study
from onelayer.errors import UserError
from onelayer.grid import layer_runs
from onelayer.prepare import read_problems
from onelayer.records import SCORED, aligned, problem_means, read_records
from onelayer.store import analysis_file, problems_file, read_json

# What stands between the names of a pair's studies in its own.
BETWEEN = "~"
# Of two layers, rho can only be −1 or 1.
_FEWEST_LAYERS = 3


def correlations(studies: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The rank correlation of every pair of studies, by name such as ``micro-math~micro-code``.

    A pair that cannot be correlated has null figures and a reason in words. Raises UserError where a study
    has no analysis or its records are missing.
    """
    settings = {name: load_study(name) for name in studies}
    found = {name: read_json(analysis_file(name), f"onelayer analyze {name}") for name in studies}
    # No records are read unless a pair needs them.
    ranking = cache(lambda name: read_ranking(settings[name], found[name]))
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
            "seed_to_seed": {one["study"]: _seed_to_seed(one) for one in analyses},
            "kendall_p": None,
            "pearson": None,
            "partial_spearman": None,
            "partial_pearson": None,
            "over_depth": None,
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
        elif _differ_in_depth(analyses):
            figures["over_depth"] = _over_depth(both, analyses, ranking, figures["confidence"])
        pairs[BETWEEN.join(names)] = figures
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
        means = problem_means(read_records(study.name, run.name, SCORED, categories=True), "report")
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
        depth=study.model.layer_count(),
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


def _seed_to_seed(analysis: dict[str, Any]) -> float | None:
    """The mean rho between two seeds of one study; None where that is not known."""
    mean: dict[str, float | None] = analysis.get("seed_agreement", {}).get("mean", {})
    return mean.get("spearman")


def _without(analyses: list[dict[str, Any]]) -> str:
    """What a count of layers leaves out, where a run is missing."""
    unfinished = any(one["missing"] for one in analyses)
    return " (those that lack a seed's run not counted)" if unfinished else ""


def _undefined(analyses: list[dict[str, Any]]) -> str | None:
    found = [one["study"] for one in analyses if not one["defined"]]
    if found:
        return f"contributions are undefined in {' and '.join(found)}, for the full gain is not clearly above zero"
    return None


def _differ_in_depth(analyses: list[dict[str, Any]]) -> bool:
    return len({one["layers_of_model"] for one in analyses}) > 1


def _reason(analyses: list[dict[str, Any]], shared: int) -> str | None:
    """Why a pair cannot be correlated, as far as the analyses tell."""
    undefined = _undefined(analyses)
    if undefined:
        return undefined
    depths = [one["layers_of_model"] for one in analyses]
    if depths[0] != depths[1]:
        return f"the models differ in depth ({depths[0]} and {depths[1]} layers), so no layer of one is the other's"
    if shared < _FEWEST_LAYERS:
        return f"the studies share {shared} scanned layers{_without(analyses)}, fewer than {_FEWEST_LAYERS}"
    return None


def _figures(rankings: list[Ranking], layers: list[int], resamples: int, confidence: float) -> dict[str, Any]:
    first, second = rankings
    shared: dict[str, Any] = {
        "shared_problems": len({*first.problems} & {*second.problems}),
        "paired": first.problems == second.problems,
    }
    tied = _tied([one.study for one in rankings if one.ties(layers)])
    if tied:
        return shared | {"reason": tied}
    return shared | _coefficients(correlate(first, second, layers, resamples, confidence))


def _tied(studies: list[str]) -> str | None:
    return f"all layers score alike in {' and '.join(studies)}, so there is no ranking" if studies else None


def _coefficients(found: Correlation) -> dict[str, Any]:
    """The figures of a pair, rho's and tau's as keys of their own."""

    def named(one: Coefficient | None) -> dict[str, float] | None:
        return asdict(one) if one else None

    return {
        "spearman": found.spearman.value,
        "low": found.spearman.low,
        "high": found.spearman.high,
        "p": found.spearman.p,
        "kendall": found.kendall.value,
        "kendall_low": found.kendall.low,
        "kendall_high": found.kendall.high,
        "kendall_p": found.kendall.p,
        "pearson": named(found.pearson),
        "partial_spearman": named(found.partial_spearman),
        "partial_pearson": named(found.partial_pearson),
        "ceiling": found.ceiling,
        "reliability": found.reliability,
    }


def _over_depth(
    studies: list[Study],
    analyses: list[dict[str, Any]],
    ranking: Callable[[str], Ranking],
    confidence: float,
) -> dict[str, Any] | None:
    """The figures of two models of different depth by relative depth, or why there are none; None where C is undefined.

    ``points`` counts the relative depths compared, which lie ``from_depth`` to ``to_depth``; ``partial_scans`` names
    the studies whose scan leaves layers out, so that interpolation reaches over layers that nobody trained.
    """
    if _undefined(analyses):
        return None
    depths = {one["study"]: one["layers_of_model"] for one in analyses}
    scanned = {one["study"]: sorted(complete_layers(one)) for one in analyses}
    shallow, deep = sorted(depths, key=lambda name: depths[name])
    grid = lay_over(scanned[shallow], depths[shallow], scanned[deep], depths[deep])
    figures: dict[str, Any] = {
        "points": len(grid.depths),
        "from_depth": float(grid.depths[0]) if len(grid.depths) else None,
        "to_depth": float(grid.depths[-1]) if len(grid.depths) else None,
        "shallow": shallow,
        "partial_scans": [name for name in depths if len(scanned[name]) < depths[name]],
        "reason": None,
    }
    if len(grid.depths) < _FEWEST_LAYERS:
        return figures | {
            "reason": f"{len(grid.depths)} scanned layers of {shallow} lie in the scanned range of {deep}"
            f"{_without(analyses)}, fewer than {_FEWEST_LAYERS}"
        }
    profiles = {
        shallow: ranking(shallow).scores(grid.shallow),
        deep: grid.weights @ ranking(deep).scores(grid.deep),
    }
    tied = _tied([name for name, profile in profiles.items() if all_tied(profile)])
    if tied:
        return figures | {"reason": tied}
    resamples = max(one.analysis.resamples for one in studies)
    found = correlate_over_depth(ranking(shallow), ranking(deep), grid, resamples, confidence)
    return figures | _coefficients(found)
