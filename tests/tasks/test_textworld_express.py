"""TextWorldExpress through our contract: gold paths win, random ones hardly do, and a dead Java is no lost episode."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import random
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from test_worlds import gone

from onelayer.errors import UserError
from onelayer.task_settings import TextWorldExpressTask
from onelayer.tasks.contract import AgentTask, Outcome, Problem, View, World, WorldError
from onelayer.tasks.textworld_express import TextWorldExpress

needs_java = pytest.mark.skipif(
    shutil.which("java") is None or importlib.util.find_spec("textworld_express") is None,
    reason="no java, or no package textworld_express",
)


def game(name: str = "coin", train: int = 3, select: int = 2, report: int = 2, **more) -> TextWorldExpress:
    settings = {"kind": "textworld-express", "game": name, "max_turns": 30, **more}
    sizes = {"train": train, "select": select, "report": report}
    return TextWorldExpress(TextWorldExpressTask.model_validate({**settings, "sizes": sizes}), seed=0)


def problem(name: str, fold: str, seed: int) -> Problem:
    text = f"textworld-express {name} {fold} {seed}"
    return Problem(text, text, "")


def javas() -> list[psutil.Process]:
    found = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.name() == "java" and process.ppid() != os.getpid():  # those of worlds
                found.append(process)
    return found


def actions(view: View) -> list[str]:
    return view.text.rpartition("Valid actions: ")[2].split(", ")


def wander(world: World, instance: Problem, turns: int) -> Outcome:
    """Play valid actions at random."""
    view = world.reset(instance)
    rng = random.Random(instance.id)
    for _ in range(turns):
        outcome = world.act(rng.choice(actions(view)))
        assert outcome.valid
        if outcome.done:
            break
        view = outcome.view
    return outcome


@pytest.fixture(scope="module")
def gold() -> Iterator[object]:
    """The package's own environment, for its gold paths."""
    from textworld_express import TextWorldExpressEnv

    env = TextWorldExpressEnv()
    yield env
    env.close()


def test_a_missing_package_or_java_is_named_before_anything_starts(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    for wanted in (game().world, game().splits):
        with pytest.raises(UserError, match="apt install openjdk-17-jre-headless"):
            wanted()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"'textworld_express' was not found; .* pip install 'onelayer\[agents\]'"):
        game().world()


@needs_java
def test_a_java_that_does_not_start_is_the_users_to_mend(tmp_path, monkeypatch):
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\nexit 1\n")
    java.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(UserError, match=r"TextWorldExpress: Java did not start .* does `java -version` show Java 17"):
        game().splits()


@needs_java
def test_splits_are_disjoint_and_stable_and_from_the_games_own_folds():
    small, large = game().splits(), game(train=900, select=3).splits()
    assert isinstance(game(), AgentTask)
    assert {split: len(made.problems) for split, made in large.items()} == {"train": 900, "select": 3, "report": 2}
    assert large["train"].problems[:3] == small["train"].problems
    assert large["select"].problems[:2] == small["select"].problems
    assert large["report"] == small["report"]
    ids = [instance.id for made in large.values() for instance in made.problems]
    assert len(set(ids)) == len(ids)
    assert small["select"].problems[0].id.startswith("textworld-express coin dev 10")
    with pytest.raises(UserError, match=r"task\.sizes\.report: found 1001, expected at most 1000, .* test fold"):
        game(report=1001).splits()


@needs_java
def test_unknown_games_and_parameters_are_refused():
    with pytest.raises(UserError, match=r"task.game 'chess'.*coin"):
        game("chess").splits()
    with pytest.raises(UserError, match=r"task.parameters 'rooms=3'.*numLocations"):
        game(parameters="rooms=3").world().reset(problem("coin", "train", 0))


