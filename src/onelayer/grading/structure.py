"""Answers taken apart: lists, sets, tuples, intervals, unions, matrices, equations and inequalities.

What has parts is compared part by part, so that computer algebra only ever sees single expressions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias

from onelayer.grading.normalizing import normalize

# Longer, and it is no final answer.
LONGEST = 1000

_DEEPEST = 8
_MOST_PARTS = 64
_PAIRS = {"(": ")", "[": "]", "{": "}", "\\{": "\\}", "\\langle": "\\rangle"}
_OPENERS = frozenset(_PAIRS)
_CLOSERS = frozenset(_PAIRS.values())
_TOKEN = re.compile(r"\\[a-zA-Z]+|\\.|.", re.DOTALL)
_NAME = re.compile(
    r"(?:\\angle\s*)?(?:[A-Za-z]{1,3}|\\[a-zA-Z]+)'*(?:\s*_\s*(?:\{[^{}]*\}|\w))?(?:\s*\([^()=<>]{0,20}\))?"
)
_FLIPPED = {"<": ">", ">": "<", "\\le": "\\ge", "\\ge": "\\le"}
_MATRIX = re.compile(
    r"\\begin\s*\{([pbBvV]?matrix|smallmatrix|array)\}(?:\s*\{[lcr| ]*\})?(.*)\\end\s*\{\1\}", re.DOTALL
)
_THOUSANDS = re.compile(r"[+-]?\s*(?:\\\$)?\s*\d{1,3}(?:,\d{3})+(?:\.\d+)?")


@dataclass(frozen=True)
class Leaf:
    """A single expression, number or word."""

    text: str


@dataclass(frozen=True)
class Several:
    """Answers of which the order does not matter: a list, or a set."""

    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Bracket:
    """A tuple, point or interval: ``(a, b]``; an open interval of two ends looks as a point does."""

    opener: str
    parts: tuple[Node, ...]
    closer: str


@dataclass(frozen=True)
class Union:
    """Intervals, in any order."""

    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Matrix:
    """Rows of entries; ``kind`` tells a determinant from a matrix."""

    kind: str
    rows: tuple[tuple[Node, ...], ...]


@dataclass(frozen=True)
class Named:
    """``x = 5``: a name and what it is."""

    name: str
    value: Node


@dataclass(frozen=True)
class Equation:
    """Two sides, the left one more than a name."""

    left: str
    right: str


Node: TypeAlias = Leaf | Several | Bracket | Union | Matrix | Named | Equation


class TooDeepError(ValueError):
    """An answer of more parts, or nested deeper, than any answer is."""


def take_apart(text: str, depth: int = 0) -> Node:
    """Take an answer apart, as `onelayer.grading.normalizing.normalize` writes it. Raises TooDeepError."""
    if depth > _DEEPEST:
        raise TooDeepError(f"nested more than {_DEEPEST} deep")
    text = text.strip().strip(",;").strip()
    if _THOUSANDS.fullmatch(text):
        return Leaf(text)
    matrix = _MATRIX.fullmatch(text)
    if matrix and text.count("\\begin") == 1:
        return _matrix(matrix.group(1), matrix.group(2), depth)
    pieces, marks = _split(text, (",", ";", "\\and", "\\or"))
    if len(pieces) > 1 and all(pieces):
        return _several([_intervals(piece, depth) for piece in pieces], marks)
    pieces, _ = _split(text, ("\\cup",))
    if len(pieces) > 1 and all(pieces):
        return Union(tuple(take_apart(piece, depth + 1) for piece in pieces))
    return _intervals(text, depth)


def gold_fault(answer: str) -> str | None:
    """Why a text can be no gold answer, in words after "one that"; None where it can."""
    text = normalize(answer)
    if not text:
        return "holds nothing"
    if len(text) > LONGEST:
        return f"has more than {LONGEST} characters"
    try:
        take_apart(text)
    except TooDeepError as error:
        return f"is {error}"
    return None


def as_list(text: str) -> Node | None:
    """Read ``1,234`` as two answers instead of a number; None where there is nothing to read so."""
    if not _THOUSANDS.fullmatch(text.strip()) or "$" in text:
        return None
    return Several(tuple(Leaf(part) for part in text.split(",")))


def _several(parts: list[Node], marks: list[str]) -> Node:
    """A list; inequalities joined by "or" are a union, two joined by "and" are what both hold of."""
    flat: list[Node] = []
    for part in parts:
        flat += part.parts if isinstance(part, Several) else [part]
    if len(flat) > _MOST_PARTS:
        raise TooDeepError(f"of more than {_MOST_PARTS} parts")
    if all(isinstance(part, Bracket) and part.closer in (")", "]") for part in parts) and set(marks) == {"\\or"}:
        return Union(tuple(flat))
    if len(parts) == 2 and marks == ["\\and"]:
        both = _overlap(parts[0], parts[1])
        if both:
            return both
    return Several(tuple(flat))


def _overlap(one: Node, other: Node) -> Bracket | None:
    """The interval of ``x > a`` and ``x < b``, in either order."""
    for low, high in ((one, other), (other, one)):
        if not (isinstance(low, Bracket) and isinstance(high, Bracket) and len(low.parts) == len(high.parts) == 2):
            continue
        if low.parts[1] == Leaf("\\infty") and high.parts[0] == Leaf("-\\infty"):
            return Bracket(low.opener, (low.parts[0], high.parts[1]), high.closer)
    return None


def _intervals(text: str, depth: int) -> Node:
    """What has no comma outside brackets: relations, plus-minus, brackets, or a single expression."""
    pieces, marks = _split(text, ("=", "<", ">", "\\le", "\\ge", "\\ne", "\\in", "\\approx"))
    pieces = [piece.strip() for piece in pieces]
    if len(pieces) > 1 and all(pieces):
        return _relation(pieces, marks, text, depth)
    for sign, other in (("\\pm", "\\mp"), ("\\mp", "\\pm")):
        if re.search(re.escape(sign) + r"(?![a-zA-Z])", text) and _split(text, (sign, other))[1]:
            return Several(tuple(_intervals(_signed(text, plus), depth + 1) for plus in ("+", "-")))
    return _bracket(text, depth) or Leaf(text)


def _signed(text: str, plus: str) -> str:
    minus = "-" if plus == "+" else "+"
    text = re.sub(r"\\pm(?![a-zA-Z])\s*", plus, text)
    return re.sub(r"\\mp(?![a-zA-Z])\s*", minus, text).strip().removeprefix("+")


def _relation(pieces: list[str], marks: list[str], text: str, depth: int) -> Node:
    named = bool(_NAME.fullmatch(pieces[0]))
    if marks == ["\\in"] and named:
        return take_apart(pieces[1], depth + 1)
    if set(marks) <= {"=", "\\approx"}:
        # Of a chain of equations, the last side is the answer.
        if named or re.fullmatch(r"\(\s*\\?[A-Za-z]+(?:\s*,\s*\\?[A-Za-z]+)+\s*\)", pieces[0]):
            return Named(pieces[0], take_apart(pieces[-1], depth + 1))
        return Equation(pieces[0], pieces[-1])
    infinite = Leaf("-\\infty"), Leaf("\\infty")
    if len(pieces) == 2 and marks[0] in _FLIPPED:
        one, mark, other = pieces[0], marks[0], pieces[1]
        if not named and _NAME.fullmatch(other):
            one, mark, other, named = other, _FLIPPED[mark], one, True
        if named:
            bound = Leaf(other)
            closed = mark in ("\\le", "\\ge")
            if mark in ("<", "\\le"):
                return Bracket("(", (infinite[0], bound), "]" if closed else ")")
            return Bracket("[" if closed else "(", (bound, infinite[1]), ")")
    if len(pieces) == 2 and marks == ["\\ne"] and named:
        hole = Leaf(pieces[1])
        return Union((Bracket("(", (infinite[0], hole), ")"), Bracket("(", (hole, infinite[1]), ")")))
    if len(pieces) == 3 and _NAME.fullmatch(pieces[1]):
        low, high = (pieces[0], pieces[2]) if set(marks) <= {"<", "\\le"} else (pieces[2], pieces[0])
        if set(marks) <= {">", "\\ge"}:
            marks = marks[::-1]
        elif not set(marks) <= {"<", "\\le"}:
            return Leaf(text)
        opener, closer = ("(" if marks[0] in "<>" else "["), (")" if marks[1] in "<>" else "]")
        return Bracket(opener, (Leaf(low), Leaf(high)), closer)
    return Leaf(text)


def _bracket(text: str, depth: int) -> Node | None:
    if text.replace(" ", "") in ("\\mathbb{R}", "\\text{allrealnumbers}"):
        return Bracket("(", (Leaf("-\\infty"), Leaf("\\infty")), ")")
    opener = next((mark for mark in ("\\langle", "\\{", "(", "[") if text.startswith(mark)), None)
    closer = next((mark for mark in ("\\rangle", "\\}", ")", "]") if text.endswith(mark)), None)
    if opener is None or closer is None or not _encloses(text, opener, closer):
        return None
    inner = text[len(opener) : len(text) - len(closer)].strip()
    pieces, _ = _split(inner, (",", ";"), thousands=False)
    if (opener, closer) == ("\\{", "\\}"):
        return _several([_intervals(piece, depth + 1) for piece in pieces if piece], [])
    if len(pieces) < 2 or not all(pieces):
        return take_apart(inner, depth + 1) if (opener, closer) in (("(", ")"), ("[", "]")) and inner else None
    if len(pieces) > _MOST_PARTS:
        raise TooDeepError(f"of more than {_MOST_PARTS} parts")
    return Bracket(opener, tuple(_deeper(piece, depth + 1) for piece in pieces), closer)


def _deeper(text: str, depth: int) -> Node:
    if depth > _DEEPEST:
        raise TooDeepError(f"nested more than {_DEEPEST} deep")
    matrix = _MATRIX.fullmatch(text)
    return _matrix(matrix.group(1), matrix.group(2), depth) if matrix else _intervals(text, depth)


def _matrix(kind: str, body: str, depth: int) -> Node:
    rows = [row for row in re.split(r"\\\\(?:\[[^\]]*\])?", body) if row.strip().replace("\\hline", "").strip()]
    cells = [[cell.strip() for cell in row.replace("\\hline", "").split("&")] for row in rows]
    if sum(map(len, cells)) > _MOST_PARTS:
        raise TooDeepError(f"of more than {_MOST_PARTS} parts")
    kind = kind if kind[0] in "vV" else "matrix"
    return Matrix(kind, tuple(tuple(_deeper(cell, depth + 1) for cell in row) for row in cells))


def _encloses(text: str, opener: str, closer: str) -> bool:
    """Whether the first bracket is closed by the last; a half-open interval may mix ``(`` and ``[``."""
    depth = 0
    position = 0
    for token in _TOKEN.finditer(text):
        if token.group() in _OPENERS:
            depth += 1
        elif token.group() in _CLOSERS:
            depth -= 1
            position = token.end()
            if depth == 0:
                break
    mixed = {opener, closer} <= {"(", ")", "[", "]"}
    return depth == 0 and position == len(text) and (mixed or _PAIRS.get(opener) == closer)


def _split(text: str, marks: tuple[str, ...], thousands: bool = True) -> tuple[list[str], list[str]]:
    """Split at marks outside brackets; returns the pieces and the marks. ``thousands``: a comma may be a number's."""
    pieces: list[str] = []
    found: list[str] = []
    depth = start = 0
    for token in _TOKEN.finditer(text):
        mark = token.group()
        if mark in _OPENERS:
            depth += 1
        elif mark in _CLOSERS:
            depth -= 1
        elif mark == "\\begin" or mark == "\\end":
            depth += 1 if mark == "\\begin" else -1
        elif mark in marks and depth == 0 and not (thousands and mark == "," and _inside_number(text, token.start())):
            pieces.append(text[start : token.start()].strip())
            found.append(mark)
            start = token.end()
    pieces.append(text[start:].strip())
    return pieces, found


def _inside_number(text: str, position: int) -> bool:
    """Whether a comma parts thousands."""
    before = re.search(r"(?<![\d,])\d{1,3}(?:,\d{3})*$", text[:position])
    return bool(before and re.match(r",\d{3}(?!\d)", text[position:]))
