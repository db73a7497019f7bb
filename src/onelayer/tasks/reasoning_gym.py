"""Problems that a data set of reasoning-gym generates, and judges.

Entries come one after another from the study's seed; which split one belongs to is decided by the hash of its question,
so the splits never share one. An entry goes whole into the problem's answer, for some judges look at what it was made
from, not at one right answer.

The answer of a completion is what its last ``<answer>`` tag holds; else what its last ``\\boxed{}`` holds; else what
follows the last "answer is" or "answer:" on its line; else its last line that is not empty. It is right where the data
set's own ``score_answer`` gives it 1: the partial scores of some data sets (0.01 for any well-formed answer, say) count
as wrong. A few judges raise at an answer of another form than theirs (`prime_factorization` at anything but numbers):
such an answer is wrong, and counts among those in which none was found.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from onelayer.errors import UserError
from onelayer.grading.extraction import boxed_answer
from onelayer.seeds import derive_seed
from onelayer.task_settings import ReasoningGymTask
from onelayer.tasks.contract import Grade, Problem, Split
from onelayer.tasks.generated import split_of
from onelayer.tasks.rows import filled

_RIGHT = 1 - 1e-9
# Entries of one data set before the next seed: some data sets make all of them at once.
_CHUNK = 500
# The splits count as drawn dry after this many entries in a row that brought nothing new.
_PATIENCE = 2000
_TAGGED = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
_SAID = re.compile(r"answer(?:\s+is\b|\s*:)\**:?[ \t]*([^\n]*\S)", re.IGNORECASE)


@dataclass(frozen=True)
class ReasoningGym:
    """The domain of one reasoning-gym data set."""

    settings: ReasoningGymTask
    seed: int

    def splits(self) -> dict[str, Split]:
        """Draw the splits; growing one leaves its first problems as they were.

        Raises UserError where the data set is unknown, its parameters are not its own, or it gives too few problems.
        """
        drawn: dict[str, dict[str, Problem]] = {"report": {}, "select": {}, "train": {}}
        wanted = {split: getattr(self.settings.sizes, split) for split in drawn}
        misses = 0
        for number, entry in self._entries():
            short = [split for split in drawn if len(drawn[split]) < wanted[split]]
            if not short:
                break
            prompt = filled(self.settings.prompt, {"question": str(entry["question"])})
            split = split_of(self.seed, prompt)
            if split in short and prompt not in drawn[split]:
                answer = json.dumps(_as_json(entry), ensure_ascii=False)
                self._check(entry, answer)
                drawn[split][prompt] = Problem(f"{self.settings.dataset}:{number}", prompt, answer)
                misses = 0
            else:
                misses += 1
            if misses > _PATIENCE:
                raise UserError(
                    f"task.sizes.{short[0]}: found {wanted[short[0]]}, expected at most {len(drawn[short[0]])}, for"
                    f" {self.settings.dataset} with these parameters gives no more problems in this split"
                )
        return {split: Split(tuple(problems.values()), {}) for split, problems in drawn.items()}

    def grade(self, problem: Problem, completion: str) -> Grade:
        """Let the data set judge the answer in a completion."""
        answer = find_answer(completion)
        if answer is None:
            return Grade(False, None)
        try:
            score = self._judge.score_answer(answer, _from_json(json.loads(problem.answer)))
        except (ValueError, TypeError, LookupError, ArithmeticError):
            return Grade(False, None)
        return Grade(float(score) >= _RIGHT, answer)

    def _entries(self) -> Iterator[tuple[int, dict[str, Any]]]:
        chunk = 0
        while True:
            made = self._data_set(derive_seed(self.seed, "reasoning-gym", chunk))
            for index in range(_CHUNK):
                yield chunk * _CHUNK + index, made[index]
            chunk += 1

    def _check(self, entry: dict[str, Any], written: str) -> None:
        """See that the right answer, where there is one, is still right once the entry has been written and read."""
        if entry.get("answer") is None:
            return
        score = self._judge.score_answer(str(entry["answer"]), _from_json(json.loads(written)))
        if not float(score) >= _RIGHT:
            raise UserError(
                f"task.dataset: {self.settings.dataset} gives its own answer {str(entry['answer'])[:60]!r} the score"
                f" {score}, expected 1; it cannot be used here"
            )

    @cached_property
    def _judge(self) -> Any:
        return self._data_set(0)

    def _data_set(self, seed: int) -> Any:
        try:
            from reasoning_gym.factory import DATASETS, create_dataset
        except ImportError as error:
            raise UserError(
                f"task.kind reasoning-gym needs `pip install 'onelayer[reasoning]'`, found: {error}"
            ) from None
        name = self.settings.dataset
        if name not in DATASETS:
            raise UserError(f"task.dataset: found {name!r}, expected one of {', '.join(sorted(DATASETS))}")
        known = set(DATASETS[name][1].__dataclass_fields__) - {"seed", "size"}
        for key in self.settings.parameters:
            if key not in known:
                raise UserError(f"task.parameters.{key}: unknown; {name} has {', '.join(sorted(known))}")
        try:
            return create_dataset(name, seed=seed, size=_CHUNK, **self.settings.parameters)
        except (AssertionError, TypeError, ValueError) as error:
            raise UserError(
                f"task.parameters: {name} refuses {self.settings.parameters}: {error or type(error).__name__}"
            ) from None


def find_answer(completion: str) -> str | None:
    """The answer in a completion, found as the module says; None where it is empty."""
    tagged = _TAGGED.findall(completion)
    if tagged:
        return tagged[-1].strip() or None
    boxed = boxed_answer(completion)
    if boxed is not None and boxed.way != "unclosed box":
        return boxed.text
    said = _SAID.findall(completion)
    if said:
        return _bare(said[-1])
    lines = [line for line in completion.split("\n") if line.strip()]
    return _bare(lines[-1]) if lines else None


def _bare(text: str) -> str | None:
    """A line without Markdown's bold and the full stop that ends its sentence."""
    bare = text.strip().strip("*").strip()
    if bare.endswith(".") and not bare.endswith(".."):
        bare = bare[:-1].rstrip("* ")
    return bare or None


def _as_json(value: Any) -> Any:
    """A value as JSON that keeps tuples and keys that are no text apart from lists and text."""
    if isinstance(value, dict):
        if all(isinstance(key, str) and not key.startswith("$") for key in value):
            return {key: _as_json(held) for key, held in value.items()}
        return {"$pairs": [[_as_json(key), _as_json(held)] for key, held in value.items()]}
    if isinstance(value, tuple):
        return {"$tuple": [_as_json(held) for held in value]}
    if isinstance(value, list):
        return [_as_json(held) for held in value]
    if isinstance(value, (set, frozenset)):
        return {"$set": [_as_json(held) for held in sorted(value, key=repr)]}
    if value is None or isinstance(value, (str, int, float)):
        return value
    raise UserError(f"task.dataset: expected entries of plain data, found {type(value).__name__}")


def _from_json(value: Any) -> Any:
    """What `_as_json` was given."""
    if isinstance(value, list):
        return [_from_json(held) for held in value]
    if isinstance(value, dict):
        if "$pairs" in value:
            return {_from_json(key): _from_json(held) for key, held in value["$pairs"]}
        if "$tuple" in value:
            return tuple(_from_json(held) for held in value["$tuple"])
        if "$set" in value:
            return {_from_json(held) for held in value["$set"]}
        return {key: _from_json(held) for key, held in value.items()}
    return value
