"""Plain data as JSON with tags, and the messages that carry it: all that ever crosses a sandbox's wall.

Nothing here can make an object of a class of the sender's choosing: a value is None, a bool, int, float, complex, str,
bytes, list, tuple, set, frozenset, dict or range, or a *handle*, a number that stands for an object which stays on its
own side. What derives from one of these types crosses as that type, read with the type's own methods.

None, bool, str, float and small ints are themselves in JSON; everything else is a list whose first item is its tag.

This module runs on both sides, inside under the standard library alone.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from typing import Any, TypeAlias

# What JSON holds: a value, encoded.
Node: TypeAlias = Any

DEEPEST = 100
MOST_ITEMS = 500_000
MOST_BITS = 100_000
LONGEST_TEXT = 2**24
_SMALL = 2**63


class NotPlainError(ValueError):
    """A value cannot cross: too deep, too large, or of a type that may not; or a message is not one of ours."""


class GoneError(Exception):
    """The other side has closed its end."""


def encode(value: object, handle: Callable[[object], int] | None = None) -> Node:
    """Turn a value into what JSON holds; ``handle`` numbers the objects that cannot cross.

    Raises NotPlainError where the value is too deep or too large, or is no plain data and there is no ``handle``.
    """
    left = MOST_ITEMS

    def many(items: Any, depth: int) -> list[Node]:
        nonlocal left
        nodes = []
        for item in items:
            left -= 1
            if left < 0:
                raise NotPlainError(f"a value of more than {MOST_ITEMS} items")
            nodes.append(walk(item, depth + 1))
        return nodes

    def walk(value: Any, depth: int) -> Node:
        kind = type(value)
        if value is None or kind is bool or kind is float:
            return value
        if issubclass(kind, str):
            if str.__len__(value) > LONGEST_TEXT:
                raise NotPlainError(f"a text of more than {LONGEST_TEXT} characters")
            return str.__str__(value)
        if depth > DEEPEST:
            raise NotPlainError(f"a value nested deeper than {DEEPEST}")
        if issubclass(kind, int):
            value = int.__index__(value)
            if -_SMALL < value < _SMALL:
                return value
            if value.bit_length() > MOST_BITS:
                raise NotPlainError(f"an integer of more than {MOST_BITS} bits")
            return ["i", f"{value:x}"]
        if issubclass(kind, float):
            return float.__float__(value)
        if issubclass(kind, list):
            return ["l", *many(list.__iter__(value), depth)]
        if issubclass(kind, tuple):
            return ["t", *many(tuple.__iter__(value), depth)]
        if issubclass(kind, dict):
            pairs = [part for pair in dict.items(value) for part in pair]
            return ["d", *many(pairs, depth)]
        if issubclass(kind, set):
            return ["s", *many(set.__iter__(value), depth)]
        if issubclass(kind, frozenset):
            return ["f", *many(frozenset.__iter__(value), depth)]
        if issubclass(kind, bytes):
            if bytes.__len__(value) > LONGEST_TEXT:
                raise NotPlainError(f"more than {LONGEST_TEXT} bytes")
            return ["b", bytes.hex(value)]
        if issubclass(kind, complex):
            number = complex.__pos__(value)
            return ["c", number.real, number.imag]
        if kind is range:
            return ["r", *many((value.start, value.stop, value.step), depth)]
        if handle is None:
            raise NotPlainError(f"a value of the type {kind.__name__}")
        return ["h", handle(value), str(kind.__name__)[:100]]

    return walk(value, 0)


def decode(node: Node, handle: Callable[[int, str], object] | None = None) -> Any:
    """Make the value again; ``handle`` gives what stands for an object of the other side, by its number and type name.

    Raises NotPlainError where the node is not one that `encode` makes.
    """
    try:
        return _decode(node, handle)
    except (TypeError, ValueError, IndexError, RecursionError, OverflowError) as error:
        raise NotPlainError(f"not a value: {error}") from None


def _decode(node: Node, handle: Callable[[int, str], object] | None) -> Any:
    if node is None or type(node) in (bool, int, float, str):
        return node
    if type(node) is not list:
        raise ValueError(f"a JSON {type(node).__name__}")
    tag = node[0]
    if tag == "l":
        return [_decode(item, handle) for item in node[1:]]
    if tag == "t":
        return tuple([_decode(item, handle) for item in node[1:]])
    if tag == "d":
        parts = [_decode(item, handle) for item in node[1:]]
        return dict(zip(parts[::2], parts[1::2], strict=True))
    if tag == "s":
        return {_decode(item, handle) for item in node[1:]}
    if tag == "f":
        return frozenset([_decode(item, handle) for item in node[1:]])
    if tag == "i":
        if len(node[1]) > MOST_BITS // 4 + 2:
            raise ValueError("an integer too long")
        return int(node[1], 16)
    if tag == "b":
        return bytes.fromhex(node[1])
    if tag == "c":
        return complex(node[1], node[2])
    if tag == "r":
        return range(*[_decode(item, handle) for item in node[1:]])
    if tag == "h" and handle is not None and type(node[1]) is int and type(node[2]) is str:
        return handle(node[1], node[2])
    raise ValueError(f"an unknown tag {str(tag)[:20]!r}")


def matches(node: Node, expected: object) -> bool:
    """Tell whether an encoded value equals ``expected`` as ``==`` has it between plain values: 1 == 1.0 == True.

    It looks only as far as ``expected`` goes, so that the sender cannot make the comparison long. A handle and nan
    equal nothing. Raises NotPlainError as `decode` does.
    """
    try:
        return _matches(node, expected)
    except (TypeError, ValueError, RecursionError) as error:
        raise NotPlainError(f"not a value: {error}") from None


def _matches(node: Node, expected: object) -> bool:
    if isinstance(expected, (list, tuple, dict, set, frozenset)):
        tags = {list: "l", tuple: "t", dict: "d"}.get(type(expected), "sf")
        if type(node) is not list or not node or type(node[0]) is not str or node[0] not in tags:
            return False
        if len(node) - 1 != len(expected) * (2 if isinstance(expected, dict) else 1):
            return False
        if isinstance(expected, (list, tuple)):
            return all(map(_matches, node[1:], expected))
        if isinstance(expected, dict):
            found = {decode(key, _stranger): part for key, part in zip(node[1::2], node[2::2], strict=True)}
            return found.keys() == expected.keys() and all(_matches(found[key], part) for key, part in expected.items())
        return bool(decode(node, _stranger) == expected)
    if type(node) is list and node and node[0] not in ("i", "b", "c", "r"):
        return False
    return bool(decode(node) == expected)


def _stranger(_number: int, _kind: str) -> object:
    return object()


class Channel:
    """Messages over a socket: four bytes of length, then JSON; none longer than ``longest`` is sent or read."""

    def __init__(self, connection: socket.socket, longest: int) -> None:
        self.connection = connection
        self.longest = longest

    def send(self, message: list[Node], deadline: float | None = None) -> None:
        """Send a message. Raises NotPlainError where it is too long, GoneError and TimeoutError."""
        data = json.dumps(message, separators=(",", ":")).encode()
        if len(data) > self.longest:
            raise NotPlainError(f"a message of {len(data)} bytes; the limit is {self.longest}")
        self._wait(deadline)
        try:
            self.connection.sendall(len(data).to_bytes(4, "big") + data)
        except TimeoutError:
            raise
        except OSError as error:
            raise GoneError(str(error)) from None

    def receive(self, deadline: float | None = None) -> list[Node]:
        """Wait for a message. Raises GoneError, TimeoutError, and NotPlainError where it is none of ours."""
        size = int.from_bytes(self._read(4, deadline), "big")
        if size > self.longest:
            raise NotPlainError(f"a message of {size} bytes; the limit is {self.longest}")
        try:
            message = json.loads(self._read(size, deadline))
        except (ValueError, RecursionError) as error:
            raise NotPlainError(f"not a message: {error}") from None
        if type(message) is not list or not message or type(message[0]) is not str:
            raise NotPlainError("not a message")
        return message

    def _read(self, size: int, deadline: float | None) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            self._wait(deadline)
            try:
                part = self.connection.recv(min(size - len(parts), 1 << 20))
            except TimeoutError:
                raise
            except OSError as error:
                raise GoneError(str(error)) from None
            if not part:
                raise GoneError("the other side has ended")
            parts += part
        return bytes(parts)

    def _wait(self, deadline: float | None) -> None:
        if deadline is not None:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            self.connection.settimeout(left)
