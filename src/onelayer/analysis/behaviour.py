"""How the runs answer, beside how often rightly: lengths, cut-off and empty answers, and their training's curves."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

import numpy as np

from onelayer.analysis.brevity import WORLDS_REASON, brevity
from onelayer.analysis.coefficients import permutation_p, spearman
from onelayer.analysis.evidence import Evidence
from onelayer.grid import BASE, Run, full_runs, layer_name
from onelayer.seeds import derive_seed

# The first and the last steps whose means are a run's start and end; of a short run at most half of it each.
_ENDS = 5
_CURVES = ("reward", "success", "entropy", "kl", "mean_tokens", "clipped", "groups_without_signal", "turns", "invalid")
_SUMMARY = ("score", "mean_tokens", "right_tokens", "wrong_tokens", "clipped", "unparsed")
# Of fewer layers an order at random often looks like a correlation.
_FEWEST_LAYERS = 4
# By so much of the base's a length has to differ to be said in words.
_MUCH = 0.2


def behaviour(evidence: Evidence, best: int | None) -> dict[str, Any]:
    """The behaviour's part of the analysis; figures of answers are those on ``report``.

    Args:
        evidence: what the runs left.
        best: the layer ranked first on ``select``; None where no layer has records.
    """
    arms = evidence.settings
    settings = [_setting(evidence, name, runs) for name, runs in arms.items()]
    looked_at: dict[str, Sequence[Run]] = {"full": evidence.of(full_runs(evidence.study))}
    if best is not None:
        looked_at[layer_name(best)] = evidence.layers[best]
    shorter = brevity(evidence, looked_at)
    return {
        "settings": settings,
        "runs": {
            run.name: ends(evidence.histories[run.name]) for run in evidence.runs if run.kind not in ("base", "search")
        },
        "score_and_length": _score_and_length(evidence),
        "shorter": shorter,
        "notes": _notes(evidence, settings, shorter["arms"]),
    }


def _setting(evidence: Evidence, name: str, runs: Sequence[Run]) -> dict[str, Any]:
    """The means over a setting's seeds, and its length beside the base's."""
    summaries = [evidence.summaries[run.name]["report"] for run in runs]
    base = evidence.summaries[BASE.name]["report"]["mean_tokens"]
    row: dict[str, Any] = {
        "name": name,
        "kind": runs[0].kind,
        "layers": evidence.trained_layers(runs),
        "runs": len(runs),
    }
    row |= {key: _mean([summary[key] for summary in summaries]) for key in _SUMMARY}
    row["length_change"] = row["mean_tokens"] / base - 1 if base > 0 else None
    curves = [ends(evidence.histories[run.name]) for run in runs if run.name in evidence.histories]
    row["curves"] = {
        curve: {part: fmean(one[curve][part] for one in curves) for part in ("start", "end", "mean")}
        for curve in _CURVES
        if curves and all(curve in one for one in curves)
    }
    return row


def _mean(figures: Sequence[float | None]) -> float | None:
    """The mean of those that are there; None of none."""
    there = [figure for figure in figures if figure is not None]
    return fmean(there) if there else None


def ends(history: Sequence[dict[str, float]]) -> dict[str, dict[str, float]]:
    """Where a training's curves start and end (the means of their first and last five steps), and their means.

    A curve that no step holds has no row.
    """
    found = {}
    for curve in _CURVES:
        figures = [row[curve] for row in history if curve in row]
        if figures:
            span = max(1, min(_ENDS, len(figures) // 2))
            found[curve] = {"start": fmean(figures[:span]), "end": fmean(figures[-span:]), "mean": fmean(figures)}
    return found


def _score_and_length(evidence: Evidence) -> dict[str, Any]:
    """Whether the layers whose answers are longer score better: Spearman's rho over the layers' means."""
    layers = evidence.layers
    if evidence.study.is_agent:
        return {"reason": WORLDS_REASON}
    if len(layers) < _FEWEST_LAYERS:
        return {"reason": f"it takes {_FEWEST_LAYERS} layers, and {len(layers)} have records"}
    of = [[evidence.summaries[run.name]["report"] for run in runs] for runs in layers.values()]
    scores, lengths = (np.array([fmean(one[key] for one in runs) for runs in of]) for key in ("score", "mean_tokens"))
    if np.ptp(scores) == 0 or np.ptp(lengths) == 0:
        return {"reason": "the layers' scores or lengths are all alike"}
    return {
        "reason": None,
        "layers": len(layers),
        "spearman": float(spearman(scores, lengths)),
        "p": permutation_p(scores, lengths, derive_seed(evidence.study.seed, "permutation", "length")),
    }


def _notes(evidence: Evidence, settings: Sequence[dict[str, Any]], arms: Sequence[dict[str, Any]]) -> list[str]:
    """What a reader must know before believing the scores, in words."""
    notes = []
    what = "episodes" if evidence.study.is_agent else "answers"
    trained = [row for row in settings if row["kind"] != "base" and row["length_change"] is not None]
    for side, than in ((1, "longer"), (-1, "shorter")):
        much = [row for row in trained if side * row["length_change"] > _MUCH]
        if much:
            most = max(much, key=lambda row: float(side * row["length_change"]))
            notes.append(
                f"The {what} are {than} than the base's by more than {_MUCH:.0%} in {len(much)} of {len(trained)}"
                f" settings, most in {most['name']} ({most['length_change']:+.0%}, {most['mean_tokens']:.1f} tokens)."
            )
    for row in arms:
        gain, moved = row["gain"], row["fewer_cut_off"]
        if gain["low"] > 0 and moved["low"] > 0 and moved["value"] > gain["value"] / 2:
            notes.append(
                f"{row['name']}: {moved['value'] / gain['value']:.0%} of the gain is that fewer answers were cut off"
                f" ({row['clipped']['base']:.1%} of the base's, {row['clipped'][row['name']]:.1%} after training)."
            )
    return notes
