"""Whether single-layer models together beat one of them, and full training: votes, oracles, overlaps."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd

from onelayer.report.drawing import BLUE, GREEN, GREY, ORANGE, bars, drawing, svg
from onelayer.report.section import Exhibit, Section

# Larger maps of overlaps are not written into their cells.
_WRITTEN = 10


def section(analysis: dict[str, Any]) -> Section | None:
    """What the ensemble gets; None where no two layers are there."""
    found = analysis.get("ensemble")
    if found is None or found["reason"] is not None:
        return None
    return Section(
        anchor="ensemble",
        title="Do single-layer models know different things?",
        paragraphs=tuple(_paragraphs(found)),
        exhibits=(
            Exhibit(
                name="ensemble_votes",
                title="Several answers taken together",
                caption=_votes_caption(analysis),
                table=votes_table(found),
                svg=votes_figure(analysis),
            ),
            Exhibit(
                name="ensemble_differences",
                title="The vote and the oracle against the others",
                caption=f"Each difference of scores on report with its {analysis['confidence']:.0%} interval, paired"
                " over problems; every interval stands by itself and is not corrected for their number.",
                table=differences_table(found),
            ),
            Exhibit(
                name="ensemble_jaccard",
                title="Overlap of what two layers solve",
                caption="The Jaccard index of the sets of problems that two runs solve (more than half of their samples"
                " right): 1 where they are the same, 0 where no problem is in both. A cell is the mean over the pairs"
                " of runs; on the diagonal, the pairs of one layer's runs of different seeds, which is as alike as two"
                " sets can be expected to be. The layers stand in the order of their ranks on select.",
                table=jaccard_table(found["overlap"]),
                svg=jaccard_figure(analysis),
            ),
            Exhibit(
                name="ensemble_alone",
                title="What one layer alone solves",
                caption="Of all scanned layers, by the samples of all seeds together: how many report problems a layer"
                " solves (more than half of the samples right), how many of them no other layer solves, and how many"
                " of these full training does not solve either, with the first few problems' ids.",
                table=alone_table(found["overlap"]["alone"]),
            ),
        ),
        notes=tuple(_notes(found)),
    )


def votes_table(found: dict[str, Any]) -> pd.DataFrame:
    """One row a way to answer."""
    rows = []
    for row in found["figures"]:
        score = row["score"] or {"value": None, "low": None, "high": None}
        rows.append(
            {
                "answers": row["label"],
                "samples": row["samples"],
                "trainings": row["runs"],
                "training_in_full_runs": row["training_in_full_runs"],
                "score": score["value"],
                "low": score["low"],
                "high": score["high"],
                "not_measured_because": row["reason"],
            }
        )
    return pd.DataFrame(rows).astype(dict.fromkeys(("training_in_full_runs", "score", "low", "high"), float))


def differences_table(found: dict[str, Any]) -> pd.DataFrame:
    """One row a comparison."""
    labels = {row["name"]: row["label"] for row in found["figures"]}
    rows = []
    for row in found["differences"]:
        difference = row["difference"] or {"value": None, "low": None, "high": None}
        rows.append(
            {
                "answers": labels[row["first"]],
                "against": labels[row["second"]],
                "difference": difference["value"],
                "low": difference["low"],
                "high": difference["high"],
                "not_measured_because": row["reason"],
            }
        )
    return pd.DataFrame(rows).astype(dict.fromkeys(("difference", "low", "high"), float))


def jaccard_table(overlap: dict[str, Any]) -> pd.DataFrame:
    """One row and column a layer."""
    rows = [
        {"layer": layer, **{f"layer_{other}": index for other, index in zip(overlap["layers"], cells, strict=True)}}
        for layer, cells in zip(overlap["layers"], overlap["jaccard"], strict=True)
    ]
    return pd.DataFrame(rows).astype({f"layer_{layer}": float for layer in overlap["layers"]})


def alone_table(alone: dict[str, Any]) -> pd.DataFrame:
    """One row a scanned layer."""
    return pd.DataFrame(
        [
            {
                "layer": row["layer"],
                "solved": row["solved"],
                "solved_alone": row["alone"],
                "nor_by_full_training": row["alone_nor_full"],
                "problems": "; ".join(row["problems"]),
            }
            for row in alone["layers"]
        ]
    )


def votes_figure(analysis: dict[str, Any]) -> str:
    """A row a way to answer: its score and interval; an empty row with its reason where it was not measured."""
    rows = analysis["ensemble"]["figures"][::-1]  # the first on top
    colors = {"vote": BLUE, "oracle": BLUE, "full": GREEN}
    with drawing(f"ensemble-{analysis['study']}", 7.2, 0.9 + 0.32 * len(rows)) as (figure, axes):
        for place, row in enumerate(rows):
            if row["score"] is None:
                axes.annotate(
                    "not measured (see the table)", (0.02, place), xycoords=("axes fraction", "data"), va="center",
                    color=GREY, fontsize=8,
                )  # fmt: skip
                continue
            color = colors.get(row["name"], GREEN if row["name"].startswith(("full", "fewer")) else ORANGE)
            axes.errorbar(
                [row["score"]["value"]], [place], xerr=bars([row["score"]]), fmt="D" if row["name"] in colors else "o",
                color=color, capsize=3, markersize=5,
            )  # fmt: skip
        axes.set_yticks(range(len(rows)), [row["label"] for row in rows])
        axes.set_ylim(-0.6, len(rows) - 0.4)
        axes.set_xlabel("score on report (share of problems)")
        return svg(figure, f"Votes and oracles, study {analysis['study']}")


def jaccard_figure(analysis: dict[str, Any]) -> str:
    """A map of the overlaps, darker where two layers solve more of the same."""
    overlap = analysis["ensemble"]["overlap"]
    cells = np.array(overlap["jaccard"], dtype=float)
    names = [str(layer) for layer in overlap["layers"]]
    with drawing(f"jaccard-{analysis['study']}", 4.6, 3.8) as (figure, axes):
        # A map of one hue whose lightness alone says how much reads in grey, and for every eye.
        shown = axes.imshow(cells, cmap=mpl.colormaps["Blues"], vmin=0, vmax=1)
        axes.grid(visible=False)
        axes.set_xticks(range(len(names)), names)
        axes.set_yticks(range(len(names)), names)
        axes.set_xlabel("layer trained alone")
        axes.set_ylabel("layer trained alone")
        if len(names) <= _WRITTEN:
            for (row, column), index in np.ndenumerate(cells):
                text = "–" if np.isnan(index) else f"{index:.2f}"
                color = "white" if index > 0.6 else "black"
                axes.text(column, row, text, ha="center", va="center", fontsize=8, color=color)
        figure.colorbar(shown, ax=axes, label="Jaccard index")
        return svg(figure, f"Overlap of solved problems by pair of layers, study {analysis['study']}")


def _votes_caption(analysis: dict[str, Any]) -> str:
    found = analysis["ensemble"]
    voters = ", ".join(map(str, found["layers"]))
    voted = f"{found['votes']}, of tied ones the highest-ranked voter's wins. " if found["votes"] else ""
    return (
        f"Scores on report of the layers ranked highest on select ({voters}), one sample of each."
        f" {voted[:1].upper()}{voted[1:]}“Any right” is an oracle that picks a right answer wherever there is one."
        " Beside them, as many samples of one setting, from one run where it has as many, else from all its runs"
        " together. Blue: the layers together; green: full training; orange: the best layer. Bars are"
        f" {analysis['confidence']:.0%} intervals. Training is counted in full runs, by measured seconds."
    )


def _paragraphs(found: dict[str, Any]) -> list[str]:
    labels = {row["name"]: row["label"] for row in found["figures"]}
    paragraphs = []
    if found["no_votes"]:
        paragraphs.append(
            f"There is no vote in this domain: {found['no_votes']}. What is left is what any layer solves."
        )
    votes = [row for row in found["differences"] if row["first"] == "vote"]
    if votes:
        paragraphs.append(
            f"The {labels['vote']} beside others, differences of scores on report: "
            + "; ".join(_difference(labels[row["second"]], row) for row in votes)
            + "."
        )
    overlap = found["overlap"]
    if overlap["mean"] is not None:
        text = f"Two of these layers' solved sets overlap by {overlap['mean']['value']:.2f} on average (Jaccard index)"
        if overlap["same_layer"] is not None:
            text += f", two seeds of one layer by {overlap['same_layer']['value']:.2f}"
        if overlap["excess"] is not None:
            excess = overlap["excess"]
            said = "layers differ by more than seeds do" if excess["low"] > 0 else "layers differ no more than seeds do"
            if excess["high"] < 0:
                said = "layers differ less than seeds do"
            text += f": {said} ({excess['value']:.3f}, {excess['low']:.3f} to {excess['high']:.3f})"
        paragraphs.append(text + ".")
    alone = overlap["alone"]
    paragraphs.append(
        f"Of {alone['problems']} problems some scanned layer solves {alone['any']} and every one {alone['all']}; full"
        f" training solves {alone['full']}, {alone['full_alone']} of which no layer does, and layers solve"
        f" {alone['layers_not_full']} that it does not. The base solves {alone['base']}."
    )
    return paragraphs


def _difference(label: str, row: dict[str, Any]) -> str:
    found = row["difference"]
    if found is None:
        return f"against “{label}” not measured ({row['reason']})"
    return f"against “{label}” {found['value']:+.3f} ({found['low']:+.3f} to {found['high']:+.3f})"


def _notes(found: dict[str, Any]) -> list[str]:
    notes = []
    if len(found["layers"]) < found["asked"]:
        notes.append(f"{len(found['layers'])} layers vote, for no more are there; {found['asked']} were asked for.")
    if found["scan_in_full_runs"] is not None:
        notes.append(
            f"Who votes is known from a scan whose layers, once each, took {found['scan_in_full_runs']:.1f} full runs'"
            " training; the figures of training above count the voters alone."
        )
    pooled = [row["label"] for row in found["figures"] if row["pooled"]]
    if pooled:
        notes.append(
            f"One run has too few samples for {'; '.join(f'“{label}”' for label in pooled)}: the samples of all its"
            " seeds answer together, which is more training than one run's, and the interval covers the choice of"
            " problems alone."
        )
    notes.append(
        "A problem near an even chance is solved or not by the luck of its samples, so that some problems are solved by"
        " one layer alone by luck."
    )
    return notes
