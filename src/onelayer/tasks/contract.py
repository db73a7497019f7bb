"""The contracts of the domains: problems with a grade for an answer, or problems with a world to act in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

# How a judgement came about. "ok": the answer was judged. "timeout": the model's own program, or the comparison of its
# answer, ran out of its time. "crashed": the program died, or broke a limit. "broken": the judge or the world failed,
# which says nothing of the answer.
Status: TypeAlias = Literal["ok", "timeout", "crashed", "broken"]


@dataclass(frozen=True)
class Problem:
    """One problem: what the model is shown, and what is right.

    In a domain of worlds the prompt names the instance; what the agent reads is the world's to say.
    """

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
        status: how the judgement came about.
    """

    correct: bool
    extracted: str | None
    status: Status = "ok"


@dataclass(frozen=True)
class Copy:
    """A training problem that was left out as a copy of an evaluation question.

    Attributes:
        problem: the training problem.
        set: the evaluation set.
        evaluation_id: the question that it copies.
        overlap: the share of that question that it holds.
    """

    problem: Problem
    set: str
    evaluation_id: str
    overlap: float

    def as_row(self) -> dict[str, Any]:
        """The copy as one JSON Lines row."""
        return self.problem.as_row() | {
            "set": self.set, "evaluation_id": self.evaluation_id, "overlap": round(self.overlap, 4),
        }  # fmt: skip


@dataclass(frozen=True)
class Split:
    """The problems of a split and, for the receipt, what was left out of it and why.

    Attributes:
        problems: the problems.
        dropped: how many rows were left out, by reason.
        copies: those left out as copies of evaluation questions; None where no such copies were looked for.
        sets: for each set of rows that the split is drawn from, where it lies and how many rows it has.
    """

    problems: tuple[Problem, ...]
    dropped: dict[str, int]
    copies: tuple[Copy, ...] | None = None
    sets: tuple[dict[str, Any], ...] = ()


class Domain(Protocol):
    """What every domain has: problems."""

    def splits(self) -> dict[str, Split]:
        """Make the problems of ``train``, ``select`` and ``report``, disjoint.

        Raises UserError where the sources cannot give as many as asked.
        """


@runtime_checkable
class Task(Domain, Protocol):
    """A domain of single answers. The reward in training is the grade in evaluation."""

    def grade(self, problem: Problem, completion: str) -> Grade:
        """Judge a completion (the decoded text after the prompt, without the end token)."""


@runtime_checkable
class TimedTask(Task, Protocol):
    """A domain of single answers some of which take too long to judge, through what they are."""

    def get_ready(self) -> None:
        """Load what judging needs, before the first answer's time begins to run."""

    @property
    def overdue(self) -> Grade | None:
        """The judgement of an answer on which the judge was killed; None where that is a failure of the judge."""


@dataclass(frozen=True)
class View:
    """What an agent sees before it acts.

    Attributes:
        text: the observation, as the agent reads it.
        anchor: the key of the state; steps of one group that share it are compared by GiGPO.
    """

    text: str
    anchor: str


@dataclass(frozen=True)
class Outcome:
    """What an action led to.

    Attributes:
        view: what the agent sees next (the last view, where the episode is over).
        reward: the world's own reward for this step.
        done: whether the episode is over.
        success: whether the task is fulfilled.
        valid: whether the action was one that the world understands here.
    """

    view: View
    reward: float
    done: bool
    success: bool
    valid: bool


class WorldError(RuntimeError):
    """The world itself failed (crashed, hung, or answered nonsense): the episode is broken, not lost."""


class World(Protocol):
    """One world, playing one episode at a time.

    Every method may raise WorldError; after one, `reset` starts afresh or raises again.
    """

    def reset(self, problem: Problem) -> View:
        """Begin the episode of a problem."""

    def act(self, action: str) -> Outcome:
        """Take an action."""

    def close(self) -> None:
        """Let go of everything the world holds; it is not used again."""


@runtime_checkable
class AgentTask(Domain, Protocol):
    """A domain of worlds: an episode is won or lost, and the score is the share of episodes won."""

    @property
    def max_turns(self) -> int:
        """After so many actions an episode is over."""

    @property
    def frames(self) -> tuple[str, str]:
        """How the first view and every later one are put to the agent: texts around ``{observation}``."""

    @property
    def isolated(self) -> bool:
        """Whether each world lives in a process of its own, so that many can be called at the same time."""

    def world(self) -> World:
        """Make a world. Raises UserError where what it needs (Java, a package, game files) is missing."""


# A line that teaches a micro model: pieces of text, each with whether its tokens are learned.
Line: TypeAlias = tuple[tuple[str, bool], ...]


@runtime_checkable
class Corpus(Protocol):
    """A domain that can also teach a micro model: an alphabet and lines."""

    @property
    def alphabet(self) -> str:
        """Every character that a prompt or an answer can hold."""

    def corpus(self, seed: int) -> Iterator[Line]:
        """Draw lines without end, none of them from ``select`` or ``report``."""
