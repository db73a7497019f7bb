"""TextWorldExpress's text games: one problem is one seed of a game, from the game's own train, dev and test folds.

The package (Apache-2.0) runs its games in Java; each world has a process and a Java of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from onelayer.errors import UserError
from onelayer.task_settings import TextWorldExpressTask
from onelayer.tasks.contract import Outcome, Problem, Split, View, WorldError
from onelayer.tasks.instances import IsolatedDomain, drawn
from onelayer.tasks.java import need_java, started, watched
from onelayer.tasks.worlds import IsolatedWorld, ask

_PACKAGE = "textworld_express"
_NAME = "TextWorldExpress"
_FOLDS = {"train": "train", "select": "dev", "report": "test"}


@dataclass(frozen=True)
class TextWorldExpress(IsolatedDomain):
    """The domain of one TextWorldExpress game."""

    settings: TextWorldExpressTask

    def splits(self) -> dict[str, Split]:
        """Draw each split from its fold, in the study seed's order; growing one leaves the others as they were."""
        need_java(_PACKAGE, _NAME)
        try:
            seeds: dict[str, list[int]] = ask(self._game(), "seeds", _NAME)
        except WorldError as error:
            raise UserError(f"{_NAME}: the game's seeds could not be read: {error}") from None
        return {
            split: drawn(
                [f"textworld-express {self.settings.game} {fold} {number}" for number in seeds[fold]],
                split,
                self.settings.sizes,
                self.seed,
                f"the seeds of {_NAME}'s {fold} fold",
            )
            for split, fold in _FOLDS.items()
        }

    def world(self) -> IsolatedWorld:
        """Make a world. Raises UserError where the package or Java is missing."""
        need_java(_PACKAGE, _NAME)
        return IsolatedWorld(self._game(), self.settings.call_seconds, _NAME)

    def _game(self) -> partial[Game]:
        return partial(Game, self.settings.game, self.settings.parameters, self.settings.list_actions)


class Game:
    """One TextWorldExpress game in this process. Raises UserError where the game or its parameters are unknown."""

    def __init__(self, game: str, parameters: str, list_actions: bool) -> None:
        self._list_actions = list_actions
        self._env = started(_PACKAGE, "TextWorldExpressEnv", _NAME)
        self._env.envStepLimit = float("inf")  # how long an episode may be is the task's to say
        self._last: dict[str, Any] = {}
        with watched(self._env, _NAME):
            try:
                self._env.load(game, parameters)
            except ValueError as error:
                raise UserError(f"task.game {game!r}, task.parameters {parameters!r}: {error}") from None

    def seeds(self) -> dict[str, list[int]]:
        """The seeds of every fold."""
        with watched(self._env, _NAME):
            return {
                "train": self._env.getValidSeedsTrain(),
                "dev": self._env.getValidSeedsDev(),
                "test": self._env.getValidSeedsTest(),
            }

    def reset(self, problem: Problem) -> View:
        """Begin the game of the fold and seed that end the problem's name."""
        fold, number = problem.id.split()[-2:]
        with watched(self._env, _NAME):
            _, self._last = self._env.reset(seed=int(number), gameFold=fold)
        _check(self._last)
        return View(f"{self._last['taskDescription']}\n\n{self._text()}", self._anchor())

    def act(self, action: str) -> Outcome:
        """Take an action; one that is not among the valid ones changes nothing."""
        action = action.strip()
        valid = action in self._last["validActions"]
        with watched(self._env, _NAME):
            _, reward, done, self._last = self._env.step(action)
        _check(self._last)
        success = self._last["tasksuccess"] is True
        return Outcome(View(self._text(), self._anchor()), float(reward), bool(done), success, valid)

    def close(self) -> None:
        """End the game's Java."""
        self._env.close()

    def _text(self) -> str:
        observation, look, inventory = (self._last[key].strip() for key in ("observation", "look", "inventory"))
        parts = [observation, *(part for part in (look, inventory) if part != observation)]
        if self._list_actions:
            # The game lists them in an order that it shuffles with every step.
            parts.append("Valid actions: " + ", ".join(sorted(self._last["validActions"])))
        return "\n\n".join(parts)

    def _anchor(self) -> str:
        return "\n".join(str(self._last[key]) for key in ("look", "inventory", "score"))


def _check(infos: dict[str, Any]) -> None:
    # The game reports its own faults as a lost episode whose every text is the fault and where nothing can be done.
    if not infos["validActions"] or infos["validActions"] == [""]:
        raise WorldError(f"{_NAME} failed: {infos['observation'].strip()}")
