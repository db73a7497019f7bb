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
        paragraphs=_math_and_all(suite.get("math_and_all")),
        notes=tuple(suite["notes"]),
    )


def _math_and_all(found: dict[str, Any] | None) -> tuple[str, ...]:
    """How C in mathematics goes with C in all categories, where the suite holds both."""
    if found is None:
        return ()
    if found["pearson"] is None:
        return (f"No correlation of C in mathematics with C in all categories is given, for {found['reason']}.",)
    one = found["pearson"]
    return (
        f"Over {found['layers']} layers, C in mathematics correlates with C in all categories by {one['value']:.2f}"
        f" ({one['low']:.2f} to {one['high']:.2f}, p {one['p']:.2g}; Pearson's r, mathematics being one of the"
        " categories).",
    )
