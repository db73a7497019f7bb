"""Judging programs that a model wrote, in bubblewrap.

A program never shares a process with what judges it. It runs behind a wall (`onelayer.grading.confine`) in a process
that answers calls (`onelayer.grading.answers`), and only plain data crosses (`onelayer.grading.plain`). Results
are compared here (`Sandbox.judge_calls`), or by test code in a second sandbox (`Sandbox.judge_tests`,
`onelayer.grading.checker`). Neither expected values nor test code ever enter the sandbox in which the program runs, so
nothing that it does there, whether to Python itself, to its process or to the channel, makes a wrong result right.

A sandbox (`onelayer.grading.session`) is started once and takes programs one after another: that costs a fork a
program. It takes the next only when every process of the last is gone and its folder is as empty as it was; else, and
after every time-out, it is ended and a new one started.
"""

from __future__ import annotations

import secrets
import socket
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from onelayer.grading.plain import Channel, GoneError, Node, NotPlainError, encode, matches
from onelayer.grading.session import GRACE_SECONDS, Isolation, Limits, Role, SandboxError, Session
from onelayer.task_settings import SandboxSettings

__all__ = ["JudgeError", "Limits", "Sandbox", "SandboxError", "Verdict"]

Fallback: TypeAlias = Literal["refuse", "limits-only"]


class JudgeError(RuntimeError):
    """The judge failed: the tests cannot be run, or the checker died. This says nothing of the program."""


@dataclass(frozen=True)
class Verdict:
    """The judgement of a program.

    Attributes:
        passed: whether every test held.
        status: ``ok`` where it was judged, ``timeout``, or ``crashed`` where it died or broke a limit.
        reason: why it did not pass: "wrong result", the exception, or how it died.
    """

    passed: bool
    status: Literal["ok", "timeout", "crashed"]
    reason: str


