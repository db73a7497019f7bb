"""What made the figures: how they were measured, versions, commits, seeds and fingerprints."""

from __future__ import annotations

from typing import Any

from onelayer.report import tables
from onelayer.report.section import Exhibit, Section


def section(analysis: dict[str, Any]) -> Section:
    """A study's method in a few sentences, and the provenance of its runs."""
    made = analysis["provenance"]
    seeds = ", ".join(str(seed) for seed in analysis["seeds"])
    return Section(
        anchor="provenance",
        title=f"Method and provenance of {analysis['study']}",
        paragraphs=(
            f"{analysis['algorithm']}; full training and {len(analysis['layers'])} of {analysis['layers_of_model']}"
            f" layers, each with the seeds {seeds}; learning rate {analysis['search']['learning_rate']:g}. Scores are"
            f" avg@{analysis['samples']} over the {analysis['problems']} problems of report; layers are ranked on the"
            " problems of select, which no other figure is from.",
            "C of a layer is its score less the base's, divided by full training's score less the base's. Intervals of"
            f" {analysis['confidence']:.0%} come of a paired bootstrap: problems are drawn anew, the same for every"
            " run, and within each draw the seeds. Where the interval of the full gain does not lie above zero, C is"
            " undefined. docs/method.md has every formula with its source.",
            f"Commit {', '.join(made['commits'])}. "
            + ", ".join(f"{name} {version}" for name, version in made["versions"].items())
            + f". The study's own seed, of which every random draw derives, is {made['seed']}.",
        ),
        exhibits=(
            Exhibit(
                name="provenance",
                title="Fingerprints",
                caption="A run's fingerprint is the hash of all that decides its training: settings, data and base.",
                table=tables.provenance(analysis).drop(columns="study"),
            ),
        ),
    )
