"""Worlds in processes of their own: what goes wrong there is a broken episode, never a lost one."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import psutil
import pytest
from odd_worlds import PROBLEM, NeedsJava, Odd, StartsNever, Tidy, Unmade

from onelayer.errors import UserError
from onelayer.tasks.contract import Outcome, Problem, View, WorldError
from onelayer.tasks.worlds import IsolatedWorld, ask, ending


def gone(process: psutil.Process, seconds: float = 20.0) -> bool:
    """Whether the process ends within the time (a dead one that nobody has fetched counts)."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            if process.status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.02)
    return False


STRANGERS: set[psutil.Process] = set()


@pytest.fixture(scope="module", autouse=True)
def strangers() -> None:
    """What other tests of this process keep running (multiprocessing's resource tracker, say) is no world's."""
    STRANGERS.update(psutil.Process().children(recursive=True))


def family() -> list[psutil.Process]:
    return [process for process in psutil.Process().children(recursive=True) if process not in STRANGERS]


def test_episodes_go_through_unchanged_one_after_another():
    world = IsolatedWorld(Odd, call_seconds=20)
    for name in ("a", "b"):
        assert world.reset(Problem(name, name, "")) == View(f"begin {name}", "start")
        assert world.act("north") == Outcome(View("turn 1", "north"), 1.0, False, False, True)
        assert [world.act("x").done for _ in range(2)] == [False, True]
    [process] = family()
    world.close()
    world.close()
    assert gone(process)


@pytest.fixture(scope="module")
def house() -> Iterator[IsolatedWorld]:
    """One world for every fault: after each, the next test's `reset` must begin afresh."""
    world = IsolatedWorld(Odd, call_seconds=20, name="the house")
    yield world
    world.close()


@pytest.mark.parametrize(
    ("action", "message"),
    [
        ("raise", "the house failed at 'act': KeyError: 'no such room'"),
        ("world error", "the lamp broke"),
        ("exit", r"the process of the house ended \(exit code 7\)"),
        ("die", r"the process of the house ended \(signal 9, SIGKILL\)"),
        ("abort", r"the process of the house ended \(signal 6, SIGABRT\)"),
        ("not a view", "the house answered nonsense: expected an outcome, found str"),
        ("not to be sent", "the house failed at 'act': its answer cannot be sent"),
        ("nan", "the house answered nonsense: expected a finite reward, found nan"),
        ("inf", "expected a finite reward, found inf"),
        ("true", "expected a number as the reward, found True"),
        ("text", "expected a number as the reward, found '1'"),
        ("maybe", "expected success to be true or false, found None"),
        ("wordless", "expected a view of texts"),
    ],
)
def test_a_fault_is_a_world_error_and_the_next_episode_is_played_in_a_new_process(action, message, house):
    assert house.reset(PROBLEM).text == "begin p"
    assert house.act("north").reward == 1.0
    [process] = family()
    with pytest.raises(WorldError, match=message):
        house.act(action)
    assert gone(process)
    with pytest.raises(WorldError, match="reset begins one"):
        house.act("north")


def test_a_hanging_world_is_ended_at_its_limit():
    world = IsolatedWorld(Odd, call_seconds=0.5)
    world.reset(PROBLEM)
    [process] = family()
    began = time.monotonic()
    with pytest.raises(WorldError, match=r"did not answer 'act' within 0.5 seconds and was ended"):
        world.act("sleep")
    assert 0.5 <= time.monotonic() - began < 10
    assert gone(process)
    assert world.reset(PROBLEM).text == "begin p"
    world.close()


def test_a_world_that_hangs_or_fails_where_it_is_made():
    with pytest.raises(WorldError, match="did not answer 'start' within 2 seconds"):
        IsolatedWorld(StartsNever, call_seconds=20, start_seconds=2).reset(PROBLEM)
    with pytest.raises(WorldError, match="failed at 'start': ValueError: bad jar"):
        IsolatedWorld(Unmade, call_seconds=20).reset(PROBLEM)
    assert not [process for process in family() if not gone(process)]


def test_what_the_user_must_mend_is_a_user_error():
    with pytest.raises(UserError, match="no java was found"):
        IsolatedWorld(NeedsJava, call_seconds=20).reset(PROBLEM)
    world = IsolatedWorld(Odd, call_seconds=20)
    with pytest.raises(UserError, match=r"games.zip: not found"):
        world.reset(Problem("missing", "missing", ""))
    world.close()
    assert not [process for process in family() if not gone(process)]


def test_what_the_world_prints_and_leaves_in_temporary_files_is_nobodys_business(capfd):
    world = IsolatedWorld(Odd, call_seconds=20)
    world.reset(PROBLEM)
    world.act("chatter")
    world.close()
    assert capfd.readouterr().out == ""


def test_closing_lets_the_world_clean_up_and_ends_what_it_started(tmp_path):
    world = IsolatedWorld(partial(Tidy, mark=tmp_path / "mark"), call_seconds=20)
    world.reset(PROBLEM)
    world.act("child")
    started = family()
    assert len(started) == 2
    world.close()
    assert all(gone(process) for process in started)
    assert (tmp_path / "mark").read_text() == "closed"


def test_an_interrupt_between_question_and_answer_ends_the_process(monkeypatch):
    world = IsolatedWorld(Odd, call_seconds=20)
    world.reset(PROBLEM)
    [process] = family()

    def interrupted(seconds: float) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(world._home._channel, "poll", interrupted)
    with pytest.raises(KeyboardInterrupt):
        world.act("north")
    assert gone(process)
    assert world.reset(PROBLEM).text == "begin p"
    world.close()


def test_a_world_outlives_the_thread_that_started_it():
    world = IsolatedWorld(Odd, call_seconds=20)
    for turn in range(2):
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(world.reset, PROBLEM).result().text == "begin p", turn
    world.close()


def test_one_question_asked_of_a_process_of_its_own():
    assert ask(partial(str, "abc"), "upper", "text") == "ABC"
    with pytest.raises(WorldError, match="text failed at 'title': AttributeError"):
        ask(partial(int, 3), "title", "text")
    assert not [process for process in family() if not gone(process)]


def test_how_a_process_ended_in_words():
    assert [ending(code) for code in (3, -9, -200, None)] == [
        "exit code 3",
        "signal 9, SIGKILL",
        "signal 200",
        "still running",
    ]


@pytest.mark.parametrize("action", ["sleep", "child"])
def test_no_process_is_left_where_our_own_is_killed(action, tmp_path):
    program = textwrap.dedent(
        f"""
        import sys, threading, time
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        from odd_worlds import PROBLEM, Odd
        from onelayer.tasks.worlds import IsolatedWorld
        world = IsolatedWorld(Odd, call_seconds=3600)
        world.reset(PROBLEM)
        acting = threading.Thread(target=world.act, args=({action!r},), daemon=True)
        acting.start()
        acting.join(1 if {action!r} == "sleep" else None)
        print("ready", flush=True)
        time.sleep(3600)
        """
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},  # a process killed like this leaves its temporary files
    )
    assert parent.stdout is not None
    assert parent.stdout.readline() == "ready\n"
    started = psutil.Process(parent.pid).children(recursive=True)
    assert len(started) == (2 if action == "child" else 1)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert all(gone(process) for process in started)
