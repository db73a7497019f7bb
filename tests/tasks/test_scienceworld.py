"""ScienceWorld through our contract: a gold path wins, and what it does not understand is not valid."""

from __future__ import annotations

import importlib.util
import random
import shutil

import pytest

from onelayer.errors import UserError
from onelayer.task_settings import ScienceWorldTask
from onelayer.tasks.contract import AgentTask, Problem
from onelayer.tasks.scienceworld import ScienceWorld

TASK = "find-non-living-thing"

needs_java = pytest.mark.skipif(
    shutil.which("java") is None or importlib.util.find_spec("scienceworld") is None,
    reason="no java, or no package scienceworld",
)


def science(task: str = TASK, train: int = 2, report: int = 2, **more) -> ScienceWorld:
    settings = {"kind": "scienceworld", "task": task, "max_turns": 30, **more}
    sizes = {"train": train, "select": 2, "report": report}
    return ScienceWorld(ScienceWorldTask.model_validate({**settings, "sizes": sizes}), 0)


def problem(variation: int) -> Problem:
    text = f"scienceworld {TASK} {variation}"
    return Problem(text, text, "")


def test_a_missing_package_or_java_is_named_before_anything_starts(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    with pytest.raises(UserError, match="apt install openjdk-17-jre-headless"):
        science().world()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"'scienceworld' was not found; .* pip install 'onelayer\[agents\]'"):
        science().splits()


@needs_java
def test_splits_are_disjoint_and_stable():
    small, large = science().splits(), science(train=20).splits()
    assert isinstance(science(), AgentTask)
    assert large["train"].problems[:2] == small["train"].problems
    assert (large["select"], large["report"]) == (small["select"], small["report"])
    ids = [instance.id for made in large.values() for instance in made.problems]
    assert len(set(ids)) == len(ids) == 24


@needs_java
def test_what_there_is_not_is_refused():
    with pytest.raises(UserError, match=r"task\.sizes\.report: found 9999, expected at most 75, the test variations"):
        science(report=9999).splits()
    with pytest.raises(UserError, match=r"task\.task 'fly'.*Supported tasks"):
        science("fly").splits()
    with pytest.raises(UserError, match=r"task\.simplifications 'lazy'.*Supported simplifications"):
        science(simplifications="lazy").world().reset(problem(0))


@needs_java
def test_a_gold_path_wins_random_play_does_not_and_a_state_reached_again_has_the_same_anchor():
    from scienceworld import ScienceWorldEnv

    env = ScienceWorldEnv()
    env.load(TASK, 5, "easy", generateGoldPath=True)
    steps = env.get_gold_action_sequence()
    possible = env.get_valid_action_object_combinations()
    description = env.get_task_description()
    env.close()

    world = science().world()
    first = world.reset(problem(5))
    assert description in first.text
    assert "focus on OBJ" in first.text
    total = 0.0
    for action in steps:
        outcome = world.act(action)
        total += outcome.reward
        assert outcome.valid
        if outcome.done:
            break
    assert outcome.done
    assert outcome.success
    assert 50 < total <= 100  # looking around, with which an episode begins, may earn the first points

    assert world.reset(problem(5)) == first
    lost = world.act("sing a song")
    assert (lost.valid, lost.reward, lost.done, lost.success) == (False, 0.0, False, False)
    assert lost.view.anchor == first.anchor
    assert world.act("look around").view.anchor == first.anchor
    rng = random.Random(0)
    played = [world.act(rng.choice(possible)) for _ in range(10)]
    assert not any(outcome.success for outcome in played)
    world.close()
