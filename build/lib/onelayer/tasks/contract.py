"""The one contract every domain keeps: problems of a split, and a grade for an answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class Problem:
    """One problem: what the model is shown, and what is right."""

    id: str
    prompt: str
    answer: str

    def as_row(self) -> dict[str, Any]:
        """The problem as one JSON Lines row."""
        return asdict(self)


@dataclass(frozen=True)
class Grade:
    """A judgement of one completion.

    Attributes:
        correct: whether it answers the problem.
        extracted: the answer found in it; None where none could be found (said next to the score).
    """

    correct: bool
    extracted: str | None


@dataclass(frozen=True)
class Split:
    """The problems of a split and, for the receipt, what was left out of it and why."""

    problems: tuple[Problem, ...]
    dropped: dict[str, int]


class Task(Protocol):
    """A domain. The reward in training is the grade in evaluation."""

    def splits(self) -> dict[str, Split]:
        """Make the problems of ``train``, ``select`` and ``report``, disjoint.

        Raises UserError where the sources cannot give as many as asked.
        """

    def grade(self, problem: Problem, completion: str) -> Grade:
        """Judge a completion (the decoded text after the prompt, without the end token)."""


class Corpus(Protocol):
    """A task that can also teach a micro model: an alphabet and lines of (prompt, answer)."""

    @property
    def alphabet(self) -> str:
        """Every character that a prompt or an answer can hold."""

    def corpus(self, seed: int) -> Iterator[tuple[str, str]]:
        """Draw (prompt, answer) lines without end, none of them from ``select`` or ``report``."""
