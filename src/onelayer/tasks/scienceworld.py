"""ScienceWorld's experiments: one problem is one variation of a task, from the task's own train, dev and test sets.

The package (Apache-2.0) runs its simulator in Java; each world has a process and a Java of its own. Its Python step
also lists every valid action, thousands of them, which takes most of the time; so the steps here call the simulator
directly and list only the forms of actions, and an action is valid where the simulator understands it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from onelayer.errors import UserError
from onelayer.task_settings import ScienceWorldTask
from onelayer.tasks.contract import Outcome, Problem, Split, View, WorldError
from onelayer.tasks.instances import IsolatedDomain, drawn
from onelayer.tasks.java import need_java, started, watched
from onelayer.tasks.worlds import IsolatedWorld, ask

_PACKAGE = "scienceworld"
_NAME = "ScienceWorld"
_SETS = {"train": "train", "select": "dev", "report": "test"}
# How the simulator's answer begins where it did not understand the action.
_NOT_UNDERSTOOD = ("No known action matches that input", "Unknown action")


@dataclass(frozen=True)
class ScienceWorld(IsolatedDomain):
    """The domain of one ScienceWorld task."""

    settings: ScienceWorldTask

    def splits(self) -> dict[str, Split]:
        """Draw each split from its set, in the study seed's order; growing one leaves the others as they were."""
        need_java(_PACKAGE, _NAME)
        try:
            variations: dict[str, list[int]] = ask(self._lab(), "variations", _NAME)
        except WorldError as error:
            raise UserError(f"{_NAME}: the task's variations could not be read: {error}") from None
        return {
            split: drawn(
                [f"scienceworld {self.settings.task} {number}" for number in variations[its]],
                split,
                self.settings.sizes,
                self.seed,
                f"the {its} variations of {_NAME}'s task {self.settings.task!r}",
            )
            for split, its in _SETS.items()
        }

    def world(self) -> IsolatedWorld:
        """Make a world. Raises UserError where the package or Java is missing."""
        need_java(_PACKAGE, _NAME)
        return IsolatedWorld(self._lab(), self.settings.call_seconds, _NAME)

    def _lab(self) -> partial[Lab]:
        return partial(Lab, self.settings.task, self.settings.simplifications, self.settings.list_actions)


class Lab:
    """One ScienceWorld simulator in this process. Raises UserError where the task or a simplification is unknown."""

    def __init__(self, task: str, simplifications: str, list_actions: bool) -> None:
        self._task = task
        self._simplifications = simplifications
        self._list_actions = list_actions
        self._score = 0
        self._env = started(_PACKAGE, "ScienceWorldEnv", _NAME)
        with watched(self._env, _NAME):
            self._load(0)

    def variations(self) -> dict[str, list[int]]:
        """The variations of every set."""
        with watched(self._env, _NAME):
            return {
                "train": self._env.get_variations_train(),
                "dev": self._env.get_variations_dev(),
                "test": self._env.get_variations_test(),
            }

    def reset(self, problem: Problem) -> View:
        """Set up the variation that ends the problem's name."""
        with watched(self._env, _NAME):
            self._load(int(problem.id.split()[-1]))
            task = self._env.get_task_description()
            # The package's own reset begins so too; it may already be worth points, which are no action's reward.
            observation = self._env.server.step("look around")
            self._score = round(100 * self._env.server.getScore())
        view = self._view(observation)
        return View(f"{task}\n\n{view.text}", view.anchor)

    def act(self, action: str) -> Outcome:
        """Take an action; the reward is what it adds to the score of 0 to 100 (-100 where the task is failed)."""
        with watched(self._env, _NAME):
            observation: str = self._env.server.step(action.strip())
            score = round(100 * self._env.server.getScore())
            done = bool(self._env.server.getCompleted()) or score < 0
        reward, self._score = score - self._score, score
        valid = not observation.startswith(_NOT_UNDERSTOOD)
        return Outcome(self._view(observation), float(reward), done, score == 100, valid)

    def close(self) -> None:
        """End the simulator's Java."""
        self._env.close()

    def _load(self, variation: int) -> None:
        try:
            self._env.load(self._task, variation, self._simplifications)
        except ValueError as error:
            raise UserError(
                f"task.task {self._task!r}, task.simplifications {self._simplifications!r}: {error}"
            ) from None

    def _view(self, observation: str) -> View:
        with watched(self._env, _NAME):
            look, inventory = self._env.look().strip(), self._env.inventory().strip()
            forms = self._env.get_possible_actions() if self._list_actions else ()
        if look.startswith("ERROR"):
            raise WorldError(f"{_NAME} failed: {look}")
        observation = observation.strip()
        parts = [observation, *(part for part in (look, inventory) if part != observation)]
        if forms:
            parts.append("Forms of actions, where OBJ is a thing: " + ", ".join(forms))
        return View("\n\n".join(parts), f"{look}\n{inventory}\n{self._score}")
