"""Programs judged on tests, from rows in the manner of HumanEval, MBPP or LiveCodeBench (`onelayer.tasks.formats`).

A row holds a question, its tests (one text, or a list of assertions), and, as in HumanEval, the name of the function
that is asked for; a contest's tests feed a program's stdin, or call a method. The tests never enter the sandbox in
which the model's program runs (`onelayer.grading.sandbox`).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from onelayer.errors import UserError
from onelayer.grading.sandbox import Sandbox
from onelayer.source_settings import CodeSource, Source
from onelayer.task_settings import CodeTask
from onelayer.tasks.contest import contest_answer, contest_program
from onelayer.tasks.contract import Grade, Problem, Split
from onelayer.tasks.formats import FORMATS
from onelayer.tasks.rows import draw_splits_from_rows, filled
from onelayer.tasks.sources import Row

_FENCED = re.compile(r"```(?:python|py)?[ \t]*\n(.*?)(?:```|\Z)", re.DOTALL)
# A base model that continues a function goes on writing after it: a line that starts otherwise than these is prose.
_CODE_LINE = re.compile(r"(?:[ \t)\]}]|def |class |@|import |from |#|$)")


@dataclass(frozen=True)
class Code:
    """Rows as programming problems; a row's split is drawn by the study's seed."""

    settings: CodeTask
    seed: int
    against: tuple[Source, ...] = ()

    def splits(self) -> dict[str, Split]:
        """Draw the splits. Raises UserError, naming the file and row, for what cannot be used."""
        return draw_splits_from_rows(self.settings, self.seed, self.problem, self.against)

    def grade(self, problem: Problem, completion: str) -> Grade:
        """Run the program on the tests. Raises SandboxError where the sandbox does not work."""
        tests = json.loads(problem.answer)
        runner = tests.get("runner")
        program = self.program(tests["setup"], completion) if runner is None else _whole_program(completion)
        judged = program if runner is None else contest_program(program, runner)
        verdict = self._sandbox.judge_tests(judged, tests["tests"], tests["entry_point"], tests["setup"])
        return Grade(verdict.passed, program.strip() or None, verdict.status)

    def program(self, question: str, completion: str) -> str:
        """The program in a completion: its first fenced block, or the question's code continued.

        Where ``complete_prompt`` is set, the question is code that the completion goes on with, unless a fenced block
        holds a whole program of its own.
        """
        fenced = _FENCED.search(completion)
        body = fenced.group(1) if fenced else completion
        if not self.settings.complete_prompt:
            return body
        if fenced and re.search(r"^(?:def|class) ", body, re.MULTILINE):
            return f"{question}\n    pass\n\n{body}" if _is_stub(question) else body
        return question + (body if fenced else _continuation(body))

    def problem(self, row: Row, source: CodeSource, where: str) -> Problem:
        """The problem of a row, without an id. Raises UserError, naming the row, where none can be made of it."""
        made = FORMATS[source.format](row, source, where)
        setup = made.question if self.settings.complete_prompt else made.setup
        for name, code in (("tests", made.tests), ("setup", setup)):
            try:
                compile(code, where, "exec")
            except (SyntaxError, ValueError) as error:
                raise UserError(f"{where}: expected Python in the {name}, found: {error}") from None
        prompt = filled(self.settings.prompt, {"question": made.question, "tests": made.tests})
        answer: dict[str, Any] = {"tests": made.tests, "entry_point": made.entry_point, "setup": setup}
        if made.runner is not None:
            answer["runner"] = made.runner
        return Problem("", prompt, json.dumps(answer, ensure_ascii=False))

    @cached_property
    def _sandbox(self) -> Sandbox:
        return Sandbox.of(self.settings.sandbox)


def _whole_program(completion: str) -> str:
    """The last fenced block of a completion; else all of it."""
    fenced = contest_answer(completion)
    return completion if fenced is None else fenced


def _is_stub(question: str) -> bool:
    """Whether the question's code can stand alone, so that its helpers can come before a whole program."""
    try:
        compile(f"{question}\n    pass\n", "question", "exec")
    except (SyntaxError, ValueError):
        return False
    return True


def _continuation(text: str) -> str:
    """The lines of a continued function, up to the first that is neither its body nor other code."""
    lines = text.split("\n")
    kept = lines[:1]
    for line in lines[1:]:
        if not _CODE_LINE.match(line):
            break
        kept.append(line)
    return "\n".join(kept) + "\n"
