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

from onelayer.config import ArithmeticTask
from onelayer.errors import UserError
from onelayer.seeds import derive_seed
from onelayer.tasks.contract import Grade, Problem, Split

# Shares of all possible problems that belong to each split. A problem's split is decided by its own hash,
# so it never depends on how many problems the study asks for.
_SHARES = {"report": 0.25, "select": 0.15, "train": 0.60}
# How many draws for every possible problem before a split counts as drawn dry.
_PATIENCE = 20


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
        """Draw the problems; growing one split leaves its first problems and the other splits as they were."""
        return {split: Split(self._draw(split), {}) for split in _SHARES}

    def grade(self, problem: Problem, completion: str) -> Grade:
        """Right only where the completion is the answer exactly."""
        extracted = completion.strip()
        return Grade(extracted == problem.answer, extracted or None)

    def corpus(self, seed: int) -> Iterator[tuple[str, str]]:
        """Lines from the train share, a part of them (``careless``) worked carelessly."""
        rng = random.Random(seed)
        while True:
            prompt, right, careless = self._line(rng)
            if self._split_of(prompt) == "train":
                yield prompt, careless if rng.random() < self.settings.careless else right

    def _line(self, rng: random.Random) -> tuple[str, str, str]:
        low, high = 10 ** (self.settings.digits - 1), 10**self.settings.digits - 1
        a, b = rng.randint(low, high), rng.randint(low, high)
        operation = rng.choice(self.settings.operations)
        if operation == "-":
            a, b = max(a, b), min(a, b)
        return (f"{a}{operation}{b}=", *worked(a, operation, b))

    def _split_of(self, prompt: str) -> str:
        point = derive_seed(self.seed, "split", prompt) / 2**31
        for split, share in _SHARES.items():
            if point < share:
                return split
            point -= share
        return "train"

    def _draw(self, split: str) -> tuple[Problem, ...]:
        wanted = getattr(self.settings.sizes, split)
        pairs = (9 * 10 ** (self.settings.digits - 1)) ** 2
        rng = random.Random(derive_seed(self.seed, "problems", split))
        drawn: dict[str, Problem] = {}
        for _ in range(_PATIENCE * pairs * len(self.settings.operations)):
            prompt, right, _careless = self._line(rng)
            if self._split_of(prompt) == split:
                drawn.setdefault(prompt, Problem(id=prompt.rstrip("="), prompt=prompt, answer=right))
            if len(drawn) == wanted:
                return tuple(drawn.values())
        raise UserError(
            f"task.sizes.{split}: found {wanted}, expected at most {len(drawn)}, for there are no more problems of"
            f" {self.settings.digits} digits and {len(self.settings.operations)} operations in this split"
        )


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
