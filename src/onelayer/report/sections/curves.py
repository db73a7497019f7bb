"""What the runs earned while they trained."""

from __future__ import annotations

from typing import Any

from onelayer.report import figures, tables
from onelayer.report.section import Exhibit, Section


def section(analysis: dict[str, Any]) -> Section | None:
    """The training curves, a line a setting; None where no run is done that has one."""
    table = tables.curve_ends(analysis)
    if table.empty:
        return None
    return Section(
        anchor="curves",
        title="Training curves",
        exhibits=(
            Exhibit(
                name="curve_ends",
                title="Training curves",
                caption="What the sampled batch earned by optimizer step, averaged over the last five steps; a line is"
                " the mean over a setting's seeds. The table has the means of the first and the last five steps."
                " Every step of every run is in reports/tables/curves.csv.",
                table=table.drop(columns="study"),
                svg=figures.curves(analysis),
            ),
        ),
    )
