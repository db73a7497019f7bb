"""Strategies and learning-rate sensitivity: what several layers, chosen in one way or another, carry of the gain.

A strategy's share of the gain is C's formula and estimator (`onelayer.analysis.contribution`). Random layers are one
arm, a draw of layers a run, so that its interval holds the choice of layers too.
"""

from __future__ import annotations

from dataclasses import asdict
from statistics import fmean
from typing import Any

from onelayer.analysis.comparison import compare_arms, comparison_row, correct
from onelayer.analysis.contribution import Bootstrap, Scan, deviation
from onelayer.analysis.evidence import Evidence
from onelayer.config import Study
from onelayer.grid import Run, by_setting, full_runs, layer_name, sensitivity_runs, strategy_runs


def strategy_arms(study: Study) -> dict[str, list[Run]]:
    """The runs of every strategy, by setting, in the order of the grid."""
    return by_setting(strategy_runs(study))


def sensitivity_arms(study: Study) -> dict[str, list[Run]]:
    """The runs of every layer and factor, by setting, in the order of the grid."""
    return by_setting(sensitivity_runs(study))


def strategies(
    evidence: Evidence,
    report: Scan,
    bootstrap: Bootstrap,
    best: dict[str, Any] | None,
    costs: dict[str, dict[str, Any]],
) -> list[dict[str, Any]]:
    """One row a strategy of which a run is there; none where the study asks for none.

    Every row is compared with full training, with the layer ranked first on ``select`` and with random layers as many
    as its own, each where it is there; the p-values of all these comparisons together are corrected by Holm's method.

    Args:
        evidence: what the runs left.
        report: the estimates on ``report``.
        bootstrap: the draws of its problems.
        best: the best layer's row of the analysis; None where no layer is there.
        costs: by run, as the analysis has them.
    """
    arms = {name: runs for name, all_of_it in strategy_arms(evidence.study).items() if (runs := evidence.of(all_of_it))}
    matrices = {name: evidence.matrix("report", runs) for name, runs in arms.items()}
    full = evidence.matrix("report", evidence.of(full_runs(evidence.study)))
    layer = None if best is None else evidence.matrix("report", evidence.layers[best["layer"]])
    rows, compared = [], []
    for name, runs in arms.items():
        size = len(_layers(evidence, runs[0]))
        others = {"full": full, layer_name(best["layer"]) if best else "": layer}
        if runs[0].kind != "random":
            others[f"random{size}"] = matrices.get(f"random{size}")
        against = {
            other: compare_arms(matrices[name], matrix, bootstrap)
            for other, matrix in others.items()
            if matrix is not None
        }
        found = report.contributions[name]
        scores = evidence.scores(runs)
        row: dict[str, Any] = {
            "name": name,
            "kind": runs[0].kind,
            "end": None if runs[0].ranked is None else runs[0].ranked.end,
            "factor": runs[0].boost,
            "size": size,
            "layers": None if runs[0].kind == "random" else _layers(evidence, runs[0]),
            "draws": [
                {"draw": run.draw, "seed": run.seed, "layers": _layers(evidence, run), "score": score}
                for run, score in zip(runs, scores, strict=True)
                if run.draw is not None
            ],
            "seeds": [run.seed for run in runs],
            "score": asdict(report.scores[name]),
            "score_per_seed": scores,
            "score_deviation": deviation(scores),
            "contribution": asdict(found.interval) if found else None,
            "trained_parameters": costs[runs[0].name]["trained_parameters"],
            "train_seconds": fmean(costs[run.name]["train_seconds"] for run in runs),
            "peak_memory_bytes": max(costs[run.name]["peak_memory_bytes"] for run in runs),
            "against": {other: comparison_row(comparison) for other, comparison in against.items()},
        }
        compared += row["against"].values()
        rows.append(row)
    correct(compared)
    return rows


def rate_sensitivity(
    evidence: Evidence, report: Scan, bootstrap: Bootstrap, learning_rate: float
) -> dict[str, Any] | None:
    """How the score and C of single layers move at multiples of the rate; None where the study asks for none.

    Ranks are by the score on ``report``, among the layers that are there at a factor and at 1; 1 is the highest. A
    move is C at the factor less C at 1, and undefined where C is; the differences of scores behind the moves are
    compared, corrected together by Holm's method.

    Args:
        evidence: what the runs left.
        report: the estimates on ``report``.
        bootstrap: the draws of its problems.
        learning_rate: the one that was chosen, at which the scan's runs are.
    """
    if evidence.study.runs.rate_sensitivity is None:
        return None
    rows, compared = [], []
    for name, all_of_it in sensitivity_arms(evidence.study).items():
        runs = evidence.of(all_of_it)
        if not runs:
            continue
        (layer,) = _layers(evidence, runs[0])
        scanned = evidence.layers.get(layer)
        found, at_one = report.contributions[name], report.contributions.get(layer)
        row: dict[str, Any] = {
            "name": name,
            "layer": layer,
            "end": None if runs[0].ranked is None else runs[0].ranked.end,
            "factor": runs[0].rate_factor,
            "learning_rate": evidence.trainings[runs[0].name].settings["learning_rate"],
            "seeds": [run.seed for run in runs],
            "score": asdict(report.scores[name]),
            "score_per_seed": evidence.scores(runs),
            "score_deviation": deviation(evidence.scores(runs)),
            "contribution": asdict(found.interval) if found else None,
            "score_at_one": asdict(report.scores[layer]) if scanned else None,
            "contribution_at_one": asdict(at_one.interval) if at_one else None,
            "move": found.interval.value - at_one.interval.value if found and at_one else None,
            "against_one": None,
        }
        if scanned:
            at_factor, at_one_itself = evidence.matrix("report", runs), evidence.matrix("report", scanned)
            row["against_one"] = comparison_row(compare_arms(at_factor, at_one_itself, bootstrap))
            compared.append(row["against_one"])
        rows.append(row)
    correct(compared)
    for row in rows:
        together = [one for one in rows if one["factor"] == row["factor"] and one["score_at_one"]]
        row["among"] = len(together)
        for rank, score in (("rank", "score"), ("rank_at_one", "score_at_one")):
            order = sorted(together, key=lambda one: (-one[score]["value"], one["layer"]))
            row[rank] = order.index(row) + 1 if row in order else None
    moves = [abs(row["move"]) for row in rows if row["move"] is not None]
    return {"learning_rate": learning_rate, "rows": rows, "largest_move": max(moves) if moves else None}


def _layers(evidence: Evidence, run: Run) -> list[int]:
    """The layers that a run took, also where the ranking chose them."""
    layers: list[int] = evidence.trainings[run.name].settings["layers"]
    return layers
