"""A disk that fills up, on a real one: a small tmpfs laid over the folder that is written to."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from conftest import new_project
from onelayer.config import load_study
from onelayer.grid import find_runs
from onelayer.manifest import read_manifest
from onelayer.state import StudyState
from small_disk import small_disk


def onelayer(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["onelayer", *arguments], capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def with_base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose problems and base are made."""
    folder = tmp_path_factory.mktemp("with-base")
    with new_project(folder):
        assert onelayer("prepare", "tiny").returncode == 0
        assert onelayer("base", "tiny").returncode == 0
    return folder


@pytest.mark.parametrize(
    ("command", "place", "kilobytes"),
    [
        (("train", "tiny", "full-s0"), ".work", 24),
        (("train", "tiny", "full-s0"), "data/tiny/runs/full-s0", 4),
        (("base", "tiny"), ".work", 8),
        (("base", "tiny"), "data/tiny/runs/base", 8),
    ],
)
def test_a_full_disk_is_one_message_and_nothing_half_written_is_taken_for_done(
    with_base: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: tuple[str, ...],
    place: str,
    kilobytes: int,
) -> None:
    shutil.copytree(with_base, tmp_path / "project")
    monkeypatch.chdir(tmp_path / "project")
    name = command[-1] if command[0] == "train" else "base"
    if name == "base":
        shutil.rmtree("data/tiny/runs/base")
    with small_disk(Path(place), kilobytes):
        result = onelayer(*command)
        assert result.returncode == 2, result.stdout + result.stderr
        assert "the disk is full" in result.stderr
        assert "Traceback" not in result.stderr
        assert result.stderr.count("error: ") == 1
        assert read_manifest(Path("data/tiny/runs", name)) is None
        study = load_study("tiny")
        assert not StudyState(study, thorough=True).training(find_runs(study, [name])[0]).done
    again = onelayer(*command)
    assert again.returncode == 0, again.stderr
    assert f"trained: data/tiny/runs/{name}" in again.stdout
