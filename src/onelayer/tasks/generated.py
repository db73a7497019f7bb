"""Problems that are generated: which split each belongs to, and how a split is drawn."""

from __future__ import annotations

import random
from collections.abc import Callable

from onelayer.errors import UserError
from onelayer.seeds import derive_seed
from onelayer.task_settings import Sizes
from onelayer.tasks.contract import Problem, Split

# Shares of all possible problems that belong to each split. A problem's split is decided by its own hash, so it
# never depends on how many problems the study asks for.
_SHARES = {"report": 0.25, "select": 0.15, "train": 0.60}
# A split counts as drawn dry after this many draws in a row that brought nothing new for each problem it has.
_PATIENCE = 50


def split_of(seed: int, prompt: str) -> str:
    """The split that a problem belongs to."""
    point = derive_seed(seed, "split", prompt) / 2**31
    for split, share in _SHARES.items():
        if point < share:
            return split
        point -= share
    return "train"


def draw_splits(seed: int, sizes: Sizes, make: Callable[[random.Random], Problem]) -> dict[str, Split]:
    """Draw the splits; growing one leaves its first problems and the other splits as they were.

    Args:
        seed: the study's.
        sizes: how many problems each split holds, by attribute.
        make: draws any problem.

    Raises UserError where there are fewer problems than asked for.
    """
    return {split: Split(_draw(seed, split, getattr(sizes, split), make), {}) for split in _SHARES}


def _draw(seed: int, split: str, wanted: int, make: Callable[[random.Random], Problem]) -> tuple[Problem, ...]:
    rng = random.Random(derive_seed(seed, "problems", split))
    drawn: dict[str, Problem] = {}
    misses = 0
    while len(drawn) < wanted:
        problem = make(rng)
        if problem.prompt not in drawn and split_of(seed, problem.prompt) == split:
            drawn[problem.prompt] = problem
            misses = 0
        else:
            misses += 1
        if misses > _PATIENCE * (len(drawn) + 20):
            raise UserError(
                f"task.sizes.{split}: found {wanted}, expected at most {len(drawn)}, for these settings give no more"
                " problems in this split"
            )
    return tuple(drawn.values())
