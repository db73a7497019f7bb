"""Evidence made by hand: records in memory instead of on disk."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from conftest import TINY, deep_copy
from onelayer.analysis.evidence import Evidence
from onelayer.config import Study
from onelayer.grid import Run, all_runs
from onelayer.manifest import Manifest
from onelayer.records import problem_means, summarize

# One sampled answer: its text and whether it is right; or with its tokens and whether it was cut off, too.
Answer = tuple[Any, ...]


@dataclass(frozen=True)
class MadeEvidence(Evidence):
    """Evidence whose records are held in memory."""

    frames: dict[str, pd.DataFrame]

    def records(self, run: Run, split: str, columns: Any = None) -> pd.DataFrame:
        """The records of a run, as `Evidence.records` gives them."""
        found = self.frames[run.name]
        return found[found["split"] == split]


def make_study(layers: int = 2, seeds: int = 2, **changes: Any) -> Study:
    """The tiny study with as many layers and seeds; ``changes`` are settings by their top key."""
    settings = deep_copy(TINY)
    settings["model"]["layers"] = layers
    settings["runs"]["seeds"] = list(range(seeds))
    return Study(**{**settings, **changes, "name": "made"})


def make_evidence(
    study: Study,
    answers: dict[str, list[list[Answer]]],
    select: dict[str, list[list[Answer]]] | None = None,
    seconds: dict[str, float] | None = None,
    histories: dict[str, list[dict[str, float]]] | None = None,
    details: dict[str, dict[str, Any]] | None = None,
) -> MadeEvidence:
    """Evidence of the runs named in ``answers``; the study's other runs are missing.

    Args:
        study: its settings.
        answers: by run, each report problem's samples.
        select: by run, each select problem's; as on report where not given.
        seconds: by run, what its training took; 10 where not given.
        histories: by run; a flat one where not given.
        details: by run, of its training's manifest.
    """
    runs = tuple(run for run in all_runs(study) if run.name in answers)
    on_select = select or answers
    frames = {
        run.name: pd.concat([_frame(run, "report", answers[run.name]), _frame(run, "select", on_select[run.name])])
        for run in runs
    }

    def training(run: Run) -> Manifest:
        own = {"layers": list(run.layers), **(details or {}).get(run.name, {})}
        return _manifest(run, (seconds or {}).get(run.name, 10.0), own)

    flat = [{"step": 1.0, "reward": 0.5}]
    return MadeEvidence(
        study=study,
        runs=runs,
        missing={run.name: "new" for run in all_runs(study) if run.name not in answers},
        means={
            split: {name: problem_means(frame, split) for name, frame in frames.items()}
            for split in ("select", "report")
        },
        summaries={name: summarize(frame) for name, frame in frames.items()},
        trainings={run.name: training(run) for run in runs},
        evaluations={run.name: _manifest(run, 2.0, {"tokens": 100}) for run in runs},
        histories={run.name: (histories or {}).get(run.name, flat) for run in runs if run.kind != "base"},
        frames=frames,
    )


def _frame(run: Run, split: str, problems: list[list[Answer]]) -> pd.DataFrame:
    rows = []
    for number, samples in enumerate(problems):
        for sample, (text, right, *rest) in enumerate(samples):
            tokens, clipped = rest or (3, False)
            rows.append(
                {"run": run.name, "split": split, "problem": f"p{number:03d}", "decoding": "sample", "sample": sample,
                 "completion": "", "extracted": text, "correct": right, "tokens": tokens, "clipped": clipped,
                 "status": "ok"}
            )  # fmt: skip
    return pd.DataFrame(rows)


def _manifest(run: Run, seconds: float, details: dict[str, Any]) -> Manifest:
    return Manifest(
        study="made", run=run.name, fingerprint="", settings={}, files={}, versions={}, git_commit=None,
        machine={"cpus": 2}, finished="", wall_seconds=seconds, peak_memory_bytes=10**6, details=details,
    )  # fmt: skip
