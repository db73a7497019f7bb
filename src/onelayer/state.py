"""What of a study is done and what would run, judged by fingerprints; no torch."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from onelayer.config import Study
from onelayer.errors import UserError
from onelayer.fetch import takes_from_hub
from onelayer.fingerprint import (
    Payload,
    base_settings,
    digest,
    evaluated_splits,
    evaluation_payload,
    training_payload,
)
from onelayer.grid import BASE, Run, search_runs
from onelayer.manifest import EVALUATION_MANIFEST, Manifest, damage, read_manifest
from onelayer.prepare import is_prepared, render
from onelayer.store import SPLITS, file_sha256, learning_rate_file, problems_file, read_json, run_folder


@dataclass(frozen=True)
class Standing:
    """Whether a piece of work is done, and if not, why it would run."""

    done: bool
    reason: str


_DONE = Standing(True, "done")


class StudyState:
    """The standing of every run of a study.

    Args:
        study: the settings to hold the disk against.
        thorough: hash every file that a manifest names; else only see that it is there.
        preview: where the problems on disk are not the ones that the settings ask for, judge by the ones
            that `prepare` would write, so that a plan names exactly the runs that a change touches; but for
            problems from the hub, which a plan does not reach for.
    """

    def __init__(self, study: Study, thorough: bool = False, preview: bool = False) -> None:
        self._study = study
        self._thorough = thorough
        self._preview = preview

    @cached_property
    def split_shas(self) -> dict[str, str]:
        """The content hash of each split; empty where the problems are not prepared."""
        if is_prepared(self._study):
            return {split: file_sha256(problems_file(self._study.name, split)) for split in SPLITS}
        if self._preview and not takes_from_hub(self._study):
            return {name: split.sha256 for name, split in render(self._study).items()}
        return {}

    @cached_property
    def chosen_rate(self) -> float | None:
        """The learning rate of every run but the search's; None where the search of these rates is not done."""
        rates = self._study.training.learning_rates
        if len(rates) == 1:
            return rates[0]
        try:
            chosen = read_json(learning_rate_file(self._study.name), f"onelayer choose-rate {self._study.name}")
        except UserError:
            return None
        tried = {row["run"]: row["learning_rate"] for row in chosen["search"]}
        if tried != {run.name: run.learning_rate for run in search_runs(self._study)}:
            return None
        return float(chosen["learning_rate"])

    @cached_property
    def _base_content(self) -> str | None:
        base = self._manifest(BASE)
        if base is None or not self.training(BASE).done:
            return None
        return base.content

    def _folder(self, run: Run) -> Path:
        return run_folder(self._study.name, run.name)

    def _manifest(self, run: Run) -> Manifest | None:
        return read_manifest(self._folder(run))

    def expected_training(self, run: Run) -> Payload | str:
        """All that decides a run's training, or, in words, what it waits for."""
        if run.kind == "base":
            return base_settings(self._study)
        if self._base_content is None:
            return "waits for the base"
        if not self.split_shas:
            return "waits for the problems"
        rate = run.learning_rate if run.learning_rate is not None else self.chosen_rate
        if rate is None:
            return "waits for the learning-rate search"
        return training_payload(self._study, run, rate, self.split_shas["train"], self._base_content)

    def expected_evaluation(self, run: Run) -> Payload | str:
        """All that decides a run's records, or, in words, what it waits for."""
        if not self.training(run).done:
            return "waits for its training"
        if not self.split_shas:
            return "waits for the problems"
        manifest = self._manifest(run)
        assert manifest is not None
        shas = {split: self.split_shas[split] for split in evaluated_splits(run)}
        return evaluation_payload(self._study, run, manifest.content, shas)

    def training(self, run: Run) -> Standing:
        """Where a run's training stands."""
        return self._standing(run, self._manifest(run), self.expected_training(run))

    def evaluation(self, run: Run) -> Standing:
        """Where a run's records stand."""
        manifest = read_manifest(self._folder(run), EVALUATION_MANIFEST)
        return self._standing(run, manifest, self.expected_evaluation(run))

    def _standing(self, run: Run, manifest: Manifest | None, expected: Payload | str) -> Standing:
        if isinstance(expected, str):
            return Standing(False, expected)
        if manifest is None:
            return Standing(False, "new")
        if manifest.fingerprint != digest(expected):
            return Standing(False, _difference(manifest.settings, expected))
        folder = self._folder(run)
        if self._thorough:
            wrong = damage(folder, manifest)
        else:
            wrong = [f"{folder / name}: missing" for name in manifest.files if not (folder / name).is_file()]
        return Standing(False, f"damaged: {wrong[0]}") if wrong else _DONE


def _difference(old: Payload, new: Payload) -> str:
    """Say which settings differ, the way they are written in the study file."""
    before, after = _flat(old), _flat(new)
    parts = []
    for key in sorted(before.keys() | after.keys()):
        if before.get(key) == after.get(key):
            continue
        if key in ("train_split", "base", "weights") or key.startswith("problems."):
            parts.append(f"{key.replace('_', ' ').replace('problems.', 'problems of ')} changed")
        else:
            parts.append(f"{key} {before.get(key, 'default')} → {after.get(key, 'default')}")
    return "; ".join(parts)


def _flat(payload: Payload, prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in payload.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat
