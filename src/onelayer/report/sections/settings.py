"""Every setting's score: mean, deviation and interval over its seeds."""

from __future__ import annotations

from typing import Any

from onelayer.report import tables
from onelayer.report.section import Exhibit, Section


def section(analysis: dict[str, Any]) -> Section:
    """The scores of full training, of every layer and of every baseline."""
    return Section(
        anchor="settings",
        title="Every setting",
        exhibits=(
            Exhibit(
                name="settings",
                title="Scores by setting",
                caption="The mean score of a setting's seeds on the report problems, the standard deviation over its"
                " seeds, the mean's interval, and each seed's score.",
                table=tables.settings(analysis).drop(columns="study"),
            ),
        ),
    )
