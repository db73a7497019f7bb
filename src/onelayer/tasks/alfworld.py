"""ALFWorld's household games from the user's own download: one problem is one game file.

The package `alfworld` (MIT) plays them with `textworld` (MIT), which needs Jericho and Fast Downward, both under the
GPL; whether to install them is the user's to decide, so no extra of ours pulls them in. Tried with alfworld 0.4.2 and
textworld 1.7.0 on a hand-made game of two receptacles in ALFWorld's own domain and grammar, not on a downloaded one.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from onelayer.errors import UserError
from onelayer.task_settings import AlfworldTask
from onelayer.tasks.contract import Outcome, Problem, Split, View
from onelayer.tasks.instances import IsolatedDomain, drawn
from onelayer.tasks.worlds import IsolatedWorld

_NAME = "ALFWorld"
_FOLDERS = {"train": "train", "select": "valid_seen", "report": "valid_unseen"}
_FILE = "game.tw-pddl"
_PREFIX = "alfworld "
# Facts that are no part of the household's state: what the player has looked at, and that something is no longer so,
# which is only noted of what once was.
_NOTES = ("checked", "examined", "not_")


@dataclass(frozen=True)
class Alfworld(IsolatedDomain):
    """The domain of ALFWorld's games."""

    settings: AlfworldTask

    def splits(self) -> dict[str, Split]:
        """Draw each split from its folder, in the study seed's order, leaving out what ALFWorld itself leaves out."""
        return {
            split: drawn(
                self._names(folder),
                split,
                self.settings.sizes,
                self.seed,
                f"the games that can be played in {self.settings.path / folder}",
                self._refused,
            )
            for split, folder in _FOLDERS.items()
        }

    def world(self) -> IsolatedWorld:
        """Make a world. Raises UserError where a package or the games are missing."""
        for package in ("alfworld", "textworld"):
            if importlib.util.find_spec(package) is None:
                raise UserError(
                    f"{_NAME}: the Python package {package!r} was not found; install it with pip install alfworld"
                    " (it brings software under the GPL, which is yours to accept)"
                )
        self._folder("train")
        make = partial(Game, self.settings.path, self.settings.list_actions)
        return IsolatedWorld(make, self.settings.call_seconds, _NAME)

    def _folder(self, name: str) -> Path:
        folder = self.settings.path / name
        if not folder.is_dir():
            raise UserError(
                f"{folder}: not found; task.path must be the folder of ALFWorld's games, which holds"
                f" {', '.join(_FOLDERS.values())} (the command alfworld-download fetches it)"
            )
        return folder

    def _names(self, name: str) -> list[str]:
        found = [file.parent.relative_to(self.settings.path).as_posix() for file in self._folder(name).rglob(_FILE)]
        if not found:
            raise UserError(
                f"{self.settings.path / name}: no {_FILE} was found in it; the command alfworld-download fetches them"
            )
        return [f"{_PREFIX}{folder}" for folder in found]

    def _refused(self, name: str) -> str | None:
        if "movable" in name or "Sliced" in name:
            return "with movable or sliced things, which ALFWorld's text games do not support"
        file = _game_file(self.settings.path, name)
        try:
            solvable = json.loads(file.read_text(encoding="utf-8")).get("solvable")
        except (OSError, ValueError, AttributeError) as error:
            raise UserError(f"{file}: expected a game file of ALFWorld, found: {error}") from None
        return None if solvable is True else "not known to be solvable"


class Game:
    """One ALFWorld game at a time in this process."""

    def __init__(self, path: Path, list_actions: bool) -> None:
        self._path = path
        self._list_actions = list_actions
        self._textworld = importlib.import_module("textworld")
        self._demangler = importlib.import_module("alfworld.agents.environment.alfred_tw_env").AlfredDemangler
        self._env: Any = None
        self._state: Any = None

    def reset(self, problem: Problem) -> View:
        """Load the game file that the problem names. Raises UserError where it is gone."""
        file = _game_file(self._path, problem.id)
        if not file.is_file():
            raise UserError(
                f"{file}: not found; the study's problems name it (the command alfworld-download fetches it)"
            )
        self.close()
        infos = self._textworld.EnvInfos(feedback=True, won=True, facts=True, admissible_commands=True)
        # The wrapper names things as people do ("desk 1"), in the same way each time.
        self._env = self._textworld.start(str(file), infos, wrappers=[self._demangler(shuffle=False)])
        self._state = self._env.reset()
        return self._view()  # the first observation says what the task is

    def act(self, action: str) -> Outcome:
        """Take an action; one that is not among the admissible commands changes nothing. A win is worth 1."""
        valid = action.strip() in self._actions()
        self._state, reward, done = self._env.step(action.strip())
        return Outcome(self._view(), float(reward), bool(done), bool(self._state["won"]), valid)

    def close(self) -> None:
        """Let go of the game."""
        if self._env is not None:
            self._env.close()

    def _actions(self) -> list[str]:
        return [command.strip() for command in self._state["admissible_commands"]]

    def _view(self) -> View:
        text = self._state["feedback"].strip()
        if self._list_actions:
            text += "\n\nValid actions: " + ", ".join(self._actions())
        facts = sorted(str(fact) for fact in self._state["facts"] if not fact.name.startswith(_NOTES))
        return View(text, hashlib.sha256("\n".join(facts).encode()).hexdigest())


def _game_file(path: Path, name: str) -> Path:
    return path / name.removeprefix(_PREFIX) / _FILE
