"""Every coefficient of a pair of studies beside its ceiling, and of the seeds of one study."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from onelayer.report.drawing import BLUE, GREEN, GREY, ORANGE, PINK, drawing, svg
from onelayer.report.section import Exhibit

Pairs = dict[tuple[str, str], dict[str, Any]]

_NAMES = {
    "spearman": "Spearman",
    "kendall": "Kendall",
    "pearson": "Pearson",
    "partial_spearman": "Spearman without depth",
    "partial_pearson": "Pearson without depth",
}
_DRAWN = {
    "spearman": (BLUE, "o"), "pearson": (GREEN, "s"), "partial_spearman": (ORANGE, "D"), "partial_pearson": (PINK, "^"),
}  # fmt: skip


def exhibits(analyses: Sequence[dict[str, Any]], pairs: Pairs) -> Iterator[Exhibit]:
    """The coefficients of all pairs that have any, and each study's seeds against each other."""
    table = coefficients_table(pairs)
    if len(table):
        yield Exhibit(
            name="coefficients",
            title="Every coefficient, beside what noise allows",
            caption="Bars are intervals, as in the table. The grey mark is the ceiling: what Spearman's rho to expect"
            " of two studies with one true ranking and this much noise. Without depth means: of what a parabola over"
            " relative depth leaves of both profiles, so that two profiles do not agree merely because both rise and"
            " fall with depth. Models of different depth are compared at the relative depths of the shallower one's"
            " layers, the deeper one's profile interpolated.",
            table=table,
            svg=figure(pairs),
        )
    seeds = seeds_table(analyses)
    if len(seeds):
        yield Exhibit(
            name="seed_agreement",
            title="Seeds of one study against each other",
            caption="The correlation over layers of the scores of two seeds: what to expect of two studies of one seed"
            " each, all else alike.",
            table=seeds,
        )


def coefficients_table(pairs: Pairs) -> pd.DataFrame:
    """One row a pair and coefficient."""
    rows = []
    for (first, second), result, found in _given(pairs):
        for key, label in _NAMES.items():
            one = _coefficient(found, key)
            if one is None:
                continue
            rows.append(
                {
                    "first": first,
                    "second": second,
                    "compared": f"{found['points']} relative depths"
                    if "points" in found
                    else f"{result['layers']} layers",
                    "coefficient": label,
                    **one,
                    "ceiling": found["ceiling"] if key == "spearman" else None,
                    "seed_to_seed_first": result["seed_to_seed"][first] if key == "spearman" else None,
                    "seed_to_seed_second": result["seed_to_seed"][second] if key == "spearman" else None,
                }
            )
    return pd.DataFrame(rows)


def seeds_table(analyses: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """One row a study and pair of its seeds, and one a study for their mean."""
    rows = []
    for analysis in analyses:
        found = analysis.get("seed_agreement")
        if found is None or found["reason"] is not None:
            continue
        rows += [
            {
                "study": analysis["study"],
                "seeds": f"{pair['seeds'][0]} and {pair['seeds'][1]}",
                "layers": pair["layers"],
            }
            | {key: pair[key] for key in ("spearman", "kendall", "pearson")}
            for pair in found["pairs"]
            if pair["reason"] is None
        ]
        rows.append({"study": analysis["study"], "seeds": "mean", "layers": None, **found["mean"]})
    return pd.DataFrame(rows).astype({"layers": "Int64"}) if rows else pd.DataFrame()


def figure(pairs: Pairs) -> str:
    """A row a pair: its coefficients with intervals, and the ceiling."""
    given = list(_given(pairs))
    height = 1.2 + 0.55 * len(given)
    with drawing("coefficients-" + "-".join("~".join(pair) for pair, *_ in given), 7.2, height) as (drawn, axes):
        labelled: set[str] = set()

        def label(name: str) -> str | None:
            new = name not in labelled
            labelled.add(name)
            return name if new else None

        for place, (_, _, found) in enumerate(given):
            for number, (key, (color, marker)) in enumerate(_DRAWN.items()):
                one = _coefficient(found, key)
                if one is None:
                    continue
                row = place + (number - 1.5) * 0.17
                axes.plot([one["low"], one["high"]], [row] * 2, color=color, linewidth=1.2)
                axes.plot([one["value"]], [row], marker, color=color, markersize=5, label=label(_NAMES[key]))
            if found["ceiling"] is not None:
                axes.plot(
                    [found["ceiling"]] * 2, [place - 0.4, place + 0.4], color=GREY, linewidth=2, label=label("ceiling")
                )
        axes.axvline(0, color=GREY, linewidth=0.8)
        axes.set_xlim(-1.05, 1.05)
        axes.set_yticks(range(len(given)), [f"{first}\n{second}" for (first, second), *_ in given], fontsize=8)
        axes.set_ylim(len(given) - 0.4, -0.6)
        axes.set_xlabel("correlation of the layers' contributions")
        axes.legend(
            frameon=False,
            fontsize=8,
            loc="lower center",
            bbox_to_anchor=(0.4, 1.0),
            ncols=5,
            columnspacing=1,
            handletextpad=0.3,
        )
        return svg(drawn, "Correlations of the layers' contributions, by pair of studies")


def over_depth_reading(over: dict[str, Any]) -> str:
    """What is said of a pair of models of different depth."""
    if over["reason"] is not None:
        return f"Nor can they be compared by relative depth, for {over['reason']}."
    text = (
        f"By relative depth, at {over['points']} depths from {over['from_depth']:.2f} to {over['to_depth']:.2f}:"
        f" Spearman {over['spearman']:.2f} ({over['low']:.2f} to {over['high']:.2f}, p {over['p']:.2g})."
    )
    if over["partial_scans"]:
        text += f" {' and '.join(over['partial_scans'])} was scanned in part, and lines were drawn between its layers."
    return text


def _given(pairs: Pairs) -> Iterator[tuple[tuple[str, str], dict[str, Any], dict[str, Any]]]:
    """The pairs that have figures, with where these stand: in the pair itself, or by relative depth."""
    for pair, result in pairs.items():
        over = result["over_depth"]
        if result["reason"] is None:
            yield pair, result, result
        elif over is not None and over["reason"] is None:
            yield pair, result, over


def _coefficient(found: dict[str, Any], key: str) -> dict[str, float] | None:
    if key == "spearman":
        return {"value": found["spearman"], "low": found["low"], "high": found["high"], "p": found["p"]}
    if key == "kendall":
        return {
            "value": found["kendall"], "low": found["kendall_low"], "high": found["kendall_high"],
            "p": found["kendall_p"],
        }  # fmt: skip
    one: dict[str, float] | None = found[key]
    return one
