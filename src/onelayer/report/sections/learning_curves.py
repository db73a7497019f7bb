"""The same base and problems under different algorithms: their learning curves side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onelayer.report import figures, tables
from onelayer.report.section import Exhibit, Section


def section(analyses: Sequence[dict[str, Any]]) -> Section | None:
    """A figure for every base and training set that several algorithms share; None where none do."""
    groups = _same_data(analyses)
    if not groups:
        return None
    return Section(
        anchor="learning",
        title="Learning curves by algorithm",
        exhibits=tuple(
            Exhibit(
                name="learning_curves" if len(groups) == 1 else f"learning_curves_{number}",
                title=" beside ".join(one["study"] for one in group),
                caption="The same base and training problems under different algorithms: full training, the mean over"
                " seeds of the last five steps, and the seeds' range. Each study's learning rate was searched for it"
                " alone. The table has the means of the first and the last five steps.",
                table=tables.learning_curve_ends(group),
                svg=figures.learning_curves(group),
            )
            for number, group in enumerate(groups, start=1)
        ),
    )


def _same_data(analyses: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """The studies that train one base on one training set by different algorithms, together."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for analysis in analyses:
        groups.setdefault(analysis["trained_on"], []).append(analysis)
    return [group for group in groups.values() if len({analysis["algorithm"] for analysis in group}) > 1]
