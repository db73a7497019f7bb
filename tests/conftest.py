"""Shared pieces: a tiny study that trains in seconds, and a project folder to run it in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import yaml

# How long an example takes says nothing on a busy machine.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")

ROOT = Path(__file__).parents[1]

TINY: dict[str, Any] = {
    "model": {
        "kind": "micro",
        "layers": 2,
        "width": 16,
        "intermediate": 32,
        "heads": 2,
        "kv_heads": 1,
        "context": 16,
        "pretraining": {"steps": 60, "batch_size": 32, "learning_rate": 0.01, "warmup_steps": 5},
    },
    "task": {
        "kind": "arithmetic",
        "digits": 2,
        "operations": ["#"],
        "careless": 0.5,
        "sizes": {"train": 30, "select": 8, "report": 14},
    },
    "algorithm": "grpo",
    "training": {
        "learning_rates": [0.001],
        "steps": 3,
        "prompts_per_batch": 4,
        "group_size": 4,
        "max_tokens": 3,
        "kl": 0.0,
    },
    "runs": {"seeds": [0], "layers": "all"},
    "evaluation": {"samples": 2, "max_tokens": 3, "batch_size": 64},
    "analysis": {"resamples": 200},
    "resources": {"seeds_per_job": 3, "save_every_seconds": 0},
}


def deep_copy(settings: dict[str, Any]) -> dict[str, Any]:
    """A copy that a test may change."""
    copied: dict[str, Any] = yaml.safe_load(yaml.safe_dump(settings))
    return copied


def write_study(name: str, settings: dict[str, Any]) -> None:
    """Write a study's file into the current project."""
    Path("studies").mkdir(exist_ok=True)
    Path(f"studies/{name}.yaml").write_text(yaml.safe_dump(settings, sort_keys=False))


def write_params(studies: list[str], **more: Any) -> None:
    """Write params.yaml into the current project."""
    Path("params.yaml").write_text(
        yaml.safe_dump({"studies": studies, "defaults": {"seed": 0}, **more}, sort_keys=False)
    )


@contextmanager
def new_project(folder: Path, settings: dict[str, Any] = TINY) -> Iterator[None]:
    """A project that holds the tiny study, as the current folder within."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_params(["tiny"])
        write_study("tiny", settings)
        yield


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    """An empty project with the tiny study, as the current folder."""
    with new_project(tmp_path):
        yield tmp_path


@pytest.fixture
def sandboxes_end(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Ends the sandboxes of the domains that a test makes; a study's end with the process that judges."""
    from onelayer.grading.sandbox import Sandbox

    made: list[Sandbox] = []
    original = Sandbox.of

    def of(settings: Any) -> Sandbox:
        made.append(original(settings))
        return made[-1]

    monkeypatch.setattr(Sandbox, "of", of)
    yield
    for sandbox in made:
        sandbox.close()
