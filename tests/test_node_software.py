"""The container definition and the conda environment, held against requirements.lock as far as no engine is needed."""

from __future__ import annotations

import re
import shlex
import subprocess
import tomllib
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from conftest import ROOT

DEFINITION = ROOT / "container/onelayer.def"
ENVIRONMENT = ROOT / "environment.yaml"

# Apptainer's own words (its documentation of definition files).
SECTIONS = {"setup", "files", "environment", "post", "runscript", "startscript", "test", "labels", "help", "arguments"}
HEADERS = {"bootstrap", "from", "registry", "namespace", "stage", "fingerprints", "mirrorurl", "osversion", "include"}


def lock() -> dict[str, str]:
    lines = [line for line in (ROOT / "requirements.lock").read_text().splitlines() if not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in (line.split("==") for line in lines)}


def project() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return found


def definition() -> tuple[dict[str, str], dict[str, list[str]]]:
    """The header and the sections of the definition; anything that is neither fails."""
    header: dict[str, str] = {}
    sections: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in DEFINITION.read_text().splitlines():
        if line.startswith("%"):
            current = sections.setdefault(line.strip("% \n"), [])
        elif current is not None:
            current.append(line)
        elif line.strip() and not line.startswith("#"):
            name, colon, value = line.partition(":")
            assert colon, line
            header[name.strip().lower()] = value.strip()
    return header, sections


def conda() -> tuple[dict[str, str], list[str]]:
    """By name the version of each of conda's packages (empty where any will do), and pip's lines."""
    content = yaml.safe_load(ENVIRONMENT.read_text())
    assert set(content) == {"name", "channels", "dependencies"}
    assert content["channels"] == ["conda-forge"]
    packages: dict[str, str] = {}
    lines: list[str] = []
    for entry in content["dependencies"]:
        if isinstance(entry, dict):
            assert set(entry) == {"pip"}
            lines += entry["pip"]
        else:
            packages.update([(entry.partition("=")[0], entry.partition("=")[2])])
    return packages, lines


def pip_lines(post: list[str]) -> list[list[str]]:
    return [shlex.split(line) for line in post if "pip install" in line]


def extras_of(target: str) -> set[str]:
    assert target.startswith(".[")
    return set(target[2:-1].split(","))


def extras() -> dict[str, set[str]]:
    """The extras that each of the two installs."""
    (command,) = pip_lines(definition()[1]["post"])
    _, lines = conda()
    (editable,) = [line for line in lines if line.startswith("--editable ")]
    return {"container": extras_of(command[-1]), "conda": extras_of(editable.split()[1])}


def test_the_definition_is_one_that_apptainer_reads() -> None:
    header, sections = definition()
    assert set(header) <= HEADERS
    assert header["bootstrap"] == "docker"
    assert {name.split()[0] for name in sections} <= SECTIONS
    assert {"files", "post", "test", "runscript"} <= set(sections)
    for name in ("post", "test", "environment", "runscript"):
        script = "\n".join(sections[name])
        subprocess.run(["sh", "-n"], input=script, text=True, check=True)
    for line in sections["files"]:
        if line.strip():
            source, target = line.split()
            assert (ROOT / source).exists(), source
            assert target == f"/opt/onelayer/{source}"


def test_the_image_is_held_against_the_lock(tmp_path: Path) -> None:
    """What `apptainer test` runs in the image, run here."""
    assert any("check_versions.py /opt/onelayer/requirements.lock" in line for line in definition()[1]["test"])
    lock = tmp_path / "requirements.lock"
    for line, code in ((f"PyYAML=={distribution('PyYAML').version}", 0), ("PyYAML==0.1", 1)):
        lock.write_text(f"# pinned\n{line}\n")
        command = ["python", str(ROOT / "container/check_versions.py"), str(lock)]
        result = subprocess.run(command, text=True, capture_output=True, check=False)
        assert result.returncode == code, result.stderr
        assert ("pyyaml: found" in result.stderr) == bool(code)


def test_both_have_the_python_that_the_lock_is_of() -> None:
    wanted = project()["requires-python"]
    assert wanted == ">=3.11,<3.12"
    assert definition()[0]["from"].startswith("python:3.11-")
    assert conda()[0]["python"] == "3.11"


def test_both_install_by_the_lock_and_alike() -> None:
    (command,) = pip_lines(definition()[1]["post"])
    assert command[command.index("--constraint") + 1] == "requirements.lock"
    assert conda()[1][0] == "--constraint requirements.lock"
    of = extras()
    assert of["container"] == of["conda"]
    assert of["conda"] <= set(project()["optional-dependencies"])


@pytest.mark.parametrize("kind", ["container", "conda"])
def test_every_package_of_both_is_pinned_by_the_lock(kind: str) -> None:
    """From what is asked for down to what nothing asks more of, by the environment that stands here."""
    pinned = lock()
    groups = [project()["dependencies"], *(project()["optional-dependencies"][name] for name in extras()[kind])]
    waiting = [Requirement(line) for group in groups for line in group]
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        wanted = waiting.pop()
        name = canonicalize_name(wanted.name)
        if (name, frozenset(wanted.extras)) in seen:
            continue
        seen.add((name, frozenset(wanted.extras)))
        assert name in pinned, f"{wanted} is not in requirements.lock"
        assert wanted.specifier.contains(pinned[name], prereleases=True), f"{wanted}, locked {pinned[name]}"
        if name in {"dvc-ssh", "sshfs", "bcrypt"}:  # not of the tests' environment
            continue
        installed = distribution(wanted.name)
        assert installed.version.partition("+")[0] == pinned[name], wanted.name
        for line in installed.requires or []:
            requirement = Requirement(line)
            environments = [{"extra": extra} for extra in wanted.extras] or [{"extra": ""}]
            if requirement.marker is None or any(requirement.marker.evaluate(one) for one in environments):
                waiting.append(requirement)
    assert len(seen) > 100


def test_both_bring_what_continuous_integration_installs_of_the_system() -> None:
    script = (ROOT / ".ci/run").read_text()
    for_tests_alone = {"chromium", "slurm-wlm", "munge"}
    wanted = set(" ".join(re.findall(r"missing\+=\(([^)]*)\)", script)).split()) - for_tests_alone
    assert {"bubblewrap", "openjdk-17-jre-headless"} <= wanted
    (line,) = [line for line in definition()[1]["post"] if "apt-get install" in line]
    assert wanted <= set(line.split())
    packages, _ = conda()
    java = re.search(r"openjdk-(\d+)-", script)
    assert java
    assert packages["openjdk"] == java[1]
    assert "c-compiler" in packages


def test_the_build_of_pytorch_is_named_alike_everywhere() -> None:
    """PyPI's wheels of this version are built for CUDA 13.0: whoever changes the pin must look again."""
    assert lock()["torch"] == "2.13.0"
    assert Requirement("torch==2.13.0") in map(Requirement, project()["dependencies"])
    for path in (DEFINITION, ENVIRONMENT, ROOT / "docs/software.md"):
        text = " ".join(path.read_text().replace("#", " ").split())
        assert "build for CUDA 13.0" in text, path
        assert "driver (580 or later)" in text or "driver 580 or later" in text, path
