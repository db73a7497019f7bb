"""Who holds a run, with real processes: living, dead, stopped, and silent ones of another machine."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from onelayer import ownership, store
from onelayer.ownership import OwnershipLostError

_CONTEXT = multiprocessing.get_context("fork")


def elsewhere(patch: pytest.MonkeyPatch, host: str) -> None:
    """Let this process be one of another machine."""
    original = ownership._identity
    patch.setattr(ownership, "_identity", lambda pid: original(pid) | {"host": host, "boot": host})


def hold(host: str | None, write: Path, hears: Any, says: Any) -> None:
    """Take a run, say so, and write when told to; say what came of it."""
    with pytest.MonkeyPatch.context() as patch:
        if host is not None:
            elsewhere(patch, host)
        try:
            with store.exclusive("s", "r"):
                says.send("held")
                while hears.recv() == "write":
                    store.write_bytes(write, b"by " + str(host).encode())
                    says.send("written")
        except OwnershipLostError as error:
            says.send(str(error))


class Owner:
    """Another process that takes the run."""

    def __init__(self, write: Path, host: str | None = None) -> None:
        theirs, self._tell = _CONTEXT.Pipe(duplex=False)
        self._heard, says = _CONTEXT.Pipe(duplex=False)
        self.process = _CONTEXT.Process(target=hold, args=(host, write, theirs, says))
        self.process.start()

    def says(self, seconds: float = 30) -> str | None:
        return self._heard.recv() if self._heard.poll(seconds) else None

    def tell(self, what: str) -> None:
        self._tell.send(what)

    def send_signal(self, number: signal.Signals) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, number)

    def end(self) -> None:
        if self.process.is_alive():
            self.process.kill()
        self.process.join()


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Owner]]:
    """Starts other processes that take the run, in a folder of this test's."""
    monkeypatch.chdir(tmp_path)
    owners: list[Owner] = []

    def begin(host: str | None = None) -> Owner:
        owners.append(Owner(tmp_path / "result", host))
        return owners[-1]

    yield begin
    for owner in owners:
        owner.end()


@contextmanager
def quick(patch: pytest.MonkeyPatch, silence: float = 1.0) -> Iterator[None]:
    """Signs of life come and are missed in seconds; set before other processes start."""
    patch.setattr(ownership, "SIGN_OF_LIFE_SECONDS", silence / 10)
    patch.setattr(ownership, "SILENCE_SECONDS", silence)
    patch.setattr(ownership, "_POLL_SECONDS", 0.02)
    yield


def test_a_dead_owner_of_this_machine_loses_at_once(start: Callable[..., Owner]) -> None:
    first = start()
    assert first.says() == "held"
    assert store.is_held("s", "r")
    second = start()
    assert second.says(1) is None
    first.end()
    assert second.says() == "held"


def test_a_stopped_owner_of_this_machine_keeps_it(start: Callable[..., Owner], monkeypatch: pytest.MonkeyPatch) -> None:
    with quick(monkeypatch, silence=0.2):
        first = start()
        assert first.says() == "held"
        first.send_signal(signal.SIGSTOP)
        second = start()
        assert second.says(1) is None
        first.send_signal(signal.SIGCONT)
        first.tell("write")
        assert first.says() == "written"
        first.tell("end")
        assert second.says() == "held"


def test_a_silent_owner_of_another_machine_loses_and_comes_back_without_writing(
    start: Callable[..., Owner], monkeypatch: pytest.MonkeyPatch
) -> None:
    with quick(monkeypatch):
        first = start("node-1")
        assert first.says() == "held"
        first.tell("write")
        assert first.says() == "written"
        second = start("node-2")
        assert second.says(2.5) is None  # it shows life all the while
        first.send_signal(signal.SIGSTOP)
        assert second.says() == "held"
        second.tell("write")
        assert second.says() == "written"
        first.tell("write")
        first.send_signal(signal.SIGCONT)
        lost = first.says()
        assert lost is not None
        assert "s/r: process" in lost
        assert f"process {second.process.pid} on node-2 took it over" in lost
        assert Path("result").read_bytes() == b"by node-2"
        # The one that lost it lets nothing go: a third still waits for the second.
        first.process.join(30)
        third = start("node-3")
        assert third.says(0.5) is None
        second.tell("end")
        assert third.says() == "held"


def test_of_many_that_wait_one_takes_over(start: Callable[..., Owner], monkeypatch: pytest.MonkeyPatch) -> None:
    with quick(monkeypatch, silence=5.0):
        first = start()
        assert first.says() == "held"
        waiting = [start(f"node-{index}") for index in range(6)] + [start() for _ in range(2)]
        time.sleep(0.3)
        first.end()
        # Those of this machine see that it died at once; one has it, then the other, then those of other machines.
        for _ in range(len(waiting)):
            ready = multiprocessing.connection.wait([owner._heard for owner in waiting], 30)
            assert len(ready) == 1
            winner = next(owner for owner in waiting if owner._heard is ready[0])
            assert winner.says() == "held"
            assert not multiprocessing.connection.wait([o._heard for o in waiting if o is not winner], 0.1)
            winner.tell("end")
            winner.process.join(30)
            waiting.remove(winner)


def test_a_claim_from_an_old_listing_is_given_up(tmp_path: Path) -> None:
    held = ownership.claim(tmp_path, "x")
    numbers = [[], [1]]
    with pytest.MonkeyPatch.context() as patch:
        original = ownership._numbers
        # The first look finds a folder as it was before anybody came, and number 1 has been cleaned away since.
        (tmp_path / "1").rename(tmp_path / "7")
        patch.setattr(ownership, "_numbers", lambda folder: numbers.pop(0) if len(numbers) > 1 else original(folder))
        with pytest.raises(TimeoutError):
            ownership.claim(tmp_path, "x", while_waiting=_give_up)
    assert sorted(os.listdir(tmp_path)) == ["7"]
    held.release()


def _give_up() -> None:
    raise TimeoutError


def test_few_files_are_left(tmp_path: Path) -> None:
    for _ in range(30):
        ownership.claim(tmp_path, "x").release()
    assert len(os.listdir(tmp_path)) <= 10
    assert not ownership.is_claimed(tmp_path)
    assert not ownership.is_claimed(tmp_path / "none")


def test_who_it_is_says_the_job_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "42")
    held = ownership.claim(tmp_path, "x")
    with pytest.raises(TimeoutError):
        ownership.claim(tmp_path, "x", while_waiting=_give_up)
    host = json.loads((tmp_path / "1").read_text())["host"]
    assert capsys.readouterr().out == (
        f"x: process {os.getpid()} on {host} (job 42) is at work on it; waiting for it to end\n"
    )
    held.release()


def test_a_claim_whose_file_is_gone_is_lost(tmp_path: Path) -> None:
    held = ownership.claim(tmp_path / "owners", "x")
    (tmp_path / "owners/1").unlink()
    with pytest.raises(OwnershipLostError, match="x: its claim was removed"):
        store.write_json(tmp_path / "result.json", {})
    assert not (tmp_path / "result.json").exists()
    held.release()
