"""One way to write a mathematical answer, for where answers are held against each other and not against a gold one.

Parts are written one by one: numbers by their exact value, words in small letters, lists and sets in one order,
``x = 5`` as 5. What only computer algebra could tell to be equal (``2x`` and ``x + x``) stays different; so do 5 and
``5 cm``, of which a grader takes either where the gold answer has no unit.
"""

from __future__ import annotations

from onelayer.grading.exact import exact_value
from onelayer.grading.normalizing import bare, normalize, split_unit, words_of
from onelayer.grading.structure import (
    Bracket,
    Equation,
    Leaf,
    Matrix,
    Named,
    Node,
    Several,
    TooDeepError,
    Union,
    take_apart,
)


def canonical(text: str) -> str:
    """The one way to write an answer; its normalized text where it cannot be taken apart."""
    normalized = normalize(text)
    words = words_of(normalized)
    if words is not None:
        return words
    try:
        return _written(take_apart(normalized))
    except TooDeepError:
        return bare(normalized)


def _written(node: Node) -> str:
    match node:
        case Leaf(text):
            return _leaf(text)
        case Several(parts):
            found = sorted({_written(part) for part in parts})
            return found[0] if len(found) == 1 else "{" + "; ".join(found) + "}"
        case Bracket(opener, parts, closer):
            return opener + ", ".join(map(_written, parts)) + closer
        case Union(parts):
            return " ∪ ".join(sorted(map(_written, parts)))
        case Matrix(kind, rows):
            return kind + "; ".join(", ".join(map(_written, row)) for row in rows)
        case Named(_, value):
            return _written(value)
        case Equation(left, right):
            return f"{_leaf(left)} = {_leaf(right)}"


def _leaf(text: str) -> str:
    amount, unit = split_unit(text)
    inner = amount.strip()
    value = exact_value(inner[1:-1] if inner[:1] == "(" and inner[-1:] == ")" else inner)
    if value is not None:
        return f"{value} {unit}" if unit else str(value)
    words = words_of(text)
    return words if words is not None else bare(text)
