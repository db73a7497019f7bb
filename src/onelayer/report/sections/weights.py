"""How far training moved the weights."""

from __future__ import annotations

import math
from typing import Any

import matplotlib as mpl
import pandas as pd

from onelayer.report.drawing import BLUE, GREEN, GREY, ORANGE, bars, drawing, svg
from onelayer.report.section import Exhibit, Section

_FIGURES = ("l2", "relative", "effective_rank", "rank_share", "changed")
_LABELS = {"full": "full training", "single": "trained alone"}


def section(analysis: dict[str, Any]) -> Section | None:
    """Each layer's change in full training beside alone, and with C; None where no run is weighed."""
    found = analysis.get("weights")
    if found is None or found["reason"] is not None or not found["layers"]:
        return None
    return Section(
        anchor="weights",
        title="How far did the weights move?",
        paragraphs=tuple(_paragraphs(analysis)),
        exhibits=(
            Exhibit(
                name="weights_layers",
                title="Change of weights by layer",
                caption="Left: the length ‖Δθ‖ of a layer's change, in full training and trained alone; the mean over"
                " seeds, bars are one standard deviation. Right: the layer's change when trained alone against its"
                f" contribution C with its {analysis['confidence']:.0%} interval; the number is the layer. In the"
                " table, relative is ‖Δθ‖ over ‖θ‖, changed the share of entries that are not the base's, effective"
                " rank the mean over the layer's matrices, and rank share that of each one's over its smaller side.",
                table=layers_table(found),
                svg=layers_figure(analysis),
            ),
            Exhibit(
                name="weights_matrices",
                title="Change of weights by kind of matrix",
                caption="The relative change ‖Δ‖ over ‖θ‖ of each kind of matrix, the mean over layers and seeds; the"
                " thin line is the range over layers. The table has every layer.",
                table=matrices_table(found),
                svg=matrices_figure(analysis),
            ),
            Exhibit(
                name="weights_contribution",
                title="Change of weights and contribution",
                caption="The correlation over layers of ‖Δθ‖ with C. ‖Δθ‖ is taken as measured, and the interval draws"
                " C anew. p is the share of all orders of the layers that go as far from 0. Without depth: what a"
                " parabola over depth leaves of both.",
                table=correlations_table(found),
            ),
        ),
        notes=tuple(_notes(found)),
    )


def layers_table(found: dict[str, Any]) -> pd.DataFrame:
    """One row a layer: each figure in full training and alone."""
    return pd.DataFrame([{"layer": row["layer"], "depth": row["depth"], **_both(row)} for row in found["layers"]])


def matrices_table(found: dict[str, Any]) -> pd.DataFrame:
    """One row a layer and matrix, then what lies outside the layers."""
    rows = [
        {"layer": row["layer"], "matrix": one["matrix"], **_both(one)}
        for row in found["layers"]
        for one in row["matrices"]
    ]
    rows += [{"layer": None, "matrix": one["tensor"], **_both(one)} for one in found["outside"]]
    return pd.DataFrame(rows).astype({"layer": "Int64"})


def correlations_table(found: dict[str, Any]) -> pd.DataFrame:
    """One row a coefficient, of the change alone and in full training."""
    rows = []
    for key, one in found["correlations"].items():
        for name, label in (
            ("pearson", "Pearson"), ("spearman", "Spearman"), ("partial_pearson", "Pearson without depth"),
        ):  # fmt: skip
            figure = one[name] or {}
            rows.append(
                {
                    "change": _LABELS[key],
                    "layers": one["layers"],
                    "coefficient": label,
                    **{part: figure.get(part) for part in ("value", "low", "high", "p")},
                    "not_given_because": one["reason"],
                }
            )
    return pd.DataFrame(rows)


