"""A project with a tiny study, under git and DVC, and the commands that the whole-graph tests run in it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from conftest import TINY, deep_copy, write_params, write_study

RUNS = {"base", "full-s0", "layer-00-s0", "layer-01-s0"}


def settings() -> dict[str, Any]:
    """The tiny study, with a base that gets a third of the answers right: its scores can move."""
    changed = deep_copy(TINY)
    changed["model"] |= {"width": 32, "intermediate": 64}
    changed["model"]["pretraining"] |= {"steps": 250, "batch_size": 64}
    changed["task"]["sizes"] = {"train": 200, "select": 30, "report": 60}
    changed["training"] |= {"steps": 10, "prompts_per_batch": 8, "group_size": 8, "learning_rates": [0.003]}
    return changed


def run(*command: str, expect: int = 0, **more: Any) -> str:
    """Run a command to its end and return all it printed."""
    result = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=600, **more
    )
    assert result.returncode == expect, result.stdout[-5000:]
    return result.stdout


def snakemake(*arguments: str, expect: int = 0) -> str:
    return run("snakemake", "--cores", "2", *arguments, expect=expect)


def trained(output: str) -> set[str]:
    """The runs that a command's output says were trained, not found done."""
    return set(re.findall(r"tiny/(\S+): to be trained", output))


def metrics() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path("reports/metrics.json").read_text())
    return found


def everything() -> dict[str, bytes]:
    """What runs leave, less what says when and how long."""
    kept = ("records.parquet", "scores.json", "adapted.safetensors", "model.safetensors", "history.json")
    return {str(path): path.read_bytes() for path in sorted(Path("data").rglob("*")) if path.name in kept}


@pytest.fixture(scope="module", autouse=True)
def _untraced() -> Iterator[None]:
    """Measure no coverage in these tests' many processes: tracing makes each start of torch and TRL much slower."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("COVERAGE_PROCESS")]:
            patch.delenv(name)
        yield


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project under git and DVC whose study ran by `dvc repro`, committed; made once for all modules and workers."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    with FileLock(folder / "finished.lock"):
        if not (folder / "finished/done").exists():
            _finish(folder / "finished/project")
            (folder / "finished/done").touch()
    return folder / "finished/project"


def _finish(folder: Path) -> None:
    from conftest import ROOT

    shutil.rmtree(folder, ignore_errors=True)  # what a try that failed left
    folder.mkdir(parents=True)
    for name in ("Snakefile", "dvc.yaml", ".gitignore"):
        shutil.copy(ROOT / name, folder)
    for name in ("workflow", "profiles", "studies/published"):
        shutil.copytree(ROOT / name, folder / name)
    (folder / "data/sources").mkdir(parents=True)
    (folder / "data/sources/README.md").write_text("own files\n")
    shutil.copy(ROOT / "data/.gitignore", folder / "data")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_params(["tiny"], report={"title": "Tiny"})
        write_study("tiny", settings())
        run("git", "init", "-q")
        run("git", "config", "user.name", "tester")
        run("git", "config", "user.email", "tester@localhost")
        run("dvc", "init", "-q")
        run("dvc", "config", "core.analytics", "false")
        shutil.copytree(ROOT / ".dvc/plots", ".dvc/plots")
        output = run("dvc", "repro")
        assert trained(output) == RUNS
        assert "report: reports/report.html" in output
        run("git", "add", "-A")
        run("git", "commit", "-qm", "first")


@pytest.fixture
def here(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the finished project, as the current folder."""
    shutil.copytree(finished, tmp_path / "project", symlinks=True)
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "project"


def start(*command: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
