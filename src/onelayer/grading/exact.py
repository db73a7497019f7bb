"""The exact value of a number as answers write it."""

from __future__ import annotations

import re
from fractions import Fraction

# More digits, or a larger power of ten, are no answer but a loop or an attack.
_LONGEST = 60
_LARGEST_POWER = 400

_DECIMAL = r"(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d{1,3}(?: \d{3})+(?:\.\d+)?|\d+(?:\.\d*)?|\.\d+)"
_SIMPLE = re.compile(rf"({_DECIMAL})")
_RATIO = re.compile(rf"({_DECIMAL})\s*/\s*(-?\s*{_DECIMAL})")
_FRAC = re.compile(rf"\\frac\s*\{{\s*(-?\s*{_DECIMAL})\s*\}}\s*\{{\s*(-?\s*{_DECIMAL})\s*\}}")
_MIXED = re.compile(
    r"(\d+)(?:\s*\\frac\s*\{\s*(\d+)\s*\}\s*\{\s*(\d+)\s*\}|(?:\s+|\s*-\s*|\s+\\and )(\d+)\s*/\s*(\d+))"
)
_SCIENTIFIC = re.compile(
    rf"({_DECIMAL})\s*(?:[eE]\s*([+-]?\d+)|(?:\\times|\\cdot|\*|x)\s*10\s*\^\s*(?:\{{\s*(-?\d+)\s*\}}|\(\s*(-?\d+)\s*\)))"
)
_REPEATING = re.compile(r"(\d*)\.(\d*)\\(?:overline|bar)\s*\{\s*(\d+)\s*\}")


def exact_value(text: str) -> Fraction | None:
    """The value of an integer, decimal, fraction, mixed, repeating or scientific number; None for anything else.

    A mixed number is an integer directly before a proper fraction: ``1\\frac{4}{5}`` is 9/5. Thousands may be parted by
    commas or spaces.
    """
    if len(text) > 4 * _LONGEST:
        return None
    text = text.strip()
    sign = 1
    while text[:1] in ("+", "-"):
        sign = -sign if text[0] == "-" else sign
        text = text[1:].lstrip()
        if text[:1] in ("+", "-"):
            return None
    value = _unsigned(text)
    return None if value is None else sign * value


def _unsigned(text: str) -> Fraction | None:
    if match := _SIMPLE.fullmatch(text):
        return _decimal(match.group(1))
    if match := _RATIO.fullmatch(text) or _FRAC.fullmatch(text):
        return _divided(_decimal(match.group(1)), _decimal(match.group(2)))
    if match := _MIXED.fullmatch(text):
        whole, *parts = (group for group in match.groups() if group is not None)
        part = _divided(_decimal(parts[0]), _decimal(parts[1]))
        start = _decimal(whole)
        return start + part if part is not None and start is not None and part < 1 else None
    if match := _SCIENTIFIC.fullmatch(text):
        digits, *powers = match.groups()
        power = next(group for group in powers if group is not None)
        start = _decimal(digits)
        if start is None or len(power) > 5 or abs(int(power)) > _LARGEST_POWER:
            return None
        return start * Fraction(10) ** int(power)
    if match := _REPEATING.fullmatch(text):
        whole, fixed, repeated = match.groups()
        if len(whole + fixed + repeated) > _LONGEST:
            return None
        before = Fraction(int(whole + fixed or "0"), 10 ** len(fixed))
        return before + Fraction(int(repeated), (10 ** len(repeated) - 1) * 10 ** len(fixed))
    return None


def _decimal(text: str) -> Fraction | None:
    digits = re.sub(r"[,\s]", "", text)
    return None if len(digits) > _LONGEST else Fraction(digits.rstrip(".") if digits.endswith(".") else digits)


def _divided(above: Fraction | None, below: Fraction | None) -> Fraction | None:
    return None if above is None or not below else above / below
