"""Full training and the best layer beside LoRA and layers at rates of their own."""

from __future__ import annotations

from typing import Any

from onelayer.report import tables
from onelayer.report.section import Exhibit, Section


def section(analysis: dict[str, Any]) -> Section | None:
    """What each baseline scores and takes; None where the study has none."""
    if not analysis["baselines"]:
        return None
    table = tables.baselines(analysis).drop(columns="study")
    table["layer"] = table["layer"].astype("string").fillna("all")
    undefined = "" if analysis["defined"] else "; it is undefined here, as C is"
    return Section(
        anchor="baselines",
        title="Beside the baselines",
        paragraphs=(
            "What else the same budget of steps buys: full training, the single layer ranked first on select, and the"
            " baselines, each at a learning rate searched for it alone on select.",
        ),
        exhibits=(
            Exhibit(
                name="baselines",
                title="Baselines",
                caption=f"The share of the gain is C's formula: 0 is the base, 1 full training{undefined}. Seconds are"
                " a run's mean, memory the highest of its seeds, and the search's seconds come on top, once.",
                table=table,
            ),
        ),
    )
