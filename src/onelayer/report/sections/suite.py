"""The scores on published benchmarks."""

from __future__ import annotations

from typing import Any

from onelayer.report import tables
from onelayer.report.section import Exhibit, Section


def section(analysis: dict[str, Any]) -> Section | None:
    """Every run on every benchmark; None where the study has no suite, or not every run is scored on it."""
    suite = analysis.get("suite")
    if suite is None:
        return None
    return Section(
        anchor="suite",
        title="Evaluation suite",
        exhibits=(
            Exhibit(
                "suite_scores",
                "Scores on the benchmarks",
                "A benchmark's score is avg@k; a composite is the unweighted mean of its parts, and undefined where one"
                " is missing.",
                tables.suite_scores(suite),
            ),
            Exhibit(
                "suite_benchmarks",
                "How each benchmark is sampled and judged",
                "SE is the standard error over problems. pass@k and maj@k are the base's, with k the samples given.",
                tables.suite_benchmarks(suite),
            ),
            Exhibit(
                "suite_contributions",
                "Contributions on the benchmarks",
                "Contributions C by layer, on each benchmark and composite; undefined where the full gain is not"
                " clearly above zero there.",
                tables.suite_contributions(suite),
            ),
        ),
        notes=tuple(suite["notes"]),
    )
