"""The prepare phase: a study's problems, split and written, with a receipt that hashes them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from onelayer.config import Study
from onelayer.errors import UserError
from onelayer.fingerprint import digest, problems_payload
from onelayer.store import (
    SPLITS,
    file_sha256,
    prepared_receipt,
    problems_file,
    read_json,
    write_bytes,
    write_json,
)
from onelayer.task_settings import source_files
from onelayer.tasks import make_domain
from onelayer.tasks.contract import Problem


@dataclass(frozen=True)
class Rendered:
    """A split as it is written: its text, and what was left out of it."""

    text: bytes
    problems: int
    dropped: dict[str, int]

    @property
    def sha256(self) -> str:
        """The content hash."""
        return hashlib.sha256(self.text).hexdigest()


def problems_fingerprint(study: Study) -> str:
    """The digest of all that decides a study's problems. Raises UserError where a source file is missing."""
    shas = {}
    for path in source_files(study.task):
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
            "".join(json.dumps(p.as_row(), ensure_ascii=False) + "\n" for p in split.problems).encode(),
            len(split.problems),
            split.dropped,
        )
        for name, split in splits.items()
    }


def is_prepared(study: Study) -> bool:
    """Tell whether the problems on disk are the ones that the settings ask for, whole and untouched."""
    try:
        receipt = read_json(prepared_receipt(study.name), f"onelayer prepare {study.name}")
        return bool(receipt["fingerprint"] == problems_fingerprint(study)) and all(
            file_sha256(problems_file(study.name, name)) == receipt["splits"][name]["sha256"] for name in SPLITS
        )
    except (UserError, OSError, KeyError, TypeError):
        return False


def prepare(study: Study) -> dict[str, Rendered]:
    """Write ``train``, ``select`` and ``report``, leaving a file that would not change untouched."""
    fingerprint = problems_fingerprint(study)
    splits = render(study)
    for name in SPLITS:
        path = problems_file(study.name, name)
        if not (path.is_file() and path.read_bytes() == splits[name].text):
            write_bytes(path, splits[name].text)
    write_json(
        prepared_receipt(study.name),
        {
            "fingerprint": fingerprint,
            "splits": {
                name: {
                    "problems": splits[name].problems,
                    "dropped": splits[name].dropped,
                    "sha256": splits[name].sha256,
                }
                for name in SPLITS
            },
        },
    )
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
