"""Problems from sets of rows: drawing the splits, without repeats and without copies of evaluation questions.

Rows are read again for each step, and only their numbers are kept between, for a training set may be larger than
memory.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from onelayer.errors import UserError
from onelayer.seeds import derive_seed
from onelayer.source_settings import QuestionSource, RowsTask, Source
from onelayer.tasks.answers import read_options
from onelayer.tasks.contract import Copy, Problem, Split
from onelayer.tasks.decontamination import EvaluationQuestions, Overlap
from onelayer.tasks.sources import Filter, Row, rows_of, value_of

# Evaluation splits choose first, so that a larger training set never changes what is measured.
_ORDER = ("report", "select", "train")
_REPEATED = "already in another row or split"

# Makes a problem of a row; the source is of the kind that the task has.
Make: TypeAlias = Callable[[Row, Any, str], Problem]


@dataclass(frozen=True)
class _Candidate:
    """A row that can be drawn: its number, its place in the seed's order, and its question's digest."""

    number: int
    order: int
    question: bytes


@dataclass(frozen=True)
class _Scan:
    """The rows of a source that can be drawn, in the seed's order, and what its filters left out."""

    candidates: tuple[_Candidate, ...]
    rows: int
    dropped: Counter[str]


def draw_splits_from_rows(task: RowsTask, seed: int, make: Make, against: Sequence[Source] = ()) -> dict[str, Split]:
    """Draw each split from its sources, leaving out questions that an earlier split or row already holds.

    Training rows that copy an evaluation question are left out too (`onelayer.tasks.decontamination`). They are held
    against every question of an evaluation set; of a set that training rows are drawn from as well, against those that
    the evaluation splits drew.

    Args:
        task: the sources of each split, how many problems each draws, and how copies are found.
        seed: the study's; it orders the rows.
        make: the problem of a row, from the row, its source and ``set: row N``; raises UserError where it cannot be
            made. The id is set here.
        against: further evaluation sets, no question of which training rows may copy, whatever else is drawn of them.

    Raises UserError where rows cannot be read or used, or where there are too few.
    """
    return _Drawing(task, seed, make, against).splits()


def usable_rows(source: Source, make: Make, taken: Filter) -> Iterator[tuple[int, Row, Problem]]:
    """(number, row, problem) of each row that the source's filters take and of which a problem can be made.

    Raises UserError where a row cannot be read, or cannot be used and the source says that this ends the work.
    """
    for number, row in rows_of(source):
        where = f"{source.origin}: row {number}"
        if not taken.takes(row, where):
            continue
        try:
            if not taken.takes_question(plain_question(row, source, where)):
                continue
            problem = make(row, source, where)
        except UserError as error:
            if source.unusable == "stop":
                raise
            taken.refuse(str(error))
            continue
        yield number, row, problem


def every_problem(source: Source, make: Make) -> tuple[Problem, ...]:
    """Every row that a source takes as a problem, in its order; ids begin with the set's name.

    Raises UserError where rows cannot be read or used, or none is left.
    """
    taken = Filter(source)
    problems = tuple(
        Problem(f"{source.set_name}:{number}", problem.prompt, problem.answer)
        for number, _, problem in usable_rows(source, make, taken)
    )
    if not problems:
        raise UserError(f"{source.origin}: expected rows to ask, found none of {taken.rows} ({taken.described()})")
    return problems


def asked_of(row: Row, source: Source, seed: int, where: str) -> str:
    """What a row asks, by which repeats and copies are found: its question, with its options where it has any."""
    question = plain_question(row, source, where)
    if isinstance(source, QuestionSource) and source.options is not None:
        question += "\n" + read_options(row, source, source.options, seed, where)[0]
    return question


def plain_question(row: Row, source: Source, where: str) -> str:
    """The question of a row. Raises UserError where there is none."""
    return str(value_of(row, source.question, where)).strip()


def filled(prompt: str, parts: dict[str, str]) -> str:
    """A prompt with its ``{name}`` replaced by the part of that name; braces inside a part are text."""
    return re.sub(r"\{(\w+)\}", lambda found: parts.get(found[1], found[0]), prompt)


