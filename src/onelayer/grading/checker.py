"""Runs inside a sandbox of its own: judges a program, which lives in another sandbox, by test code.

The test code finds handles under the names of the program's functions. A call goes over the channel to the program, and
what comes back was made here from plain data, so that no comparison of the program's own ever decides. What cannot be
plain data is a `Handle` too, which can be called, iterated over, asked for attributes and handed back, and equals only
itself. Arguments cross as copies: a test never sees that its argument was changed.
"""

from __future__ import annotations

import ast
import builtins
import time
import types
from collections.abc import Iterator
from typing import Any, NoReturn

from onelayer.grading.plain import Channel, GoneError, Node, NotPlainError, decode, encode

_LONGEST_TEXT = 300


class RemoteError(Exception):
    """An exception of the program that has no built-in type to be raised as."""


class _StopError(BaseException):
    """The program cannot be asked any more; no ``except Exception`` of a test is to go on without it."""


class Remote:
    """The program, over its channel.

    Attributes:
        failure: the status and reason why it can no longer be asked, once that is so.
    """

    def __init__(self, channel: Channel, deadline: float) -> None:
        self.failure: tuple[str, str] | None = None
        self._channel = channel
        self._deadline = deadline
        self._handles: dict[int, Handle] = {}

    def send(self, message: list[Any]) -> None:
        """Ask. Raises as `receive` does."""
        self._guarded(lambda: self._channel.send(message, self._deadline))

    def receive(self) -> list[Node]:
        """Wait for an answer; an exception of the program is raised again here."""
        reply: list[Node] = self._guarded(lambda: self._channel.receive(self._deadline))
        if reply[:2] == ["raised", "MemoryError"]:
            self._stop("crashed", "MemoryError")
        if reply[0] == "raised":
            raise _exception(*reply[1:])
        if reply[0] == "unfit":
            self._stop("crashed", str(reply[1])[:_LONGEST_TEXT])
        return reply

    def ask(self, message: list[Any]) -> Any:
        """Ask for a value. Raises StopIteration where an iterator has come to its end."""
        self.send(message)
        reply = self.receive()
        if reply[0] == "end" and message[0] == "next":
            raise StopIteration
        if reply[0] != "value" or len(reply) != 2:
            self._stop("crashed", "an answer that is none")
        return self.decode(reply[1])

    def decode(self, node: Node) -> Any:
        """Make a value of the program's again, or a handle to it."""
        return self._guarded(lambda: decode(node, self._handle))

    def defined(self) -> dict[str, Node]:
        """Wait until the program has been read; return its functions and classes by name."""
        pairs = self.receive()
        if pairs[0] != "defined" or not all(type(pair) is list and len(pair) == 2 for pair in pairs[1:]):
            self._stop("crashed", "an answer that is none")
        return {name: node for name, node in pairs[1:] if type(name) is str}

    def call(self, function: Node, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Call a function of the program."""
        nodes = [self._guarded(lambda: encode(value, self._number)) for value in arguments]  # noqa: B023 (called at once)
        extra = {name: self._guarded(lambda: encode(value, self._number)) for name, value in named.items()}  # noqa: B023
        return self.ask(["call", function, nodes, extra])

    def set(self, node: Node, name: str, value: Any) -> None:
        """Set an attribute of an object of the program."""
        self.ask(["set", node, name, self._guarded(lambda: encode(value, self._number))])

    def _number(self, value: object) -> int:
        if not isinstance(value, Handle):
            self._stop("broken", f"the tests pass a {type(value).__name__}, which cannot be handed to a program")
        return value._number

    def _handle(self, number: int, kind: str) -> Handle:
        return self._handles.setdefault(number, Handle(self, number, kind))

    def _guarded(self, work: Any) -> Any:
        if self.failure:
            raise _StopError
        try:
            return work()
        except GoneError:
            self._stop("crashed", "")
        except TimeoutError:
            self._stop("timeout", "")
        except NotPlainError as error:
            self._stop("crashed", str(error)[:_LONGEST_TEXT])

    def _stop(self, status: str, reason: str) -> NoReturn:
        self.failure = (status, reason)
        raise _StopError


class Handle:
    """An object that stays with the program."""

    _remote: Remote
    _number: int
    _node: Node

    def __init__(self, remote: Remote, number: int, kind: str) -> None:
        self.__dict__.update(_remote=remote, _number=number, _node=["h", number, kind])

    def __getattr__(self, name: str) -> Any:
        """Ask for an attribute; Python's own protocols (copying, lengths) find none."""
        if name.startswith("__"):
            raise AttributeError(name)
        return self._remote.ask(["get", self._node, name])

    def __setattr__(self, name: str, value: Any) -> None:
        self._remote.set(self._node, name, value)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Call it."""
        return self._remote.call(self._node, arguments, named)

    def __iter__(self) -> Iterator[Any]:
        """Iterate over it, one question an item."""
        iterator = self._remote.ask(["iter", self._node])
        while True:
            try:
                item = self._remote.ask(["next", iterator._node])
            except StopIteration:
                return
            yield item

    def __repr__(self) -> str:
        return f"<{self._node[2]} of the program>"


def _exception(name: object, text: object) -> Exception:
    kind = getattr(builtins, str(name), None)
    if isinstance(kind, type) and issubclass(kind, Exception) and not issubclass(kind, StopIteration):
        try:
            return kind(str(text))
        except TypeError:
            pass  # a type that takes more than a text
    return RemoteError(f"{str(name)[:50]}: {text}")


def judge(host: Channel, program: Channel) -> None:
    """Judge one program; the host sends ``["judge", secret, program, tests, entry_point, setup, seconds]``.

    The answer is a list of the secret, ``passed``, a status and a reason. Status ``broken`` says that the tests
    themselves cannot be run.
    """
    _, secret, source, tests, entry_point, setup, seconds = host.receive()
    remote = Remote(program, time.monotonic() + seconds)
    try:
        status, reason = _judge(remote, source, tests, entry_point, setup)
    except BaseException as error:
        status, reason = "ok", _text(error)
    if remote.failure:
        status, reason = remote.failure
    host.send(["judged", secret, status == "passed", "ok" if status == "passed" else status, reason])


def _judge(remote: Remote, source: str, tests: str, entry_point: str | None, setup: str) -> tuple[str, str]:
    # The program starts while the tests are made ready.
    try:
        remote.send(["serve", source])
    except _StopError:
        return "crashed", ""
    module = types.ModuleType("tests")
    names = module.__dict__
    try:
        exec(compile(setup, "setup.py", "exec"), names)
        tree = ast.parse(tests)
        code = compile(tree, "tests.py", "exec")
    except BaseException as error:
        return "broken", f"the tests cannot be run: {_text(error)}"
    defined = remote.defined()
    if entry_point is not None:
        wanted = {entry_point}
    else:
        # Never a built-in beside other names: the program's own `set` or `len` would judge the program.
        named = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        wanted = {name for name in named if not name.startswith("_") and name not in names}
        if len(named) > 1:
            wanted = {name for name in wanted if not hasattr(builtins, name)}
    for name in wanted.intersection(defined):
        names[name] = remote.decode(defined[name])
    if entry_point is not None and entry_point not in defined:
        return "ok", f"NameError: name {entry_point!r} is not defined"
    try:
        exec(code, names)
    except AssertionError:
        return "ok", "wrong result"
    return "passed", ""


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:_LONGEST_TEXT]
