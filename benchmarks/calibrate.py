"""How well the model of cost fits: its trials on this machine, and the seconds that finished runs really took.

Use: python benchmarks/calibrate.py [--threads 1] [--project FOLDER] [--write]

Every trial is a few GRPO steps of a small model; the constants fitted to them become the package's reference
(src/onelayer/reference_cpu.json, with --write). A project's finished runs are then held against what `onelayer plan
--cost` says of them. --write puts the table into README.md.
"""

from __future__ import annotations

import argparse
import os
import statistics
from collections import defaultdict
from pathlib import Path

from onelayer.calibrate import calibrate
from onelayer.config import load_params, load_study
from onelayer.cost import run_cost
from onelayer.grid import all_runs
from onelayer.lengths import expected_lengths
from onelayer.machine import Machine
from onelayer.manifest import EVALUATION_MANIFEST, read_manifest
from onelayer.model_shape import model_shape
from onelayer.state import StudyState
from onelayer.store import run_folder, write_json
from sections import write_section

REFERENCE = Path(__file__).parents[1] / "src" / "onelayer" / "reference_cpu.json"


def compare(machines: list[Machine]) -> list[str]:
    """A row a study and kind of run: seconds counted and measured, and their ratio, for training and evaluation."""
    lines = [
        "| study | runs | training s, counted | measured | ratio | evaluation s, counted | measured | ratio |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name in load_params().studies:
        study = load_study(name)
        state, shape, lengths = StudyState(study), model_shape(study), expected_lengths(study)
        found: dict[str, list[tuple[float, float, float, float]]] = defaultdict(list)
        for run in all_runs(study):
            folder = run_folder(name, run.name)
            trained, evaluated = read_manifest(folder), read_manifest(folder, EVALUATION_MANIFEST)
            if trained is None or evaluated is None or not state.evaluation(run).done:
                continue
            threads = study.resources.base_threads if run.kind == "base" else study.resources.threads
            machine = min(machines, key=lambda one: abs(one.threads - threads))
            cost = run_cost(study, shape, run, lengths)
            training = machine.sampling.seconds(cost.sampling) + machine.training.seconds(cost.training)
            found[run.kind].append(
                (training, trained.wall_seconds, machine.sampling.seconds(cost.evaluation), evaluated.wall_seconds)
            )
        for kind, rows in found.items():
            a, b, c, d = (statistics.fmean(column) for column in zip(*rows, strict=True))
            lines.append(
                f"| {name} | {len(rows)} {kind} | {a:.1f} | {b:.1f} | {a / b:.2f} | {c:.1f} | {d:.1f} | {c / d:.2f} |"
            )
    return lines


def main() -> None:
    """Measure, compare, and print or write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, action="append", help="default: 1 and every core")
    parser.add_argument("--project", type=Path, help="a project whose studies are finished, wholly or in part")
    parser.add_argument("--write", action="store_true", help="write the reference and the table")
    options = parser.parse_args()
    machines = [calibrate(count) for count in options.threads or sorted({1, os.cpu_count() or 1})]
    lines = [f"{one.name}, {one.threads} thread{'s' * (one.threads > 1)}: {one.source}." for one in machines]
    if options.write:
        write_json(REFERENCE, [one.as_row() for one in machines])
    if options.project:
        os.chdir(options.project)
        lines += ["", *compare(machines)]
    print("\n".join(lines))
    if options.write:
        write_section("calibrate", "\n".join(lines))


if __name__ == "__main__":
    main()
