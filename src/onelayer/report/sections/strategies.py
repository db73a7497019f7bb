"""What several layers carry, chosen by rank, by place or at random, and what a higher rate for some of them adds."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
import pandas as pd

from onelayer.grid import layer_name
from onelayer.report.drawing import BLUE, GREEN, GREY, ORANGE, PINK, bars, drawing, svg
from onelayer.report.section import Exhibit, Section

# How each kind of strategy looks: marker and colour.
_MARKS = {
    "boost": ("o", BLUE),
    "only": ("s", ORANGE),
    "middle": ("^", PINK),
    "spread": ("D", PINK),
    "random": ("X", GREY),
}
_KINDS = {
    "boost": "Boost trains every parameter, the layers named at {factor:g} times the rate",
    "only": "Only trains nothing but the layers named",
    "middle": "Middle trains those in the middle",
    "spread": "Spread trains some evenly over the depth",
    "random": "Random trains some drawn at random, every draw a run",
}


def section(analysis: dict[str, Any]) -> Section | None:
    """The strategies beside full training, the best layer and random layers; None where the study has none."""
    rows = analysis["strategies"]
    if not rows:
        return None
    compared = [one for row in rows for one in row["against"].values()]
    return Section(
        anchor="strategies",
        title="Strategies: several layers instead of one",
        paragraphs=(
            ". ".join({row["kind"]: _KINDS[row["kind"]].format(factor=row["factor"] or 1) for row in rows}.values())
            + ". Best and worst are the ends of the ranking on select; every figure here is from report.",
            *_verdicts(analysis),
            "A difference is named where its p, corrected for all comparisons, is at most"
            f" {1 - analysis['confidence']:.2g}.",
        ),
        exhibits=(
            Exhibit(
                name="strategies",
                title="What each strategy scores",
                caption=f"Score (avg@{analysis['samples']}) of each strategy with its {analysis['confidence']:.0%}"
                " interval; small circles are single draws of random layers."
                + (" The upper scale is the share of the full gain." if analysis["defined"] else ""),
                table=table(analysis),
                svg=figure(analysis),
            ),
            Exhibit(
                name="strategy_comparisons",
                title="Each strategy against full training, the best layer and random layers",
                caption="Score of the strategy less that of the other, paired over problems. The adjusted p is Holm's,"
                f" over all {len(compared)} comparisons of this table; the intervals are not corrected.",
                table=comparisons(analysis),
            ),
        ),
        notes=_notes(analysis),
    )


def label(row: dict[str, Any]) -> str:
    """A strategy's name as a reader says it, such as ``Boost best 5`` or ``Random 5``."""
    end = f" {row['end']}" if row["end"] else ""
    return f"{row['kind'].capitalize()}{end} {row['size']}"


_COLUMNS = [
    "setting", "layers", "rate_of_these", "repeats", "score", "low", "high", "deviation", "share_of_gain", "share_low",
    "share_high", "trained_parameters", "train_seconds",
]  # fmt: skip


def table(analysis: dict[str, Any]) -> pd.DataFrame:
    """One row a strategy: what the figure draws, and what a run of it takes; no row where the study has none."""
    rows = []
    for row in analysis["strategies"]:
        share = row["contribution"] or {"value": None, "low": None, "high": None}
        layers = [row["layers"]] if row["layers"] is not None else [draw["layers"] for draw in row["draws"]]
        rows.append(
            {
                "setting": row["name"],
                "layers": "; ".join(", ".join(map(str, one)) for one in layers),
                "rate_of_these": f"{row['factor']:g} ×" if row["factor"] is not None else "1 ×",
                "repeats": len(row["seeds"]),
                "score": row["score"]["value"],
                "low": row["score"]["low"],
                "high": row["score"]["high"],
                "deviation": row["score_deviation"],
                "share_of_gain": share["value"],
                "share_low": share["low"],
                "share_high": share["high"],
                "trained_parameters": row["trained_parameters"],
                "train_seconds": row["train_seconds"],
            }
        )
    return pd.DataFrame(rows, columns=_COLUMNS).astype(
        {"deviation": float, "share_of_gain": float, "share_low": float, "share_high": float}
    )


def comparisons(analysis: dict[str, Any]) -> pd.DataFrame:
    """One row a comparison: strategy, what it is held against, the difference of scores, and p."""
    return pd.DataFrame(
        [
            {
                "setting": row["name"],
                "against": other,
                **found,
            }
            for row in analysis["strategies"]
            for other, found in row["against"].items()
        ]
    )


