"""The answer of a study, for a page's first screen: which layers, how sure, what it costs, what to train."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from onelayer.grid import setting_name

# What a run takes, as an analysis names it, and as a sentence does.
_COSTS = (("train_seconds", "training time"), ("peak_memory_bytes", "memory"), ("checkpoint_bytes", "checkpoint"))


@dataclass(frozen=True)
class Answer:
    """What a study says, in plain text.

    Attributes:
        study: its name.
        about: what it is: algorithm, layers, seeds.
        found: which layer carries how much, or why that cannot be said.
        sure: how sure that is; None where there is nothing to be sure of.
        cost: what the best layer takes beside full training; None where no layer is there, or the advice says it.
        advice: what to train, or that nothing can be recommended.
        because: what that carries and takes, or why; empty where the advice says it.
        more: what else is said of it; empty where that is all.
        scores: base, full training and the gain.
        unfinished: what is missing; None where every run is there.
    """

    study: str
    about: str
    found: str
    sure: str | None
    cost: str | None
    advice: str
    because: str
    more: str
    scores: str
    unfinished: str | None


def answer(analysis: dict[str, Any], decimals: int) -> Answer:
    """Put a study's analysis into the words of a page's first screen."""
    seeds, missing = len(analysis["seeds"]), len(analysis["missing"])
    made = analysis["recommendation"]
    first, _, more = made["text"].partition(". ")
    advice, colon, because = f"{first.removesuffix('.')}.".partition(": ")
    runs = missing + len(analysis["summaries"])
    return Answer(
        study=analysis["study"],
        about=f"{analysis['algorithm']}, {len(analysis['layers'])} of {analysis['layers_of_model']} layers,"
        f" {seeds} seed{'s' if seeds != 1 else ''}",
        found=_found(analysis, decimals),
        sure=_sure(analysis, decimals),
        cost=None if made["refused"] is None else _cost(analysis),
        advice=advice + colon.strip(),
        because=because,
        more=more,
        scores=_scores(analysis, decimals + 1),
        unfinished=f"Not finished: {missing} of {runs} runs are missing, and the figures rest on the others."
        if missing
        else None,
    )


def _found(analysis: dict[str, Any], decimals: int) -> str:
    best = analysis["best_layer"]
    if not analysis["defined"]:
        return "No contribution can be given: the full gain is not clearly above zero."
    if best is None:
        return "No layer is done yet."
    return f"Layer {best['layer']} alone carries {best['contribution']['value']:.{decimals}f} of the full gain."


def _sure(analysis: dict[str, Any], decimals: int) -> str | None:
    best = analysis["best_layer"]
    if best is None or best["contribution"] is None:
        return None
    found = best["contribution"]
    beside = [
        row["layer"]
        for row in analysis["layers"]
        if row["layer"] != best["layer"]
        and row["contribution"]["low"] <= found["high"]
        and row["contribution"]["high"] >= found["low"]
    ]
    if beside:
        told = f"not told apart from layer{'s' if len(beside) > 1 else ''} {spans(beside)}"
    else:
        told = "apart from every other" if len(analysis["layers"]) > 1 else "the only layer there is"
    return f"{analysis['confidence']:.0%} interval {found['low']:.{decimals}f} to {found['high']:.{decimals}f}, {told}."


def _cost(analysis: dict[str, Any]) -> str | None:
    best = analysis["best_layer"]
    if best is None:
        return None
    costs: dict[str, list[dict[str, Any]]] = {}
    for run, cost in analysis["cost"].items():
        costs.setdefault(setting_name(run), []).append(cost)
    layer, full = costs[f"layer-{best['layer']:02d}"], costs["full"]
    shares = []
    for key, what in _COSTS:
        if any(one[key] is None for one in (*layer, *full)):  # a checkpoint that is not here
            continue
        whole = fmean(one[key] for one in full)
        if whole > 0:
            shares.append(f"{fmean(one[key] for one in layer) / whole:.0%} of its {what}")
    return f"Beside full training it takes {', '.join(shares)}." if shares else None


def _scores(analysis: dict[str, Any], decimals: int) -> str:
    base, full, gain = analysis["base"], analysis["full"], analysis["gain"]
    spread = "" if full["deviation"] is None else f" (standard deviation {full['deviation']:.{decimals}f} over seeds)"
    return (
        f"Base {base['value']:.{decimals}f}, full training {full['value']:.{decimals}f}{spread}: a gain of"
        f" {gain['value']:.{decimals}f} ({gain['low']:.{decimals}f} to {gain['high']:.{decimals}f})."
    )


def spans(layers: Sequence[int]) -> str:
    """Ascending layers in few words: ``2, 5–7 and 9``."""
    runs: list[list[int]] = []
    for layer in layers:
        if runs and layer == runs[-1][-1] + 1:
            runs[-1].append(layer)
        else:
            runs.append([layer])
    words = [str(run[0]) if len(run) == 1 else f"{run[0]}{'–' if len(run) > 2 else ' and '}{run[-1]}" for run in runs]
    flat = [part for word in words for part in word.split(" and ")]
    return flat[0] if len(flat) == 1 else f"{', '.join(flat[:-1])} and {flat[-1]}"
