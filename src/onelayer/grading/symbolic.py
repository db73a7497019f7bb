"""Whether two expressions have one value, by math-verify, within a bound of processor time.

math-verify only reads and compares single scalar expressions here: sets, tuples, intervals, equations, units and
percents are taken apart before (`onelayer.grading.structure`), and its own normalising is switched off, which takes
the t of ``2t`` for a unit. Decimals are handed over as fractions, since it compares decimals to six places only.
"""

from __future__ import annotations

import logging
import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from types import FrameType
from typing import Any

import sympy
from latex2sympy2_extended import NormalizationConfig
from math_verify import LatexExtractionConfig, parse, verify

from onelayer.grading.limits import refusal

# It warns that its own limit, which counts wall time in whole seconds, is off; `time_limit` stands in for it.
logging.getLogger("math_verify").setLevel(logging.ERROR)

_READING = [
    LatexExtractionConfig(
        boxed_match_priority=-1,
        normalization_config=NormalizationConfig(
            basic_latex=False, units=False, malformed_operators=False, nits=False, boxed="none", equations=False
        ),
    )
]
_FUNCTIONS = "arcsin|arccos|arctan|sinh|cosh|tanh|sin|cos|tan|cot|sec|csc|ln|log|exp"
# Two values that agree to so many digits, at points chosen once, are one.
_DIGITS = 60
_TOLERANCE = sympy.Rational(1, 10**45)
_POINTS = (sympy.Rational(37, 29), sympy.Rational(71, 113), sympy.Rational(53, 31), sympy.Rational(19, 41))


class TooSlowError(BaseException):
    """The time for a comparison is over. No ``except Exception`` on the way up is to go on without it."""


class UnreadableError(ValueError):
    """An expression that is refused or that math-verify does not read; the text says why."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise TooSlowError in the body after so much processor time (not wall time: a busy machine changes no grade).

    Raises RuntimeError outside the main thread, where there would be no limit.
    """
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("answers are compared in the main thread of a process, where the time can be bounded")

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise TooSlowError

    before = signal.signal(signal.SIGPROF, stop)
    # It fires again: an exception that is raised in a finalizer is lost.
    signal.setitimer(signal.ITIMER_PROF, seconds, 0.2)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def same_value(one: str, other: str) -> bool:
    """Whether two expressions have one value.

    Raises UnreadableError where either cannot be read, and TooSlowError within `time_limit`.
    """
    left, right = _read(one), _read(other)
    return _verified(left, right)


def proportional(one: tuple[str, str], other: tuple[str, str]) -> bool:
    """Whether two equations, each a left and a right side, say the same: their differences are multiples of each other.

    Raises as `same_value` does.
    """
    left, right = (_read(a) - _read(b) for a, b in (one, other))
    names = {symbol.name for symbol in left.free_symbols}
    if not names or names != {symbol.name for symbol in right.free_symbols}:
        return False
    ratios = []
    for a, b in _values(left, right):
        if a == 0 or b == 0:
            return False
        ratios.append(sympy.N(a / b, _DIGITS))
    return len(ratios) > 1 and all(abs(ratio - ratios[0]) <= _TOLERANCE * abs(ratios[0]) for ratio in ratios)


def _verified(left: Any, right: Any) -> bool:
    agree = _agree_at_points(left, right)
    if agree is not None:
        return agree
    try:
        return bool(verify(left, right, timeout_seconds=None, raise_on_error=True))
    except Exception:
        return False  # it fails on what it does not know how to compare


def _agree_at_points(left: Any, right: Any) -> bool | None:
    """Whether two expressions agree at every point; None where they have values at none.

    math-verify's own comparison of values takes small ones for zero.
    """
    said = None
    for a, b in _values(left, right):
        if abs(a - b) > _TOLERANCE * max(abs(a), abs(b)):
            return False
        said = True
    return said


def _values(left: Any, right: Any) -> Iterator[tuple[Any, Any]]:
    """The values of both at a few points, positive and negative, where both have one."""
    names = sorted({symbol.name for symbol in left.free_symbols | right.free_symbols})
    for sign in (1, -1, 1) if names else (1,):
        point = {name: sign * _POINTS[place % 4] + place for place, name in enumerate(names)}
        names = names[1:] + names[:1]
        try:
            a, b = (
                sympy.N(side.doit().subs({symbol: point[symbol.name] for symbol in side.free_symbols}), _DIGITS)
                for side in (left, right)
            )
            usable = a.is_number and b.is_number and a.is_finite and b.is_finite
        except Exception:
            continue  # no value there
        if usable:
            yield a, b


@lru_cache(maxsize=4096)
def _read(expression: str) -> Any:
    expression = _latex(expression)
    reason = refusal(expression)
    if reason:
        raise UnreadableError(reason)
    try:
        found = parse(
            f"${expression}$", _READING, fallback_mode="no_fallback", extraction_mode="first_match",
            parsing_timeout=None, raise_on_error=True,
        )  # fmt: skip
    except Exception:
        raise UnreadableError("math-verify cannot read it") from None
    if len(found) != 1 or not isinstance(found[0], sympy.Expr) or found[0].has(sympy.nan, sympy.zoo):
        raise UnreadableError("math-verify reads no single expression in it")
    # The imaginary unit is read as a variable in places.
    return found[0].subs({symbol: sympy.I for symbol in found[0].free_symbols if symbol.name == "i"})


def _latex(text: str) -> str:
    """Write plain text as LaTeX, decimals as fractions, and products of numbers with their sign."""
    text = re.sub(rf"(?<![\\A-Za-z])({_FUNCTIONS}|pi)(?![A-Za-z])", r"\\\1 ", text)
    text = re.sub(r"(?<![\\A-Za-z])sqrt\s*\(([^()]*)\)", r"\\sqrt{\1}", text)
    text = re.sub(r"(?<![\\A-Za-z])sqrt\s*(\d+|[A-Za-z])", r"\\sqrt{\1}", text)
    text = text.replace("*", r"\cdot ").replace("\\operatorname", "")
    degrees = r"\\frac{\1\\pi}{180}" if re.search(r"\\(?:sin|cos|tan|cot|sec|csc)", text) else r"\1"
    text = re.sub(r"(\d+)\s*\^\s*\{?\s*\\circ\s*\}?", degrees, text)
    text = re.sub(r"\^\s*\(([^()]*)\)", r"^{\1}", text)
    text = re.sub(r"(?<![\d.])(\d{1,3}(?:,\d{3})+)(?![\d,])", lambda match: match.group().replace(",", ""), text)
    text = re.sub(r"(?<![\w.}])(\d+)\s*/\s*(\d+)(?![\d.])", r"\\frac{\1}{\2}", text)
    text = re.sub(r"(\d*)\.(\d+)", _as_fraction, text)
    text = re.sub(r"(\))\s*(?=[(\d]|\\frac|\\sqrt)", r"\1\\cdot ", text)
    text = re.sub(r"(\d)\s*(?=\()", r"\1\\cdot ", text)
    text = re.sub(r"(?<![\d}])(\})\s*(?=\\frac)", r"\1\\cdot ", text)
    text = re.sub(r"(\\frac\s*\{[^{}]*\}\s*\{[^{}]*\})\s*(?=[\d(]|\\frac|\\sqrt)", r"\1\\cdot ", text)
    return re.sub(r"\s+", " ", text).strip()


def _as_fraction(match: re.Match[str]) -> str:
    whole, part = match.groups()
    if len(whole) + len(part) > 40:
        return match.group()
    return rf"\frac{{{int(whole + part)}}}{{{10 ** len(part)}}}"
