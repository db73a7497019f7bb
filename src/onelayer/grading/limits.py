"""What is kept from computer algebra: what is no closed form, or could have an astronomically large value.

A bound on time alone would not do: a power tower is computed in one step that nothing interrupts.
"""

from __future__ import annotations

import re

_LONGEST = 300
_DEEPEST = 12
_MOST_DIGITS = 40
_LARGEST_EXPONENT = 1000
_LARGEST_FACTORIAL = 170
_LARGEST_CHOICE = 1000

_COMMANDS = frozenset(
    re.findall(
        r"\w+",
        "frac sqrt cdot times div binom circ infty pi sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh"
        " ln log exp alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta kappa lambda mu nu xi rho"
        " sigma tau phi varphi chi psi omega Gamma Delta Theta Lambda Xi Sigma Phi Psi Omega lfloor rfloor lceil rceil",
    )
)
_COMMAND = re.compile(r"\\([A-Za-z]+|.)", re.DOTALL)
_RATIO = re.compile(r"[+-]?\s*(?:\\frac\s*\{\s*-?(\d{1,4})\s*\}\s*\{\s*\d{1,4}\s*\}|(\d{1,4})\s*/\s*\d{1,4})")
_CLOSERS = {")": "(", "}": "{", "]": "["}


def refusal(expression: str) -> str | None:
    """Why an expression is not handed to computer algebra; None where it may be.

    Args:
        expression: one scalar expression, as `onelayer.grading.normalizing.normalize` writes it.
    """
    if len(expression) > _LONGEST:
        return f"longer than {_LONGEST} characters"
    if not re.fullmatch(r"[\x20-\x7e]*", expression):
        return "characters that no formula holds"
    unknown = next((name for name in _COMMAND.findall(expression) if name not in _COMMANDS), None)
    if unknown is not None:
        return f"\\{unknown} is no part of a closed form"
    plain = _COMMAND.sub("~", expression)
    if re.search(r"[A-Za-z]{4,}", plain):
        return "words"
    if re.search(r"[^A-Za-z0-9+\-*/^_{}()\[\]|!.~\s]", plain):
        return "signs that no formula holds"
    if re.search(rf"\d{{{_MOST_DIGITS + 1},}}", expression):
        return f"a number of more than {_MOST_DIGITS} digits"
    if re.search(r"\d\s+\d", plain):
        return "two numbers side by side"
    return _nesting(expression) or _factorials(expression) or _powers(expression)


def _nesting(text: str) -> str | None:
    open_: list[str] = []
    for letter in text:
        if letter in "({[":
            open_.append(letter)
            if len(open_) > _DEEPEST:
                return f"brackets nested more than {_DEEPEST} deep"
        elif letter in _CLOSERS and (not open_ or open_.pop() != _CLOSERS[letter]):
            return "brackets that do not match"
    return "brackets that do not match" if open_ else None


def _factorials(text: str) -> str | None:
    for match in re.finditer(r"!", text):
        before = re.search(r"(?:(?<![\d.])(\d+)|(?<![\\A-Za-z])[A-Za-z])\s*$", text[: match.start()])
        if not before or (before.group(1) and (len(before.group(1)) > 3 or int(before.group(1)) > _LARGEST_FACTORIAL)):
            return f"a factorial of something other than a number up to {_LARGEST_FACTORIAL}"
    for match in re.finditer(r"\\binom", text):
        arguments = re.match(r"\s*\{\s*(\w+)\s*\}\s*\{\s*(\w+)\s*\}", text[match.end() :])
        if not arguments or any(a.isdigit() and (len(a) > 4 or int(a) > _LARGEST_CHOICE) for a in arguments.groups()):
            return f"a binomial of something other than numbers up to {_LARGEST_CHOICE}"
    return None


def _powers(text: str) -> str | None:
    """Bound what powers of powers multiply to; an exponent is a small number, or a formula of small numbers."""
    reason = "an exponent that is too large, or a power tower"
    largest: dict[int, int] = {}  # of every bracket that has closed, by where: the product of exponents in it
    open_: list[int] = []
    inside = [1]
    position = 0
    while position < len(text):
        letter = text[position]
        if letter in "({[":
            open_.append(position)
            inside.append(1)
        elif letter in _CLOSERS:
            open_.pop()
            found = inside.pop()
            largest[position] = found
            inside[-1] = max(inside[-1], found)
        elif letter == "^":
            exponent = re.match(r"\^\s*(?:\{((?:[^{}]|\{[^{}]*\}|\{[^{}]*\{[^{}]*\}[^{}]*\})*)\}|(.))", text[position:])
            if not exponent:
                return reason
            bound = _exponent(exponent.group(1) if exponent.group(1) is not None else exponent.group(2))
            base = len(text[:position].rstrip()) - 1
            total = (bound or 0) * largest.get(base, 1)
            if bound is None or total > _LARGEST_EXPONENT:
                return reason
            inside[-1] = max(inside[-1], total)
            position += exponent.end() - 1
        position += 1
    return None


def _exponent(text: str) -> int | None:
    """A bound on an exponent's size; None where it is none that is accepted."""
    text = text.strip()
    if text in ("\\circ", "\\prime"):
        return 1
    if match := re.fullmatch(r"[+-]?\s*(\d{1,4})", text):
        return max(1, int(match.group(1)))
    if match := _RATIO.fullmatch(text):
        return max(1, int(match.group(1) or match.group(2)))
    # A formula in variables: small numbers only, and at most one power in it.
    numbers = re.findall(r"\d+", text)
    if "!" in text or "binom" in text or any(len(number) > 2 for number in numbers) or text.count("^") > 1:
        return None
    if "^" in text and not re.search(r"(?:[A-Za-z]|\\pi)\s*\^\s*\{?\s*\d\s*\}?", text):
        return None
    product = 1
    for number in numbers:
        product *= max(1, int(number))
    return max(1, product) if product <= _LARGEST_EXPONENT else None
