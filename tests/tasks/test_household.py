from __future__ import annotations

import itertools
import random

import pytest

from onelayer.errors import UserError
from onelayer.task_settings import HouseholdTask
from onelayer.tasks.contract import Problem
from onelayer.tasks.household import Household, _sensible, _State


def task(careless: float = 0.0, **sizes: int) -> Household:
    counts = {"train": 100, "select": 20, "report": 30} | sizes
    return Household(HouseholdTask(kind="household", careless=careless, max_turns=12, sizes=counts), 7)  # type: ignore[arg-type]


def test_an_episode_by_hand() -> None:
    world = task().world()
    view = world.reset(Problem("x", "a>C B a:A b:B", ""))
    assert (view.text, view.anchor) == ("a>C -Bb ", "-Bb ")
    there = world.act("A")
    assert (there.view.text, there.valid, there.done, there.reward) == ("-Aa ", True, False, 0.0)
    assert world.act("B").view.anchor == view.anchor  # the same state comes back with the same anchor
    assert [world.act(action).valid for action in ("B", "a", ".", "", "nonsense", "Z")] == [False] * 6
    world.act("A")
    assert world.act("a").view.text == "aA "
    assert not world.act("b").valid
    world.act("C")
    end = world.act(".")
    assert (end.success, end.done, end.reward, end.view.text) == (True, True, 1.0, "-Ca ")


def test_the_wish_alone_counts() -> None:
    """The other thing in the wished room, or the wished thing in another, is no success."""
    world = task().world()
    world.reset(Problem("x", "a>C B a:B b:B", ""))
    for action in ("b", "C", ".", "B", "a", "A", "."):
        assert not world.act(action).success
    for action, success in (("a", False), ("C", False), (".", True)):
        assert world.act(action).success == success


def test_who_knows_how_wins_and_who_wanders_seldom() -> None:
    problems = task().splits()["train"].problems
    rates = []
    for wander in (0.0, 1.0):
        rng = random.Random(1)
        won = 0
        for problem in problems:
            world, state = task().world(), _State.named(problem.prompt)
            world.reset(problem)
            visited = {state.room}
            for _ in range(8):
                possible = state.possible("ABCD")
                action = rng.choice(possible) if rng.random() < wander else _sensible(state, "ABCD", visited, rng)
                done = state.act(action)
                visited.add(state.room)
                outcome = world.act(action)
                assert outcome.valid
                assert outcome.success == done
                if done:
                    won += 1
                    break
        rates.append(won / len(problems))
    assert rates[0] == 1.0
    assert rates[1] < 0.15


def test_names_tell_the_whole_state() -> None:
    for problem in task().splits()["report"].problems:
        assert _State.named(problem.prompt).name() == problem.prompt


def test_splits_are_disjoint_and_stable_and_the_corpus_holds_none_of_select_or_report() -> None:
    small, large = task().splits(), task(train=130).splits()
    assert small["report"] == large["report"]
    assert large["train"].problems[:100] == small["train"].problems
    names = [problem.prompt for split in large.values() for problem in split.problems]
    assert len(set(names)) == len(names)
    held_out = {p.prompt[:4] + _State.named(p.prompt).view() for s in ("select", "report") for p in small[s].problems}
    firsts = {line[0][0] for line in itertools.islice(task().corpus(3), 3000)}
    # A first view does not show what lies elsewhere; held-out instances may share it, but no line is one of theirs.
    assert firsts
    assert held_out
    with pytest.raises(UserError, match=r"task\.sizes\.select: found 500, expected at most \d+"):
        task(select=500).splits()


def test_the_corpus_learns_actions_alone_and_without_carelessness_always_wins() -> None:
    alphabet = set(task().alphabet)
    for line in itertools.islice(task().corpus(5), 300):
        assert {character for text, _ in line for character in text} <= alphabet
        assert [learned for _, learned in line] == [index % 2 == 1 for index in range(len(line))]
        assert all(text.endswith("\n") and len(text) == 2 for text, learned in line if learned)
        assert line[-1][0] == ".\n"
    lengths = [len(line) for line in itertools.islice(task(careless=0.9).corpus(5), 300)]
    assert sum(lengths) / 300 > 15  # wandering takes long
