"""Whether two answers that were taken apart are the same, part by part."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from onelayer.grading.structure import Bracket, Equation, Leaf, Matrix, Named, Node, Several, Union


@dataclass(frozen=True)
class Comparison:
    """Compares answers part by part.

    Attributes:
        leaves: whether two single expressions (the right one first) are the same.
        equations: whether two equations, each a left and a right side, say the same.
    """

    leaves: Callable[[str, str], bool]
    equations: Callable[[tuple[str, str], tuple[str, str]], bool]

    def same(self, gold: Node, found: Node) -> bool:
        """Whether an answer is the right one. A name before an equals sign may be missing, but not differ."""
        gold, found = _single(gold), _single(found)
        match gold, found:
            case Leaf(), Leaf():
                return self.leaves(gold.text, found.text)
            case Several(), Several():
                return self._same_list(gold.parts, found.parts)
            case _, Several() if found.parts:  # one answer in several forms, each of which has to be right
                return all(self.same(gold, part) for part in found.parts)
            case Bracket(), Bracket():
                ends = (gold.opener, gold.closer) == (found.opener, found.closer)
                return ends and self._in_order(gold.parts, found.parts)
            case Union(), Union():
                return self._in_any_order(gold.parts, found.parts)
            case Matrix(), Matrix():
                return (
                    gold.kind == found.kind
                    and len(gold.rows) == len(found.rows)
                    and all(self._in_order(a, b) for a, b in zip(gold.rows, found.rows, strict=True))
                )
            case Named(), Named() if _plain_name(gold.name) == _plain_name(found.name):
                return self.same(gold.value, found.value)
            case ((Equation() | Named()), (Equation() | Named())):
                sides = _sides(gold), _sides(found)
                return sides[0] is not None and sides[1] is not None and self.equations(sides[0], sides[1])
            case Named(), _:
                return self.same(gold.value, found)
            case _, Named():
                return self.same(gold, found.value)
            case Leaf(), Equation() if found.right != "0":  # "x + y = 5" where 5 is asked for
                return self.leaves(gold.text, found.right)
        return False

    def _same_list(self, gold: tuple[Node, ...], found: tuple[Node, ...]) -> bool:
        names = {_plain_name(part.name) for part in gold if isinstance(part, Named)}
        if len(names) > 1 and not any(isinstance(part, Named) for part in found):
            return self._in_order(gold, found)  # x = 1, y = 2, answered as 1, 2
        return self._in_any_order(gold, found)

    def _in_order(self, gold: tuple[Node, ...], found: tuple[Node, ...]) -> bool:
        return len(gold) == len(found) and all(self.same(a, b) for a, b in zip(gold, found, strict=True))

    def _in_any_order(self, gold: tuple[Node, ...], found: tuple[Node, ...]) -> bool:
        if len(gold) != len(found):
            return False
        left = list(found)
        for part in gold:
            match = next((place for place, other in enumerate(left) if self.same(part, other)), None)
            if match is None:
                return False
            left.pop(match)
        return True


def _single(node: Node) -> Node:
    return node.parts[0] if isinstance(node, Several) and len(node.parts) == 1 else node


def _plain_name(name: str) -> str:
    """A name without its index, argument and spaces: the x of ``x_1``."""
    return re.sub(r"_.*$|\(.*\)$|\s|\\angle", "", name)


def _sides(node: Equation | Named) -> tuple[str, str] | None:
    if isinstance(node, Equation):
        return node.left, node.right
    return (node.name, node.value.text) if isinstance(node.value, Leaf) else None
