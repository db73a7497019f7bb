"""Generated arithmetic, answers written with the lowest digit first.

The corpus that the base learns from holds each line worked either with care or carelessly: sums and
differences without carry or borrow, and the smaller number where ``#`` asks for the larger one. The base so
learns both ways of working and takes either at random, and reinforcement learning can teach it to prefer
the right one.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from onelayer.task_settings import ArithmeticTask
from onelayer.tasks.contract import Grade, Line, Problem, Split
from onelayer.tasks.generated import draw_splits, split_of


@dataclass(frozen=True)
class Arithmetic:
    """The arithmetic domain."""

    settings: ArithmeticTask
    seed: int

    @property
    def alphabet(self) -> str:
        """Every character of a prompt or an answer."""
        return "0123456789=" + "".join(self.settings.operations)

    def splits(self) -> dict[str, Split]:
        """Draw the problems."""
        return draw_splits(self.seed, self.settings.sizes, self._problem)

    def grade(self, problem: Problem, completion: str) -> Grade:
        """Right only where the completion is the answer exactly."""
        extracted = completion.strip()
        return Grade(extracted == problem.answer, extracted or None)

    def corpus(self, seed: int) -> Iterator[Line]:
        """Lines from the train share, a part of them (``careless``) worked carelessly."""
        rng = random.Random(seed)
        while True:
            prompt, right, careless = self._line(rng)
            if split_of(self.seed, prompt) == "train":
                yield (prompt, False), (careless if rng.random() < self.settings.careless else right, True)

    def _line(self, rng: random.Random) -> tuple[str, str, str]:
        low, high = 10 ** (self.settings.digits - 1), 10**self.settings.digits - 1
        a, b = rng.randint(low, high), rng.randint(low, high)
        operation = rng.choice(self.settings.operations)
        if operation == "-":
            a, b = max(a, b), min(a, b)
        return (f"{a}{operation}{b}=", *worked(a, operation, b))

    def _problem(self, rng: random.Random) -> Problem:
        prompt, right, _careless = self._line(rng)
        return Problem(id=prompt.rstrip("="), prompt=prompt, answer=right)


def worked(a: int, operation: str, b: int) -> tuple[str, str]:
    """The right answer and the careless one, lowest digit first."""
    if operation == "#":
        return _reversed(max(a, b)), _reversed(min(a, b))
    columns = zip(_reversed(a), _reversed(b).ljust(len(str(a)), "0"), strict=True)
    if operation == "+":
        return _reversed(a + b), "".join(str((int(x) + int(y)) % 10) for x, y in columns)
    return _reversed(a - b), "".join(str((int(x) - int(y)) % 10) for x, y in columns)


def _reversed(number: int) -> str:
    return str(number)[::-1]
