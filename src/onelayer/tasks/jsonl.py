"""Problems from the user's own JSON Lines files."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from onelayer.config import JsonlTask
from onelayer.errors import UserError
from onelayer.grading.numbers import final_number, same_number
from onelayer.seeds import derive_seed
from onelayer.tasks.contract import Grade, Problem, Split

# Evaluation splits choose first, so that a larger training set never changes what is measured.
_ORDER = ("report", "select", "train")


@dataclass(frozen=True)
class Jsonl:
    """Rows of JSON Lines as problems; a row's split is drawn by the study's seed."""

    settings: JsonlTask
    seed: int

    def splits(self) -> dict[str, Split]:
        """Draw each split from its file, leaving out questions that an earlier split or row already holds."""
        taken: set[str] = set()
        rows = {path: self._rows(path) for path in {getattr(self.settings.files, name) for name in _ORDER}}
        made = {}
        for name in _ORDER:
            path: Path = getattr(self.settings.files, name)
            wanted: int = getattr(self.settings.sizes, name)
            repeated = 0
            chosen: list[Problem] = []
            for question, answer, line in rows[path]:
                if len(chosen) == wanted:
                    break
                key = " ".join(question.lower().split())
                if key in taken:
                    repeated += 1
                    continue
                taken.add(key)
                prompt = self.settings.prompt.replace("{question}", question)
                chosen.append(Problem(id=f"{path.stem}:{line}", prompt=prompt, answer=answer))
            if len(chosen) < wanted:
                raise UserError(
                    f"{path}: task.sizes.{name} asks for {wanted} problems, found {len(chosen)} that no other"
                    f" split holds ({len(rows[path])} rows)"
                )
            made[name] = Split(tuple(chosen), {"already in another row or split": repeated})
        return made

    def grade(self, problem: Problem, completion: str) -> Grade:
        """Compare text exactly, or the final number of the completion with the answer's."""
        if self.settings.grading == "exact":
            text = completion.strip()
            return Grade(text == problem.answer, text or None)
        found = final_number(completion)
        return Grade(found is not None and same_number(found, problem.answer), found)

    def _rows(self, path: Path) -> list[tuple[str, str, int]]:
        """(question, answer, row) of every row, in the seed's order."""
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"{path}: expected a readable JSON Lines file, found: {error}") from None
        rows = []
        for number, line in enumerate(text.split("\n"), start=1):
            if line.strip():
                rows.append((*self._row(path, number, line), number))
        return sorted(rows, key=lambda row: derive_seed(self.seed, "row", row[0]))

    def _row(self, path: Path, number: int, line: str) -> tuple[str, str]:
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise UserError(f"{path}: row {number}: expected a JSON object, found: {error}") from None
        if not isinstance(row, dict):
            raise UserError(f"{path}: row {number}: expected a JSON object, found {type(row).__name__}")
        for field in (self.settings.question, self.settings.answer):
            if row.get(field) is None or not str(row[field]).strip():
                raise UserError(f"{path}: row {number}: expected a value in {field!r}, found the fields {sorted(row)}")
        answer = str(row[self.settings.answer])
        if self.settings.answer_after is not None:
            _, mark, tail = answer.rpartition(self.settings.answer_after)
            if not mark:
                raise UserError(
                    f"{path}: row {number}: expected {self.settings.answer_after!r} in"
                    f" {self.settings.answer!r}, found {answer[-60:]!r}"
                )
            answer = tail
        answer = answer.strip()
        if self.settings.grading == "number" and final_number(answer) is None:
            raise UserError(f"{path}: row {number}: expected a number as the answer, found {answer!r}")
        return str(row[self.settings.question]).strip(), answer
