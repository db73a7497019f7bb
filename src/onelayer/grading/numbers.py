"""The final number of an answer, and whether two numbers are the same."""

from __future__ import annotations

import re
from fractions import Fraction

# Digits with or without thousands separators, a decimal part, or a simple fraction; no exponents, so that
# no short text can name a number too large to compare.
_NUMBER = re.compile(r"-?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:\s*/\s*\d+(?:\.\d+)?)?|-?\.\d+", re.ASCII)
_MARKS = ("####", "\\boxed{", "answer is", "Answer:")
# A longer run of digits is no answer but a loop.
_LONGEST = 50


def final_number(text: str) -> str | None:
    """Find the number that a text ends on: after its last answer mark where it has one, else its last number.

    Returns None where there is none.
    """
    for mark in _MARKS:
        if mark in text:
            after = _NUMBER.search(text.rpartition(mark)[2])
            if after:
                return after.group()
    numbers = _NUMBER.findall(text)
    return numbers[-1] if numbers else None


def same_number(found: str, expected: str) -> bool:
    """Tell whether two texts, each holding a number as `final_number` finds it, name the same value."""
    left, right = number_value(found), number_value(expected)
    return left is not None and left == right


def number_value(text: str) -> Fraction | None:
    """The value of the number that a text ends on; None where it has none, or one too long to be an answer."""
    number = final_number(text)
    if number is None or len(number) > _LONGEST:
        return None
    above, _, below = number.replace(",", "").partition("/")
    try:
        return Fraction(above.strip()) / Fraction(below.strip() or "1")
    except ZeroDivisionError:
        return None
