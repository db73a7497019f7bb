"""How far training moved the weights: a layer in full training beside the same layer trained alone, and beside its C.

Figures of a run are those of `onelayer.weights`; here they are added up by layer and by kind of matrix, and averaged
over seeds. The correlation of ‖Δ‖ with C takes ‖Δ‖ as it was measured and draws C anew: its interval covers what C's
does.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from onelayer.analysis.coefficients import (
    FEWEST_FOR_PARTIAL,
    Measure,
    all_tied,
    hump,
    partial_p,
    partial_pearson,
    pearson,
    permutation_p,
    spearman,
)
from onelayer.analysis.contribution import Scan, deviation, relative_depth
from onelayer.analysis.drawn import drawn_figure, scaled
from onelayer.analysis.evidence import Evidence
from onelayer.analysis.problem_sets import Matrix
from onelayer.grid import Run, full_runs, is_weighed
from onelayer.seeds import derive_seed
from onelayer.state import StudyState
from onelayer.store import WEIGHTS, read_json, run_folder

Tensors = dict[str, dict[str, Any]]

# Of two layers, a coefficient can only be −1 or 1.
_FEWEST_LAYERS = 3


def weights_section(evidence: Evidence, state: StudyState, report: Scan, drawn: dict[int, Matrix]) -> dict[str, Any]:
    """The part ``weights`` of analysis.json: of the analysed runs, those that are weighed.

    Where there is a ``reason``, nothing is weighed and no figure is given. ``missing`` names the runs that are not
    weighed, each with why.

    Args:
        evidence: the study's runs.
        state: their standing.
        report: the contributions.
        drawn: by scanned layer, their draws (`onelayer.analysis.drawn.drawn_contributions`).
    """
    study = evidence.study
    standings = {run: state.weighing(run) for run in evidence.runs if is_weighed(run)}
    missing = {run.name: standing.reason for run, standing in standings.items() if not standing.done}
    found = {run.name: _read(study.name, run) for run in standings if run.name not in missing}
    result: dict[str, Any] = {
        "missing": missing,
        "reason": None if found else f"no run is weighed; `onelayer weigh {study.name} RUN...` does it",
        "left_out": {name: one["left_out"] for name, one in found.items() if one["left_out"]},
    }
    tensors: dict[str, Tensors] = {name: one["tensors"] for name, one in found.items()}
    full = [tensors[run.name] for run in full_runs(study) if run.name in tensors]
    single = {
        layer: [tensors[run.name] for run in runs if run.name in tensors] for layer, runs in evidence.layers.items()
    }
    depth = study.model.layer_count()
    rows = []
    for layer in range(depth):
        both = {"full": full, "single": single.get(layer, [])}
        kinds = dict.fromkeys(
            kind_of(name)
            for runs in both.values()
            for run in runs
            for name, one in run.items()
            if one["layer"] == layer
        )
        if not kinds:
            continue
        rows.append(
            {
                "layer": layer,
                "depth": relative_depth(layer, depth),
                **{key: summed(_of(runs, layer)) for key, runs in both.items()},
                "matrices": [
                    {"matrix": kind, **{key: summed(_of(runs, layer, kind)) for key, runs in both.items()}}
                    for kind in kinds
                ],
            }
        )
    outside = dict.fromkeys(name for run in full for name, one in run.items() if one["layer"] is None)
    return result | {
        "layers": rows,
        "outside": [{"tensor": name, "full": summed([[run[name]] for run in full if name in run])} for name in outside],
        "runs": [
            {"run": run.name, "setting": run.setting, **_added(tensors[run.name].values())}
            for run in standings
            if run.name in tensors
        ],
        "spread": {key: _spread(rows, key) for key in ("full", "single")},
        "correlations": {key: _with_contribution(evidence, rows, key, report, drawn) for key in ("single", "full")},
    }


def kind_of(name: str) -> str:
    """What a parameter is within its block: its name behind the block's number, such as ``self_attn.q_proj``."""
    parts = name.split(".")
    number = next((index for index, part in enumerate(parts) if part.isdigit()), -1)
    return ".".join(parts[number + 1 :]).removesuffix(".weight")


