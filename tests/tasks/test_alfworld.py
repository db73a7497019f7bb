"""ALFWorld: its package and games are the user's to fetch; what can be said without them is tested here."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from onelayer.errors import UserError
from onelayer.task_settings import AlfworldTask
from onelayer.tasks.alfworld import Alfworld, Game
from onelayer.tasks.contract import AgentTask, Problem


def household(path: Path, train: int = 2, **sizes: int) -> Alfworld:
    settings = {"kind": "alfworld", "path": path, "sizes": {"train": train, "select": 1, "report": 1, **sizes}}
    return Alfworld(AlfworldTask.model_validate(settings), 0)


def write_game(path: Path, name: str, **content: object) -> None:
    (path / name).mkdir(parents=True)
    (path / name / "game.tw-pddl").write_text(json.dumps({"solvable": True, **content}))


@pytest.fixture
def games(tmp_path: Path) -> Path:
    for number in range(6):
        write_game(tmp_path, f"train/pick_and_place_simple-Mug-None-Desk-30{number}/trial_T1")
        write_game(tmp_path, f"valid_seen/pick_and_place_simple-Mug-None-Desk-30{number}/trial_T2")
        write_game(tmp_path, f"valid_unseen/look_at_obj_in_light-Mug-None-DeskLamp-30{number}/trial_T3")
    return tmp_path


def test_a_missing_package_is_named_with_the_command_that_installs_it(games, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match="'alfworld' was not found; install it with pip install alfworld"):
        household(games).world()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "textworld" else object())
    with pytest.raises(UserError, match="'textworld' was not found"):
        household(games).world()


def test_missing_games_are_named_with_the_command_that_fetches_them(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    for wanted in (household(tmp_path).splits, household(tmp_path).world):
        with pytest.raises(UserError, match=r"/train: not found; task\.path must be .*alfworld-download"):
            wanted()
    (tmp_path / "train").mkdir()
    with pytest.raises(UserError, match=r"/train: no game\.tw-pddl was found in it; .*alfworld-download"):
        household(tmp_path).splits()


def test_splits_are_stable_and_one_game_file_an_instance(games):
    task = household(games)
    assert isinstance(task, AgentTask)
    small, large = task.splits(), household(games, train=6).splits()
    assert large["train"].problems[:2] == small["train"].problems
    assert (large["select"], large["report"]) == (small["select"], small["report"])
    assert Alfworld(task.settings, seed=1).splits()["train"] != small["train"]
    assert small["report"].problems[0].id.startswith("alfworld valid_unseen/look_at_obj_in_light-Mug-None-DeskLamp-30")
    with pytest.raises(UserError, match=r"task\.sizes\.train: found 7, expected at most 6, the games .*train"):
        household(games, train=7).splits()


def test_games_that_alfworld_leaves_out_are_left_out_and_counted(games):
    write_game(games, "train/pick_and_place_with_movable_recep-Mug-Plate-Desk-1/trial_T1")
    write_game(games, "train/pick_and_place_simple-AppleSliced-None-Desk-2/trial_T1")
    write_game(games, "train/pick_and_place_simple-Cup-None-Desk-3/trial_T1", solvable=False)
    with pytest.raises(UserError, match="found 99, expected at most 6"):
        household(games, train=99).splits()
    made = household(games, train=6).splits()["train"]
    assert not [instance.id for instance in made.problems if "movable" in instance.id or "Sliced" in instance.id]
    assert sum(made.dropped.values()) <= 3
    file = games / "train/pick_and_place_simple-Cup-None-Desk-3/trial_T1/game.tw-pddl"
    file.write_text("{")
    with pytest.raises(UserError, match=r"Desk-3/trial_T1/game\.tw-pddl: expected a game file of ALFWorld, found"):
        household(games, train=99).splits()


class Stub:
    """What alfworld 0.4.2 and textworld 1.7.0 answer, for one game of two rooms."""

    def __init__(self) -> None:
        self.at = "desk 1"

    def reset(self) -> dict[str, object]:
        return self.state("You are in a room.\n\nYour task is to: put a mug on the shelf.")

    def step(self, command: str) -> tuple[dict[str, object], int, bool]:
        if command == "go to shelf 1":
            self.at = "shelf 1"
            return self.state("You arrive at shelf 1."), 1, True
        return self.state("Nothing happens."), 0, False

    def state(self, feedback: str) -> dict[str, object]:
        names = {"atlocation": self.at, "checked": feedback, "not_atlocation": feedback}
        facts = [SimpleNamespace(name=name, of=of) for name, of in names.items()]
        commands = ["go to shelf 1", "look "]
        return {"feedback": feedback, "won": self.at == "shelf 1", "facts": facts, "admissible_commands": commands}

    def close(self) -> None:
        """Nothing is held."""


def test_the_adapter_speaks_the_packages_language(games, monkeypatch):
    textworld, environment = ModuleType("textworld"), ModuleType("alfred_tw_env")
    textworld.EnvInfos = lambda **wanted: wanted
    textworld.start = lambda path, infos, wrappers: Stub()
    environment.AlfredDemangler = lambda shuffle: None
    monkeypatch.setitem(sys.modules, "textworld", textworld)
    monkeypatch.setitem(sys.modules, "alfworld.agents.environment.alfred_tw_env", environment)
    world = Game(games, list_actions=True)
    [instance] = household(games).splits()["report"].problems
    first = world.reset(instance)
    assert "Your task is to: put a mug" in first.text
    assert first.text.endswith("Valid actions: go to shelf 1, look")
    nothing = world.act("sing")
    assert (nothing.valid, nothing.reward, nothing.done, nothing.view.anchor) == (False, 0.0, False, first.anchor)
    won = world.act("go to shelf 1")
    assert (won.valid, won.reward, won.done, won.success) == (True, 1.0, True, True)
    assert won.view.anchor != first.anchor
    with pytest.raises(UserError, match="problems name it"):
        world.reset(Problem("alfworld train/gone", "", ""))
