"""Small real Python: an expression in x from its values at 0 and at 100, judged on inputs that are not shown.

    23,4523=    →    45*x+23

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

from onelayer.grading.sandbox import Sandbox
from onelayer.task_settings import ExpressionsTask
from onelayer.tasks.contract import Grade, Line, Problem, Split
from onelayer.tasks.generated import draw_splits, split_of

_SHOWN = (0, 100)
_HIDDEN = (1, 2, 10, 31, -7)


@dataclass(frozen=True)
class _Function:
    """a·x + b: a the hundreds of its value at 100, b the rest."""

    a: int
    b: int

    @classmethod
    def drawn(cls, rng: random.Random) -> _Function:
        return cls(rng.randint(2, 99), rng.randint(10, 99))

    def __call__(self, x: int) -> int:
        return self.a * x + self.b

    def prompt(self) -> str:
        return ",".join(str(self(x)) for x in _SHOWN) + "="

    def right(self) -> str:
        return f"{self.a}*x{self.b:+d}"

    def careless(self) -> str:
        return f"x{self.b:+d}"


@dataclass(frozen=True)
class Expressions:
    """The domain of expressions."""

    settings: ExpressionsTask
    seed: int

    alphabet = "0123456789x+-*/%(),="

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
        return Sandbox.of(self.settings.sandbox)

    @cached_property
    def _judged(self) -> dict[tuple[str, str], Grade]:
        """Judgements made already: a small model writes the same few expressions again and again."""
        return {}


def _problem(rng: random.Random) -> Problem:
    function = _Function.drawn(rng)
    prompt = function.prompt()
    tests = {"inputs": _HIDDEN, "outputs": [function(x) for x in _HIDDEN]}
    return Problem(id=prompt.rstrip("="), prompt=prompt, answer=json.dumps(tests))
