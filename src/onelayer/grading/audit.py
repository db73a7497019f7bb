"""Grading rows of a file, for auditing the grader: `onelayer grade math`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from onelayer.config import Grading
from onelayer.errors import UserError
from onelayer.grading.math import MathVerdict, grade_math
from onelayer.grading.worker import Grader
from onelayer.tasks.contract import Grade, Problem, Split

# A worker is killed when it has not answered so many seconds after the bound of processor time.
_GRACE = 5.0
_BATCH = 64

Row = tuple[tuple[str, ...], str]


@dataclass(frozen=True)
class _Judge:
    """Judges the rows of a file; a problem's id is its row's place."""

    rows: tuple[Row, ...]
    seconds: float

    def splits(self) -> dict[str, Split]:
        return {}

    def get_ready(self) -> None:
        """Nothing is left to load."""

    @property
    def overdue(self) -> Grade:
        return MathVerdict(False, None, "timeout", "timeout")

    def grade(self, problem: Problem, completion: str) -> Grade:
        return grade_math(self.rows[int(problem.id)][0], completion, self.seconds)


def math_verdicts(path: Path, seconds: float) -> Iterator[dict[str, Any]]:
    """Grade every row of a JSON Lines file, in order: ``correct``, ``extracted`` and ``reason``.

    Args:
        path: the file; a row has ``answer`` (a text or number, or a list of several accepted ones) and ``completion``.
        seconds: the bound of processor time of a row's comparison; past it, the reason is ``timeout``.

    Raises UserError, naming file and row, before any row is graded.
    """
    rows = tuple(_rows(path))
    return _graded(rows, seconds)


def _graded(rows: tuple[Row, ...], seconds: float) -> Iterator[dict[str, Any]]:
    settings = Grading(seconds=seconds + _GRACE, failures="count")
    asked = ((Problem(str(place), "", ""), completion) for place, (_, completion) in enumerate(rows))
    with closing(Grader(_Judge(rows, seconds), settings)) as grader:
        while batch := list(islice(asked, _BATCH)):
            for grade in grader.grade(batch):
                reason = grade.reason if isinstance(grade, MathVerdict) else "the judge failed"
                yield {"correct": grade.correct, "extracted": grade.extracted, "reason": reason}


def _rows(path: Path) -> Iterator[Row]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: expected a readable JSON Lines file, found: {error}") from None
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield _row(line, f"{path}: row {number}")


def _row(line: str, where: str) -> Row:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where}: expected a JSON object, found: {error}") from None
    if not isinstance(row, dict):
        raise UserError(f"{where}: expected a JSON object, found {type(row).__name__}")
    for field in ("answer", "completion"):
        if field not in row:
            raise UserError(f"{where}: expected the field {field!r}, found the fields {sorted(row)}")
    answer, completion = row["answer"], row["completion"]
    answers = answer if isinstance(answer, list) else [answer]
    for one in answers:
        if isinstance(one, bool) or not isinstance(one, str | int | float) or not str(one).strip():
            raise UserError(
                f"{where}: expected a text, a number or a list of these in 'answer', found {repr(answer)[:80]}"
            )
    if not answers:
        raise UserError(f"{where}: expected at least one answer in 'answer', found []")
    if not isinstance(completion, str):
        raise UserError(f"{where}: expected a text in 'completion', found {type(completion).__name__}")
    return tuple(str(one) for one in answers), completion
