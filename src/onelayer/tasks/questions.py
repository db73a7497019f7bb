"""Questions with a short answer, from the user's own files or from data sets of the hub."""

from __future__ import annotations

from dataclasses import dataclass

from onelayer.errors import UserError
from onelayer.grading.extraction import option_letter
from onelayer.grading.numbers import final_number, same_number
from onelayer.grading.structure import gold_fault
from onelayer.source_settings import QuestionSource, Source
from onelayer.task_settings import QuestionsTask
from onelayer.tasks.answers import accepted_answers, as_one_text, read_answers, read_options
from onelayer.tasks.contract import Grade, Problem, Split
from onelayer.tasks.rows import draw_splits_from_rows, filled, plain_question
from onelayer.tasks.sources import Row


@dataclass(frozen=True)
class Questions:
    """Rows as problems; a row's split is drawn by the study's seed."""

    settings: QuestionsTask
    seed: int
    against: tuple[Source, ...] = ()

    def splits(self) -> dict[str, Split]:
        """Draw the splits. Raises UserError, naming the file and row, for what cannot be used."""
        return draw_splits_from_rows(self.settings, self.seed, self.problem, self.against)

    def grade(self, problem: Problem, completion: str) -> Grade:
        """Compare text exactly, the final number, the option's letter, or the answer as mathematics.

        Any of the accepted answers will do.
        """
        accepted = accepted_answers(problem.answer)
        match self.settings.grading:
            case "exact":
                text = completion.strip()
                return Grade(text in accepted, text or None)
            case "math":
                from onelayer.grading.math import grade_math

                return grade_math(accepted, completion)
            case "choice":
                letter = option_letter(completion)
                return Grade(letter in accepted, letter)
            case "number":
                found = final_number(completion)
                return Grade(found is not None and any(same_number(found, one) for one in accepted), found)

    def get_ready(self) -> None:
        """Load the computer algebra, which takes seconds, where answers are compared by it."""
        if self.settings.grading == "math":
            import onelayer.grading.math  # noqa: F401

    @property
    def overdue(self) -> Grade | None:
        """An answer whose comparison had to be killed is wrong; nothing but mathematics can take so long."""
        return Grade(False, None, "timeout") if self.settings.grading == "math" else None

    def problem(self, row: Row, source: QuestionSource, where: str) -> Problem:
        """The problem of a row, without an id. Raises UserError, naming the row, where none can be made of it."""
        parts = {"question": plain_question(row, source, where)}
        if source.options is not None:
            parts["options"], answer = read_options(row, source, source.options, self.seed, where)
        else:
            answer = as_one_text([self._gradable(one, where) for one in read_answers(row, source, where)])
        return Problem("", filled(self.settings.prompt, parts), answer)

    def _gradable(self, answer: str, where: str) -> str:
        """The answer as it is compared. Raises UserError where nothing could ever be found equal to it."""
        grading = self.settings.grading
        if grading == "number" and final_number(answer) is None:
            raise UserError(f"{where}: expected a number as the answer, found {answer!r}")
        if grading == "choice":
            letter = option_letter(answer)
            if letter is None:
                raise UserError(f"{where}: expected the letter of an option as the answer, found {answer!r}")
            return letter
        fault = gold_fault(answer) if grading == "math" else None
        if fault:
            raise UserError(f"{where}: expected a mathematical answer, found one that {fault}: {answer[-60:]!r}")
        return answer