@needs_java
@pytest.mark.parametrize("name", ["coin", "cookingworld", "twc", "mapreader", "arithmetic", "sorting"])
def test_gold_paths_win_and_random_play_seldom_does(name, gold):
    task = game(name)
    world = task.world()
    for fold, seed in (("train", 3), ("dev", 10_007), ("test", 20_011)):
        gold.reset(seed=seed, gameFold=fold, gameName=name, gameParams="", generateGoldPath=True)
        view = world.reset(problem(name, fold, seed))
        assert gold.getTaskDescription() in view.text
        for action in gold.getGoldActionSequence():
            assert action in actions(view)
            outcome = world.act(action)
            assert outcome.valid
            view = outcome.view
            if outcome.done:  # some gold paths go on for a step after the win
                break
        assert outcome.done
        assert outcome.success
        assert outcome.reward > 0
    won = [wander(world, problem(name, "train", seed), turns=task.max_turns).success for seed in range(6)]
    assert sum(won) < 3
    world.close()


@needs_java
def test_a_state_reached_again_has_the_same_anchor_and_an_unknown_action_changes_nothing():
    world = game(parameters="includeDoors=0").world()
    first = world.reset(problem("coin", "train", 0))
    ways = {"move north": "move south", "move south": "move north", "move east": "move west", "move west": "move east"}
    there = next(action for action in actions(first) if action in ways)
    away = world.act(there).view
    back = world.act(ways[there]).view
    assert away.anchor != first.anchor == back.anchor
    assert world.reset(problem("coin", "train", 0)) == first
    lost = world.act("sing a song")
    assert lost == Outcome(lost.view, 0.0, False, False, valid=False)
    assert lost.view.anchor == first.anchor
    assert "look around" in world.act("inventory").view.text
    world.close()


@needs_java
def test_the_list_of_actions_can_be_left_out():
    world = game(list_actions=False).world()
    assert "Valid actions" not in world.reset(problem("coin", "train", 0)).text
    assert world.act("look around").valid
    world.close()


@needs_java
def test_a_killed_java_is_a_world_error_and_the_same_world_plays_on():
    world = game().world()
    first = world.reset(problem("coin", "train", 1))
    [java] = javas()
    java.send_signal(signal.SIGKILL)
    with pytest.raises(WorldError, match=r"the Java process behind TextWorldExpress ended \(signal 9, SIGKILL\)"):
        world.act("look around")
    assert gone(java)
    assert world.reset(problem("coin", "train", 1)) == first
    assert world.act("look around").valid
    [java] = javas()
    world.close()
    assert gone(java)


@needs_java
def test_a_stopped_java_is_ended_at_the_limit():
    world = game(call_seconds=3).world()
    world.reset(problem("coin", "train", 1))
    [java] = javas()
    java.send_signal(signal.SIGSTOP)
    with pytest.raises(WorldError, match="did not answer 'act' within 3 seconds"):
        world.act("look around")
    assert gone(java)
    world.close()


@needs_java
def test_twenty_episodes_at_once():
    task = game()
    worlds = [task.world() for _ in range(20)]
    with ThreadPoolExecutor(20) as pool:
        first = list(pool.map(lambda pair: wander(pair[1], problem("coin", "train", pair[0]), 8), enumerate(worlds)))
        started = javas()
        assert len(started) == 20
        started[0].kill()
        started[1].kill()
        second = list(pool.map(failed_or_not, worlds))
        list(pool.map(lambda world: world.close(), worlds))
    assert sum(outcome.valid for outcome in first) == 20
    assert second.count("failed") == 2
    again = task.world()
    alone = [wander(again, problem("coin", "train", seed), 8) for seed in range(20)]
    again.close()
    assert alone == first
    assert all(gone(java) for java in started)


def failed_or_not(world: World) -> str:
    try:
        wander(world, problem("coin", "train", 0), 8)
    except WorldError:
        return "failed"
    return "played"


@needs_java
def test_no_java_is_left_where_our_own_process_is_killed(tmp_path):
    program = textwrap.dedent(
        f"""
        import sys, time
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        from test_textworld_express import game, problem
        world = game().world()
        world.reset(problem("coin", "train", 0))
        print("ready", flush=True)
        time.sleep(3600)
        """
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(tmp_path)}
    )
    assert parent.stdout is not None
    assert parent.stdout.readline() == "ready\n"
    started = psutil.Process(parent.pid).children(recursive=True)
    assert sorted(process.name() == "java" for process in started) == [False, True]
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert all(gone(process) for process in started)