class Sandbox:
    """Judges programs, one at a time. It starts with the first program; until then it can be pickled.

    Use it from one thread: its processes end with the thread that started them, however that ends.

    With ``fallback="limits-only"`` and where bubblewrap cannot be used, programs run with limits and time-outs alone:
    they can then read and write what the user can, and use the network. It says so on stderr. ``isolation`` tells which
    it is.
    """

    def __init__(self, limits: Limits | None = None, fallback: Fallback = "refuse", bwrap: str = "bwrap") -> None:
        self.limits = limits or Limits()
        self.fallback = fallback
        self.isolation: Isolation = "bubblewrap"
        self._bwrap = bwrap
        self._sessions: dict[Role, Session] = {}
        self._tested = False

    @classmethod
    def of(cls, settings: SandboxSettings) -> Sandbox:
        """The sandbox that a study asks for."""
        limits = Limits(seconds=settings.seconds, memory_mb=settings.memory_mb, message_mb=settings.message_mb)
        return cls(limits, settings.fallback)

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        if self._sessions:
            raise TypeError("a sandbox that has started cannot be pickled")
        return self.__dict__

    def close(self) -> None:
        """End every process. The next judgement would start anew."""
        for session in self._sessions.values():
            session.kill()
        self._sessions.clear()

    def judge_calls(
        self, program: str, entry_point: str, calls: Sequence[Sequence[Any]], expected: Sequence[Any]
    ) -> Verdict:
        """Judge a program by what its function returns for each of ``calls`` (a sequence of arguments).

        Results are compared as ``==`` does it between plain values: 1, 1.0 and True are equal, a list and a tuple are
        not, nan equals nothing. Raises SandboxError, and JudgeError where the arguments are no plain data.
        """
        if len(calls) != len(expected):
            raise ValueError(f"{len(calls)} calls with {len(expected)} expected results")
        self._test_itself()
        return self._judge_calls(program, entry_point, calls, expected)

    def judge_tests(self, program: str, tests: str, entry_point: str | None = None, setup: str = "") -> Verdict:
        """Judge a program by test code, which passes where it comes to its end without an exception.

        For HumanEval, ``tests`` is a row's ``test`` and a line that calls ``check``, and ``setup`` its prompt, whose
        helper functions are then not the program's; for MBPP, ``tests`` is the asserts, and there is no entry point.

        ``setup`` runs first, in the tests' namespace. Then the function ``entry_point`` of the program takes its name
        there; without an entry point every function and class of the program does that the tests name and ``setup``
        does not define (one named like a built-in only where the tests name nothing else). Tests see copies: that an
        argument was changed in place is not seen. Raises SandboxError, and JudgeError where the tests or the setup
        cannot be run at all.
        """
        self._test_itself()
        return self._judge_tests(program, tests, entry_point, setup)

    def _judge_calls(
        self, program: str, entry_point: str, calls: Sequence[Sequence[Any]], expected: Sequence[Any]
    ) -> Verdict:
        try:
            job = ["calls", program, entry_point, [[encode(value) for value in call] for call in calls]]
        except NotPlainError as error:
            raise JudgeError(f"the arguments of {entry_point} cannot be handed to a program: {error}") from None
        session = self._session("program")
        ours, theirs = socket.socketpair()
        channel = Channel(ours, self._message_bytes)
        deadline = time.monotonic() + self.limits.seconds
        try:
            session.run(theirs)
            channel.send(job, deadline)
            reply = channel.receive(deadline)
            verdict = _compare(reply, expected)
        except TimeoutError:
            verdict = self._timeout()
        except GoneError:
            verdict = self._gone()
        except NotPlainError as error:
            verdict = Verdict(False, "crashed", str(error))
        finally:
            ours.close()
        self._end("program", well=verdict.status == "ok")
        return verdict

    def _judge_tests(self, program: str, tests: str, entry_point: str | None, setup: str) -> Verdict:
        checker, session = self._session("checker"), self._session("program")
        ours, theirs = socket.socketpair()
        asking, answering = socket.socketpair()
        channel = Channel(ours, self._message_bytes)
        seconds = self.limits.seconds
        deadline = time.monotonic() + seconds + GRACE_SECONDS
        # Said by the checker at the end alone; the program has no way to it.
        secret = secrets.token_hex(16)
        try:
            session.run(answering)
            checker.run(theirs, asking)
            channel.send(["judge", secret, program, tests, entry_point, setup, seconds], deadline)
            reply = channel.receive(deadline)
        except TimeoutError:
            self._end("checker", well=False)
            self._end("program", well=False)
            return Verdict(False, "timeout", f"the tests did not come to their end within {seconds:g} s")
        except (GoneError, NotPlainError) as error:
            how = checker.settle()
            self._end("checker", well=False)
            self._end("program", well=False)
            raise JudgeError(f"the checker died: {how or error}") from None
        finally:
            ours.close()
        self._end("checker", well=True)
        if len(reply) != 5 or reply[:2] != ["judged", secret]:
            self._end("program", well=False)
            raise JudgeError("the checker's answer is not its own: the tests must not end the process")
        _, _, passed, status, reason = reply
        if status == "broken":
            self._end("program", well=False)
            raise JudgeError(reason)
        verdict = Verdict(passed is True and status == "ok", status, reason)
        if status == "timeout":
            verdict = self._timeout()
        elif status == "crashed" and not reason:
            verdict = self._gone()
        self._end("program", well=status == "ok")
        return verdict

    def _timeout(self) -> Verdict:
        return Verdict(False, "timeout", f"no result within {self.limits.seconds:g} s")

    def _gone(self) -> Verdict:
        how = self._sessions["program"].settle()
        return Verdict(
            False, "crashed", f"the program died: {how}" if how else "the program ended before its calls did"
        )

    @property
    def _message_bytes(self) -> int:
        return self.limits.message_mb * 2**20

    def _end(self, role: Role, well: bool) -> None:
        """A judgement is over: make the session ready for the next program, or end it for good."""
        session = self._sessions[role]
        if well and session.reusable:
            session.end()
        else:
            session.kill()
            del self._sessions[role]

    def _session(self, role: Role) -> Session:
        """The session, ready for a program: the last one's, where that left it as it was, or a new one."""
        session = self._sessions.get(role)
        if session is not None and session.alive() and session.settle() is not None:
            return session
        if session is not None:
            session.kill()
            del self._sessions[role]
        try:
            session = Session(role, self.limits, self.isolation, self._bwrap)
        except SandboxError as error:
            # Only from the start: where the wall once stood, no trouble with the next may take it away.
            if self.isolation != "bubblewrap" or self.fallback != "limits-only" or self._tested or self._sessions:
                raise
            reason = str(error).splitlines()[0]
            print(f"warning: programs run without isolation of files and network: {reason}", file=sys.stderr)
            self.isolation = "limits-only"
            session = Session(role, self.limits, self.isolation, self._bwrap)
        self._sessions[role] = session
        return session

    def _test_itself(self) -> None:
        """Once: a right program must pass and a wrong one must not, either way of judging."""
        if self._tested:
            return
        right, wrong = "def f(x):\n    return x * x", "def f(x):\n    return x + x"
        for program, passes in ((right, True), (wrong, False)):
            found: list[object] = [self._judge_calls(program, "f", [(3,)], [9])]
            try:
                found.append(self._judge_tests(program, "assert f(3) == 9", "f", ""))
            except JudgeError as error:
                found.append(error)
            if any(not isinstance(one, Verdict) or one.passed is not passes or one.status != "ok" for one in found):
                self.close()
                raise SandboxError(
                    f"the sandbox fails its own test: found {found}, expected passed={passes}. The limits may be too "
                    f"low for this machine: {self.limits}"
                )
        self._tested = True


def _compare(reply: list[Node], expected: Sequence[Any]) -> Verdict:
    kind, *rest = reply
    if kind == "results" and len(rest) == len(expected):
        passed = all(map(matches, rest, expected))
        return Verdict(passed, "ok", "" if passed else "wrong result")
    # Only texts are put into a reason: the text of anything else that a program made up could take long, or recurse.
    texts = [part[:300] for part in rest if type(part) is str]
    if kind == "raised" and len(texts) == len(rest) == 2:
        status: Literal["ok", "crashed"] = "crashed" if texts[0] == "MemoryError" else "ok"
        return Verdict(False, status, f"{texts[0][:50]}: {texts[1]}")
    if kind == "unfit" and len(texts) == len(rest) == 1:
        raise NotPlainError(texts[0])
    raise NotPlainError("an answer that is none")
