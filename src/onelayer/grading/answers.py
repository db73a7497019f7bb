"""Runs inside a sandbox: a program, and the answers to calls of its functions."""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Callable
from typing import Any

from onelayer.grading.plain import Channel, GoneError, NotPlainError, decode, encode

_LONGEST_TEXT = 300


class _Handles:
    """The objects that the other side holds by number."""

    def __init__(self) -> None:
        self._objects: list[object] = []
        self._numbers: dict[int, int] = {}

    def number(self, value: object) -> int:
        known = self._numbers.get(id(value))
        if known is None:
            known = self._numbers[id(value)] = len(self._objects)
            self._objects.append(value)
        return known

    def value(self, number: int, _kind: str) -> object:
        return self._objects[number]


def answer_calls(channel: Channel) -> None:
    """Run a program, then call its functions as the other side asks.

    ``["calls", program, name, [arguments, …]]`` is answered with every result at once. After ``["serve", program]`` and
    its answer come ``["call", function, arguments, named]``, ``["iter", object]``, ``["next", iterator]``,
    ``["get", object, name]`` and ``["set", object, name, value]``, until the channel closes.
    """
    handles = _Handles()
    module = types.ModuleType("program")
    names = module.__dict__
    sys.modules["program"] = module

    def answer(work: Callable[[], list[Any]]) -> bool:
        """Send what the work gives, or what it raises."""
        try:
            reply = work()
            channel.send(reply)
        except NotPlainError as error:
            channel.send(["unfit", str(error)])
        except GoneError:
            os._exit(0)
        except BaseException as error:
            channel.send(["raised", *_describe(error)])
            return False
        return True

    def run(program: str) -> None:
        exec(compile(program, "program.py", "exec"), names)

    def arguments(nodes: list[Any]) -> list[Any]:
        return [decode(node, handles.value) for node in nodes]

    def result(function: Any, nodes: list[Any], named: dict[str, Any]) -> Any:
        extra = {name: decode(node, handles.value) for name, node in named.items()}
        return encode(function(*arguments(nodes), **extra), handles.number)

    def calls(program: str, name: str, many: list[list[Any]]) -> list[Any]:
        run(program)
        if name not in names:
            raise NameError(f"name {name!r} is not defined")
        return ["results", *[result(names[name], nodes, {}) for nodes in many]]

    def serve(program: str) -> list[Any]:
        run(program)
        defined = [(name, value) for name, value in list(names.items()) if type(name) is str and callable(value)]
        return ["defined", *[[name, encode(value, handles.number)] for name, value in defined]]

    def call(function: Any, nodes: list[Any], named: dict[str, Any]) -> list[Any]:
        return ["value", result(decode(function, handles.value), nodes, named)]

    def iterate(node: Any) -> list[Any]:
        return ["value", ["h", handles.number(iter(decode(node, handles.value))), "iterator"]]

    def following(node: Any) -> list[Any]:
        try:
            return ["value", encode(next(decode(node, handles.value)), handles.number)]
        except StopIteration:
            return ["end"]

    def get(node: Any, name: str) -> list[Any]:
        return ["value", encode(getattr(decode(node, handles.value), name), handles.number)]

    def change(node: Any, name: str, value: Any) -> list[Any]:
        setattr(decode(node, handles.value), name, decode(value, handles.value))
        return ["value", None]

    steps: dict[str, Callable[..., list[Any]]] = {
        "calls": calls, "serve": serve, "call": call, "iter": iterate, "next": following,
        "get": get, "set": change,
    }  # fmt: skip
    while True:
        try:
            kind, *rest = channel.receive()
        except GoneError:
            return
        if not answer(lambda: steps[kind](*rest)) and kind in ("calls", "serve"):  # noqa: B023 (called at once)
            return
        if kind == "calls":
            return


def _describe(error: BaseException) -> tuple[str, str]:
    """Name the nearest built-in type of an exception, and its text."""
    kind = next((kind for kind in type(error).__mro__ if kind.__module__ == "builtins"), Exception)
    try:
        text = str.__str__(str(error))[:_LONGEST_TEXT]
    except BaseException:
        text = ""
    return kind.__name__, text
