"""Git's hook is put where there is none, and leaves commits alone that record nothing."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from conftest import ROOT


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "workflow/hooks", "workflow/hooks")
    shutil.copy(ROOT / "Makefile", ".")
    for command in (
        ("git", "init", "-q"),
        ("git", "config", "user.name", "tester"),
        ("git", "config", "user.email", "tester@localhost"),
    ):
        subprocess.run(command, check=True)
    return tmp_path


def make_hook() -> None:
    subprocess.run(["make", "hook"], check=True)


def test_where_there_is_none(repository: Path) -> None:
    make_hook()
    hook = Path(".git/hooks/pre-commit")
    assert hook.read_text() == (ROOT / "workflow/hooks/pre-commit").read_text()
    subprocess.run(["git", "add", "Makefile"], check=True)
    subprocess.run(["git", "commit", "-qm", "no record"], check=True, env={"PATH": "/usr/bin:/bin"})
    Path("dvc.lock").write_text("stages: {}\n")
    subprocess.run(["git", "add", "dvc.lock"], check=True)
    refused = subprocess.run(
        ["git", "commit", "-qm", "unchecked"],
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert refused.returncode == 1
    assert "error: dvc.lock: it is checked before it is committed, and onelayer is not on the path" in refused.stderr


def test_one_of_the_users_own_stays(repository: Path) -> None:
    own = Path(".git/hooks/pre-commit")
    own.write_text("#!/bin/sh\n")
    make_hook()
    assert own.read_text() == "#!/bin/sh\n"


def test_outside_git_nothing_happens(repository: Path) -> None:
    shutil.rmtree(".git")
    make_hook()
    assert not Path(".git").exists()
