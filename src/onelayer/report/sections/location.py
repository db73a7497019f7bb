"""Where in the model the gain sits."""

from __future__ import annotations

from typing import Any

import pandas as pd

from onelayer.report.drawing import BLUE, GREEN, GREY, ORANGE, bars, drawing, svg
from onelayer.report.section import Exhibit, Section

_ENDS = {"first": 0.0, "middle": 1 / 3, "last": 2 / 3}


def section(analysis: dict[str, Any]) -> Section | None:
    """The thirds, the centre and how the gain is spread; None where no contribution is given."""
    found = analysis.get("location")
    if found is None or found["reason"] is not None:
        return None
    confidence = f"{analysis['confidence']:.0%}"
    return Section(
        anchor="location",
        title="Where in the model does the gain sit?",
        paragraphs=tuple(_paragraphs(found)),
        exhibits=(
            Exhibit(
                name="location_thirds",
                title="Contribution by depth",
                caption="Contribution C of each layer trained alone, by its relative depth (0 is the first layer, 1 the"
                f" last), and the mean C of each third with its {confidence} interval as a band; the arrow at the foot"
                " is the centre of mass. Below the thirds, the table has the middle third less each of the others.",
                table=thirds_table(found),
                svg=figure(analysis),
            ),
            Exhibit(
                name="location_spread",
                title="How the gain is spread over the layers",
                caption=f"Each figure with its {confidence} interval. The centre of mass, Gini's coefficient (0: all"
                " layers alike) and the share of the k layers ranked first on select are of max(C, 0). Beside each"
                " stands what layers that are all alike would show: exactly, or, for Gini's coefficient, with the"
                " noise of these runs.",
                table=spread_table(found),
            ),
        ),
        notes=tuple(_notes(found)),
    )


def thirds_table(found: dict[str, Any]) -> pd.DataFrame:
    """One row a third, and one a difference between thirds."""
    rows = [
        {
            "part": f"{third['third']} third",
            "layers": ", ".join(map(str, third["layers"])) or "none scanned",
            **_cells("contribution", third["contribution"]),
        }
        for third in found["thirds"]
    ]
    rows += [
        {"part": f"{one['of']} less {one['from']} third", "layers": "", **_cells("contribution", one["difference"])}
        for one in found["differences"]
    ]
    return pd.DataFrame(rows)


def spread_table(found: dict[str, Any]) -> pd.DataFrame:
    """One row a figure, with what equal layers would show."""
    rows = []
    if found["centre"]:
        rows.append(
            {"figure": "centre of mass (relative depth)", "layers": "", **_cells("value", found["centre"]["depth"]),
             "all_alike": found["centre"]["even"]}
        )  # fmt: skip
    if found["gini"]:
        rows.append(
            {"figure": "Gini's coefficient", "layers": "", **_cells("value", found["gini"]["value"]),
             "all_alike": found["gini"]["noise"]}
        )  # fmt: skip
    rows += [
        {"figure": f"share of the top {top['k']}", "layers": ", ".join(map(str, top["layers"])),
         **_cells("value", top["share"]), "all_alike": top["even"]}
        for top in found["top"]
    ]  # fmt: skip
    return pd.DataFrame(rows)


def figure(analysis: dict[str, Any]) -> str:
    """C by relative depth, the means of the thirds as bands, and the centre of mass."""
    found, rows = analysis["location"], analysis["layers"]
    with drawing(f"location-{analysis['study']}", 7.2, 3.4) as (drawn, axes):
        for number, third in enumerate(found["thirds"]):
            mean = third["contribution"]
            if mean is None:
                continue
            start = _ENDS[third["third"]]
            axes.fill_between(
                [start, start + 1 / 3], mean["low"], mean["high"], color=GREEN, alpha=0.25, linewidth=0,
                label=None if number else f"mean of a third ({analysis['confidence']:.0%} interval)",
            )  # fmt: skip
            axes.plot([start, start + 1 / 3], [mean["value"]] * 2, color=GREEN, linewidth=1.6)
        axes.errorbar(
            [row["depth"] for row in rows],
            [row["contribution"]["value"] for row in rows],
            yerr=bars([row["contribution"] for row in rows]),
            fmt="o",
            color=BLUE,
            capsize=3,
            markersize=5,
            label="one layer",
        )
        for edge in (1 / 3, 2 / 3):
            axes.axvline(edge, color=GREY, linewidth=0.8, linestyle=":")
        if found["centre"]:
            centre = found["centre"]["depth"]
            low, high = axes.get_ylim()
            foot = low - 0.04 * (high - low)
            axes.set_ylim(foot, high)
            axes.plot([centre["low"], centre["high"]], [foot] * 2, color=ORANGE, linewidth=3, clip_on=False)
            axes.plot([centre["value"]], [foot], "^", color=ORANGE, markersize=9, clip_on=False, label="centre of mass")
        axes.set_xlim(-0.03, 1.03)
        axes.set_xlabel("relative depth of the layer trained alone")
        axes.set_ylabel("contribution C")
        axes.legend(frameon=False, fontsize=9, loc="upper center", bbox_to_anchor=(0.5, 1.17), ncols=3)
        return svg(drawn, f"Contribution by relative depth, study {analysis['study']}")


def _paragraphs(found: dict[str, Any]) -> list[str]:
    texts = []
    for one in found["differences"]:
        figure = one["difference"]
        if figure is None:
            continue
        clear = figure["low"] > 0 or figure["high"] < 0
        verb = "more" if figure["value"] > 0 else "less"
        texts.append(
            f"Layers of the middle third carry {abs(figure['value']):.2f} {verb} each than those of the {one['from']}"
            f" third ({figure['low']:.2f} to {figure['high']:.2f})" + ("." if clear else ", which noise could explain.")
        )
    if found["centre"]:
        depth, even = found["centre"]["depth"], found["centre"]["even"]
        side = "before" if depth["high"] < even else "behind" if depth["low"] > even else None
        where = (
            f"{side} the middle of the scanned layers" if side else "not clearly off the middle of the scanned layers"
        )
        texts.append(
            f"The gain's centre of mass lies at relative depth {depth['value']:.2f} ({depth['low']:.2f} to"
            f" {depth['high']:.2f}), {where} ({even:.2f})."
        )
    return texts


def _notes(found: dict[str, Any]) -> list[str]:
    notes = [
        "A layer that harms counts as it is in the means, and as nothing in the centre, Gini's coefficient and shares."
    ]
    notes.append("Noise makes layers differ, so Gini's coefficient and its interval lean up.")
    if found["partial"]:
        notes.append(
            f"A partial scan: {found['scanned']} of {found['layers_of_model']} layers, of relative depth"
            f" {found['from_depth']:.2f} to {found['to_depth']:.2f}. Every figure is of these layers alone."
        )
    return notes


def _cells(name: str, figure: dict[str, float] | None) -> dict[str, float | None]:
    found = figure or {}
    return {name: found.get("value"), "low": found.get("low"), "high": found.get("high")}
