"""The report's figures, as SVG text that stands in the page itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt

from onelayer.grid import setting_name
from onelayer.report.drawing import BLUE, GREEN, GREY, ORANGE, YELLOW, bars, drawing, svg


def profile(analysis: dict[str, Any]) -> str:
    """C by layer with intervals, base and full as lines; the scores themselves where C is undefined."""
    rows = analysis["layers"]
    layers = [row["layer"] for row in rows]
    key, base, full = ("contribution", 0.0, 1.0)
    if not analysis["defined"]:
        key, base, full = ("score", analysis["base"]["value"], analysis["full"]["value"])
    values = [row[key]["value"] for row in rows]
    with drawing(f"profile-{analysis['study']}", 7.2, 3.6) as (figure, axes):
        axes.axhline(full, color=GREEN, linewidth=1.4, linestyle="--", label="full training")
        axes.axhline(base, color=GREY, linewidth=1.4, linestyle=":", label="base")
        axes.errorbar(
            layers,
            values,
            yerr=bars([row[key] for row in rows]),
            fmt="o",
            color=BLUE,
            capsize=3,
            markersize=5,
            label=f"one layer ({analysis['confidence']:.0%} interval)",
        )
        best = analysis["best_layer"]  # there is one wherever there is a layer
        axes.plot(
            [best["layer"]],
            [best[key]["value"]],
            "o",
            markersize=11,
            markerfacecolor="none",
            markeredgecolor=ORANGE,
            markeredgewidth=1.8,
            label="best on select",
        )
        axes.set_xlabel("layer trained alone")
        axes.set_ylabel("contribution C" if analysis["defined"] else f"score (avg@{analysis['samples']})")
        axes.xaxis.set_major_locator(mpl.ticker.MaxNLocator(integer=True))
        axes.legend(frameon=False, fontsize=9, loc="upper center", bbox_to_anchor=(0.5, 1.17), ncols=4)
        return svg(figure, f"Contribution by layer, study {analysis['study']}")


def search(analysis: dict[str, Any]) -> str | None:
    """The score on ``select`` by learning rate; None where there was no search."""
    rows = analysis["search"]["search"]
    if not rows:
        return None
    with drawing(f"search-{analysis['study']}", 7.2, 2.8) as (figure, axes):
        axes.plot([row["learning_rate"] for row in rows], [row["select_score"] for row in rows], "o", color=BLUE)
        axes.axvline(analysis["search"]["learning_rate"], color=ORANGE, linewidth=1.4, linestyle="--", label="chosen")
        axes.set_xscale("log")
        axes.set_xticks(sorted({row["learning_rate"] for row in rows}))
        axes.xaxis.set_major_formatter(mpl.ticker.FuncFormatter(lambda rate, _: f"{rate:g}"))
        axes.xaxis.set_minor_formatter(mpl.ticker.NullFormatter())
        axes.set_xlabel("learning rate (logarithmic)")
        axes.set_ylabel("score on select, full training")
        axes.legend(frameon=False, fontsize=9)
        return svg(figure, f"Learning-rate search, study {analysis['study']}")


# How the curves of a kind of run look: label, colour, width of the line.
_CURVES = {
    "full": ("full training", GREEN, 1.8),
    "layer": ("one layer", BLUE, 0.7),
    "lora": ("LoRA", ORANGE, 1.0),
    "tuned": ("one layer, its own rate", GREY, 1.0),
}
_OTHER = ("other runs", YELLOW, 1.0)
# A line of more points is thinned: no screen or page shows them apart.
_POINTS = 200


def curves(analysis: dict[str, Any]) -> str:
    """What each step's batch earned, smoothed: a line a setting, the mean over its seeds; the searches' runs apart."""
    settings: dict[str, list[Sequence[dict[str, float]]]] = {}
    for run, history in analysis["curves"].items():
        if history and not run.startswith("search-"):
            settings.setdefault(setting_name(run), []).append(history)
    with drawing(f"curves-{analysis['study']}", 7.2, 3.4) as (figure, axes):
        drawn: set[str] = set()
        for setting, histories in sorted(settings.items(), reverse=True):  # full last, on top
            kind = setting.partition("-")[0]
            label, color, width = _CURVES.get(kind, _OTHER)
            steps, means = _over_seeds(histories)
            axes.plot(
                steps,
                means.mean(axis=0),
                color=color,
                linewidth=width,
                alpha=1.0 if kind == "full" else 0.6,
                zorder=3 if kind == "full" else 2,
                label=None if label in drawn else label,
            )
            drawn.add(label)
        axes.set_xlabel("optimizer step")
        axes.set_ylabel(_earning([analysis]))
        axes.legend(frameon=False, fontsize=9, loc="lower right")
        return svg(figure, f"Training curves, study {analysis['study']}")


def _over_seeds(histories: Sequence[Sequence[dict[str, float]]]) -> tuple[list[float], npt.NDArray[np.float64]]:
    """The steps that all seeds have, and what each seed earned there, smoothed: shape (seeds, steps); thinned."""
    length = min(len(history) for history in histories)
    thinned = slice(None, None, math.ceil(length / _POINTS))
    steps = [row["step"] for row in histories[0][:length]][thinned]
    return steps, np.array([_smoothed(earned(history[:length]))[thinned] for history in histories])


def learning_curves(analyses: Sequence[dict[str, Any]]) -> str:
    """What the full runs earn by step under each algorithm: the mean over seeds, and their range as a band."""
    names = " and ".join(analysis["study"] for analysis in analyses)
    with drawing(f"learning-{names}", 7.2, 3.4) as (figure, axes):
        for analysis, color in zip(analyses, (BLUE, ORANGE, GREEN, GREY), strict=False):
            steps, seeds = _over_seeds([h for run, h in analysis["curves"].items() if run.startswith("full-")])
            label = f"{analysis['algorithm']} ({analysis['study']}, {len(seeds)} seeds)"
            axes.plot(steps, seeds.mean(axis=0), color=color, linewidth=1.8, label=label)
            axes.fill_between(steps, seeds.min(axis=0), seeds.max(axis=0), color=color, alpha=0.2, linewidth=0)
        axes.set_xlabel("optimizer step")
        axes.set_ylabel(_earning(analyses))
        axes.legend(frameon=False, fontsize=9, loc="lower right")
        return svg(figure, f"Learning curves of {names}")


def earned(history: Sequence[dict[str, float]]) -> list[float]:
    """By step, the share of episodes won, or, of single answers, the mean reward; NaN where neither is known."""
    return [row.get("success", row.get("reward", math.nan)) for row in history]


def _earning(analyses: Sequence[dict[str, Any]]) -> str:
    """What `_earned` is, as an axis says it."""
    rows = (row for analysis in analyses for history in analysis["curves"].values() for row in history)
    return "share of episodes won in a batch" if "success" in next(rows, {}) else "mean reward of a batch"


def agreement(first: dict[str, Any], second: dict[str, Any]) -> str:
    """One study's C against another's, a point a layer that both hold, with both intervals."""
    other = {row["layer"]: row["contribution"] for row in second["layers"]}
    rows = [
        (row["layer"], row["contribution"], other[row["layer"]]) for row in first["layers"] if row["layer"] in other
    ]
    with drawing(f"agreement-{first['study']}-{second['study']}", 3.6, 3.4) as (figure, axes):
        axes.errorbar(
            [x["value"] for _, x, _ in rows],
            [y["value"] for _, _, y in rows],
            xerr=bars([x for _, x, _ in rows]),
            yerr=bars([y for _, _, y in rows]),
            fmt="o",
            color=BLUE,
            ecolor=GREY,
            elinewidth=0.6,
            markersize=4,
        )
        for layer, x, y in rows:
            axes.annotate(str(layer), (x["value"], y["value"]), xytext=(4, 4), textcoords="offset points", color=ORANGE)
        axes.set_xlabel(f"C in {first['study']}")
        axes.set_ylabel(f"C in {second['study']}")
        return svg(figure, f"Contributions in {second['study']} against those in {first['study']}")


def _smoothed(values: list[float], span: int = 5) -> list[float]:
    """Means over the last ``span`` values."""
    return [
        sum(values[max(0, end - span) : end]) / len(values[max(0, end - span) : end])
        for end in range(1, len(values) + 1)
    ]
