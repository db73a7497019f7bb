"""The manifest of a piece of finished work: what it is, what decided it, what it cost, and its hashes."""

from __future__ import annotations

import contextlib
import os
import platform
import resource
import subprocess
import sys
import time
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from onelayer.fingerprint import Payload, digest
from onelayer.store import file_sha256, write_json

RUN_MANIFEST = "manifest.json"
EVALUATION_MANIFEST = "evaluation.json"
WEIGHING_MANIFEST = "weighing.json"

# What can change a result's digits: named in every manifest.
_DISTRIBUTIONS = (
    "onelayer",
    "torch",
    "transformers",
    "trl",
    "peft",
    "accelerate",
    "datasets",
    "tokenizers",
    "safetensors",
    "numpy",
    "pandas",
    "scipy",
    "pyarrow",
    "math-verify",
    "latex2sympy2_extended",
    "sympy",
)
# vLLM, worlds and readers of models, that not every installation has.
_OPTIONAL = ("vllm", "gguf", "textworld-express", "scienceworld", "alfworld", "textworld")


class Manifest(BaseModel):
    """What stands beside a checkpoint or a set of records.

    Attributes:
        fingerprint: the digest of ``settings``.
        settings: all that decided the result, as it was hashed.
        files: the content hash (sha256) of every file this work left, by path relative to the run's folder
            (absolute for a model that is used where it lies; relative to its snapshot for one of the hub, whose
            repository and commit ``details`` names).
        wall_seconds: the time spent, over every start.
        peak_memory_bytes: the largest resident set of the process during the work; on a GPU, the largest
            amount that torch had allocated there. Of several processes, the largest of one.
    """

    model_config = ConfigDict(extra="forbid")

    study: str
    run: str
    fingerprint: str
    settings: dict[str, Any]
    files: dict[str, str]
    versions: dict[str, str]
    git_commit: str | None
    machine: dict[str, Any]
    finished: str
    wall_seconds: float
    peak_memory_bytes: int
    details: dict[str, Any] = {}

    @property
    def content(self) -> str:
        """One hash of every file's name and content, wherever the folder lies."""
        return digest({Path(name).name: sha for name, sha in self.files.items()})


def read_manifest(folder: Path, name: str = RUN_MANIFEST) -> Manifest | None:
    """Read a manifest; None where there is none or it cannot be read as one (the work is then made again)."""
    try:
        return Manifest.model_validate_json((folder / name).read_text())
    except (FileNotFoundError, UnicodeDecodeError, ValidationError):
        return None


def files_folder(folder: Path, manifest: Manifest) -> Path | None:
    """Where the files of a manifest lie: beside it, or in the local cache for a model of the hub.

    None where the cache does not hold the model: its commit says what it is, and it is fetched when it is needed.
    """
    if "commit" not in manifest.details:
        return folder
    from onelayer.hub import cached

    return cached(manifest.details["repository"], manifest.details["commit"])


def damage(folder: Path, manifest: Manifest, thorough: bool = True) -> list[str]:
    """Say what is wrong with the files a manifest names; an empty list means that all are as they were made.

    Args:
        folder: where the manifest lies.
        manifest: what names the files.
        thorough: hash every file; else only see that it is there.
    """
    found: list[str] = []
    place = files_folder(folder, manifest)
    if place is None:
        return found
    for name, sha in manifest.files.items():
        path = place / name
        if not path.is_file():
            found.append(f"{path}: missing")
        elif thorough and file_sha256(path) != sha:
            found.append(f"{path}: its sha256 is not the one its manifest records")
    return found


def write_manifest(
    folder: Path,
    study: str,
    run: str,
    payload: Payload,
    files: list[Path],
    wall_seconds: float,
    peak_memory_bytes: int,
    details: dict[str, Any],
    name: str = RUN_MANIFEST,
    place: Path | None = None,
) -> Manifest:
    """Hash the files and write the manifest beside them, last and atomically: from then on the work is done.

    ``place`` is where the files lie that are named relative to it, where that is not ``folder`` itself.
    """
    place = place or folder
    manifest = Manifest(
        study=study,
        run=run,
        fingerprint=digest(payload),
        settings=payload,
        files={
            str(path.relative_to(place) if path.is_relative_to(place) else path): file_sha256(path) for path in files
        },
        versions=_versions(),
        git_commit=git_commit(),
        machine={"platform": platform.platform(), "cpus": os.cpu_count()},
        finished=datetime.now(UTC).isoformat(timespec="seconds"),
        wall_seconds=round(wall_seconds, 3),
        peak_memory_bytes=peak_memory_bytes,
        details=details,
    )
    write_json(folder / name, manifest.model_dump(mode="json"))
    return manifest


def _versions() -> dict[str, str]:
    found = {name: version(name) for name in _DISTRIBUTIONS} | {"python": platform.python_version()}
    for name in _OPTIONAL:
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def git_commit() -> str | None:
    """The commit the code stands at, marked ``+`` where the working tree differs; None outside git."""
    try:
        head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True, timeout=20)
        dirty = subprocess.run(
            ["git", "status", "--porcelain", "--untracked-files=no", "--", "src", "workflow", "Snakefile"],
            capture_output=True,
            text=True,
            check=True,
            timeout=20,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return head.stdout.strip() + ("+" if dirty.stdout.strip() else "")


def _cuda() -> Any:
    """Torch's view of the GPU that this process has taken into use; None where it has none, and without torch."""
    torch = sys.modules.get("torch")
    return torch.cuda if torch is not None and torch.cuda.is_initialized() else None


class Meter:
    """Measure a stretch of work: wall seconds, and the peak memory of the process from here on."""

    def __init__(self) -> None:
        self._start = time.perf_counter()
        # Linux lets a process forget its peak, so that runs that share a process are told apart.
        try:
            Path("/proc/self/clear_refs").write_text("5")
            self._can_reset = True
        except OSError:
            self._can_reset = False
        if (cuda := _cuda()) is not None:
            cuda.reset_peak_memory_stats()

    @property
    def seconds(self) -> float:
        """Wall seconds since the start."""
        return time.perf_counter() - self._start

    @property
    def peak_memory_bytes(self) -> int:
        """The largest resident set since the start (since the process began, where that cannot be reset).

        Where work is done on a GPU, the largest amount that torch had allocated there.
        """
        if (cuda := _cuda()) is not None:
            return int(cuda.max_memory_allocated())
        if self._can_reset:
            for line in Path("/proc/self/status").read_text().splitlines():
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if platform.system() == "Darwin" else peak * 1024
