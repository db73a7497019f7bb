"""Problems from the user's own JSON Lines files: reading rows, and drawing the splits from them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from onelayer.errors import UserError
from onelayer.seeds import derive_seed
from onelayer.task_settings import RowsTask, source_files
from onelayer.tasks.contract import Problem, Split

# Evaluation splits choose first, so that a larger training set never changes what is measured.
_ORDER = ("report", "select", "train")

Row = dict[str, Any]


def draw_splits_from_rows(settings: RowsTask, seed: int, make: Callable[[Row, str], Problem]) -> dict[str, Split]:
    """Draw each split from its file, leaving out questions that an earlier split or row already holds.

    Args:
        settings: the file of each split (one may serve several), how many problems each holds, and the field that tells
            one problem from another.
        seed: the study's; it orders the rows.
        make: the problem of a row, from the row and ``file: row N``; raises UserError where it cannot be made.
    """
    taken: set[str] = set()
    rows = {path: _ordered(path, seed, settings.question, make) for path in source_files(settings)}
    made = {}
    for name in _ORDER:
        path: Path = getattr(settings.files, name)
        wanted: int = getattr(settings.sizes, name)
        repeated = 0
        chosen: list[Problem] = []
        for asked, problem in rows[path]:
            if len(chosen) == wanted:
                break
            key = " ".join(asked.lower().split())
            if key in taken:
                repeated += 1
                continue
            taken.add(key)
            chosen.append(problem)
        if len(chosen) < wanted:
            raise UserError(
                f"{path}: task.sizes.{name} asks for {wanted} problems, found {len(chosen)} that no other"
                f" split holds ({len(rows[path])} rows)"
            )
        made[name] = Split(tuple(chosen), {"already in another row or split": repeated})
    return made


def value_of(row: Row, field: str, where: str) -> Any:
    """A row's value. Raises UserError where there is none."""
    if row.get(field) in (None, []) or not str(row[field]).strip():
        raise UserError(f"{where}: expected a value in {field!r}, found the fields {sorted(row)}")
    return row[field]


def _ordered(path: Path, seed: int, question: str, make: Callable[[Row, str], Problem]) -> list[tuple[str, Problem]]:
    """(question, problem) of every row, in the seed's order."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: expected a readable JSON Lines file, found: {error}") from None
    rows = []
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            where = f"{path}: row {number}"
            row = _parsed(line, where)
            asked = str(value_of(row, question, where)).strip()
            made = make(row, where)
            rows.append((asked, Problem(f"{path.stem}:{number}", made.prompt, made.answer)))
    return sorted(rows, key=lambda row: derive_seed(seed, "row", row[0]))


def _parsed(line: str, where: str) -> Row:
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise UserError(f"{where}: expected a JSON object, found: {error}") from None
    if not isinstance(row, dict):
        raise UserError(f"{where}: expected a JSON object, found {type(row).__name__}")
    return row