class _Drawing:
    """One drawing of the splits."""

    def __init__(self, task: RowsTask, seed: int, make: Make, against: Sequence[Source]) -> None:
        self._task = task
        self._seed = seed
        self._make = make
        self._against = against
        self._scans: dict[str, _Scan] = {}
        self._taken: set[bytes] = set()
        # What the evaluation splits drew, as (origin, row).
        self._evaluated: set[tuple[str, int]] = set()

    def splits(self) -> dict[str, Split]:
        return {split: self._split(split) for split in _ORDER}

    def _split(self, split: str) -> Split:
        sources: tuple[Source, ...] = getattr(self._task.sources, split)
        looks_for_copies = split == "train" and self._task.decontamination is not None
        questions = self._evaluation_questions() if looks_for_copies else None
        problems: list[Problem] = []
        copies: list[Copy] = []
        dropped: Counter[str] = Counter()
        sets = []
        for source in sources:
            scan = self._scan(source)
            found = self._copies(source, scan, questions) if questions is not None else {}
            chosen, repeated = self._choose(split, source, scan, found)
            made = {number: problem for number, _, problem in self._problems(source, {*chosen, *found})}
            problems += [made[number] for number in chosen]
            copies += [Copy(made[number], one.set, one.id, one.share) for number, one in sorted(found.items())]
            left_out = scan.dropped + repeated + Counter(f"copies of {one.set}" for one in found.values())
            dropped += left_out
            sets.append(_described(source, scan, left_out))
        return Split(tuple(problems), dict(dropped), tuple(copies) if looks_for_copies else None, tuple(sets))

    def _scan(self, source: Source) -> _Scan:
        key = source.model_dump_json()
        if key not in self._scans:
            self._scans[key] = self._scanned(source)
        return self._scans[key]

    def _scanned(self, source: Source) -> _Scan:
        taken = Filter(source)
        candidates = []
        for number, row, _ in usable_rows(source, self._make, taken):
            asked = asked_of(row, source, self._seed, f"{source.origin}: row {number}")
            digest = hashlib.sha256(" ".join(asked.lower().split()).encode()).digest()[:16]
            candidates.append(_Candidate(number, derive_seed(self._seed, "row", asked), digest))
        if not candidates:
            raise UserError(
                f"{source.origin}: expected rows to draw from, found none of {taken.rows} ({taken.described()})"
            )
        candidates.sort(key=lambda candidate: candidate.order)
        return _Scan(tuple(candidates), taken.rows, taken.dropped)

    def _choose(
        self, split: str, source: Source, scan: _Scan, copies: Collection[int]
    ) -> tuple[list[int], Counter[str]]:
        """The numbers of the rows that a split takes of a source, and how many it passed over as repeats."""
        wanted: int | str = getattr(self._task.sizes, split)
        repeated = 0
        chosen: list[int] = []
        for candidate in scan.candidates:
            if len(chosen) == wanted:
                break
            if candidate.number in copies:
                continue
            if candidate.question in self._taken:
                repeated += 1
                continue
            self._taken.add(candidate.question)
            chosen.append(candidate.number)
        if not chosen or (wanted != "all" and len(chosen) < int(wanted)):
            raise UserError(
                f"{source.origin}: task.sizes.{split} asks for {wanted} problems, found {len(chosen)} that no other"
                f" split holds ({scan.rows} rows, {len(copies)} of them copies of evaluation questions)"
            )
        if split != "train":
            self._evaluated.update((source.origin, number) for number in chosen)
        return chosen, Counter({_REPEATED: repeated})

    def _problems(self, source: Source, numbers: Collection[int]) -> Iterator[tuple[int, str, Problem]]:
        """(number, what is asked, problem) of these rows."""
        for number, row in rows_of(source, numbers):
            where = f"{source.origin}: row {number}"
            made = self._make(row, source, where)
            asked = asked_of(row, source, self._seed, where)
            yield number, asked, Problem(f"{source.set_name}:{number}", made.prompt, made.answer)

    def _evaluation_questions(self) -> EvaluationQuestions:
        """Every question that no training row may copy."""
        assert self._task.decontamination is not None
        questions = EvaluationQuestions(self._task.decontamination)
        shared = {source.origin for source in self._task.sources.train}
        seen = set()
        own = (*self._task.sources.report, *self._task.sources.select)
        for source, whole in (
            *((one, one.origin not in shared) for one in own),
            *((one, True) for one in self._against),
        ):
            key = source.model_dump_json(), whole
            if key in seen:
                continue
            seen.add(key)
            for number, asked in self._asked(source, whole):
                questions.add(source.set_name, f"{source.set_name}:{number}", asked)
        return questions

    def _asked(self, source: Source, whole: bool) -> Iterator[tuple[int, str]]:
        """(number, what is asked) of an evaluation set's rows, or of those that were drawn."""
        drawn = None if whole else {number for origin, number in self._evaluated if origin == source.origin}
        taken = Filter(source)
        for number, row in rows_of(source, drawn):
            where = f"{source.origin}: row {number}"
            try:
                if taken.takes(row, where) and taken.takes_question(plain_question(row, source, where)):
                    yield number, asked_of(row, source, self._seed, where)
            except UserError:
                if source.unusable == "stop":
                    raise

    def _copies(self, source: Source, scan: _Scan, questions: EvaluationQuestions) -> dict[int, Overlap]:
        """The rows of a training set that copy an evaluation question, but for the evaluation's own rows."""
        numbers = {one.number for one in scan.candidates if (source.origin, one.number) not in self._evaluated}
        found = {}
        for number, row in rows_of(source, numbers):
            overlap = questions.find(asked_of(row, source, self._seed, f"{source.origin}: row {number}"))
            if overlap is not None:
                found[number] = overlap
        return found


def _described(source: Source, scan: _Scan, left_out: Counter[str]) -> dict[str, Any]:
    """A set, for the receipt."""
    dropped = {why: count for why, count in left_out.items() if count}
    return {"set": source.set_name, **source.place, "rows": scan.rows, "dropped": dropped}
