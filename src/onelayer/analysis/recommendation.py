"""What to train instead of everything, in words; refused where the data do not carry it.

The layers are chosen on ``select`` and what they carry is told on ``report``. Which layer is the best is only known up
to a set: layer k may be the best if

    max_j S_j − S_k  ≤  q_k,      q_k the confidence's quantile of  max_j [(S*_j − S_j) − (S*_k − S_k)]

over the draws S* of the paired bootstrap, so that the set holds the best layer with that confidence (multiple
comparisons with the best: Hsu 1981, Annals of Statistics 9:1026–1034; the bootstrap in place of his normal errors).
Recommended is the band of neighbouring layers of the set around the one ranked first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from statistics import fmean
from typing import Any

import numpy as np
import numpy.typing as npt

from onelayer.analysis.contribution import Interval, contribution
from onelayer.analysis.evidence import Evidence
from onelayer.analysis.problem_sets import Matrix
from onelayer.grid import BASE, full_runs, layer_name

# What of full training's a recommendation names.
_COSTS = ("peak_memory_bytes", "train_seconds", "checkpoint_bytes")


def recommendation(evidence: Evidence, analysis: dict[str, Any]) -> dict[str, Any]:
    """The recommendation's part of the analysis.

    Args:
        evidence: what the runs left.
        analysis: the rest of the analysis: ``defined``, ``best_layer``, ``economics``, ``baselines`` and, where there
            are any, ``strategies``.
    """
    empty: dict[str, Any] = {"layers": None, "may_be_best": None, "contribution": None, "of_full": None}
    best = analysis["best_layer"]
    reason = _refusal(evidence, analysis)
    if reason is None:
        candidates = _candidates(evidence)
        empty["may_be_best"] = candidates
        if len(candidates) == len(evidence.layers):
            reason = f"on select any of the {len(candidates)} scanned layers may be the best: they cannot be told apart"
    if reason is None:
        band = _band(best["layer"], candidates)
        share = _share(evidence, band)
        if share.low <= 0:
            reason = f"what {_named(band)} carries of the gain is not clearly above zero on report"
    if reason is not None:
        return empty | {"text": f"No layer is recommended: {reason}.", "refused": reason}
    of_full = _of_full(analysis["economics"], [layer_name(layer) for layer in band])
    sentences = [
        _headline(evidence, band, share, of_full),
        _beside_full(share),
        _others(candidates, band),
        _best_strategy(evidence, analysis),
        *_baselines(analysis),
        _partly(evidence),
    ]
    return {
        "text": " ".join(sentence for sentence in sentences if sentence),
        "layers": band,
        "may_be_best": candidates,
        "contribution": asdict(share),
        "of_full": of_full,
        "refused": None,
    }


def may_be_best(scores: Matrix, draws: Matrix, confidence: float) -> npt.NDArray[np.bool_]:
    """Which of several scores may be the highest of the true ones.

    Args:
        scores: as found, shape (layers,).
        draws: of the paired bootstrap, shape (resamples, layers).
        confidence: with which the set holds the highest.

    Returns:
        Shape (layers,).
    """
    errors = draws - scores
    bounds = np.quantile(errors.max(axis=1, keepdims=True) - errors, confidence, axis=0)
    found: npt.NDArray[np.bool_] = scores.max() - scores <= bounds
    return found


def _refusal(evidence: Evidence, analysis: dict[str, Any]) -> str | None:
    """What of the data is too little to choose a layer by; None where nothing is."""
    if not analysis["defined"]:
        return "the full gain is not clearly above zero, so no layer's share of it is defined"
    if len(evidence.layers) < 2:
        return f"it takes two scanned layers to choose between, and {len(evidence.layers)} has records"
    once = [layer_name(layer) for layer, runs in evidence.layers.items() if len(runs) < 2]
    if len(evidence.of(full_runs(evidence.study))) < 2:
        once.insert(0, "full")
    if once:
        return f"of {', '.join(once)} there is one seed, which says nothing of the luck of training"
    return None


def _candidates(evidence: Evidence) -> list[int]:
    """The layers that may be the best on ``select``, ascending."""
    bootstrap = evidence.bootstrap("select", "recommendation", "select")
    runs = [evidence.matrix("select", of) for of in evidence.layers.values()]
    scores = np.array([bootstrap.sets.score(one) for one in runs])
    draws = np.stack([bootstrap.scores(one) for one in runs], axis=1)
    found = may_be_best(scores, draws, evidence.study.analysis.confidence)
    return [layer for layer, may in zip(evidence.layers, found, strict=True) if may]


def _band(best: int, candidates: Sequence[int]) -> list[int]:
    """The candidates that are neighbours of the best layer or of another in the band."""
    first = last = best
    while first - 1 in candidates:
        first -= 1
    while last + 1 in candidates:
        last += 1
    return list(range(first, last + 1))


def _share(evidence: Evidence, band: Sequence[int]) -> Interval:
    """The mean of the band's C on ``report``, each layer trained alone."""
    bootstrap = evidence.bootstrap("report", "recommendation", "report")
    base = evidence.matrix("report", [BASE])
    full = evidence.matrix("report", evidence.of(full_runs(evidence.study)))
    alone = [evidence.matrix("report", evidence.layers[layer]) for layer in band]
    score = bootstrap.sets.score
    value = contribution(fmean(map(score, alone)), score(base), score(full))
    base_draws, full_draws = bootstrap.scores(base), bootstrap.scores(full)
    band_draws = np.mean([bootstrap.scores(one) for one in alone], axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        draws = np.nan_to_num((band_draws - base_draws) / (full_draws - base_draws))
    return bootstrap.interval(value, draws)


def _of_full(economics: dict[str, Any], names: Sequence[str]) -> dict[str, float | None]:
    """What these settings take of full training's costs, the mean over them."""
    rows = [row["of_full"] for row in economics["settings"] if row["name"] in names]
    return {
        key: fmean(row[key] for row in rows) if all(row[key] is not None for row in rows) else None for key in _COSTS
    }


def _headline(evidence: Evidence, band: Sequence[int], share: Interval, of_full: dict[str, float | None]) -> str:
    confidence = f"{evidence.study.analysis.confidence:.0%} interval {share.low:.2f} to {share.high:.2f}"
    costs = _costs(of_full)
    if len(band) == 1:
        return f"Train layer {band[0]} alone: {share.value:.2f} of the full gain ({confidence}){costs}."
    return (
        f"Train one of {_named(band)}: each trained alone, they carry {share.value:.2f} of the full gain on average"
        f" ({confidence}){costs}; trained together they were not measured."
    )


def _named(band: Sequence[int]) -> str:
    return f"layer {band[0]}" if len(band) == 1 else f"layers {band[0]}–{band[-1]}"


def _costs(of_full: dict[str, float | None]) -> str:
    """Costs beside full training's, in words, to follow what was trained; empty where none is known."""
    words = {
        "peak_memory_bytes": "full training's peak memory",
        "train_seconds": "its measured seconds",
        "checkpoint_bytes": "its checkpoint's bytes",
    }
    known = [f"{figure:.2f} of {words[key]}" for key, figure in of_full.items() if figure is not None]
    return ", at " + " and ".join(", ".join(part) for part in (known[:-1], known[-1:]) if part) if known else ""


def _beside_full(share: Interval) -> str:
    if share.high < 1:
        return "Full training gains more."
    if share.low > 1:
        return "That is more than full training gains."
    return "It cannot be told apart from full training."


def _others(candidates: Sequence[int], band: Sequence[int]) -> str:
    """Which other layers may be the best, neighbours as one span; empty where none may."""
    spans: list[list[int]] = []
    for layer in candidates:
        if layer in band:
            continue
        if spans and spans[-1][-1] == layer - 1:
            spans[-1].append(layer)
        else:
            spans.append([layer])
    others = ", ".join(str(span[0]) if len(span) == 1 else f"{span[0]}–{span[-1]}" for span in spans)
    return f"Apart from these, {others} may be the best layer as well." if others else ""


def _best_strategy(evidence: Evidence, analysis: dict[str, Any]) -> str:
    """What the best measured set of several layers carries, chosen by its score on ``select``; empty without one."""
    known = {
        row["name"]: row
        for row in analysis.get("strategies") or []
        if row.get("factor") is None and row.get("layers") and len(row["layers"]) > 1 and row.get("contribution")
    }
    scores = {
        name: fmean(evidence.summaries[run.name]["select"]["score"] for run in runs)
        for name, runs in evidence.settings.items()
        if name in known
    }
    if not scores:
        return ""
    name = max(scores, key=lambda one: scores[one])
    row, found = known[name], known[name]["contribution"]
    together = ", ".join(map(str, row["layers"]))
    return (
        f"Of several layers trained together, {name} (layers {together}) was the best on select:"
        f" {found['value']:.2f} of the full gain ({found['low']:.2f} to"
        f" {found['high']:.2f}){_costs(_of_full(analysis['economics'], [name]))}."
    )


def _baselines(analysis: dict[str, Any]) -> list[str]:
    """What the baselines carry; none is chosen."""
    rows = [row for row in analysis["baselines"] if row["search"] is not None and row["contribution"] is not None]
    return [
        f"{row['name']} carries {row['contribution']['value']:.2f} ({row['contribution']['low']:.2f} to"
        f" {row['contribution']['high']:.2f}){_costs(_of_full(analysis['economics'], [row['name']]))}."
        for row in rows
    ]


def _partly(evidence: Evidence) -> str:
    """What of the study this rests on, where that is not all of it."""
    depth = evidence.study.model.layer_count()
    parts = []
    if len(evidence.layers) < depth:
        parts.append(f"{len(evidence.layers)} of {depth} layers")
    if evidence.missing:
        parts.append(f"{len(evidence.runs)} of {len(evidence.runs) + len(evidence.missing)} runs")
    return f"This rests on {' and '.join(parts)}." if parts else ""
