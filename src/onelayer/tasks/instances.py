"""Splits of a domain of worlds: named instances in the study seed's order."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from onelayer.errors import UserError
from onelayer.seeds import derive_seed
from onelayer.task_settings import Sizes
from onelayer.tasks.contract import Problem, Split


def drawn(
    names: Iterable[str],
    split: str,
    sizes: Sizes,
    seed: int,
    source: str,
    refused: Callable[[str], str | None] = lambda name: None,
) -> Split:
    """Draw a split's instances from their names, leaving out those that ``refused`` gives a reason against.

    The order depends on the seed and the names alone, so a larger size keeps the first ones.
    Raises UserError where there are fewer than asked; ``source`` says there what they are.
    """
    wanted: int = getattr(sizes, split)
    dropped: dict[str, int] = {}
    chosen: list[Problem] = []
    for name in sorted(names, key=lambda name: derive_seed(seed, "instance", name)):
        if len(chosen) == wanted:
            break
        reason = refused(name)
        if reason is None:
            chosen.append(Problem(id=name, prompt=name, answer=""))
        else:
            dropped[reason] = dropped.get(reason, 0) + 1
    if len(chosen) < wanted:
        raise UserError(f"task.sizes.{split}: found {wanted}, expected at most {len(chosen)}, {source}")
    return Split(tuple(chosen), dropped)