def layers_figure(analysis: dict[str, Any]) -> str:
    """‖Δθ‖ by layer, and against C."""
    rows = analysis["weights"]["layers"]
    contributions = {row["layer"]: row["contribution"] for row in analysis["layers"]}
    with drawing(f"weights-{analysis['study']}", 7.2, 3.4, panels=2) as (figure, (left, right)):
        for key, color, marker in (("full", GREEN, "s"), ("single", BLUE, "o")):
            shown = [row for row in rows if row[key]]
            left.errorbar(
                [row["layer"] for row in shown],
                [row[key]["l2"] for row in shown],
                yerr=[row[key]["deviation"] or 0.0 for row in shown],
                fmt=marker,
                color=color,
                capsize=2,
                markersize=4,
                label=_LABELS[key],
            )
        left.set_xlabel("layer")
        left.set_ylabel("change of weights ‖Δθ‖")
        left.set_ylim(bottom=0)
        left.xaxis.set_major_locator(mpl.ticker.MaxNLocator(integer=True))
        left.legend(frameon=False, fontsize=9, loc="lower right")
        points = [
            (row["layer"], row["single"]["l2"], contributions[row["layer"]])
            for row in rows
            if row["single"] and contributions.get(row["layer"])
        ]
        right.set_xlabel("‖Δθ‖ of the layer trained alone")
        right.set_ylabel("contribution C")
        if not points:
            right.text(0.5, 0.5, "C is undefined", ha="center", va="center", color=GREY, transform=right.transAxes)
            return svg(figure, f"Change of weights by layer, study {analysis['study']}")
        right.errorbar(
            [length for _, length, _ in points],
            [one["value"] for *_, one in points],
            yerr=bars([one for *_, one in points]),
            fmt="o",
            color=BLUE,
            ecolor=GREY,
            elinewidth=0.6,
            markersize=4,
        )
        for layer, length, one in points:
            right.annotate(str(layer), (length, one["value"]), xytext=(4, 4), textcoords="offset points", color=ORANGE)
        return svg(figure, f"Change of weights by layer, and against contribution, study {analysis['study']}")


def matrices_figure(analysis: dict[str, Any]) -> str:
    """The relative change by kind of matrix, in full training and alone."""
    found = analysis["weights"]["layers"]
    kinds = list(dict.fromkeys(one["matrix"] for row in found for one in row["matrices"]))
    with drawing(f"matrices-{analysis['study']}", 7.2, 1.2 + 0.3 * len(kinds)) as (figure, axes):
        for key, color, marker, shift in (("full", GREEN, "s", -0.12), ("single", BLUE, "o", 0.12)):
            shown = False
            for place, kind in enumerate(kinds):
                values = [
                    one[key]["relative"]
                    for row in found
                    for one in row["matrices"]
                    if one["matrix"] == kind and one[key] and one[key]["relative"] is not None
                ]
                if not values:
                    continue
                axes.plot([min(values), max(values)], [place + shift] * 2, color=color, linewidth=0.8)
                mean = math.fsum(values) / len(values)
                axes.plot(
                    [mean], [place + shift], marker, color=color, markersize=5, label=None if shown else _LABELS[key]
                )
                shown = True
        axes.set_yticks(range(len(kinds)), kinds)
        axes.invert_yaxis()
        axes.set_xlim(left=0)
        axes.set_xlabel("relative change ‖Δ‖ / ‖θ‖")
        axes.legend(
            frameon=False,
            fontsize=9,
            loc="upper center",
            bbox_to_anchor=(0.5, 1.0 + 0.6 / (1.2 + 0.3 * len(kinds))),
            ncols=2,
        )
        return svg(figure, f"Relative change by kind of matrix, study {analysis['study']}")


def _both(row: dict[str, Any]) -> dict[str, float | None]:
    return {f"{key}_{name}": (row.get(key) or {}).get(name) for name in _FIGURES for key in ("full", "single")}


def _paragraphs(analysis: dict[str, Any]) -> list[str]:
    texts = []
    found = analysis["weights"]
    for key, of in (("full", "In full training a layer"), ("single", "Trained alone, a layer")):
        one = found["spread"][key]
        if one is not None:
            variation = f", a variation of {one['variation']:.0%}" if one["variation"] is not None else ""
            texts.append(
                f"{of} moves by {one['least']:.2f} to {one['most']:.2f}, {one['mean']:.2f} on average{variation}."
            )
    pearson = found["correlations"]["single"]["pearson"]
    if pearson is not None:
        # Few layers agree by chance, which the interval does not know: both must hold.
        clear = (pearson["low"] > 0 or pearson["high"] < 0) and pearson["p"] <= 1 - analysis["confidence"]
        moved = "more" if pearson["value"] > 0 else "less"
        meaning = (
            f"layers that carry more of the gain moved {moved}"
            if clear
            else "how far a layer moved does not show how much it carries"
        )
        texts.append(
            f"Over layers, the change of the layer trained alone correlates with C by {pearson['value']:.2f}"
            f" ({pearson['low']:.2f} to {pearson['high']:.2f}, p {pearson['p']:.2g}): {meaning}."
        )
    return texts


def _notes(found: dict[str, Any]) -> list[str]:
    notes = []
    if found["missing"]:
        notes.append(f"Not weighed: {', '.join(found['missing'])}.")
    for run, tensors in found["left_out"].items():
        notes.append(f"{run}: {len(tensors)} tensors are left out, for {next(iter(tensors.values()))}.")
    notes += [
        f"No correlation of the change {'alone' if key == 'single' else 'in full training'} with C: {one['reason']}."
        for key, one in found["correlations"].items()
        if one["reason"]
    ]
    return notes
