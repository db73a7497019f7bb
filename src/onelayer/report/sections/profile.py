"""Which layers carry the gain: C by layer."""

from __future__ import annotations

from typing import Any

from onelayer.report import figures, tables
from onelayer.report.section import Exhibit, Section


def section(analysis: dict[str, Any]) -> Section | None:
    """C of every scanned layer; None where no layer is done."""
    if not analysis["layers"]:
        return None
    drawn = (
        "Contribution C of each layer trained alone: 0 is the base, 1 is full training."
        if analysis["defined"]
        else "Scores of each layer trained alone; contributions are undefined."
    )
    return Section(
        anchor="profile",
        title="Contribution by layer",
        exhibits=(
            Exhibit(
                name="contributions",
                title="Contribution by layer",
                caption=f"{drawn} Bars are paired-bootstrap intervals over problems and seeds. The rank is that of the"
                " scores on select; every other figure is from report. Depth runs from 0, the first layer, to 1.",
                table=tables.contributions(analysis).drop(columns="study"),
                svg=figures.profile(analysis),
            ),
        ),
    )
