"""What domains of real worlds share: splits of named instances, and worlds in processes of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from onelayer.errors import UserError
from onelayer.seeds import derive_seed
from onelayer.task_settings import Sizes, WorldSettings
from onelayer.tasks.contract import Problem, Split


@dataclass(frozen=True)
class IsolatedDomain:
    """A domain whose worlds each have a process of their own."""

    settings: WorldSettings
    seed: int

    @property
    def max_turns(self) -> int:
        """After so many actions an episode is over."""
        return self.settings.max_turns

    @property
    def frames(self) -> tuple[str, str]:
        """How views are put to the agent."""
        return self.settings.prompt, self.settings.turn

    @property
    def isolated(self) -> bool:
        """Each world has a process of its own."""
        return True


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
