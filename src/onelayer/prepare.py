"""The prepare phase: a study's problems, split and written, with a receipt that hashes them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from onelayer.config import Study
from onelayer.errors import UserError
from onelayer.fingerprint import digest, problems_payload
from onelayer.source_commits import pinned, remember
from onelayer.store import (
    SPLITS,
    copies_file,
    file_sha256,
    prepared_receipt,
    problems_file,
    read_json,
    write_bytes,
    write_json,
)
from onelayer.study_sources import held_out, source_files
from onelayer.tasks import make_domain
from onelayer.tasks.contract import Copy, Problem


@dataclass(frozen=True)
class Rendered:
    """A split as it is written: its text, what was left out of it, the copies among that, and its sets of rows."""

    text: bytes
    problems: int
    dropped: dict[str, int]
    copies: bytes | None = None
    sets: tuple[dict[str, Any], ...] = ()

    @property
    def sha256(self) -> str:
        """The content hash."""
        return hashlib.sha256(self.text).hexdigest()


def problems_fingerprint(study: Study) -> str:
    """The digest of all that decides a study's problems. Raises UserError where a source file is missing."""
    shas = {}
    for path in source_files(study):
        if not path.is_file():
            raise UserError(f"{path}: not found; the study {study.name} takes problems from it")
        shas[str(path)] = file_sha256(path)
    return digest(problems_payload(study, shas))


def render(study: Study) -> dict[str, Rendered]:
    """Make the splits without writing them.

    Raises UserError where a source cannot be used or the splits share a problem.
    """
    splits = make_domain(study).splits()
    prompts = [problem.prompt for split in splits.values() for problem in split.problems]
    if len(set(prompts)) != len(prompts):
        raise UserError(f"study {study.name}: the splits share {len(prompts) - len(set(prompts))} problems")
    return {
        name: Rendered(
            _lines(split.problems),
            len(split.problems),
            split.dropped,
            None if split.copies is None else _lines(split.copies),
            split.sets,
        )
        for name, split in splits.items()
    }


def _lines(rows: Iterable[Problem | Copy]) -> bytes:
    return "".join(json.dumps(row.as_row(), ensure_ascii=False) + "\n" for row in rows).encode()


def is_prepared(study: Study) -> bool:
    """Tell whether the problems on disk are the ones that the settings ask for, whole and untouched."""
    try:
        receipt = read_json(prepared_receipt(study.name), f"onelayer prepare {study.name}")
        if receipt["fingerprint"] != problems_fingerprint(study):
            return False
        shas = {problems_file(study.name, name): receipt["splits"][name]["sha256"] for name in SPLITS}
        if "copies" in receipt:
            shas[copies_file(study.name)] = receipt["copies"]["sha256"]
        return all(file_sha256(path) == sha for path, sha in shas.items())
    except (UserError, OSError, KeyError, TypeError):
        return False


def prepare(study: Study) -> dict[str, Rendered]:
    """Write ``train``, ``select`` and ``report``, leaving a file that would not change untouched.

    Training problems left out as copies of evaluation questions are written beside them.
    """
    fingerprint = problems_fingerprint(study)
    at_commits, commits = pinned(study)
    splits = render(at_commits)
    files = {problems_file(study.name, name): splits[name].text for name in SPLITS}
    copies = splits["train"].copies
    if copies is not None:
        files[copies_file(study.name)] = copies
    remember(study, commits)
    for path, text in files.items():
        if not (path.is_file() and path.read_bytes() == text):
            write_bytes(path, text)
    receipt: dict[str, Any] = {
        "fingerprint": fingerprint,
        "splits": {
            name: {
                "problems": splits[name].problems,
                "dropped": splits[name].dropped,
                "sha256": splits[name].sha256,
            }
            for name in SPLITS
        },
    }
    if any(split.sets for split in splits.values()):
        receipt["sources"] = {name: list(splits[name].sets) for name in SPLITS}
    against = held_out(at_commits)
    if against:
        receipt["held_out"] = [{"set": source.set_name, **source.place} for source in against]
    if copies is not None:
        receipt["copies"] = {"rows": copies.count(b"\n"), "sha256": hashlib.sha256(copies).hexdigest()}
    write_json(prepared_receipt(study.name), receipt)
    return splits


def read_problems(study: Study, split: str) -> tuple[Problem, ...]:
    """Read a split's problems. Raises UserError where it is not prepared or a row is not ours."""
    path = problems_file(study.name, split)
    if not path.is_file():
        raise UserError(f"{path}: not found; `onelayer prepare {study.name}` makes it")
    problems = []
    lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    for number, line in enumerate(lines, start=1):
        try:
            problems.append(Problem(**json.loads(line)))
        except (json.JSONDecodeError, TypeError) as error:
            raise UserError(f"{path}: row {number}: {error}; `onelayer prepare {study.name}` makes it anew") from None
    return tuple(problems)
