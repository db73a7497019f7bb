"""Where things lie, and how they are written: atomically, hashed, and by the one process that holds the run."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from onelayer.errors import UserError
from onelayer.ownership import check_ownership, claim, is_claimed

DATA = Path("data")
WORK = Path(".work")
REPORTS = Path("reports")
LOGS = Path("logs")
REPORT = REPORTS / "report.html"

SPLITS = ("train", "select", "report")

# Files of a run's folder.
ADAPTED = "adapted.safetensors"
HISTORY = "history.json"
RECORDS = "records.parquet"
SCORES = "scores.json"
PROGRESS = "progress.json"
WEIGHTS = "weights.json"


def study_folder(study: str) -> Path:
    """All that a study leaves; one DVC output."""
    return DATA / study


def problems_file(study: str, split: str) -> Path:
    """The problems of one split, one JSON object a row."""
    return study_folder(study) / "problems" / f"{split}.jsonl"


def copies_file(study: str) -> Path:
    """The training problems that were left out as copies of evaluation questions, one JSON object a row."""
    return study_folder(study) / "problems" / "dropped.jsonl"


def commits_file(study: str) -> Path:
    """Which commit each revision of a hub data set was resolved to."""
    return study_folder(study) / "commits.json"


def run_folder(study: str, run: str) -> Path:
    """All that a run leaves: checkpoint, manifest, records, scores."""
    return study_folder(study) / "runs" / run


def suite_folder(study: str, run: str) -> Path:
    """A run's records on the evaluation suite, a file a benchmark with its manifest beside it."""
    return run_folder(study, run) / "suite"


def suite_scores_file(study: str, run: str) -> Path:
    """A run's scores on the evaluation suite."""
    return run_folder(study, run) / "suite.json"


def prepared_receipt(study: str) -> Path:
    """Written when the problems of a study are complete."""
    return study_folder(study) / "problems.json"


def job_receipt(study: str, job: str, phase: str) -> Path:
    """Written when each run of a job has gone through a phase: ``trained``, ``evaluated``, ``weighed`` or ``suite``."""
    return study_folder(study) / "jobs" / f"{job}.{phase}.json"


def learning_rate_file(study: str, family: str | None = None) -> Path:
    """The learning rate that the search chose, the study's or a baseline's own, with every rate tried and its score."""
    return study_folder(study) / ("learning_rate.json" if family is None else f"rates/{family}.json")


def ranking_file(study: str) -> Path:
    """The layers in the order of their scores on ``select``."""
    return study_folder(study) / "ranking.json"


def study_page(study: str) -> Path:
    """The study's own page."""
    return study_folder(study) / "report.html"


def analysis_file(study: str) -> Path:
    """The study's analysis."""
    return study_folder(study) / "analysis.json"


def work_folder(study: str, run: str) -> Path:
    """Where unfinished work of a run lies, by fingerprint; nothing versions it."""
    return WORK / study / run


def file_sha256(path: Path) -> str:
    """Hash a file's content (sha256, hexadecimal)."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


@contextlib.contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn a full disk or a refused write into a UserError that names the place."""
    try:
        yield
    except Exception as error:
        if _says_full(error):
            raise UserError(
                f"{path}: the disk is full; nothing half-written was kept. Free some space and start again: "
                "finished runs are kept, and unfinished ones go on from their last save"
            ) from error
        if isinstance(error, OSError) and error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            raise UserError(f"{path}: cannot be written: {error.strerror}") from error
        raise


def _says_full(error: Exception) -> bool:
    """Tell whether an error comes of a full disk; safetensors and torch.save have errors of their own for it."""
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    # torch.save says so where a write fails, or where closing its archive finds less written than it gave.
    texts = ("No space left on device", "PytorchStreamWriter failed writing", "] . unexpected pos")
    return any(text in str(error) for text in texts)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary path beside ``path``, which takes its place when the block ends without an error.

    The content is on the disk before the name is, so a file of this name is always whole. Raises UserError
    where the disk is full or refuses, and OwnershipLostError where another process took over what this one was at.
    """
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
        os.close(handle)
        temporary = Path(name)
        try:
            yield temporary
            with temporary.open("rb") as written:
                os.fsync(written.fileno())
            temporary.chmod(0o644)
            check_ownership()
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file atomically. Raises UserError where the disk is full or refuses."""
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def write_json(path: Path, content: Any, indent: int | None = 2) -> None:
    """Write JSON atomically, leaving a file that already says the same untouched; without indent, in one line.

    Raises UserError where the disk is full; ValueError where a figure is not finite.
    """
    text = (json.dumps(content, indent=indent, allow_nan=False) + "\n").encode()
    if not (path.is_file() and path.read_bytes() == text):
        write_bytes(path, text)


def read_json(path: Path, made_by: str) -> Any:
    """Read a JSON file of ours. Raises UserError, naming the command that makes it, where it is no JSON."""
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        raise UserError(f"{path}: not found; `{made_by}` makes it") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: expected JSON, found: {error}; `{made_by}` makes it anew") from None


def _owners(study: str, run: str) -> Path:
    return WORK / study / f"{run}.owners"


@contextlib.contextmanager
def exclusive(study: str, run: str, while_waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold a run against every other process, of any machine; wait, saying so, while another holds it.

    The run is free again when its owner ends, however it ends (`onelayer.ownership`). ``while_waiting`` is called now
    and then meanwhile, and may raise.
    """
    folder = _owners(study, run)
    with disk_errors(folder):
        held = claim(folder, f"{study}/{run}", while_waiting)
    try:
        yield
    finally:
        held.release()


def is_held(study: str, run: str) -> bool:
    """Tell whether some process is at work on a run."""
    return is_claimed(_owners(study, run))
