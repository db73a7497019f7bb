"""Questions with a short answer, from the user's own JSON Lines files."""

from __future__ import annotations

from dataclasses import dataclass

from onelayer.errors import UserError
from onelayer.grading.extraction import option_letter
from onelayer.grading.numbers import final_number, same_number
from onelayer.grading.structure import gold_fault
from onelayer.task_settings import JsonlTask
from onelayer.tasks.contract import Grade, Problem, Split
from onelayer.tasks.rows import Row, draw_splits_from_rows, value_of


@dataclass(frozen=True)
class Jsonl:
    """Rows of JSON Lines as problems; a row's split is drawn by the study's seed."""

    settings: JsonlTask
    seed: int

    def splits(self) -> dict[str, Split]:
        """Draw the splits. Raises UserError, naming the file and row, for what cannot be used."""
        return draw_splits_from_rows(self.settings, self.seed, self._problem)

    def grade(self, problem: Problem, completion: str) -> Grade:
        """Compare text exactly, the final number, the option's letter, or the answer as mathematics."""
        if self.settings.grading == "exact":
            text = completion.strip()
            return Grade(text == problem.answer, text or None)
        if self.settings.grading == "math":
            from onelayer.grading.math import grade_math

            return grade_math(problem.answer, completion)
        if self.settings.grading == "choice":
            letter = option_letter(completion)
            return Grade(letter == problem.answer, letter)
        found = final_number(completion)
        return Grade(found is not None and same_number(found, problem.answer), found)

    def get_ready(self) -> None:
        """Load the computer algebra, which takes seconds, where answers are compared by it."""
        if self.settings.grading == "math":
            import onelayer.grading.math  # noqa: F401

    @property
    def overdue(self) -> Grade | None:
        """An answer whose comparison had to be killed is wrong; nothing but mathematics can take so long."""
        return Grade(False, None, "timeout") if self.settings.grading == "math" else None

    def _problem(self, row: Row, where: str) -> Problem:
        question = str(value_of(row, self.settings.question, where)).strip()
        answer = str(value_of(row, self.settings.answer, where))
        if self.settings.answer_after is not None:
            _, mark, tail = answer.rpartition(self.settings.answer_after)
            if not mark:
                raise UserError(
                    f"{where}: expected {self.settings.answer_after!r} in {self.settings.answer!r}, found"
                    f" {answer[-60:]!r}"
                )
            answer = tail
        answer = answer.strip()
        if self.settings.grading == "number" and final_number(answer) is None:
            raise UserError(f"{where}: expected a number as the answer, found {answer!r}")
        if self.settings.grading == "choice":
            letter = option_letter(answer)
            if letter is None:
                raise UserError(f"{where}: expected the letter of an option as the answer, found {answer!r}")
            answer = letter
        fault = gold_fault(answer) if self.settings.grading == "math" else None
        if fault:
            raise UserError(f"{where}: expected a mathematical answer, found one that {fault}: {answer[-60:]!r}")
        return Problem("", self.settings.prompt.replace("{question}", question), answer)
