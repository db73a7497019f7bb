"""What of a study stands: its runs with valid records, and what they left. Every section of the analysis reads this."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from onelayer.analysis.contribution import Bootstrap
from onelayer.analysis.problem_sets import Matrix, ProblemSets
from onelayer.config import Study
from onelayer.errors import UserError
from onelayer.fingerprint import evaluated_splits
from onelayer.grid import BASE, Run, all_runs, by_setting, full_runs, layer_runs
from onelayer.manifest import EVALUATION_MANIFEST, Manifest, read_manifest
from onelayer.records import SCORED, aligned, read_records, scored
from onelayer.seeds import derive_seed
from onelayer.state import StudyState
from onelayer.store import HISTORY, read_json, run_folder

SPLITS = ("select", "report")


@dataclass(frozen=True)
class Evidence:
    """A study's settings, and what its evaluated runs left.

    Attributes:
        study: the settings.
        runs: those with valid records, in the order of the grid.
        missing: by name of every other run, why it has none.
        means: by split, then run, each problem's share of right samples (`onelayer.records.problem_means`).
        summaries: by run, then split, its scores (`onelayer.records.summarize`).
        trainings: by run, the manifest of its training.
        evaluations: by run, the manifest of its records.
        histories: by run but the base, its training's figures by step.
    """

    study: Study
    runs: tuple[Run, ...]
    missing: dict[str, str]
    means: dict[str, dict[str, pd.Series]]
    summaries: dict[str, dict[str, dict[str, Any]]]
    trainings: dict[str, Manifest]
    evaluations: dict[str, Manifest]
    histories: dict[str, list[dict[str, float]]]

    def of(self, runs: Iterable[Run]) -> list[Run]:
        """Those of the runs that have valid records."""
        return [run for run in runs if run.name in self.trainings]

    @property
    def layers(self) -> dict[int, list[Run]]:
        """The runs of each scanned layer, ascending; no layer without one."""
        arms: dict[int, list[Run]] = {}
        for run in self.of(layer_runs(self.study)):
            arms.setdefault(run.layers[0], []).append(run)
        return arms

    @property
    def settings(self) -> dict[str, list[Run]]:
        """The runs of every setting but the searches', by name, in the order of the grid; no setting without one."""
        return by_setting(run for run in self.runs if run.kind != "search")

    def trained_layers(self, runs: Sequence[Run]) -> list[int] | None:
        """The layers that these runs trained, empty for all or none of them; None where the runs differ in it.

        Where a ranking chose the layers, the manifest of the training says which they were.
        """
        found = [list(run.layers) or list(self.trainings[run.name].details.get("layers", [])) for run in runs]
        return found[0] if all(one == found[0] for one in found) else None

    def matrix(self, split: str, runs: Sequence[Run]) -> Matrix:
        """The runs' means by problem, shape (runs, problems), over the base's problems."""
        means = self.means[split]
        return aligned([means[BASE.name], *(means[run.name] for run in runs)])[1:]

    def bootstrap(self, split: str, *use: str) -> Bootstrap:
        """Draws of a split's problems, of their own for each use that is named."""
        settings = self.study.analysis
        return Bootstrap(
            ProblemSets.of_ids(list(self.means[split][BASE.name].index)),
            settings.resamples,
            settings.confidence,
            derive_seed(self.study.seed, "bootstrap", *use),
        )

    def scores(self, runs: Sequence[Run]) -> list[float]:
        """Each run's score on ``report``."""
        return [self.summaries[run.name]["report"]["score"] for run in runs]

    def records(self, run: Run, split: str, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """A run's records of one split, read anew: they are large. Of some columns alone, where these are named."""
        read = None if columns is None else list(dict.fromkeys(["split", *columns]))
        found = read_records(self.study.name, run.name, read)
        return found[found["split"] == split]


def gather(study: Study, partial: bool = False) -> Evidence:
    """Read what a study's runs left.

    Args:
        study: the settings.
        partial: take what there is; else every run must have valid records.

    Raises UserError where a run's records are missing or stale; in part, only where the base's are, or every full
    run's, for without them nothing can be said of a gain.
    """
    state = StudyState(study, weights=False)
    standings = {run: state.evaluation(run) for run in all_runs(study)}
    missing = {run.name: standing.reason for run, standing in standings.items() if not standing.done}
    needed = [BASE] if partial else list(standings)
    if partial and all(run.name in missing for run in full_runs(study)):
        needed.append(full_runs(study)[0])
    lost = [run.name for run in needed if run.name in missing]
    if lost:
        more = f", nor have {len(lost) - 1} others" if len(lost) > 1 else ""
        hint = "" if partial else f"; `onelayer analyze {study.name} --partial` says what can be said of the rest"
        raise UserError(f"{study.name}/{lost[0]}: no valid records ({missing[lost[0]]}){more}{hint}")
    runs = tuple(run for run, standing in standings.items() if standing.done)
    means: dict[str, dict[str, pd.Series]] = {split: {} for split in SPLITS}
    summaries = {}
    for run in runs:
        found = scored(read_records(study.name, run.name, SCORED, categories=True))
        summaries[run.name] = {split: summary for split, (summary, _) in found.items()}
        for split in evaluated_splits(run):
            means[split][run.name] = found[split][1]
    return Evidence(
        study=study,
        runs=runs,
        missing=missing,
        means=means,
        summaries=summaries,
        trainings={run.name: _manifest(study, run) for run in runs},
        evaluations={run.name: _manifest(study, run, EVALUATION_MANIFEST) for run in runs},
        histories={run.name: _history(study, run) for run in runs if run.kind != "base"},
    )


def _manifest(study: Study, run: Run, *name: str) -> Manifest:
    manifest = read_manifest(run_folder(study.name, run.name), *name)
    assert manifest is not None  # its standing was just checked
    return manifest


def _history(study: Study, run: Run) -> list[dict[str, float]]:
    rows: list[dict[str, float]] = read_json(
        run_folder(study.name, run.name) / HISTORY, f"onelayer train {study.name} {run.name}"
    )
    return rows
