"""Questions with a short answer, from the user's own files or from data sets of the hub."""

from __future__ import annotations

from dataclasses import dataclass

from onelayer.errors import UserError
from onelayer.grading.numbers import final_number, same_number
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
        return draw_splits_from_rows(self.settings, self.seed, self._problem, self.against)

    def grade(self, problem: Problem, completion: str) -> Grade:
        """Compare text exactly, or the final number of the completion with the answer's; any accepted one will do."""
        if self.settings.grading == "exact":
            text = completion.strip()
            return Grade(text in accepted_answers(problem.answer), text or None)
        found = final_number(completion)
        right = found is not None and any(same_number(found, one) for one in accepted_answers(problem.answer))
        return Grade(right, found)

    def _problem(self, row: Row, source: QuestionSource, where: str) -> Problem:
        parts = {"question": plain_question(row, source, where)}
        if source.options is not None:
            parts["options"], answer = read_options(row, source, source.options, self.seed, where)
        else:
            answers = read_answers(row, source, where)
            if self.settings.grading == "number":
                for one in answers:
                    if final_number(one) is None:
                        raise UserError(f"{where}: expected a number as the answer, found {one!r}")
            answer = as_one_text(answers)
        return Problem("", filled(self.settings.prompt, parts), answer)
