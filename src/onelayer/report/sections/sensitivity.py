"""How far the score and C of single layers move at other learning rates than the one that was chosen."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
import pandas as pd

from onelayer.report.drawing import BLUE, GREEN, GREY, ORANGE, PINK, SKY, YELLOW, bars, drawing, svg
from onelayer.report.section import Exhibit, Section
from onelayer.report.sections.strategies import is_shown

_COLORS = (BLUE, ORANGE, GREEN, PINK, SKY, YELLOW, GREY)
_MARKERS = "osD^vXP"


def section(analysis: dict[str, Any]) -> Section | None:
    """How C moves with the rate; None where the study has no such runs."""
    found = analysis["rate_sensitivity"]
    if found is None or not found["rows"]:
        return None
    return Section(
        anchor="rate-sensitivity",
        title="Would another learning rate change the answer?",
        paragraphs=(_moves(analysis), *_ranks(found["rows"])),
        exhibits=(
            Exhibit(
                name="rate_sensitivity",
                title="Single layers at multiples of the learning rate",
                caption=f"{'Contribution C' if analysis['defined'] else 'Score'} of each layer trained alone, at"
                f" multiples of the rate that the search chose, {found['learning_rate']:g} (1 is the scan itself); bars"
                f" are {analysis['confidence']:.0%} intervals. In the table, the difference is of scores, at the factor"
                " less at 1, the adjusted p is Holm's over its rows, and ranks are by the score on report among the"
                " layers of a factor.",
                table=table(analysis),
                svg=figure(analysis),
            ),
        ),
        notes=_notes(analysis),
    )


def table(analysis: dict[str, Any]) -> pd.DataFrame:
    """One row a layer and factor."""
    rows = []
    for row in analysis["rate_sensitivity"]["rows"]:
        share, at_one = (row[key] or {} for key in ("contribution", "contribution_at_one"))
        against = row["against_one"] or {}
        rows.append(
            {
                "setting": row["name"],
                "layer": row["layer"],
                "factor": row["factor"],
                "learning_rate": row["learning_rate"],
                "repeats": len(row["seeds"]),
                "score": row["score"]["value"],
                "contribution": share.get("value"),
                "low": share.get("low"),
                "high": share.get("high"),
                "contribution_at_1": at_one.get("value"),
                "move": row["move"],
                "difference": against.get("difference"),
                "difference_low": against.get("low"),
                "difference_high": against.get("high"),
                "p": against.get("p"),
                "p_adjusted": against.get("p_adjusted"),
                "rank": row["rank"],
                "rank_at_1": row["rank_at_one"],
            }
        )
    frame = pd.DataFrame(rows)
    whole = ["rank", "rank_at_1"]
    numbers = [name for name in frame.columns if name not in ("setting", "layer", "repeats", *whole)]
    return frame.astype(dict.fromkeys(numbers, float) | dict.fromkeys(whole, "Int64"))


def figure(analysis: dict[str, Any]) -> str:
    """A line a layer: C by factor, the scan's own at 1; scores where C is undefined."""
    found = analysis["rate_sensitivity"]
    key = "contribution" if analysis["defined"] else "score"
    points: dict[int, dict[float, dict[str, float]]] = {}
    for row in found["rows"]:
        of_layer = points.setdefault(row["layer"], {})
        of_layer[row["factor"]] = row[key]
        if row[f"{key}_at_one"] is not None:
            of_layer[1.0] = row[f"{key}_at_one"]
    factors = sorted({factor for of_layer in points.values() for factor in of_layer})
    with drawing(f"rate-sensitivity-{analysis['study']}", 7.2, 3.4) as (canvas, axes):
        for place, (layer, of_layer) in enumerate(sorted(points.items())):
            there = sorted(of_layer)
            # Side by side by a few percent, so that bars of one factor do not hide each other.
            spread = 1.03 ** (place - (len(points) - 1) / 2)
            intervals = [of_layer[factor] for factor in there]
            axes.errorbar(
                [factor * spread for factor in there],
                [one["value"] for one in intervals],
                yerr=bars(intervals),
                fmt=f"-{_MARKERS[(place + place // len(_COLORS)) % len(_MARKERS)]}",  # no two layers look alike
                color=_COLORS[place % len(_COLORS)],
                linewidth=1.2,
                capsize=3,
                markersize=5,
                label=f"layer {layer}",
            )
        axes.set_xscale("log")
        axes.set_xticks(factors, [f"{factor:g} ×" for factor in factors])
        axes.xaxis.set_minor_locator(mpl.ticker.NullLocator())
        axes.set_xlabel("multiple of the chosen learning rate (logarithmic)")
        axes.set_ylabel("contribution C" if analysis["defined"] else f"score (avg@{analysis['samples']})")
        axes.legend(frameon=False, fontsize=9, loc="center left", bbox_to_anchor=(1.0, 0.5))
        return svg(canvas, f"Single layers at multiples of the learning rate, study {analysis['study']}")


def _moves(analysis: dict[str, Any]) -> str:
    """How far C moved at most, and which differences of scores hold after correction."""
    found = analysis["rate_sensitivity"]
    compared = [row for row in found["rows"] if row["against_one"] is not None]
    sentences = []
    if found["largest_move"] is not None:
        widest = max((row for row in compared if row["move"] is not None), key=lambda row: abs(row["move"]))
        sentences.append(
            f"The largest move of C is {widest['move']:+.2f}, of layer {widest['layer']} at {widest['factor']:g} times"
            " the rate."
        )
    elif not analysis["defined"]:
        sentences.append("Contributions are undefined, so scores are compared.")
    moved = [row for row in compared if is_shown(row["against_one"], analysis["confidence"])]
    if moved:
        said = ", ".join(
            f"layer {row['layer']} at {row['factor']:g} times ({row['against_one']['difference']:+.3f}"
            f"{', of one seed' if len(row['seeds']) == 1 else ''})"
            for row in moved
        )
        sentences.append(
            f"After correction for {len(compared)} comparisons, the score differs from that at 1 for {said}."
        )
    elif compared:
        sentences.append(f"After correction for {len(compared)} comparisons, no score is told apart from that at 1.")
    return " ".join(sentences)


def _ranks(rows: list[dict[str, Any]]) -> list[str]:
    """A sentence a factor: whether its layers come in the order that they have at 1."""
    sentences = []
    for factor in dict.fromkeys(row["factor"] for row in rows):
        together = [row for row in rows if row["factor"] == factor and row["rank"] is not None]
        if len(together) < 2:
            continue
        moved = [row for row in together if row["rank"] != row["rank_at_one"]]
        said = ", ".join(f"layer {row['layer']} from {row['rank_at_one']} to {row['rank']}" for row in moved)
        order = f"ranks move: {said}" if moved else "they keep their order"
        sentences.append(f"At {factor:g} times the rate, of {len(together)} layers, {order}.")
    return sentences


def _notes(analysis: dict[str, Any]) -> tuple[str, ...]:
    rows = analysis["rate_sensitivity"]["rows"]
    notes = []
    alone = sorted({row["name"] for row in rows if len(row["seeds"]) == 1})
    if alone:
        notes.append(f"Of one seed, whose interval covers the choice of problems alone: {', '.join(alone)}.")
    return tuple(notes)