def summed(runs: Sequence[Sequence[dict[str, Any]]]) -> dict[str, Any] | None:
    """The figures of some tensors together, the mean over seeds; None where no run trained any.

    ``l2`` is √Σ‖Δ‖², ``relative`` that over √Σ‖θ‖², ``changed`` the share of all entries (None of adapters),
    ``effective_rank`` the mean over the matrices and ``rank_share`` the mean of each one's over its smaller side (None
    where no matrix changed). ``per_seed`` and ``deviation`` are of ``l2``.

    Args:
        runs: by run, the tensors' figures.
    """
    added = [_added(tensors) for tensors in runs if tensors]
    if not added:
        return None
    per_seed = [one["l2"] for one in added]
    return {key: _mean(one[key] for one in added) for key in added[0]} | {
        "per_seed": per_seed,
        "deviation": deviation(per_seed),
    }


def _of(runs: Sequence[Tensors], layer: int, kind: str | None = None) -> list[list[dict[str, Any]]]:
    """By run, the tensors of a layer, all or those of one kind."""
    return [
        [one for name, one in run.items() if one["layer"] == layer and kind in (None, kind_of(name))] for run in runs
    ]


def _added(tensors: Iterable[dict[str, Any]]) -> dict[str, Any]:
    parts = list(tensors)
    l2, base = (math.sqrt(math.fsum(one[key] ** 2 for one in parts)) for key in ("l2", "base_l2"))
    sizes = [math.prod(one["shape"]) for one in parts]
    ranks = [(one["effective_rank"], min(one["shape"][-2:])) for one in parts if one["effective_rank"] is not None]
    known = all(one["changed"] is not None for one in parts)
    return {
        "l2": l2,
        "relative": l2 / base if base else None,
        "changed": math.fsum(one["changed"] * size for one, size in zip(parts, sizes, strict=True)) / sum(sizes)
        if known
        else None,
        "effective_rank": _mean(rank for rank, _ in ranks),
        "rank_share": _mean(rank / side for rank, side in ranks),
    }


def _mean(figures: Iterable[float | None]) -> float | None:
    known = [one for one in figures if one is not None]
    return math.fsum(known) / len(known) if known else None


def _spread(rows: list[dict[str, Any]], key: str) -> dict[str, float | None] | None:
    """How alike the layers are in ‖Δ‖: the least, the most, and the coefficient of variation (deviation over mean)."""
    figures = [row[key]["l2"] for row in rows if row[key]]
    if not figures:
        return None
    mean, spread = math.fsum(figures) / len(figures), deviation(figures)
    return {
        "least": min(figures),
        "most": max(figures),
        "mean": mean,
        "variation": spread / mean if spread is not None and mean else None,
    }


def _with_contribution(
    evidence: Evidence, rows: list[dict[str, Any]], key: str, report: Scan, drawn: dict[int, Matrix]
) -> dict[str, Any]:
    """The correlation over layers of ‖Δ‖ with C, where both are known."""
    figures = {row["layer"]: row[key]["l2"] for row in rows if row[key] and row["layer"] in evidence.layers}
    found: dict[str, Any] = {"layers": len(figures), "pearson": None, "spearman": None, "partial_pearson": None}
    found["reason"] = None
    if not report.defined:
        return found | {"reason": "contributions are undefined, for the full gain is not clearly above zero"}
    if len(figures) < _FEWEST_LAYERS:
        return found | {"reason": f"{len(figures)} layers have both figures, fewer than {_FEWEST_LAYERS}"}
    lengths = np.array(list(figures.values()))
    draws = np.stack([drawn[layer] for layer in figures], axis=1)
    values = np.array([one.interval.value for layer in figures if (one := report.contributions[layer])])
    if all_tied(lengths) or all_tied(values):
        return found | {"reason": "all layers are alike in one of the two"}
    study = evidence.study
    seed = derive_seed(study.seed, study.name, "weights", key)

    def of(measure: Measure, p: float) -> dict[str, float] | None:
        found_in = measure(np.broadcast_to(lengths, draws.shape), scaled(draws))
        figure = drawn_figure(float(measure(lengths, values)), found_in, study.analysis.confidence)
        return figure and figure | {"p": p}

    found |= {
        "pearson": of(pearson, permutation_p(lengths, values, seed, pearson)),
        "spearman": of(spearman, permutation_p(lengths, values, seed)),
    }
    if len(figures) >= FEWEST_FOR_PARTIAL:
        depth = study.model.layer_count()
        covariates = hump(np.array([relative_depth(layer, depth) for layer in figures]))
        found["partial_pearson"] = of(
            lambda one, other: partial_pearson(one, other, covariates), partial_p(lengths, values, covariates, seed)
        )
    return found


def _read(study: str, run: Run) -> dict[str, Any]:
    found: dict[str, Any] = read_json(run_folder(study, run.name) / WEIGHTS, f"onelayer weigh {study} {run.name}")
    return found
