"""What of a study is done and what would run, judged by fingerprints; no torch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from onelayer.config import Study
from onelayer.errors import UserError
from onelayer.fingerprint import (
    Payload,
    base_settings,
    digest,
    evaluated_splits,
    evaluation_payload,
    training_payload,
    weighing_payload,
)
from onelayer.grid import BASE, Family, Run, families, family_search_runs, find_family, layer_runs, search_runs
from onelayer.manifest import EVALUATION_MANIFEST, WEIGHING_MANIFEST, Manifest, damage, read_manifest
from onelayer.prepare import is_prepared, render
from onelayer.settings import times
from onelayer.store import (
    SPLITS,
    file_sha256,
    learning_rate_file,
    problems_file,
    ranking_file,
    read_json,
    run_folder,
)
from onelayer.study_sources import takes_from_hub


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
        weights: whether a run's checkpoint must be there. The analysis reads none: records, and the manifests
            that say what they are of, are enough.
    """

    def __init__(self, study: Study, thorough: bool = False, preview: bool = False, weights: bool = True) -> None:
        self._study = study
        self._thorough = thorough
        self._preview = preview
        self._weights = weights

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

    def family_rate(self, family: Family) -> float | None:
        """The learning rate of a baseline's runs; None where its own search is not done, or was of other records."""
        if len(family.rates) == 1:
            return family.rates[0]
        chosen = self._choice(learning_rate_file(self._study.name, family.name))
        if chosen is None or chosen["records"].keys() != {run.name for run in family_search_runs(self._study, family)}:
            return None
        return float(chosen["learning_rate"])

    @cached_property
    def order(self) -> tuple[int, ...] | None:
        """The layers as ranked on ``select``, best first; None where no ranking stands, or it was of other records."""
        ranking = self._choice(ranking_file(self._study.name))
        if ranking is None or ranking["records"].keys() != {run.name for run in layer_runs(self._study)}:
            return None
        return tuple(int(row["layer"]) for row in ranking["layers"])

    def void_choices(self) -> list[Path]:
        """The files of a ranking or of a baseline's chosen rate that no longer follow from the records."""
        name = self._study.name
        made: list[tuple[Path, object]] = [(ranking_file(name), self.order)]
        for family in families(self._study):
            if len(family.rates) > 1:
                made.append((learning_rate_file(name, family.name), self.family_rate(family)))
        return [path for path, choice in made if choice is None and path.exists()]

    def _choice(self, path: Path) -> dict[str, Any] | None:
        """What was chosen from records; None where it is not there or a run's records are others by now."""
        try:
            chosen = read_json(path, f"onelayer plan {self._study.name}")
        except UserError:
            return None
        if not isinstance(chosen, dict) or not isinstance(chosen.get("records"), dict):
            return None
        for run, content in chosen["records"].items():
            manifest = read_manifest(run_folder(self._study.name, run), EVALUATION_MANIFEST)
            if manifest is None or manifest.content != content:
                return None
        return chosen

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
        if run.ranked is not None:
            if self.order is None:
                return "waits for the ranking of the layers"
            run = replace(run, layers=run.ranked.of(self.order))
        rate = run.learning_rate
        if rate is None:
            family = run.family
            rate = self.chosen_rate if family is None else self.family_rate(find_family(self._study, family))
        if rate is None:
            return "waits for the learning-rate search"
        if run.rate_factor is not None:
            rate = times(rate, run.rate_factor)
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

    def expected_weighing(self, run: Run) -> Payload | str:
        """All that decides a run's change of weights, or, in words, what it waits for."""
        if not self.training(run).done:
            return "waits for its training"
        manifest = self._manifest(run)
        assert manifest is not None
        assert self._base_content is not None  # no run is trained without
        return weighing_payload(manifest.content, self._base_content)

    def training(self, run: Run) -> Standing:
        """Where a run's training stands."""
        return self.standing(self._folder(run), self._manifest(run), self.expected_training(run), self._weights)

    def evaluation(self, run: Run) -> Standing:
        """Where a run's records stand."""
        manifest = read_manifest(self._folder(run), EVALUATION_MANIFEST)
        return self.standing(self._folder(run), manifest, self.expected_evaluation(run))

    def weighing(self, run: Run) -> Standing:
        """Where the measurement of a run's change of weights stands."""
        manifest = read_manifest(self._folder(run), WEIGHING_MANIFEST)
        return self.standing(self._folder(run), manifest, self.expected_weighing(run))

    def standing(
        self, folder: Path, manifest: Manifest | None, expected: Payload | str, files: bool = True
    ) -> Standing:
        """Where a piece of work stands, whose files lie in a folder with a manifest of what decided them.

        ``files`` is whether these must be there.
        """
        if isinstance(expected, str):
            return Standing(False, expected)
        if manifest is None:
            return Standing(False, "new")
        if manifest.fingerprint != digest(expected):
            return Standing(False, _difference(manifest.settings, expected))
        wrong = damage(folder, manifest, self._thorough) if files else []
        return Standing(False, f"damaged: {wrong[0]}") if wrong else _DONE


def _difference(old: Payload, new: Payload) -> str:
    """Say which settings differ, the way they are written in the study file."""
    before, after = _flat(old), _flat(new)
    parts = []
    for key in sorted(before.keys() | after.keys()):
        if before.get(key) == after.get(key):
            continue
        if key in ("train_split", "base", "weights", "rows") or key.startswith("problems."):
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