def figure(analysis: dict[str, Any]) -> str:
    """A line a strategy: its score with the interval; base, full training and the best layer as upright lines."""
    rows = analysis["strategies"]
    base, full, best = analysis["base"]["value"], analysis["full"]["value"], analysis["best_layer"]
    with drawing(f"strategies-{analysis['study']}", 7.2, 1.6 + 0.32 * len(rows)) as (canvas, axes):
        axes.axvline(base, color=GREY, linewidth=1.4, linestyle=":", label="base")
        axes.axvline(full, color=GREEN, linewidth=1.4, linestyle="--", label="full training")
        if best is not None:
            score = best["score"]["value"]
            axes.axvline(score, color="#1c1c1c", linewidth=1.0, linestyle="-.", label=f"best layer ({best['layer']})")
        for place, row in enumerate(rows):
            marker, color = _MARKS[row["kind"]]
            axes.errorbar(
                [row["score"]["value"]],
                [place],
                xerr=bars([row["score"]]),
                fmt=marker,
                color=color,
                capsize=3,
                markersize=6,
            )
            draws = [draw["score"] for draw in row["draws"]]
            axes.plot(draws, [place + 0.28] * len(draws), "o", color=color, markersize=4, markerfacecolor="none")
        axes.set_yticks(range(len(rows)), [label(row) for row in rows])
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.grid(visible=False, axis="y")
        axes.set_xlabel(f"score (avg@{analysis['samples']})")
        if analysis["defined"]:
            shares = axes.secondary_xaxis(
                "top", functions=(lambda x: (x - base) / (full - base), lambda c: base + c * (full - base))
            )
            shares.set_xlabel("share of the full gain")
            shares.xaxis.set_major_locator(mpl.ticker.MaxNLocator(6))
        canvas.legend(frameon=False, fontsize=9, loc="outside lower center", ncols=3)
        return svg(canvas, f"Scores of the strategies, study {analysis['study']}")


def _verdicts(analysis: dict[str, Any]) -> list[str]:
    """A sentence each on full training, the best layer and random layers."""
    found: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    for row in analysis["strategies"]:
        for other, comparison in row["against"].items():
            name = label(row) + (" (one repeat)" if len(row["seeds"]) == 1 else "")
            found.setdefault("random" if other.startswith("random") else other, []).append((name, comparison))
    names = {"full": "full training", "random": "as many random layers"}
    if analysis["best_layer"] is not None:
        layer = analysis["best_layer"]["layer"]
        names[layer_name(layer)] = f"the best single layer ({layer})"
    return [_verdict(names[other], compared, analysis["confidence"]) for other, compared in found.items()]


def _verdict(other: str, compared: list[tuple[str, dict[str, Any]]], confidence: float) -> str:
    """Which strategies differ from another setting after correction, by how much, and which cannot be told apart."""
    above: list[str] = []
    below: list[str] = []
    alike: list[str] = []
    for name, comparison in compared:
        if not is_shown(comparison, confidence):
            alike.append(name)
        else:
            (above if comparison["difference"] > 0 else below).append(_difference(name, comparison))
    said = {"above it": above, "below it": below, "not told apart from it": alike}
    return f"Against {other}. " + " ".join(
        f"{what.capitalize()}: {', '.join(names)}." for what, names in said.items() if names
    )


def is_shown(comparison: dict[str, Any], confidence: float) -> bool:
    """Whether a difference holds after correction."""
    return bool(comparison["p_adjusted"] <= 1 - confidence)


def _difference(name: str, comparison: dict[str, Any]) -> str:
    return f"{name} ({comparison['difference']:+.3f}, {comparison['low']:+.3f} to {comparison['high']:+.3f})"


def _notes(analysis: dict[str, Any]) -> tuple[str, ...]:
    """What keeps the comparisons from meaning more."""
    rows = analysis["strategies"]
    notes = []
    alone = [label(row) for row in rows if len(row["seeds"]) == 1]
    if alone:
        notes.append(f"Of one repeat, whose interval covers the choice of problems alone: {', '.join(alone)}.")
    if any(row["kind"] == "random" for row in rows):
        notes.append(
            "Random layers are few draws of many possible sets; the interval over draws, with one seed each, holds"
            " both the choice of layers and the luck of training."
        )
    if len(analysis["layers"]) < analysis["layers_of_model"] and any(row["end"] for row in rows):
        notes.append("Best and worst are of the scanned layers alone; random, middle and spread are of all.")
    return tuple(notes)
