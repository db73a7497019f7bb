"""Small real Python: an expression in x from two input-output examples, judged on inputs that are not shown.

    3>11,4>14=    →    3*x+2

The corpus that the base learns from holds each problem answered either with care or carelessly: with an expression that
fits the first example alone. The base so learns both, and takes either at random; reinforcement learning with hidden
tests can teach it to fit them all. The answer is run as the Python it is, in the sandbox: any expression that computes
the same is right, and any other is wrong, whatever it looks like.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from onelayer.grading.sandbox import Limits, Sandbox
from onelayer.task_settings import ExpressionsTask
from onelayer.tasks.contract import Grade, Line, Problem, Split
from onelayer.tasks.generated import draw_splits, split_of

_SHOWN = 2
_HIDDEN = (0, 1, 5, 10, 13, 20, 31)


@dataclass(frozen=True)
class _Function:
    """a·x + b, and the first of the inputs that are shown."""

    a: int
    b: int
    first: int

    @classmethod
    def drawn(cls, rng: random.Random) -> _Function:
        return cls(rng.randint(2, 9), rng.randint(-9, 20), rng.randint(0, 8))

    def __call__(self, x: int) -> int:
        return self.a * x + self.b

    def prompt(self) -> str:
        shown = range(self.first, self.first + _SHOWN)
        return ",".join(f"{x}>{self(x)}" for x in shown) + "="

    def right(self) -> str:
        return f"{self.a}*x{self.b:+d}"

    def careless(self) -> str:
        return f"x{self(self.first) - self.first:+d}"


@dataclass(frozen=True)
class Expressions:
    """The domain of expressions."""

    settings: ExpressionsTask
    seed: int

    alphabet = "0123456789x+-*/%()>,="

    def splits(self) -> dict[str, Split]:
        """Draw the problems."""
        return draw_splits(self.seed, self.settings.sizes, _problem)

    def grade(self, problem: Problem, completion: str) -> Grade:
        """Run the expression on the hidden inputs. Raises SandboxError where the sandbox does not work."""
        expression = completion.strip()
        key = (problem.answer, expression)
        if key not in self._judged:
            tests = json.loads(problem.answer)
            verdict = self._sandbox.judge_calls(
                f"def f(x):\n    return {expression}\n", "f", [(x,) for x in tests["inputs"]], tests["outputs"]
            )
            self._judged[key] = Grade(verdict.passed, expression or None, verdict.status)
        return self._judged[key]

    def corpus(self, seed: int) -> Iterator[Line]:
        """Lines from the train share, a part of them (``careless``) answered carelessly."""
        rng = random.Random(seed)
        while True:
            function = _Function.drawn(rng)
            prompt = function.prompt()
            if split_of(self.seed, prompt) == "train":
                careless = rng.random() < self.settings.careless
                yield (prompt, False), (function.careless() if careless else function.right(), True)

    @cached_property
    def _sandbox(self) -> Sandbox:
        limits = self.settings.sandbox
        return Sandbox(Limits(seconds=limits.seconds, memory_mb=limits.memory_mb), limits.fallback)

    @cached_property
    def _judged(self) -> dict[tuple[str, str], Grade]:
        """Judgements made already: a small model writes the same few expressions again and again."""
        return {}


def _problem(rng: random.Random) -> Problem:
    function = _Function.drawn(rng)
    hidden = [x for x in _HIDDEN if not function.first <= x < function.first + _SHOWN]
    prompt = function.prompt()
    tests = {"inputs": hidden, "outputs": [function(x) for x in hidden]}
    return Problem(id=prompt.rstrip("="), prompt=prompt, answer=json.dumps(tests))
