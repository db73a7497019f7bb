"""Every run: its score, what a score hides, and what it took."""

from __future__ import annotations

from typing import Any

from onelayer.report import tables
from onelayer.report.section import Exhibit, Section


def section(analysis: dict[str, Any]) -> Section:
    """The runs that have records."""
    return Section(
        anchor="runs",
        title="Every run",
        exhibits=(
            Exhibit(
                name="runs",
                title="Runs",
                caption="Clipped is the share of sampled answers that ran into the token limit (of episodes: out of"
                " turns), unparsed the share that held no answer. The search's runs are scored on select, every other"
                " on report. Seconds are wall-clock.",
                table=tables.runs(analysis).drop(columns="study"),
            ),
        ),
    )
